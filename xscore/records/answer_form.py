"""An answer and its receipt as a `print` and a notebook show them.

The command line has a layout of its own, with lines of code. Trade-off: memories are named, not
quoted; the texts are in `context(...).bundle`. It knows no record, so that the receipt can use it.
"""

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import counted
from xscore.records.notebook_maps import map_html


class AnswerRow(Struct, frozen=True):
    """A kept memory."""

    score: str
    name: str
    reason: str


class AnswerForm(Struct, frozen=True, kw_only=True):
    """What is shown of an answer."""

    answer: str
    """Text of the answer; empty if there is none."""
    rows: tuple[AnswerRow, ...]
    candidates: int
    counts: Mapping[str, int]
    """Memories by how they were judged, such as `cached`."""
    judge: str
    cost_usd: Decimal | None
    took_s: float
    turn_id: str
    warnings: tuple[str, ...]

    def as_text(self) -> str:
        """Return the answer, the kept memories, the receipt in a line, and the warnings."""
        kept = [f"{row.score}  {row.name}  {row.reason}".rstrip() for row in self.rows]
        parts = [self.answer, "\n".join(kept), self.receipt_line(), *self.warnings]
        return "\n\n".join(filter(None, parts))

    def as_html(self) -> str:
        """Return the same as HTML, and below it the map of the turn.

        The answer's Markdown is rendered; every text is escaped.
        """
        from xscore.records.answer_page import render_answer  # only a notebook needs it

        shown = render_answer(
            answer=self.answer,
            rows=self.rows,
            receipt=self.receipt_line(),
            warnings=self.warnings,
        )
        return shown + map_html(self.turn_id)

    def receipt_line(self) -> str:
        """Return how many memories were judged and kept, what that cost in dollars, and the seconds
        it took."""
        how = ", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count)
        kept = f"{len(self.rows)} of {counted(self.candidates, 'memory', 'memories')} kept"
        return (
            f"{kept} ({how or 'none'}) by {self.judge}, {format_dollars(self.cost_usd)},"
            f" {format_seconds(self.took_s)}; turn {self.turn_id}"
        )
