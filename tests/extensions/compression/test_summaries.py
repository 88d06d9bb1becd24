"""A model is asked only for what the rules would drop, once, and only what its source bears out is
kept."""

import json
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.cli.conftest import own_store
from tests.extensions.sessions.session_writers import ClaudeLog
from tests.servers.billing import BillingServer, vendor
from xscore.extensions.compression.summaries import borne_out
from xscore.records.calls import Stage

SOURCE = (
    "I moved parse_header to src/http/parser.py because the old place made a ring. It took 42 lines"
    " out of reader.py, and the tests of the parser pass now."
)
SAID = "The parser was moved because the old place made a ring of imports, and the tests pass now. "


@pytest.mark.parametrize(
    ("sentence", "stays"),
    [
        ("parse_header moved to src/http/parser.py because of a ring.", True),
        ("- It took 42 lines out of reader.py.", True),
        ("It took 420 lines out of reader.py.", False),
        ("parse_headers moved to src/http/parser.py.", False),
        ("The parser moved to src/http/parser.pyx.", False),
        ("Deployment to production was completed successfully yesterday evening.", False),
        ("As a language model I cannot help with requests like these.", False),
        ("", False),
    ],
)
def test_a_sentence_stays_if_its_source_bears_it_out(sentence: str, stays: bool) -> None:
    """Each name and number is there as a whole, and most of the words do."""
    assert bool(borne_out(sentence, SOURCE)) is stays


def test_of_many_sentences_few_stay() -> None:
    """A reply that repeats itself is bounded."""
    reply = "\n".join(["The tests of the parser pass now."] * 50)
    assert borne_out(reply, SOURCE).count("tests") == 8


@pytest.fixture
def host() -> Iterator[BillingServer]:
    """A vendor that answers with a sentence of the source."""
    with BillingServer(answer=SAID) as running:
        yield running


@pytest.fixture
def priced(host: BillingServer) -> Iterator[Mapping[str, str]]:
    """The environment in which it is called."""
    with vendor(host) as environ:
        yield environ


def long_log(root: Path, home: Path) -> Path:
    """Write a session of which three blocks of words are dropped at the least budget."""
    log = ClaudeLog(root, "abcd-1").user("Move the parser, please.")
    for number in range(140):
        log.says(f"Step_{number}: {SAID * 6}")
    return log.user("And now the docs.").says("Done.").write(home)


def compress(root: Path, environ: Mapping[str, str], *options: str) -> dict[str, Any]:
    """Compress with a model; return the report."""
    arguments = ("session", "compress", "--json", "--budget", "8000", *options)
    done = programs.run(*arguments, cwd=root, environ=environ)
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report, "exit_code": done.returncode, "stderr": done.stderr}


def test_a_model_is_asked_once_for_what_is_dropped(
    root: Path, own_home: Path, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """Each call is in the ledger under its own stage; a second run pays nothing."""
    long_log(root, own_home)
    without = compress(root, priced)
    assert (without["calls"], host.counts.requests) == (0, 0)
    report = compress(root, priced, "--model", "openai:gpt-4.1")
    assert report["calls"] == host.counts.requests > 1
    assert report["summaries"] == report["calls"]
    assert report["tokens"] <= 8_000
    assert SAID.strip() in report["text"]
    with own_store(root) as store:
        rows = store.connection.execute("SELECT DISTINCT stage FROM call").fetchall()
    assert rows == [(Stage.COMPRESS.value,)]
    second = compress(root, priced, "--model", "openai:gpt-4.1")
    assert (second["calls"], second["text"]) == (0, report["text"])
    assert host.counts.requests == report["calls"]


def test_nonsense_ends_the_calls(
    root: Path, own_home: Path, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """After two replies of which nothing can be kept; they are not asked for again."""
    host.answer = "Quarterly revenue rose strongly across several european subsidiaries."
    long_log(root, own_home)
    for _ in range(2):
        report = compress(root, priced, "--model", "openai:gpt-4.1")
        assert (report["summaries"], report["exit_code"]) == (0, 0)
        assert "supported by" in report["problem"]
    assert host.counts.requests == 2


def test_calls_are_capped(
    root: Path, own_home: Path, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """By session.summary_calls, and by the dollars of a turn."""
    long_log(root, own_home)
    one_call = {**priced, "XSCORE_SESSION_SUMMARY_CALLS": "1"}
    report = compress(root, one_call, "--model", "openai:gpt-4.1")
    assert (report["calls"], host.counts.requests) == (1, 1)
    poor = {**priced, "XSCORE_BUDGET_MAX_USD": "0.000001"}
    report = compress(root, poor, "--model", "openai:gpt-4.1")
    assert (report["calls"], host.counts.requests, report["exit_code"]) == (1, 1, 0)
    assert report["problem"]


@pytest.mark.verify
def test_a_killed_run_goes_on_where_it_was(
    root: Path, own_home: Path, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """What was written before the kill is not paid for again."""
    long_log(root, own_home)
    host.may_reply = lambda counts: counts.requests < 2
    arguments = ("session", "compress", "--budget", "8000", "--model", "openai:gpt-4.1")
    process = programs.begin(*arguments, cwd=root, environ=priced)
    give_up = time.monotonic() + programs.PATIENCE_S
    while host.counts.requests < 2 and time.monotonic() < give_up:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with own_store(root) as store:
        kept = store.connection.execute("SELECT count(*) FROM turn_summary").fetchone()
        tiers = store.connection.execute("SELECT count(*) FROM session_turn").fetchone()
    assert kept == (1,)
    assert tiers[0] > 100
    host.may_reply = lambda counts: True
    before = host.counts.requests
    report = compress(root, priced, "--model", "openai:gpt-4.1")
    assert report["exit_code"] == 0
    assert host.counts.requests - before == report["calls"] == report["summaries"] - 1
