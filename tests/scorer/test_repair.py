"""The repair ladder, step by step."""

import pytest

from tests.scorer.stdlib_candidates import candidate
from xscore.records.judgment import UnjudgedCause
from xscore.scorer.repair import (
    CUT_SHORT,
    REFUSED,
    UNREADABLE,
    MemoryPiece,
    PackPrompt,
    RepairReason,
    RepairRung,
    memory_pieces,
    next_prompts,
    prompt_rejected,
    prompt_too_long,
)

PIECES = tuple(
    memory_pieces(candidate("a.py", f"f{i}", str(i)), str(i), max_tokens=100)[0]
    for i in range(20)
)
TROUBLES = (UNREADABLE, CUT_SHORT, REFUSED, prompt_too_long("8k"), prompt_rejected("400"))


def shape(asks: list[PackPrompt]) -> list[int]:
    """Return the members of each request."""
    return [len(ask.pieces) for ask in asks]


@pytest.mark.parametrize("trouble", [UNREADABLE, CUT_SHORT, prompt_too_long("8k")])
def test_missing_memories_are_asked_in_half_a_pack_then_one_by_one(
    trouble: RepairReason,
) -> None:
    """Pack, half pack, alone."""
    halves, lost = next_prompts(PackPrompt("p", PIECES), PIECES[3:], trouble)
    assert (shape(halves), lost) == ([10, 7], [])
    assert {ask.rung for ask in halves} == {RepairRung.HALF}
    alone, lost = next_prompts(halves[0], halves[0].pieces[:4], trouble)
    assert (shape(alone), lost) == ([1, 1, 1, 1], [])
    assert {ask.rung for ask in alone} == {RepairRung.ALONE}


@pytest.mark.parametrize("trouble", [REFUSED, prompt_rejected("400")])
def test_a_refusal_goes_to_one_by_one(trouble: RepairReason) -> None:
    """One memory may have caused it, so all are asked alone."""
    asks, _ = next_prompts(PackPrompt("p", PIECES), PIECES, trouble)
    assert shape(asks) == [1] * 20
    assert {ask.rung for ask in asks} == {RepairRung.ALONE}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_last_rung_names_the_cause(trouble: RepairReason) -> None:
    """A memory that no step could score is unjudged, with its cause."""
    asks, lost = next_prompts(
        PackPrompt("p", PIECES[:1], RepairRung.ALONE), PIECES[:1], trouble
    )
    assert asks == []
    assert [(piece, result.cause) for piece, result in lost] == [(PIECES[0], trouble.cause)]


def test_a_lone_memory_is_asked_once_more_only_where_that_may_help() -> None:
    """An unreadable reply may improve on retry; a refusal, a length or a rejection will not."""
    retries, _ = next_prompts(PackPrompt("p", PIECES[:1]), PIECES[:1], UNREADABLE)
    assert [ask.rung for ask in retries] == [RepairRung.ALONE]
    causes = [
        next_prompts(PackPrompt("p", PIECES[:1]), PIECES[:1], trouble)[1][0][1].cause
        for trouble in TROUBLES[2:]
    ]
    assert causes == [UnjudgedCause.REFUSED, UnjudgedCause.TOO_LONG, UnjudgedCause.PROVIDER]


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_the_ladder_ends_and_loses_nobody(trouble: RepairReason, count: int) -> None:
    """However long the fault lasts, each memory ends unjudged exactly once, after at most three
    requests."""
    waiting, ended, times_asked = (
        [PackPrompt("p", PIECES[:count])],
        [],
        dict.fromkeys(PIECES, 0),
    )
    while waiting:
        ask = waiting.pop()
        for piece in ask.pieces:
            times_asked[piece] += 1
        retries, lost = next_prompts(ask, ask.pieces, trouble)
        waiting += retries
        ended += [piece for piece, _ in lost]
    assert sorted(ended, key=PIECES.index) == list(PIECES[:count])
    assert max(times_asked.values()) <= 3
    assert isinstance(ended[0], MemoryPiece)
