"""The result of judging a list: a row for each item, a receipt that adds up, and both as frames.

Rows come back in the form that the items had, if that is a frame. Trade-off: rows are Python tuples
until then, about 200 bytes each; a longer list is read by `judge_stream`, which keeps none.
"""

from collections.abc import Iterable
from decimal import Decimal
from html import escape
from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from msgspec import Struct, field

from xscore.extensions.lists.distribution import distribution_html
from xscore.platform.extras import require_extra
from xscore.platform.figures import format_dollars
from xscore.platform.text import counted, ellipsize, one_line
from xscore.records.receipt import Coverage, StageUsage
from xscore.records.reports import list_exit_code

if TYPE_CHECKING:
    import polars


_NUMBERS = ("score", "dollars")
_ROWS_SHOWN, _CELL_CHARS = 10, 80
"""Rows shown in a notebook, and the characters of each cell."""


class JudgedItem(NamedTuple):
    """One item with its score, or the cause that it has none."""

    id: Any
    """The id as given; without ids the position in the list, from 0."""
    score: float | None
    """Score of the item, 0..1; None: unjudged."""
    outcome: str
    """`judged` (paid for now), `cached` or `unjudged`. If texts are equal, one is judged, the
    others are cached."""
    cause: str
    """Why it is unjudged: `budget`, `deadline`, `interrupted`, `refused`, `unreadable`, `too_long`,
    `provider`."""
    reason: str
    """The judge's words, if any; for an unjudged item what happened."""
    dollars: Decimal | None
    """Its share of the dollars of the calls that asked about it; None: unpriced."""


class ListReceipt(Struct, frozen=True, kw_only=True):
    """What was judged of a list, and the cost."""

    question: str
    """The question as it was judged: redacted."""
    judge: str
    """`provider:model`."""
    by_model: bool = field(name="is_model")
    """Whether a model judged; if not, the scores compare words."""
    threshold: float
    """The score from which on this judge's memories are usually kept. No row is left out by it."""
    coverage: Coverage
    """Items read = judged + cached + carried + unjudged; carried is 0."""
    unjudged_by_cause: dict[str, int]
    """Cause -> items; see `JudgedItem.cause`."""
    ended: str
    """Why judging ended early: `budget`, `deadline`, `interrupted` or `provider`; empty if it
    did not."""
    detail: str
    """What ended it, in words."""
    spent: StageUsage
    """Usage of all calls. `calls` counts answered ones, probes included; attempts, tokens and
    cost include failed ones."""
    seconds: float
    """Seconds from the start to the last row."""
    warnings: tuple[str, ...]
    """What the user should know, a sentence each."""

    @property
    def exit_code(self) -> int:
        """The matching command exit code (`ExitCode`)."""
        return list_exit_code(self.coverage, self.ended)

    def __str__(self) -> str:
        coverage = self.coverage
        cost = format_dollars(self.spent.cost_usd, estimated=self.spent.estimated)
        counts = (
            f"{coverage.judged:,} judged, {coverage.cached:,} cached, {coverage.unjudged:,}"
            " unjudged"
        )
        ended = ""
        if self.ended:
            ended = f"; ended early: {self.ended}"
            if self.detail:
                ended += f" ({self.detail})"
        calls = counted(self.spent.calls, "call")
        items = counted(coverage.candidates, "item")
        return f"{items}: {counts}; {calls}, {cost}, {self.seconds:.1f} s; {self.judge}{ended}"


