"""How the scores of a list lie, for a notebook: a row for each kind, with twenty bars and exact
numbers.

The bars are plain boxes in colors that show on white and on black, since JupyterLab takes
pictures out of a notebook that is not trusted, and leaves boxes. Computes from scores and names
of kinds, which are escaped. Trade-off: heights are by square roots, so that a few good scores
are seen among thousands of low ones, and the line of the cut is drawn at the nearest of twenty
steps.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import sqrt
from statistics import median

from xscore.platform.figures import format_fraction
from xscore.platform.text import ellipsize, one_line
from xscore.records.judgment import SCORE_TOLERANCE

BINS = 20
BAR_PX, HEIGHT_PX = 13, 40
MOST_KINDS = 12
LEAST_SCORES = 2
"""Fewest scores that make a distribution; below that the table says it all."""
_PASSING_COLOR, _OTHER_COLOR, _LINE_COLOR = "#c0407e", "#8d93a5", "#6f7686"
_LEFT = "text-align: left"
_KIND_CHARS = 40
Scores = Sequence[float | None]


def distribution_html(scores_by_kind: Mapping[str, Scores], *, cut: float) -> str:
    """Return the rows, the largest kinds first; empty where there are too few scores.

    cut: the score from which on bars are colored. An unjudged memory has no score.
    """
    scored: dict[str, list[float]] = {}
    for kind, scores in scores_by_kind.items():
        judged = [score for score in scores if score is not None]
        if judged:
            scored[kind] = judged
    total = sum(map(len, scored.values()))
    if total < LEAST_SCORES:
        return ""
    largest = sorted(scored, key=lambda kind: -len(scored[kind]))[:MOST_KINDS]
    rows = "".join(_row(kind, scored[kind], cut) for kind in largest)
    left_out = len(scored) - len(largest)
    rest = f"<p>and {left_out:,} smaller kinds</p>" if left_out else ""
    return f"<table>{_heads(cut)}{rows}</table>{rest}"


def _heads(cut: float) -> str:
    half = f"display: inline-block; width: {BINS * BAR_PX // 2}px"
    axis = (
        f'<span style="{half}; {_LEFT}">scores from 0</span>'
        f'<span style="{half}; text-align: right">to 1</span>'
    )
    numbers = ("scored", f"{format_fraction(cut)} or more", "median", "best")
    heads = "".join(f"<th>{name}</th>" for name in numbers)
    return f'<tr><th style="{_LEFT}">kind</th><th style="{_LEFT}">{axis}</th>{heads}</tr>'


def _row(kind: str, scores: Sequence[float], cut: float) -> str:
    name = escape(ellipsize(one_line(kind), _KIND_CHARS))
    passing = sum(score >= cut - SCORE_TOLERANCE for score in scores)
    numbers = (
        f"{len(scores):,}",
        f"{passing:,}",
        f"{median(scores):.2f}",
        f"{max(scores):.2f}",
    )
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    head = f'<td style="{_LEFT}">{name}</td>'
    bars = f'<td style="{_LEFT}; white-space: nowrap; line-height: 1">{_bars(scores, cut)}</td>'
    return f"<tr>{head}{bars}{cells}</tr>"


def _bars(scores: Sequence[float], cut: float) -> str:
    counts = [0] * BINS
    for score in scores:
        # 1 belongs to the last bar.
        counts[min(BINS - 1, int(score * BINS))] += 1
    tallest = sqrt(max(counts))
    line_at = round(cut * BINS)
    boxes: list[str] = []
    for place, count in enumerate(counts):
        if place == line_at:
            boxes.append(_box(1, HEIGHT_PX, _LINE_COLOR, f"the cut: {format_fraction(cut)}"))
        color = _PASSING_COLOR if place >= line_at else _OTHER_COLOR
        # One score of thousands is a line, not nothing.
        height = max(2, round(HEIGHT_PX * sqrt(count) / tallest)) if count else 0
        words = f"{count:,} from {place / BINS:g} to {(place + 1) / BINS:g}"
        boxes.append(_box(BAR_PX - 1, height, color, words))
    return "".join(boxes)


def _box(width: int, height: int, color: str, words: str) -> str:
    style = f"display: inline-block; width: {width}px; height: {height}px; margin-right: 1px"
    return f'<span title="{words}" style="{style}; background-color: {color}"></span>'
