"""The question before a costly turn, with and without a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from tests.servers.billing import BillingServer, vendor

TASK = "the discount is taken twice"
CHEAP = {"XSCORE_BUDGET_CONFIRM_USD": "0.0001"}
QUESTION = b"Continue? [y/N]"
CTRL_C = b"\x03"
PATIENCE_S = 40


@pytest.fixture
def host() -> Iterator[BillingServer]:
    """A vendor with prices."""
    with BillingServer() as running:
        yield running


@pytest.fixture
def priced(host: BillingServer, own_home: Path) -> Iterator[Mapping[str, str]]:
    """The environment in which it is called."""
    with vendor(host) as environ:
        yield {**environ, "HOME": str(own_home)}


class Dialogue(Struct, frozen=True):
    """What a terminal showed and how the program ended."""

    seen: str
    code: int
    sent_before_the_answer: int


def talk(
    arguments: list[str], cwd: Path, environ: Mapping[str, str], host: BillingServer, *, answer: bytes
) -> Dialogue:
    """Run the program on a terminal and type the answer when it asks.

    `\\x03` is a press of Ctrl-C, pressed again each second:
    one in the instant before Python reads is seen after it.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "xscore", *arguments],
        cwd=cwd,
        env={**os.environ, **environ, "TERM": "xterm", "COLUMNS": "160"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen, asked, end = b"", -1, time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if not select.select([ours], [], [], 1.0)[0]:
            if asked >= 0 and answer == CTRL_C:
                process.send_signal(signal.SIGINT)
            continue
        try:
            piece = os.read(ours, 65_536)
        except OSError:  # the program has left the terminal
            break
        seen += piece
        if asked < 0 and QUESTION in seen:
            asked = host.counts.requests
            if answer != CTRL_C:
                os.write(ours, answer)
    os.close(ours)
    return Dialogue(seen.decode(), process.wait(timeout=10), asked)


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 2), (b"\n", 2), (CTRL_C, 130)], ids=["no", "empty", "ctrl-c"])
def test_nothing_is_sent_unless_the_user_agrees(
    shop: Path, host: BillingServer, priced: Mapping[str, str], answer: bytes, code: int
) -> None:
    """Above the limit, calls, dollars and host are shown before the question; no, Enter and Ctrl-C send nothing."""
    ended = talk(["ask", TASK], shop, {**priced, **CHEAP}, host, answer=answer)
    assert ended.code == code, ended.seen
    assert "This turn takes about" in ended.seen and "api.openai.com" in ended.seen and "$" in ended.seen
    assert host.counts.requests == 0


def test_a_yes_goes_on(shop: Path, host: BillingServer, priced: Mapping[str, str]) -> None:
    """The question comes before the first call, and the turn continues after it."""
    ended = talk(["ask", TASK], shop, {**priced, **CHEAP}, host, answer=b"y\n")
    assert ended.code == 0, ended.seen
    assert ended.sent_before_the_answer == 0 < host.counts.answering_requests


def test_the_question_names_the_caps_that_would_bind(
    shop: Path, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """The question also shows what is left of a cap below the estimate, but not of a cap above it."""
    caps = {"XSCORE_BUDGET_MAX_USD_DAY": "0.001", "XSCORE_BUDGET_MAX_USD_REPOSITORY": "50"}
    ended = talk(["ask", TASK], shop, {**priced, **CHEAP, **caps}, host, answer=b"n\n")
    assert "It will not be finished: $0.0010 of the day's $0.001 are left." in ended.seen
    assert "repository's" not in ended.seen
