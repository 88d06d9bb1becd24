"""Every fault of the answering call, in alternating dialects: exit 7, the bundle is returned, no
judgment is repaid."""

from pathlib import Path

import pytest

from tests.proof.faults_setup import (
    ALWAYS,
    EACH_DIALECT,
    FinishedTurn,
    answering,
    ask,
    by_turns,
    host_of_dialect,
    settings_at,
    truth,
)
from tests.proof.faults_table import MEMORIES, PACKS
from tests.servers import Fault
from xscore.records.calls import Stage

FAILS: dict[Fault, str] = {
    Fault.RATE_LIMITED: "asks to wait 900 s",
    Fault.QUOTA: "Add credit",
    Fault.SPEND_LIMIT: "Add credit",
    Fault.PAYMENT: "Add credit",
    Fault.SERVER_ERROR: "Try again later",
    Fault.UNAVAILABLE: "Try again later",
    Fault.OVERLOADED: "Try again later",
    Fault.WRONG_KEY: "Check the key",
    Fault.UNKNOWN_MODEL: "Check the name `strong-1`",
    Fault.TOO_LONG: "longer context",
    Fault.ECHO: "is withheld",
    Fault.RESET: "Check the network",
    Fault.SILENCE: "primary.timeout_s",
    Fault.CUT: "ended before its reply was whole",
    Fault.HTML: "speaks the",
    Fault.EMPTY_OBJECT: "speaks the",
    Fault.NOT_JSON: "speaks the",
    Fault.REDIRECT: "answered 307",
    Fault.MODERATED: "declined",
    Fault.REFUSAL: "declined",
}
"""Fault -> words of the warning, with the remedy."""

AS_OTHERS = (
    Fault.SPEND_LIMIT,
    Fault.PAYMENT,
    Fault.UNAVAILABLE,
    Fault.OVERLOADED,
    Fault.NOT_JSON,
    Fault.EMPTY_OBJECT,
)
"""Treated like others of the table; proved by `make verify`."""

PASSING = (
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
    Fault.OVERLOADED,
    Fault.RESET,
    Fault.HTML,
    Fault.RATE_LIMITED,
)


def has_kept_all(ended: FinishedTurn) -> None:
    """Assert that every memory has its score, and that the bundle shows the choice."""
    best = {memory.entity for memory in ended.answer.selected}
    assert ended.answer.coverage.unjudged == 0
    assert (
        best
        == {line["entity"] for line in ended.lines if truth(line["path"], line["entity"]) >= 70}
        != set()
    )
    assert ended.answer.bundle is not None
    assert all(f"def {entity}(" in ended.answer.bundle for entity in best)


@pytest.mark.parametrize(("dialect", "fault"), by_turns(FAILS, verify=AS_OTHERS))
async def test_a_fault_of_the_answering_call(root: Path, dialect: str, fault: Fault) -> None:
    """Exit 7 with the bundle and a hint; the next turn judges nothing again and answers."""
    with host_of_dialect(dialect) as host:
        host.misbehave(
            fault,
            times=ALWAYS,
            when=answering,
            retry_after_s=900 if fault is Fault.RATE_LIMITED else None,
        )
        settings = settings_at(
            dialect, host.url, answer_s=0.5 if fault is Fault.SILENCE else 20.0
        )
        ended = await ask(root, settings, answer=True)
        assert ended.answer.exit_code == 7, ended.said
        assert ended.answer.answer is None
        assert "the answering call failed" in ended.said and FAILS[fault] in ended.said
        assert host.counts.requests == PACKS + 1
        has_kept_all(ended)
        host.reset()
        repeated = await ask(root, settings_at(dialect, host.url), answer=True)
        assert (repeated.answer.exit_code, repeated.answer.answer) == (0, host.answer)
        assert repeated.answer.coverage.cached == MEMORIES and host.counts.judging_requests == 0


@pytest.mark.parametrize(("dialect", "fault"), by_turns(PASSING))
async def test_a_fault_that_passes_is_tried_again(
    root: Path, dialect: str, fault: Fault
) -> None:
    """One such failure before any text was shown costs one retry, and the answer is shown once."""
    with host_of_dialect(dialect) as host:
        host.misbehave(fault, when=answering)
        ended = await ask(root, settings_at(dialect, host.url, attempts=2), answer=True)
        assert (ended.answer.exit_code, ended.answer.answer) == (0, host.answer), ended.said
        assert host.counts.requests == PACKS + 2
        assert ended.answer.spent(Stage.PRIMARY).attempts == 2


@EACH_DIALECT
async def test_a_stream_that_breaks_is_not_begun_again(root: Path, dialect: str) -> None:
    """Shown text would be shown twice: the call fails, the bundle is returned, and no retry is
    made."""
    with host_of_dialect(dialect, answer="the tide is late " * 40) as host:
        host.misbehave(Fault.ERROR_IN_STREAM, when=answering)
        ended = await ask(root, settings_at(dialect, host.url, attempts=5), answer=True)
        assert ended.answer.exit_code == 7 and ended.answer.answer is None
        assert host.counts.requests == PACKS + 1
        has_kept_all(ended)


@EACH_DIALECT
async def test_an_answer_cut_at_its_cap_is_given_and_says_so(root: Path, dialect: str) -> None:
    """A truncated answer was paid for and is shown, with the setting that allows a longer one."""
    with host_of_dialect(dialect) as host:
        host.misbehave(Fault.TRUNCATION, when=answering)
        ended = await ask(root, settings_at(dialect, host.url), answer=True)
        assert ended.answer.exit_code == 0
        assert ended.answer.answer and str(host.answer).startswith(ended.answer.answer)
        assert "Raise primary.max_output_tokens" in ended.said
