"""The progress of a turn or a list in a notebook: one line of plain text, updated in place.

It needs no widget and no package other than the kernel's own. Trade-off: each turn leaves its
last line above the receipt.
"""

import sys
from typing import Any

from xscore.platform.figures import format_dollars, format_seconds
from xscore.records.events import (
    AnswerText,
    Kept,
    Note,
    Observer,
    Progress,
    StageBegan,
    TurnEvent,
)


def notebook_observer() -> Observer:
    """Return an observer that shows progress if a notebook's kernel runs this, otherwise one
    that ignores it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):
        return NotebookObserver()
    return Observer()


class NotebookObserver(Observer):
    """Shows the progress of a cell's turn."""

    _line: Any = None
    """IPython's handle of the line; the kernel is not a dependency."""

    def on(self, event: TurnEvent) -> None:
        """Show it."""
        match event:
            case StageBegan("index"):
                self._line = None  # of the turn before
                self._show("bringing the index up to date …")
            case Progress():
                self._show(_progress_text(event))
            case Kept(ranked):
                self._show(f"{len(ranked)} kept")
            case AnswerText():
                self._show("answering …")
            case Note(text):
                print(f"xscore: {text}")
            case _:
                pass

    def _show(self, text: str) -> None:
        shown = {"text/plain": f"xscore: {text}"}
        if self._line is not None:
            self._line.update(shown, raw=True)
            return
        self._line = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)


def _progress_text(progress: Progress) -> str:
    settled = progress.cached + progress.judged + progress.unjudged
    time_left = (
        f", {format_seconds(progress.seconds_left)} left" if progress.seconds_left else ""
    )
    best = ""
    for leader in progress.leaders[:5]:
        fields = (f"{leader.score:.2f}", leader.path, leader.entity)
        best += "\n  " + "  ".join(filter(None, fields))
    return (
        f"{settled:,} of {progress.candidates:,} judged,"
        f" {format_dollars(progress.cost_usd)}{time_left}{best}"
    )
