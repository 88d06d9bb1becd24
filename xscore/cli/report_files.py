"""A report as tables for other programs: CSV and Parquet, a line a group, or a line a turn. By polars.

Dollars are decimal strings in CSV and exact decimals in Parquet; moments are UTC, to the second in CSV; seconds have
six digits; a figure that is not there is an empty cell. Text that a spreadsheet would take for a formula gets an
apostrophe in front, in CSV alone.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from xscore.records.cost_report import CostReport, Group, TurnLine, is_of_candidates

if TYPE_CHECKING:  # 0.2 s of CPU that no other command pays
    import polars as pl

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total")


def csv(report: CostReport) -> str:
    """Return the table as CSV."""
    import polars as pl

    found = table(report)
    safe = [
        pl.when(pl.any_horizontal(pl.col(name).str.starts_with(sign) for sign in _FORMULA))
        .then("'" + pl.col(name))
        .otherwise(pl.col(name))
        .alias(name)
        for name, kind in found.schema.items()
        if kind == pl.String
    ]
    money = [pl.col(name).cast(pl.String) for name, kind in found.schema.items() if isinstance(kind, pl.Decimal)]
    return found.with_columns(*safe, *money).write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%:z")


def parquet(report: CostReport) -> bytes:
    """Return the table as Parquet."""
    import io

    whole = io.BytesIO()
    table(report).write_parquet(whole)
    return whole.getvalue()


def table(report: CostReport) -> "pl.DataFrame":
    """Return a line a group where the report is grouped, else a line a turn."""
    import polars as pl

    if report.by:
        head: dict[str, Any] = {report.by: pl.String, "turns": pl.Int64}
        lines = [(one.name, one.turns, *_figures(one, report.by)) for one in report.groups]
        return pl.DataFrame(lines, schema={**head, **_schema()}, orient="row")
    words = dict.fromkeys(("repository", "task", "command", "state", "judge"), pl.String)
    head = {"turn": pl.String, "at": pl.Datetime("us", "UTC"), **words}
    tail: dict[str, Any] = {f"{name}_s": pl.Float64 for name in _STAGES}
    return pl.DataFrame(list(map(_turn, report.turns)), schema={**head, **_schema(), **tail}, orient="row")


def _turn(line: TurnLine) -> tuple[object, ...]:
    head = (
        line.id,
        datetime.fromtimestamp(line.at, UTC),
        line.repository,
        line.task,
        line.command,
        line.state,
        line.judge,
    )
    return (*head, *_figures(line), *_seconds(line))


def _seconds(line: TurnLine) -> Iterator[float | None]:
    """Of each stage; None where it is not known, or no answering call was made."""
    took = line.latency
    for stage in _STAGES:
        known = took is not None and (stage != "primary" or took.primary > 0)
        yield round(getattr(took, stage), 6) if known else None


def _figures(line: Group | TurnLine, by: str = "") -> tuple[object, ...]:
    spent, usage, of = line.spent, line.spent.usage, line.coverage
    other = spent.otherwise
    if isinstance(line, Group) and not is_of_candidates(line, by):
        of = None
    return (
        *((of.candidates, of.judged, of.cached, of.carried, of.unjudged) if of else (None,) * 5),
        line.kept if of else None,
        *(spent.calls, spent.attempts, spent.rate_limited, spent.failed, spent.unpriced, spent.estimated),
        *(usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens, usage.cache_write_1h_tokens),
        *(usage.output_tokens, usage.reasoning_tokens),
        *(spent.cost_usd, other.without_prefix_cache, other.without_packs, other.by_batch),
    )


def _schema() -> dict[str, Any]:
    import polars as pl

    counts = (
        *("candidates", "judged", "cached", "carried", "unjudged", "kept"),
        *("calls", "attempts", "rate_limited", "failed", "unpriced", "estimated"),
        *("input_tokens", "cached_input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
        *("output_tokens", "reasoning_tokens"),
    )
    dollars = ("cost_usd", "without_prefix_cache_usd", "without_packs_usd", "by_batch_usd")
    return {**dict.fromkeys(counts, pl.Int64), **dict.fromkeys(dollars, pl.Decimal(38, 12))}
