"""Judge and words joined: one sum of evidence for the rank and the cut."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.pipeline.conftest import ask, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.explaining import explain_choice
from xscore.pipeline.joining import (
    JOINED_FROM,
    JOINED_WHOLLY,
    MOST_LIFTED,
    NEUTRAL_WORDS,
    join,
    joined_score,
    neutral_words,
    words_evidence,
)
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Origin, Outcome, Ranked, Unjudged, UnjudgedCause
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Turn
from xscore.settings import Settings

SCORES = st.floats(0, 1)
TASK = Turn(task="Where is the refund of an order paid out?")
FILES = {
    f"shop/part_{at}.py": "\n\n".join(
        f"def step_{at}_{n}(value: int) -> int:\n    return value * {n} + {at}"
        for n in range(8)
    )
    + "\n"
    for at in range(16)
} | {
    "shop/refunds.py": (
        "def pay_out_refund(order: int) -> str:\n    return f'refund of order {order} paid out'\n"
    ),
    "shop/ledger.py": "def book(value: int) -> int:\n    return value\n",
}
JUDGED = {"pay_out_refund": 62, "book": 75}


def outcome(number: int, score: float, words: float) -> Outcome:
    """One judged candidate."""
    id_, hash_ = f"m{number}", f"h{number}"
    candidate = Candidate(
        id_, hash_, Layer.GRAPH, Kind.FUNCTION, "a.py", "f", 1, 2, "python", 9, 0.0
    )
    return Outcome(candidate, Judgment(f"h{number}", score, prior=words), Origin.JUDGED)


def pool(*judged: tuple[float, float], unrelated: int = 2 * JOINED_WHOLLY) -> list[Outcome]:
    """Return these (score, words) among others that neither judge nor words name."""
    pairs = [*judged, *[(0.02, 0.0)] * unrelated]
    return [outcome(number, score, words) for number, (score, words) in enumerate(pairs)]


def scores_of(ranked: list[Ranked]) -> list[float]:
    """Return the joined scores in order."""
    return [entry.score for entry in ranked]


def test_words_lift_what_they_name_and_sink_what_they_do_not() -> None:
    """Of two memories that the judge scores alike, the one that shares words with the task comes
    first; the judge's own score stays."""
    named, unnamed = join(pool((0.62, 0.6), (0.62, 0.0)), weight=0.5)[:2]
    assert named.score > 0.7 > 0.62 > unnamed.score
    assert named.words > 0 > unnamed.words
    assert named.judgment.score == unnamed.judgment.score == 0.62


def test_without_weight_every_score_is_the_judges() -> None:
    """`selection.words = 0`, and every small pool."""
    outcomes = pool((0.62, 0.6), (1.0, 0.0), (0.0, 1.0))
    ranked = join(outcomes, weight=0)
    assert scores_of(ranked) == [entry.judgment.score for entry in ranked]
    small = outcomes[:JOINED_FROM]
    assert scores_of(join(small, weight=0.5)) == scores_of(join(small, weight=0))


@pytest.mark.parametrize("words", [0.0, 0.3, 1.0])
def test_words_that_say_the_same_of_all_move_none(words: float) -> None:
    """The evidence is relative to the pool: a constant is none."""
    outcomes = [outcome(number, number / 300, words) for number in range(300)]
    assert scores_of(join(outcomes, weight=0.5)) == scores_of(join(outcomes, weight=0))


def test_words_lift_at_most_so_many() -> None:
    """A long task shares words with many memories: only the best of them are lifted, however many
    there are."""
    words = [0.5 + number / 10_000 for number in range(1_000)] + [0.0] * 2_000
    lifted = [amount for amount in words_evidence(words, weight=0.5) if amount > 0]
    assert 0 < len(lifted) <= MOST_LIFTED
    assert neutral_words([0.9, *[0.0] * 500]) == NEUTRAL_WORDS