class JudgedItems(tuple[JudgedItem, ...]):
    """All items of a list, in their order, with the receipt."""

    receipt: ListReceipt

    def __new__(cls, rows: Iterable[JudgedItem], receipt: ListReceipt) -> Self:
        """Hold these rows."""
        items = super().__new__(cls, rows)
        items.receipt = receipt
        return items

    def __getnewargs__(self) -> tuple[tuple[JudgedItem, ...], ListReceipt]:
        """Return what a copy is made of, also one in another process."""
        return tuple(self), self.receipt

    def __repr__(self) -> str:
        return f"<JudgedItems {self.receipt}>"

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column; dollars as floats."""
        columns = dict(
            zip(JudgedItem._fields, map(list, zip(*self, strict=True)), strict=False)
        )
        table = {name: columns.get(name, []) for name in JudgedItem._fields}
        table["dollars"] = [None if usd is None else float(usd) for usd in table["dollars"]]
        return table

    def to_polars(self) -> "polars.DataFrame":
        """Return the table as a polars frame; ids of several types become text.

        Raises UsageError without polars.
        """
        require_extra("frames", "polars", purpose="a table as a polars frame")
        import polars  # an extra

        kinds = {
            "score": polars.Float64,
            "outcome": polars.String,
            "cause": polars.String,
            "reason": polars.String,
        }
        table: dict[str, Any] = self.columns()
        try:
            ids = polars.Series("id", table["id"], strict=True)
        except (TypeError, ValueError, OverflowError, polars.exceptions.PolarsError):
            ids = polars.Series("id", [], dtype=polars.Object)
        if ids.dtype == polars.Object:
            table["id"] = _ids_as_text(table["id"])
        else:
            table["id"] = ids
        return polars.DataFrame(table, schema_overrides=kinds | {"dollars": polars.Float64})

    def to_pandas(self) -> Any:
        """Return the table as a pandas frame. Raises ImportError without pandas."""
        pandas = import_module("pandas")
        return pandas.DataFrame(self.columns()).astype(
            {"score": "float64", "dollars": "float64"}
        )

    def to_arrow(self) -> Any:
        """Return the table as Arrow; ids of several types become text.

        Raises ImportError without pyarrow.
        """
        arrow = import_module("pyarrow")  # Arrow data comes with it; polars may be missing
        table = self.columns()
        ids = table.pop("id")
        try:
            columns = {"id": arrow.array(ids)}
        except (arrow.ArrowException, TypeError, ValueError, OverflowError):
            columns = {"id": arrow.array(_ids_as_text(ids), type=arrow.string())}
        for name, values in table.items():
            kind = arrow.float64() if name in _NUMBERS else arrow.string()
            columns[name] = arrow.array(values, type=kind)
        return arrow.table(columns)

    def like(self, original: object) -> Any:
        """Return a frame of the same library if a frame was judged, otherwise these rows."""
        for library, kind, convert in (
            ("polars", "DataFrame", self.to_polars),
            ("pandas", "DataFrame", self.to_pandas),
            ("pyarrow", "Table", self.to_arrow),
            ("pyarrow", "RecordBatch", self.to_arrow),
            ("pyarrow", "RecordBatchReader", self.to_arrow),
        ):
            if library in modules and isinstance(original, getattr(modules[library], kind)):
                return convert()
        return self

    def _repr_html_(self) -> str:
        """Return how the scores lie, the first rows as a table, and the receipt, for notebooks."""
        heads = "".join(f"<th>{name}</th>" for name in JudgedItem._fields)
        lines = []
        for row in self[:_ROWS_SHOWN]:
            shown = row._replace(score=_rounded(row.score))
            cells = "".join(f"<td>{_html_cell(value)}</td>" for value in shown)
            lines.append(f"<tr>{cells}</tr>")
        beyond = len(self) - _ROWS_SHOWN
        rest = ""
        if beyond > 0:
            rest = f"<p>and {beyond:,} more</p>"
        table = f"<table><tr>{heads}</tr>{''.join(lines)}</table>"
        scores = {"all": [row.score for row in self]}
        picture = distribution_html(scores, cut=self.receipt.threshold)
        return f"{picture}{table}{rest}<p>{escape(str(self.receipt))}</p>"


def _ids_as_text(ids: Iterable[Any]) -> list[str | None]:
    return [None if id_ is None else str(id_) for id_ in ids]


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 3)


def _html_cell(value: object) -> str:
    if value is None:
        return ""
    return escape(ellipsize(one_line(str(value)), _CELL_CHARS))
