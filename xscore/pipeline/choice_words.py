"""Say in a sentence why a memory was chosen or not: what `explain` prints and a page shows.

Pure. Trade-off: the sentences know the receipt and one memory; what else competed for the places is
told by the rule that placed it.
"""

from collections.abc import Mapping

from xscore.pipeline.selection import COMMIT_SHARE, least_score_of_commit
from xscore.records.judgment import (
    READS_AS_ZERO_BELOW,
    SCORE_TOLERANCE,
    PlacedBy,
)
from xscore.records.memory import PRODUCT_CODE_KINDS, Kind
from xscore.records.receipt import NEAR_THRESHOLD, Answer, Selected

OTHERS_OF_KIND: Mapping[str, str] = {
    Kind.COMMIT: "other commits had taken the places for commits",
    Kind.DOCUMENT: "other passages had taken the places for fetched documents",
}


def words_of_listed(shown: Selected, receipt: Answer, *, is_kept: bool) -> str:
    """Say why a memory is where the receipt lists it."""
    score = score_sum(shown, receipt)
    threshold = shown.threshold
    short = threshold - shown.score
    if is_kept and shown.placed_by == PlacedBy.FILLED:
        return (
            f"It was filled in: {score} is below the threshold of {threshold:g}, but too few"
            " passed."
        )
    if is_kept and shown.below_threshold:
        return f"It was kept by min_keep, although it is below the threshold of {threshold:g}."
    if shown.placed_by == PlacedBy.FOLDED:
        return f"It passed with {score}, and is named in the line of a similar test or copy."
    if is_kept:
        return f"It was chosen: {score} reaches the threshold of {threshold:g}."
    if short > 0:
        gap = f"{short:.2f}" if short >= 0.005 else f"{short:.1g}"
        return (
            f"It was not chosen: {score} is {gap} short of the threshold. Lower --threshold to"
            " keep it."
        )
    taken = "the places were taken. Raise --top-k to keep it."
    without_place = _why_without_place(shown, receipt)
    if without_place:
        taken = f"{without_place}. `--kind {shown.kind}` keeps more of them."
    return f"It passed with {score}, but {taken}"


def _why_without_place(shown: Selected, receipt: Answer) -> str:
    """Say why a memory of a kind with few places has none; "": its kind is not limited."""
    if shown.kind == Kind.COMMIT:
        code = [
            memory.score for memory in receipt.selected if memory.kind in PRODUCT_CODE_KINDS
        ]
        best_of_code = max(code, default=0.0)
        if shown.score < least_score_of_commit(best_of_code, receipt.task, receipt.scope.kinds):
            return (
                f"with code that scores {best_of_code:.2f}, a commit needs"
                f" {COMMIT_SHARE:.0%} of that"
            )
    return OTHERS_OF_KIND.get(shown.kind, "")


def outcome_of_listed(shown: Selected, *, is_kept: bool) -> str:
    """Return the outcome that `Explanation` names."""
    if shown.placed_by == PlacedBy.FOLDED:
        return "folded"
    if is_kept:
        return "selected"
    short = shown.threshold - shown.score
    if short < NEAR_THRESHOLD - SCORE_TOLERANCE:
        return "near_miss"
    return "below_threshold"


def words_of_unlisted(
    shown: Selected, place: int, judged: int, receipt: Answer
) -> tuple[str, str]:
    """Return the outcome and the sentence of a memory that the receipt does not list.

    place: its rank among the judged, from 1.
    judged: how many were.
    """
    score = score_sum(shown, receipt)
    if shown.below_threshold:
        sentence = (
            f"It was judged and not chosen: {score} is below the "
            f"threshold of {shown.threshold:g}"
        )
        # Most memories have nothing in common with a task, and their order among each other says
        # nothing.
        if shown.score >= READS_AS_ZERO_BELOW:
            sentence += f", {_ordinal(place)} of {judged:,} judged"
        return "below_threshold", f"{sentence}."
    if place > receipt.top_k:
        sentence = (
            f"It passed with {score}, but {receipt.top_k} others scored higher. Raise --top-k to"
            " keep it."
        )
        return "beyond_k", sentence
    used_up = (
        _why_without_place(shown, receipt) or "tests had used up their share of the places"
    )
    return "over_quota", f"It passed with {score}, but {used_up}."


def score_sum(shown: Selected, receipt: Answer) -> str:
    """Format the score as a sum."""
    mean = ""
    if shown.draws:
        first, second = shown.draws[:2]
        mean = f"the mean of {first:.2f} and {second:.2f}"
    if not (shown.boosts or shown.words):
        if mean:
            return f"{shown.score_text} ({mean})"
        return shown.score_text
    raw = f"{shown.raw_score:.2f} {'by words' if receipt.ranked_by_words else 'from the judge'}"
    if mean:
        raw = f"{raw}, {mean}"
    if abs(shown.added_by_words) >= READS_AS_ZERO_BELOW:
        raw = f"{raw}, {shown.added_by_words:+.2f} from its words"
    boosts: list[str] = []
    for boost in shown.boosts:
        # One that only orders two memories adds nothing that could be read.
        if boost.amount >= READS_AS_ZERO_BELOW:
            boosts.append(f"{boost.amount:.2f} {boost.name}")
    capped = ", capped at 1" if shown.is_capped else ""
    return f"{shown.score_text} ({' + '.join([raw, *boosts])}{capped})"


def _ordinal(place: int) -> str:
    if 10 <= place % 100 <= 20:
        suffix = "th"
    else:
        suffix = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{suffix}"