def test_a_judge_that_is_certain_is_not_overruled() -> None:
    """A score of 100 stays above the threshold without a shared word, and one of 0 below it,
    whatever the words."""
    certain, refuted = join(pool((1.0, 0.0), (0.0, 1.0)), weight=0.5)[:2]
    assert certain.score > 0.9 and refuted.score < 0.5


def test_the_unjudged_have_no_score() -> None:
    """They are left out, in order."""
    outcomes = pool((0.5, 0.5))
    absent = Outcome(
        outcomes[1].candidate, Unjudged("h1", UnjudgedCause.BUDGET), Origin.UNJUDGED
    )
    ranked = join([outcomes[0], absent, *outcomes[2:]], weight=0.5)
    ids = [entry.candidate.id for entry in ranked]
    assert ids == [entry.candidate.id for entry in (outcomes[0], *outcomes[2:])]


@given(SCORES, SCORES, st.floats(-4, 4))
def test_evidence_keeps_the_judges_order(first: float, second: float, evidence: float) -> None:
    """With the same evidence, a higher score stays at least as high, within 0..1."""
    low, high = sorted((first, second))
    joined_low, joined_high = joined_score(low, evidence), joined_score(high, evidence)
    assert 0 <= joined_low <= joined_high <= 1
    assert joined_score(first, 0.0) == first


@given(st.lists(st.tuples(SCORES, SCORES), max_size=300))
def test_more_words_never_rank_lower(pairs: list[tuple[float, float]]) -> None:
    """Evidence grows with the word score, whatever the pool."""
    words = [word_score for _, word_score in pairs]
    evidence = words_evidence(words, weight=1.0)
    by_words = sorted(zip(words, evidence, strict=True))
    assert [amount for _, amount in by_words] == sorted(evidence)


@pytest.fixture
def project(make_repo: MakeRepo) -> Path:
    """A repository of 130 functions; words name one, and the judge prefers another."""
    return make_repo(FILES)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A chat host that scores by a table."""
    with OpenAIServer(score=table(JUDGED)) as running:
        yield running


def with_words(settings: Settings, words: float | None) -> Settings:
    """Return settings with this weight."""
    return replace(settings, selection=replace(settings.selection, words=words))


async def test_a_turn_ranks_by_both_and_the_weight_is_no_part_of_the_cache(
    project: Path, server: OpenAIServer
) -> None:
    """Words turn the order of two memories around; without them nothing is judged again, and the
    judge's order and scores are back."""
    settings = settings_for(server)
    first = await ask(project, settings, TASK)
    calls = server.counts.judging_requests
    assert [memory.entity for memory in first.selected][:1] == ["pay_out_refund"]
    chosen = first.selected[0]
    assert chosen.raw_score == 0.62 and chosen.words > 0
    assert chosen.joined_score == pytest.approx(chosen.score) and chosen.score > 0.7
    repeated = await ask(project, settings, TASK)
    assert [(memory.id, memory.score, memory.words) for memory in repeated.selected] == [
        (memory.id, memory.score, memory.words) for memory in first.selected
    ]
    without = await ask(project, with_words(settings, 0), TASK)
    assert server.counts.judging_requests == calls
    assert [(memory.entity, memory.score) for memory in without.selected] == [("book", 0.75)]
    assert (first.words_weight, without.words_weight) == (0.5, 0.0)


async def test_explain_names_both_and_ranks_as_the_turn_did(
    project: Path, server: OpenAIServer
) -> None:
    """It explains a memory that no receipt lists, too, and after the setting has changed."""
    settings = settings_for(server)
    first = await ask(project, settings, TASK)
    async with Pipeline.open(project, with_words(settings, 0)) as pipeline:
        listed = explain_choice(pipeline.parts, "pay_out_refund", turn_id=first.turn_id)
        unlisted = explain_choice(pipeline.parts, "step_3_1", turn_id=first.turn_id)
    assert listed.memory is not None and listed.memory.words == first.selected[0].words
    assert "from its words" in listed.words and "0.62" in listed.words
    assert unlisted.memory is not None and unlisted.memory.words < 0
