"""Outcomes and a selection to the lines of a receipt. Pure; the sum is checked by `Coverage` itself."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from xscore.records import (
    Candidate,
    Coverage,
    Judgment,
    Origin,
    Outcome,
    Ranked,
    ScoreLine,
    Selected,
    Selection,
    Unjudged,
    UnjudgedAccount,
    UnjudgedSample,
)

UNJUDGED_SHOWN = 20


def coverage(outcomes: Sequence[Outcome], candidates: int) -> Coverage:
    """Count the outcomes against the number of candidates that went in. Raises BrokenReceipt when they differ."""
    count = Counter(outcome.origin for outcome in outcomes)
    return Coverage(
        candidates, count[Origin.JUDGED], count[Origin.CACHED], count[Origin.CARRIED], count[Origin.UNJUDGED]
    )


def unjudged_account(selection: Selection) -> UnjudgedAccount:
    """Count the unjudged by cause and show the first of them."""
    by_cause = Counter(str(absent.cause) for _, absent in selection.unjudged)
    sample = tuple(
        UnjudgedSample(candidate.id, candidate.path, candidate.entity, str(absent.cause), absent.detail)
        for candidate, absent in selection.unjudged[:UNJUDGED_SHOWN]
    )
    return UnjudgedAccount(dict(by_cause.most_common()), sample)


def selected(
    ranked: Ranked,
    reasons: Mapping[str, str],
    *,
    below_threshold: bool,
    titles: Mapping[str, str] | None = None,
    stale: Collection[str] = (),
) -> Selected:
    """Put one ranked candidate into the receipt's words.

    reasons: by content hash, for cached judgments. titles: by memory id, of those that belong to no file.
    stale: ids of memories whose cited code has changed.
    """
    candidate = ranked.candidate
    return Selected(
        id=candidate.id,
        layer=str(candidate.layer),
        kind=str(candidate.kind),
        path=candidate.path,
        entity=candidate.entity,
        start_line=candidate.start_line,
        end_line=candidate.end_line,
        language=candidate.language,
        raw_score=ranked.judgment.score,
        boosts=ranked.boosts,
        score=ranked.score,
        reason=ranked.judgment.reason or reasons.get(candidate.content_hash, ""),
        cached=ranked.origin is not Origin.JUDGED,
        below_threshold=below_threshold,
        title=(titles or {}).get(candidate.id, ""),
        is_stale=candidate.id in stale,
    )


def score_lines(
    outcomes: Sequence[Outcome], ranked: Sequence[Ranked], reasons: Mapping[str, str]
) -> Iterator[ScoreLine]:
    """Give every candidate its line, the ranked first in their order, then the unjudged by path."""
    origins = {outcome.candidate.id: outcome.origin for outcome in outcomes}
    for entry in ranked:
        candidate, judgment = entry.candidate, entry.judgment
        reason = judgment.reason or reasons.get(candidate.content_hash, "")
        origin = str(origins[candidate.id])
        yield ScoreLine(
            candidate.id, candidate.path, candidate.entity, str(candidate.layer), str(candidate.kind),
            origin, judgment.score, entry.score, reason, "",
        )  # fmt: skip
    absent = [outcome for outcome in outcomes if isinstance(outcome.result, Unjudged)]
    for outcome in sorted(absent, key=lambda found: (found.candidate.path, found.candidate.start_line)):
        candidate, result = outcome.candidate, outcome.result
        assert isinstance(result, Unjudged)
        yield ScoreLine(
            candidate.id, candidate.path, candidate.entity, str(candidate.layer), str(candidate.kind),
            str(Origin.UNJUDGED), None, None, "", str(result.cause),
        )  # fmt: skip


def judged_pairs(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, Judgment]]:
    """Walk the outcomes that carry a judgment."""
    for outcome in outcomes:
        if isinstance(outcome.result, Judgment):
            yield outcome, outcome.result


def unjudged_pairs(outcomes: Sequence[Outcome]) -> Iterator[tuple[Candidate, Unjudged]]:
    """Walk the outcomes that carry none."""
    for outcome in outcomes:
        if isinstance(outcome.result, Unjudged):
            yield outcome.candidate, outcome.result
