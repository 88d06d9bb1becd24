"""The question before a costly turn, with and without a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.servers.billing import BillingServer

TASK = "the discount is taken twice"
CHEAP = {"XSCORE_BUDGET_CONFIRM_USD": "0.0001"}
QUESTION = b"Continue? [y/N]"
CTRL_C = b"\x03"
PATIENCE_S = 100


Talk = Callable[..., tuple[str, int, int]]


@pytest.fixture
def talk(shop: Path, host: BillingServer, priced: Mapping[str, str]) -> Talk:
    """Ask on a terminal, above the limit, and type this answer at the question.

    Returns what it showed, its exit code, and the calls sent when it asked. `\\x03` is a press of
    Ctrl-C, pressed again each second: one in the instant before Python reads is seen after it.
    """

    def talking(answer: bytes, **caps: str) -> tuple[str, int, int]:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "xscore", "ask", TASK, "--answer-anyway"],
            cwd=shop,
            env={**os.environ, **priced, **CHEAP, **caps, "TERM": "xterm", "COLUMNS": "160"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        seen, requests_when_asked, end = b"", -1, time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if not select.select([ours], [], [], 1.0)[0]:
                if requests_when_asked >= 0 and answer == CTRL_C:
                    process.send_signal(signal.SIGINT)
                continue
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # the program has left the terminal
                break
            seen += piece
            if requests_when_asked < 0 and QUESTION in seen:
                requests_when_asked = host.counts.requests
                if answer != CTRL_C:
                    os.write(ours, answer)
        os.close(ours)
        return seen.decode(), process.wait(timeout=60), requests_when_asked

    return talking


@pytest.mark.parametrize(
    ("answer", "code"), [(b"n\n", 2), (b"\n", 2), (CTRL_C, 130)], ids=["no", "empty", "ctrl-c"]
)
def test_nothing_is_sent_unless_the_user_agrees(
    talk: Talk, host: BillingServer, answer: bytes, code: int
) -> None:
    """Above the limit, calls, dollars and host are shown before the question; no, Enter and Ctrl-C
    send nothing."""
    seen, ended, _ = talk(answer)
    assert ended == code, seen
    assert "This turn takes about" in seen and "api.openai.com" in seen and "$" in seen
    assert host.counts.requests == 0


def test_a_yes_goes_on(talk: Talk, host: BillingServer) -> None:
    """The question comes before the first call, and the turn continues after it."""
    seen, code, sent_before_the_answer = talk(b"y\n")
    assert code == 0, seen
    assert sent_before_the_answer == 0 < host.counts.answering_requests


def test_the_question_names_the_caps_that_would_bind(talk: Talk) -> None:
    """The question also shows what is left of a cap below the estimate, but not of a cap above
    it."""
    seen, _, _ = talk(
        b"n\n", XSCORE_BUDGET_MAX_USD_DAY="0.001", XSCORE_BUDGET_MAX_USD_REPOSITORY="50"
    )
    assert "It will not be finished: $0.0010 of the day's $0.001 is left." in seen
    assert "repository's" not in seen
