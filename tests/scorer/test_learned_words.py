"""The learned judge: weights for what is described, links as evidence, and nothing where nothing
is."""

import csv
import math
from pathlib import Path

from xscore.records.candidates import Candidate
from xscore.records.judgment import FILL
from xscore.records.memory import Edge, Kind, Layer, Relation
from xscore.records.turn import Turn
from xscore.scorer.learned_words import (
    ODDS_TERMS,
    PRESENCE_TERMS,
    USUAL_WORDS,
    code_model,
    load_weights,
)
from xscore.scorer.lexical import LexicalJudge
from xscore.scorer.weighed_pool import WeighedPool
from xscore.scorer.word_features import FEATURES, MAY_BE_NEGATIVE
from xscore.settings import SelectionSettings
from xscore.store.term_vectors import term_vector

CASES = Path(__file__).parents[2] / "benchmarks" / "learned_cases.csv"
CUT = SelectionSettings().lexical_threshold
Pool = tuple[list[Candidate], list[tuple[str, bytes]]]


def pool_of(*functions: tuple[str, str]) -> Pool:
    """Make functions from (name, text), each in a file of its own."""
    candidates: list[Candidate] = []
    vectors: list[tuple[str, bytes]] = []
    for number, (name, text) in enumerate(functions):
        id_, path = f"m{number}", f"file{number}.py"
        place = (Layer.GRAPH, Kind.FUNCTION, path, name, 1, 9, "python", 40, 0.0)
        candidates.append(Candidate(id_, f"h{number}", *place))
        vectors.append((id_, term_vector(text, path=path, entity=name)))
    return candidates, vectors


UNRELATED = [(f"other{number}", f"walk the tree number {number}") for number in range(80)]


def test_the_weights_are_for_what_a_memory_is_described_by() -> None:
    """A feature without a weight, or a weight without a feature, would count for nothing in
    silence."""
    weights = load_weights()
    assert set(weights.code.weights) == set(weights.code_by_length.weights) == set(FEATURES)
    assert tuple(weights.probability.weights) == ODDS_TERMS
    assert tuple(weights.presence.weights) == PRESENCE_TERMS


def test_weights_depend_on_the_length_of_the_task() -> None:
    """A task of usual length has the weights as they are; at no length does more evidence score
    less; beyond the bounds nothing changes any more."""
    weights = load_weights()
    assert code_model(weights, USUAL_WORDS) == weights.code
    for words in (0, 1, 3, 40, 400, 10**6):
        of_length = code_model(weights, words).weights
        assert min(of_length[name] for name in set(FEATURES) - MAY_BE_NEGATIVE) >= 0, words
    assert code_model(weights, 3) != code_model(weights, 40)
    assert code_model(weights, 400) == code_model(weights, 10**6)


def test_every_case_of_the_weights_is_named() -> None:
    """What they were fitted to can be told: each case with its commit and a checksum, once."""
    with CASES.open(newline="", encoding="utf-8") as file:
        cases = list(csv.DictReader(file))
    repositories = {case["repository"] for case in cases}
    counted = f"{len(cases)} commits of {len(repositories)} repositories"
    assert load_weights().trained_on == counted
    assert len({case["id"] for case in cases}) == len(cases)
    assert all(len(case["commit"]) == 40 and case["checksum"] for case in cases)


def test_who_is_called_by_what_the_task_names_scores_more_and_the_reason_says_so() -> None:
    """A link is evidence of its own; without it the same memory scores less."""
    candidates, vectors = pool_of(
        ("parse_header", "parse the header of a frame"), ("split", "split a frame"), *UNRELATED
    )
    turn = Turn(task="`parse_header` drops the last header of a frame")
    edges = [Edge("m0", "m1", Relation.CALLS)]
    plain = LexicalJudge(lambda: vectors).judge_all(turn, candidates)
    linked = LexicalJudge(lambda: vectors, links=lambda _ids: edges).judge_all(turn, candidates)
    assert linked[1].score > plain[1].score
    assert "called by parse_header, which the task names" in linked[1].reason
    assert "called by" not in plain[1].reason


def test_who_calls_what_the_task_names_says_so_unless_it_calls_much_else() -> None:
    """A link counts with all others on average: one of many says too little to be told of."""
    candidates, vectors = pool_of(
        ("parse_header", "parse the header of a frame"), ("split", "split a frame"), *UNRELATED
    )
    turn = Turn(task="`parse_header` drops the last header of a frame")
    edges = [Edge("m1", "m0", Relation.CALLS)]
    many = [*edges, *(Edge("m1", f"m{number}", Relation.CALLS) for number in range(2, 40))]
    alone = LexicalJudge(lambda: vectors, reasons_from=0.0, links=lambda _ids: edges)
    among_many = LexicalJudge(lambda: vectors, reasons_from=0.0, links=lambda _ids: many)
    reason = alone.judge_all(turn, candidates)[1].reason
    assert "calls parse_header, which the task names" in reason
    assert "calls parse_header" not in among_many.judge_all(turn, candidates)[1].reason


def test_what_is_linked_counts_on_average_and_tests_do_not() -> None:
    """One called function of two has words of the task: half of its evidence counts, and a test
    that has them too adds nothing."""
    candidates, vectors = pool_of(
        ("parse_header", "parse the header of a frame"), ("split", "split a frame"), *UNRELATED
    )
    links = [
        Edge("m1", "m0", Relation.CALLS),
        Edge("m1", "m2", Relation.CALLS),
        Edge("m0", "m1", Relation.TESTS),
    ]
    turn = Turn(task="`parse_header` drops the last header of a frame")
    weighed = WeighedPool(turn, candidates, lambda: vectors, links=lambda _ids: links)
    row = list(weighed.shortlist.rows).index(1)
    features = dict(zip(FEATURES, weighed.shortlist.features[row], strict=True))
    assert features["calls_made"] == math.log1p(2)
    assert features["mean_linked"] == features["best_callee"] / 2 > 0


def test_an_instruction_about_something_else_keeps_nothing() -> None:
    """One common word of many is not enough, also where no question is asked."""
    candidates, vectors = pool_of(("frame", "split a frame"), *UNRELATED)
    task = (
        "Let the tax office round salaries of seasonal workers down, and print the frame of the"
        " invoice in the currency of the customer"
    )
    scores = [
        judgment.score
        for judgment in LexicalJudge(lambda: vectors).judge_all(Turn(task=task), candidates)
    ]
    assert 0 < max(scores) < FILL.share * CUT


def test_the_same_words_in_a_larger_pool_share_their_probability() -> None:
    """Of many functions that hold the task alike, each is less likely meant."""
    twin = ("parse_header", "parse the header of a frame")
    turn = Turn(task="why does it parse the header of a frame twice?")
    best: list[float] = []
    for count in (1, 8):
        pool = pool_of(*[twin] * count, *UNRELATED)
        best.append(best_score(pool, turn))
    assert best[0] > best[1] > CUT


def best_score(pool: Pool, turn: Turn) -> float:
    """Return the best score of a pool."""
    candidates, vectors = pool
    judged = LexicalJudge(lambda: vectors).judge_all(turn, candidates)
    return max(judgment.score for judgment in judged)
