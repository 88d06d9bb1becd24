"""A report as tables for other programs: CSV and Parquet, a line a group, or a line a turn. By polars.

Dollars are decimal strings in CSV and exact decimals in Parquet; moments are UTC, to the second in CSV; seconds have
six digits; a figure that is not there is an empty cell. Text that a spreadsheet would take for a formula gets an
apostrophe in front, in CSV alone.

The files that `xscore report` writes: all are looked at before one is written, then each is put into place whole.

A file that is not an earlier output of the same kind is never replaced: a name given in haste must not cost a source
file. What stands in them is made elsewhere. Trade-off: an earlier output is known by how it begins, so one that was
edited at its head must be removed by hand.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscore.platform.errors import UsageError
from xscore.platform.paths import STORE_DIR
from xscore.records.cost_report import CostReport, Group, TurnLine, counts_candidates

if TYPE_CHECKING:
    import polars as pl


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_STAGES = ("index", "pool", "cache", "judge", "select", "primary", "total")


def report_csv(report: CostReport) -> str:
    """Return the table as CSV."""
    import polars as pl

    found = report_table(report)
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


def report_parquet(report: CostReport) -> bytes:
    """Return the table as Parquet."""
    import io

    whole = io.BytesIO()
    report_table(report).write_parquet(whole)
    return whole.getvalue()


def report_table(report: CostReport) -> "pl.DataFrame":
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
    if isinstance(line, Group) and not counts_candidates(line, by):
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


STDOUT = Path("-")
BASELINE_OPTION = "--baseline"
TO_STDOUT = frozenset({"--html", "--csv"})
_HEAD_BYTES = 4_096
_EARLIER = {
    "--html": re.compile(rb"<!doctype html>.*<title>xscore report", re.DOTALL),
    "--csv": re.compile(rb"(turn,at|[a-z]+,(turns|candidates)),"),
    "--parquet": re.compile(rb"PAR1"),
}
"""How what was written earlier by this option begins."""


def check_outputs(outputs: Mapping[str, Path], *, writes_baseline: bool) -> None:
    """Raise UsageError where not all of these files can be written, before one is. outputs: option -> its file."""
    taken: dict[Path, str] = {}
    for option, path in outputs.items():
        if path == Path():
            raise UsageError(f"{option} names no file", hint="Name a file.")
        if path == STDOUT:
            if option not in TO_STDOUT:
                raise UsageError(f"{option} is not written to stdout", hint=f"Name a file: `{option} report.out`.")
            continue
        place = resolve_links(path)
        other = taken.setdefault(place, option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file: {path}", hint="Give each a file of its own.")
        if option != BASELINE_OPTION:
            _refuse_foreign_file(option, path, place)
        elif writes_baseline:
            refuse_store_folder(path)


def resolve_links(path: Path) -> Path:
    """Follow every link, also of folders; a loop of links is left as it is."""
    return Path(os.path.realpath(path))


def refuse_store_folder(path: Path) -> None:
    """Raise UsageError for a file inside a store's folder, where nothing but the store belongs."""
    if STORE_DIR in resolve_links(path).parts:
        raise UsageError(f"{path} lies in a store's folder", hint="Name a file elsewhere.")


def write_output(path: Path, content: bytes) -> None:
    """Put a file into place whole, as any file of the user's. Raises UsageError; what stood there is as it was."""
    refuse_store_folder(path)
    place = resolve_links(path)
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(content)  # a pipe or a device has no second name
            return
        aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(content)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error


def _refuse_foreign_file(option: str, path: Path, place: Path) -> None:
    refuse_store_folder(path)
    if not place.parent.is_dir():
        raise _unwritable(path, "there is no such folder")
    if not place.is_file():
        return
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise _unwritable(path, error.strerror) from error
    if head and not _EARLIER[option].match(head):
        raise UsageError(
            f"{path} is there and was not written by {option}", hint="Name another file, or remove this one first."
        )


def _unwritable(path: Path, why: str | None) -> UsageError:
    return UsageError(f"{path} cannot be written: {why}", hint="Name a file that you may write.")
