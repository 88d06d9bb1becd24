"""The live board on stderr: stage, bar, figures, provisional best. The only file that imports rich.

It vanishes when closed. Repository text arrives escaped and is never read as markup.
"""

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from xscore.cli.judging_phrases import render_leaders, render_progress
from xscore.cli.text_layout import wrapped
from xscore.records.events import Progress

FRAMES_PER_SECOND = 8
BAR_WIDTH = 24
LINES_LEFT = 4
"""Lines of the terminal that the provisional best leave free."""


class Board:
    """A few lines that are redrawn in place until `close`."""

    def __init__(self) -> None:
        self._stage = ""
        self._progress: Progress | None = None
        self._spinner = Spinner("dots")
        self._live = Live(
            console=Console(stderr=True),
            get_renderable=self._lines,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def stage(self, words: str) -> None:
        """Set the stage that is shown."""
        self._stage = words
        self._live.refresh()

    def progress(self, progress: Progress) -> None:
        """Show this progress at the next frame."""
        self._progress = progress

    def print_above(self, line: str) -> None:
        """Write a line above the board, where it stays."""
        self._live.console.print(Text(wrapped(line, self._live.console.width)), soft_wrap=True)

    def close(self) -> None:
        """Wipe the board."""
        self._live.stop()

    def _lines(self) -> Group:
        self._spinner.update(text=Text(self._stage))
        if self._progress is None:
            return Group(self._spinner)
        progress = self._progress
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(
            total=max(1, progress.candidates),
            completed=progress.judged + progress.cached + progress.unjudged,
            width=BAR_WIDTH,
        )
        row.add_row(
            self._spinner,
            bar,
            Text(render_progress(progress), no_wrap=True, overflow="ellipsis"),
        )
        room = max(0, self._live.console.size.height - LINES_LEFT)
        shown = render_leaders(progress)[:room]
        best = [
            Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis") for line in shown
        ]
        return Group(row, *best)
