"""A report as tables for other programs (CSV and Parquet, by polars), and the files that `xscore report` may write.

A line a group, or a line a turn. Dollars are decimal strings in CSV and exact decimals in Parquet; times are UTC; a
figure that is missing is an empty cell. Text that a spreadsheet would take for a formula gets an apostrophe in CSV. A
file is replaced only if it is an earlier report: a mistyped name must not destroy a source file.
"""

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from xscore.cost_reports.records import CostReport, Group, TurnLine, counts_candidates
from xscore.platform.errors import UsageError
from xscore.platform.files import unwritable_file
from xscore.platform.paths import STORE_DIR
from xscore.records.calls import CounterfactualCost, Usage
from xscore.records.receipt import Coverage, Latency

if TYPE_CHECKING:
    import polars as pl


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_STAGES, _COVERAGE = Latency.__struct_fields__, Coverage.__struct_fields__
_SPENT = ("calls", "attempts", "rate_limited", "failed", "unpriced", "estimated")


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
    at = datetime.fromtimestamp(line.at, UTC)
    head = (line.id, at, line.repository, line.task, line.command, line.state, line.judge)
    return (*head, *_figures(line), *(_seconds(line.latency, stage) for stage in _STAGES))


def _seconds(took: Latency | None, stage: str) -> float | None:
    """None where it is not known, or no answering call was made."""
    if took is None or (stage == "primary" and not took.primary):
        return None
    return round(float(getattr(took, stage)), 6)


def _figures(line: Group | TurnLine, by: str = "") -> tuple[object, ...]:
    """Return the figures that `_schema` names."""
    spent, of = line.spent, line.coverage
    if isinstance(line, Group) and not counts_candidates(line, by):
        of = None
    return (
        *(astuple(of) if of else (None,) * len(_COVERAGE)),
        line.kept if of else None,
        *(getattr(spent, name) for name in _SPENT),
        *astuple(spent.usage),
        spent.cost_usd,
        *astuple(spent.otherwise),
    )


def _schema() -> dict[str, Any]:
    import polars as pl

    counts = (*_COVERAGE, "kept", *_SPENT, *Usage.__struct_fields__)
    dollars = ("cost_usd", *(f"{name}_usd" for name in CounterfactualCost.__struct_fields__))
    return {**dict.fromkeys(counts, pl.Int64), **dict.fromkeys(dollars, pl.Decimal(38, 12))}


BASELINE_OPTION = "--baseline"
FORM_OF_SUFFIX = {".html": "html", ".htm": "html", ".csv": "csv", ".parquet": "parquet", ".md": "markdown"}
_HEAD_BYTES = 4_096
_EARLIER = {
    "html": rb"(?s)<!doctype html>.*<title>xscore report",
    "csv": rb"(turn,at|[a-z]+,(turns|candidates)),",
    "parquet": rb"PAR1",
    "markdown": rb"## xscore report",
}
"""How an earlier report of this form begins."""


def form_of_file(path: Path) -> str:
    """Return the form that a file's suffix names. Raises UsageError for another suffix."""
    form = FORM_OF_SUFFIX.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"--output: {path} has no known suffix", hint=f"Use one of {', '.join(FORM_OF_SUFFIX)}.")
    return form


def check_outputs(outputs: Sequence[Path], baseline: Path | None, *, writes: bool) -> None:
    """Raise UsageError where not all of these files can be written, before one is. writes: the baseline as well."""
    named = [("--output", path) for path in outputs] + [(BASELINE_OPTION, baseline)] * (baseline is not None)
    taken: dict[Path, str] = {}
    for option, path in named:
        assert path is not None
        if path in (Path(), Path("-")):
            raise UsageError(f"{option} names no file", hint="Name a file.")
        place = Path(os.path.realpath(path))  # a loop of links is left as it is
        if place in taken:
            raise UsageError(f"{taken[place]} and {option} name the same file: {path}", hint="Give each its own.")
        taken[place] = option
        if option != BASELINE_OPTION:
            _refuse_foreign_file(form_of_file(path), path, place)
        elif writes:
            _refuse_store_folder(path, place)


def _refuse_store_folder(path: Path, place: Path) -> None:
    if STORE_DIR in place.parts:
        raise UsageError(f"{path} lies in a store's folder", hint="Name a file elsewhere.")


def _refuse_foreign_file(form: str, path: Path, place: Path) -> None:
    _refuse_store_folder(path, place)
    if not place.parent.is_dir():
        raise unwritable_file(path, "there is no such folder")
    if not place.is_file():
        return
    try:
        with place.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise unwritable_file(path, error.strerror) from error
    if head and not re.match(_EARLIER[form], head):
        raise UsageError(f"{path} is there and is no earlier report", hint="Name another file, or remove it first.")
