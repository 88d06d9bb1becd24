"""How the scores of a list lie, as a small picture for a notebook: twenty bars and their numbers in
words.

It takes the color of the text around it, so it is right in the light and in the dark. Computes from
scores alone, and no text of others is in it. Trade-off: the heights are by square roots, so that a
few good scores are seen beside thousands of low ones; the numbers in words are exact.
"""

from collections.abc import Iterable, Sequence
from math import sqrt

BINS = 20
BAR_PX, HEIGHT_PX, LABEL_PX = 16, 60, 16
LEAST_SCORES = 2
"""Fewer are not a distribution: the table says it all."""


def distribution_svg(scores: Iterable[float | None]) -> str:
    """Return the picture; empty where there are too few scores."""
    counts = _counts(scores)
    if sum(counts) < LEAST_SCORES:
        return ""
    tallest = sqrt(max(counts))
    bars: list[str] = []
    for place, count in enumerate(counts):
        height = round(HEIGHT_PX * sqrt(count) / tallest, 1)
        if count:
            bars.append(
                f'<rect x="{place * BAR_PX + 1}" y="{HEIGHT_PX - height:.1f}" width="{BAR_PX - 2}"'
                f' height="{height}"><title>{_bin_words(place, count)}</title></rect>'
            )
    width = BINS * BAR_PX
    labels = "".join(
        f'<text x="{share * width:.0f}" y="{HEIGHT_PX + LABEL_PX - 3}" text-anchor="{anchor}"'
        f' font-size="11">{share:g}</text>'
        for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end"))
    )
    words = "; ".join(_bin_words(place, count) for place, count in enumerate(counts) if count)
    return (
        f'<svg role="img" aria-label="Scores: {words}" width="{width}"'
        f' height="{HEIGHT_PX + LABEL_PX}" viewBox="0 0 {width} {HEIGHT_PX + LABEL_PX}"'
        f' fill="currentColor">{"".join(bars)}{labels}</svg>'
    )


def _counts(scores: Iterable[float | None]) -> Sequence[int]:
    counts = [0] * BINS
    for score in scores:
        if score is not None:
            # 1 belongs to the last bar.
            counts[min(BINS - 1, int(score * BINS))] += 1
    return counts


def _bin_words(place: int, count: int) -> str:
    return f"{count:,} from {place / BINS:g} to {(place + 1) / BINS:g}"
