"""The table of an exported cache: its columns, how it is written in row groups, and how a stranger's is read.

Every value is checked before any is used: the columns and their types, no gaps, keys and hashes by their shape, scores
within 0..1, texts by their length. A stranger's file is read a slice at a time, and lengths are looked at before a text
is made of it. It knows nothing of stores or signatures. Trade-off: one odd value refuses the whole file; ours has none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from xscore.errors import UsageError, XscoreError

if TYPE_CHECKING:  # 0.2 s of CPU that no other command pays
    import polars as pl

FORMAT = "1"
GROUP_ROWS = 50_000
"""Rows of one row group, and of one slice that is read."""
MAX_ROWS = 10_000_000
MAX_STRANGERS_ROWS = 1_000_000
_HEX = r"^[0-9a-f]{32}$"
_LONGEST = {"judge_name": 400, "pack": 64, "reason": 4_000}
"""Bytes."""
_MOST = {"sample": 1_000, "position": 10_000}
_OURS = "Name what `xscore cache export` of this version wrote."


class Row(NamedTuple):
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


def write(path: Path, groups: Callable[[], Iterator[list[Row]]], *, signature: tuple[str, str]) -> None:
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


def count(file: IO[bytes], *, name: Path, at_most: int) -> int:
    """Return how many rows a table says it has, where it is of our form. Raises UsageError."""
    import polars as pl

    with _reading(name):
        scan = _scan(file)
        if dict(scan.collect_schema()) != _schema():
            raise UsageError(f"{name} is no export of a cache: it has other columns", hint=_OURS)
        rows = int(scan.select(pl.len()).collect().item())
    if rows > at_most:
        raise UsageError(
            f"{name} holds {rows:,} judgments, more than the {at_most:,} that are taken at once",
            hint="Have less exported at a time: `xscore cache export --since 30d`.",
        )
    return rows


def read(file: IO[bytes], *, name: Path, rows: int) -> Iterator[list[Row]]:
    """Yield the rows in slices, each checked. Raises UsageError for a value that no judgment has."""
    for start in range(0, rows, GROUP_ROWS):
        with _reading(name):
            frame = _scan(file).slice(start, GROUP_ROWS).collect()
            wrong = _wrong(frame, expected=min(GROUP_ROWS, rows - start))
            if wrong:
                raise UsageError(f"{name} is no export of a cache: {wrong} (rows {start:,} and on)", hint=_OURS)
            found = list(map(Row._make, frame.iter_rows()))
        yield found


def _schema() -> dict[str, Any]:
    import polars as pl

    types: dict[type, Any] = {str: pl.String(), int: pl.Int64(), float: pl.Float64()}
    return {name: types[kind] for name, kind in Row.__annotations__.items()}


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
        raise UsageError(f"{name} cannot be read as Parquet: {said}", hint=_OURS) from error


def _wrong(frame: "pl.DataFrame", *, expected: int) -> str:
    """Say what is wrong with these rows; empty: nothing."""
    import polars as pl

    if frame.height != expected:
        return "it holds other rows than it says"
    within = {name: (pl.col(name).str.len_bytes() <= most) for name, most in _LONGEST.items()}
    whole = {name: pl.col(name).is_between(0, most) for name, most in _MOST.items()}
    shares = {name: pl.col(name).is_between(0.0, 1.0) & pl.col(name).is_not_nan() for name in ("score", "prior")}
    sizes = {name: pl.col(name).str.len_bytes() == 32 for name in ("turn_key", "judge", "hash")}
    for name, fits in (within | whole | shares | sizes).items():  # lengths first: a pattern would read them whole
        if frame[name].null_count() or not frame.select(fits.all()).item():
            return f"a value of {name} is none"
    hexes = {name: pl.col(name).str.contains(_HEX) for name in sizes}
    for name, fits in hexes.items():
        if not frame.select(fits.all()).item():
            return f"a value of {name} is none"
    return ""
