"""An exported cache read into a store: believed where its signature holds, else refused, or taken into quarantine.

The signature is looked at before anything is parsed, every row before the first is written. Rows are written in
transactions of `GROUP_ROWS`, so that others at work on the store wait for milliseconds; a judgment that is there wins,
so an import that was killed is completed by the same import again, and one that is repeated changes nothing. Trade-off:
judgments of contents that no memory here shows come in too, since the index may not know the files yet; a sweep of the
cache drops them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection

from xscore import database
from xscore.cache import exchange_form, exchange_seal, hearsay
from xscore.cache.exchange_form import MAX_ROWS, MAX_STRANGERS_ROWS, Row
from xscore.cache.exchange_key import ExchangeKey, no_key_to_check
from xscore.cache.exchange_trial import tried
from xscore.cache.judgments import insert_under, known_among, query_id
from xscore.cache.keys import Names
from xscore.records import Judgment

Reason = Callable[[str], str]
"""Makes one harmless line, without secrets, of what a model gave for a reason."""


@dataclass(slots=True)
class Imported:
    """What came of an import, or would."""

    judgments: int = 0
    """In the file."""
    added: int = 0
    known: int = 0
    """Judged here before, or given twice: what was there stays."""
    turns: int = 0
    """Turns by one judge in the file."""
    believed: bool = True
    """False: they are in quarantine."""
    key: str = ""
    """Id of the key that signed; empty: nobody looked."""


def import_cache(
    connection: Connection, path: Path, key: ExchangeKey | None, *, folder: Path, reason: Reason, dry_run: bool = False
) -> Imported:
    """Take over the judgments of a file that someone with this key signed. folder: of the store.

    Raises StoreUntrusted for a file that is not signed with it as it stands, UsageError for one that cannot be read.
    """
    if key is None:
        raise no_key_to_check()
    with exchange_seal.private_copy(path, beside=folder) as file:
        exchange_seal.check(file, key, name=path)
        rows = exchange_form.count(file, name=path, at_most=MAX_ROWS)
        for _ in exchange_form.read(file, name=path, rows=rows):
            pass
        found = Imported(key=key.id)
        _take(connection, exchange_form.read(file, name=path, rows=rows), found, _Judged(reason), dry_run=dry_run)
    return found


def import_hearsay(connection: Connection, path: Path, *, folder: Path, dry_run: bool = False) -> Imported:
    """Take the scores of any file into quarantine, whoever wrote it. Raises UsageError for one that cannot be read.

    A process of its own reads it first (`exchange_trial`).
    """
    with exchange_seal.private_copy(path, beside=folder) as file:
        rows = tried(file, name=path, at_most=MAX_STRANGERS_ROWS)
        found = Imported(believed=False)
        _take(connection, exchange_form.read(file, name=path, rows=rows), found, _Heard(), dry_run=dry_run)
    return found


def _take(
    connection: Connection, groups: Iterable[Sequence[Row]], found: Imported, keep: "_Judged | _Heard", *, dry_run: bool
) -> None:
    latest: Names | None = None
    for group in groups:
        with database.transaction(connection) if not dry_run else database.snapshot(connection):
            for names, rows in _by_turn(group):
                fresh = _fresh(connection, names, rows)
                found.judgments += len(rows)
                found.added += len(fresh) if dry_run or not fresh else keep(connection, names, fresh)
                found.turns += names != latest
                latest = names
    found.known = found.judgments - found.added


def _by_turn(group: Sequence[Row]) -> Iterator[tuple[Names, list[Row]]]:
    for (turn_key, judge, sample), rows in groupby(group, key=lambda row: (row.turn_key, row.judge, row.sample)):
        yield (turn_key, judge, sample), list(rows)


def _fresh(connection: Connection, names: Names, rows: Sequence[Row]) -> list[Row]:
    """Return those that are not judged here, each content once."""
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.hash, row)
    query = query_id(connection, names)
    known = {} if query is None else known_among(connection, names, query, first)
    return [row for row in first.values() if row.hash not in known]


@dataclass(frozen=True, slots=True)
class _Judged:
    """Keeps rows as judgments."""

    reason: Reason

    def __call__(self, connection: Connection, names: Names, rows: Sequence[Row]) -> int:
        judgments = [
            Judgment(
                row.hash, row.score, self.reason(row.reason) if row.reason else "", row.pack, row.position, row.prior
            )
            for row in rows
        ]
        insert_under(connection, judgments, names)
        return len(judgments)


@dataclass(frozen=True, slots=True)
class _Heard:
    """Keeps rows as hearsay."""

    def __call__(self, connection: Connection, names: Names, rows: Sequence[Row]) -> int:
        return hearsay.keep(connection, names, [(row.hash, row.score) for row in rows])
