"""The table of an exported cache: its columns, how it is written in row groups, and how a stranger's is read.

Every value is checked before any is used: columns and types, no gaps, the shape of keys and hashes, scores within
0..1, lengths before texts. Among files that differ from a good one in a single byte are some at which the Parquet
reader ends its process or takes all memory: so an unsigned file is first read by a child with little memory and time
and none of our secrets (run as `-m`). Trade-off: one odd value refuses the whole file; the child takes a second.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from xscore.platform.errors import UsageError, XscoreError

if TYPE_CHECKING:
    import polars as pl


FORMAT = "1"
GROUP_ROWS = 50_000
"""Rows of one row group, and of one slice that is read."""
MAX_ROWS = 10_000_000
MAX_UNTRUSTED_ROWS = 1_000_000
_HEX = r"^[0-9a-f]{32}$"
_MAX_BYTES_OF = {"judge_name": 400, "pack": 64, "reason": 4_000}
"""Bytes."""
_MAX_VALUE = {"sample": 1_000, "position": 10_000}
_EXPORT_HINT = "Name what `xscore store export` of this version wrote."


class ExchangeRow(NamedTuple):
    """One judgment, as it travels."""

    turn_key: str
    judge: str
    """Judge key."""
    judge_name: str
    """`provider:model` where it is known."""
    sample: int
    hash: str
    """Of the content."""
    score: float
    prior: float
    pack: str
    position: int
    reason: str


def write_parquet(path: Path, groups: Callable[[], Iterator[list[ExchangeRow]]], *, signature: tuple[str, str]) -> None:
    """Write groups of rows, one held in memory at a time. signature: the entry's name and value. Raises OSError."""
    import polars as pl
    from polars.io.plugins import register_io_source

    failed: list[XscoreError] = []

    def frames(
        columns: list[str] | None, predicate: object, rows: int | None, size: int | None
    ) -> "Iterator[pl.DataFrame]":
        try:
            for group in groups():
                frame = pl.DataFrame(group, schema=_schema(), orient="row")
                yield frame.select(columns) if columns else frame
        except XscoreError as error:  # polars would hand on its words alone
            failed.append(error)
            raise

    whole = register_io_source(frames, schema=_schema())
    entries = {"xscore.format": FORMAT, signature[0]: signature[1]}
    try:
        whole.sink_parquet(
            path, row_group_size=GROUP_ROWS, statistics=False, metadata=entries, compression="zstd", mkdir=False
        )
    except pl.exceptions.PolarsError as error:
        raise (failed[0] if failed else error) from error


def count_parquet_rows(file: IO[bytes], *, name: Path, at_most: int) -> int:
    """Return how many rows a table says it has, where it is of our form. Raises UsageError."""
    import polars as pl

    with _reading(name):
        scan = _scan(file)
        if dict(scan.collect_schema()) != _schema():
            raise UsageError(f"{name} is no export of a cache: it has other columns", hint=_EXPORT_HINT)
        rows = int(scan.select(pl.len()).collect().item())
    if rows > at_most:
        raise UsageError(
            f"{name} holds {rows:,} judgments, more than the {at_most:,} that are taken at once",
            hint="Have less exported at a time: `xscore store export --since 30d`.",
        )
    return rows


def read_parquet_rows(file: IO[bytes], *, name: Path, rows: int) -> Iterator[list[ExchangeRow]]:
    """Yield the rows in slices, each checked. Raises UsageError for a value that no judgment has."""
    for start in range(0, rows, GROUP_ROWS):
        with _reading(name):
            frame = _scan(file).slice(start, GROUP_ROWS).collect()
            wrong = _find_fault(frame, expected=min(GROUP_ROWS, rows - start))
            if wrong:
                raise UsageError(f"{name} is no export of a cache: {wrong} (rows {start:,} and on)", hint=_EXPORT_HINT)
            found = list(map(ExchangeRow._make, frame.iter_rows()))
        yield found


def _schema() -> dict[str, Any]:
    import polars as pl

    types: dict[type, Any] = {str: pl.String(), int: pl.Int64(), float: pl.Float64()}
    return {name: types[kind] for name, kind in ExchangeRow.__annotations__.items()}


def _scan(file: IO[bytes]) -> "pl.LazyFrame":
    import polars as pl

    file.seek(0)
    return pl.scan_parquet(file)


@contextmanager
def _reading(name: Path) -> Iterator[None]:
    """Refuse what cannot be read as Parquet, whatever it does to the reader."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError, UnicodeError) as error:
        said = str(error).partition("\n")[0][:200]
        raise UsageError(f"{name} cannot be read as Parquet: {said}", hint=_EXPORT_HINT) from error


def _find_fault(frame: "pl.DataFrame", *, expected: int) -> str:
    """Say what is wrong with these rows; empty: nothing."""
    import polars as pl

    if frame.height != expected:
        return "it holds other rows than it says"
    within = {name: (pl.col(name).str.len_bytes() <= most) for name, most in _MAX_BYTES_OF.items()}
    whole = {name: pl.col(name).is_between(0, most) for name, most in _MAX_VALUE.items()}
    shares = {name: pl.col(name).is_between(0.0, 1.0) & pl.col(name).is_not_nan() for name in ("score", "prior")}
    sizes = {name: pl.col(name).str.len_bytes() == 32 for name in ("turn_key", "judge", "hash")}
    hexes = [(name, pl.col(name).str.contains(_HEX)) for name in sizes]
    for name, fits in [*(within | whole | shares | sizes).items(), *hexes]:  # lengths first: a pattern reads all
        if frame[name].null_count() or not frame.select(fits.all()).item():
            return f"a value of {name} is none"
    return ""


MEMORY_BYTES = 3_000_000_000
TIME_S = 120
"""Of CPU, and on the clock."""
EXIT_REFUSED = 2
"""Exit code of a child that read the file and found something wrong."""
CHILD_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT")
"""All that the child is told of the environment: where Python and its libraries are."""


def try_in_child(file: IO[bytes], *, name: Path, at_most: int, time_s: float = TIME_S) -> int:
    """Return how many rows the file has, each checked. Raises UsageError for one that cannot be read."""
    file.seek(0)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "xscore.extensions.exchange.cache_parquet", str(name), str(at_most)],
            stdin=file,
            capture_output=True,
            env=child_environment(os.environ),
            timeout=time_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_read(name, time_s) from error
    if done.returncode == 0:
        return int(done.stdout)
    if done.returncode == EXIT_REFUSED:
        message, _, hint = done.stdout.decode("utf-8", "replace").partition("\n")
        raise UsageError(message, hint=hint)
    raise _not_read(name, time_s)


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return what the child is told: no key, and one thread, since each sets memory aside."""
    return {name: ours[name] for name in CHILD_ENVIRONMENT if name in ours} | {"POLARS_MAX_THREADS": "1"}


def _not_read(name: Path, time_s: float) -> UsageError:
    return UsageError(
        f"{name} cannot be read as Parquet within {MEMORY_BYTES // 1_000_000_000} GB and {time_s:g} s",
        hint="Name what `xscore store export` of this version wrote.",
    )


def _read_to_end(name: Path, at_most: int) -> int:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_S, TIME_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with open(0, "rb", closefd=False) as file:
        rows = count_parquet_rows(file, name=name, at_most=at_most)
        for _ in read_parquet_rows(file, name=name, rows=rows):
            pass
    return rows


if __name__ == "__main__":
    try:
        print(_read_to_end(Path(sys.argv[1]), int(sys.argv[2])))
    except UsageError as error:
        print(f"{error.message}\n{error.hint}")
        sys.exit(EXIT_REFUSED)
