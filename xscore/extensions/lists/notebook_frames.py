"""Frames in a notebook: one that holds scores of `xscore.judge` shows how they lie above its table.

A frame is a class of another library, so the notebook is told how to show that class; frames
without our columns are shown as before. Trade-off: what was sorted, joined or filtered knows of no
receipt, so the cut is that of the last list that was judged.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from xscore.extensions.lists.distribution import distribution_html

KIND_COLUMN, NO_KIND = "kind", "(none)"
OUR_COLUMNS = frozenset({"score", "outcome", "cause"})
ShowFrame = Callable[[Any], str | None]


class FrameView:
    """How a notebook shows frames of one class."""

    def __init__(self, before: ShowFrame | None, cut: float) -> None:
        self.before = before
        """How frames were shown before; None if by their own method."""
        self.cut = cut

    def __call__(self, frame: Any) -> str | None:
        """Return the frame as HTML; with its scores above it, if it has them."""
        shown: str | None = frame._repr_html_() if self.before is None else self.before(frame)
        if shown is None:
            return None
        return distribution_html(_scores_by_kind(frame), cut=self.cut) + shown


def show_scores_of(frame: Any, *, cut: float) -> None:
    """Let the notebook that runs this, if one does, show scores above frames of this class."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(frame, "_repr_html_"):
        return
    formatter = shell.display_formatter.formatters["text/html"]
    before = formatter.type_printers.get(type(frame))
    if isinstance(before, FrameView):
        before = before.before
    formatter.for_type(type(frame), FrameView(before, cut))


def _scores_by_kind(frame: Any) -> dict[str, list[float | None]]:
    """Return the scores by the column `kind`, or as `all` without one; empty: not ours."""
    names = [str(name) for name in frame.columns]
    if not OUR_COLUMNS.issubset(names) or names.count("score") > 1:
        return {}
    scores = [_score(cell) for cell in frame["score"].to_list()]
    kinds: Sequence[object] = ["all"] * len(scores)
    if names.count(KIND_COLUMN) == 1:
        kinds = frame[KIND_COLUMN].to_list()
    by_kind: dict[str, list[float | None]] = {}
    for kind, score in zip(kinds, scores, strict=True):
        name = NO_KIND if kind is None else str(kind)
        by_kind.setdefault(name, []).append(score)
    return by_kind


def _score(cell: object) -> float | None:
    """Return a score of 0..1; None for anything else, as NaN and what a user wrote there."""
    if isinstance(cell, float | int) and 0 <= cell <= 1:
        return float(cell)
    return None
