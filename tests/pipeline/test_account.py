"""Receipts add up for any mix of outcomes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from xscore.pipeline import receipt
from xscore.pipeline.ranking import select
from xscore.records import Candidate, Judgment, Kind, Layer, Origin, Outcome, Ranked, Unjudged, UnjudgedCause
from xscore.settings import SelectionSettings


def candidate(number: int) -> Candidate:
    """A function of its own."""
    return Candidate(
        f"m_{number}", f"h{number}", Layer.GRAPH, Kind.FUNCTION, "a.py", f"f{number}", 1, 2, "python", 9, 0
    )


@st.composite
def outcomes(draw: st.DrawFn) -> list[Outcome]:
    """Any number of candidates, judged, cached, carried or unjudged for any cause."""
    found = []
    for number in range(draw(st.integers(0, 60))):
        origin = draw(st.sampled_from(list(Origin)))
        one = candidate(number)
        if origin is Origin.UNJUDGED:
            found.append(Outcome(one, Unjudged(one.content_hash, draw(st.sampled_from(list(UnjudgedCause)))), origin))
        else:
            found.append(Outcome(one, Judgment(one.content_hash, draw(st.floats(0, 1))), origin))
    return found


@given(outcomes())
def test_every_candidate_is_accounted_for(found: list[Outcome]) -> None:
    """X03: coverage, selection, unjudged account and score lines all count the same candidates."""
    coverage = receipt.count_coverage(found, len(found))
    ranked = [
        Ranked(one.candidate, judgment, one.origin, (), judgment.score)
        for one, judgment in [(one, one.result) for one in found if isinstance(one.result, Judgment)]
    ]
    unjudged = tuple(receipt.unjudged_pairs(found))
    selection = select(ranked, unjudged=unjudged, threshold=0.7, settings=SelectionSettings())
    shown = receipt.unjudged_account(selection)
    lines = list(receipt.score_lines(found, ranked, {}))
    assert coverage.candidates == len(found) == len(lines) == len({line.id for line in lines})
    assert Counter(line.outcome for line in lines) == Counter(str(one.origin) for one in found)
    assert coverage.unjudged == sum(shown.by_cause.values()) == len(unjudged)
    assert len(shown.sample) == min(20, coverage.unjudged)
    not_kept = selection.below_threshold + selection.over_quota + selection.beyond_k
    assert coverage.candidates == len(selection.kept) + not_kept + coverage.unjudged
    assert all((line.score is None) is (line.outcome == "unjudged") for line in lines)
