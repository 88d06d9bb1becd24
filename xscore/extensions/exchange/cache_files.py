"""A store's judgments as one signed Parquet file, out of one clone of a repository and into another.

It reveals keys, scores and reasons: no task, no source, no path, nothing of the user's own layer. An import is believed
where its signature holds, else refused or quarantined; every row is checked before the first is written. A judgment
that is there wins, so a killed import is completed by repeating it. Trade-offs: `since` goes by when a turn was last
asked here; judgments of unknown contents come in too, until a prune drops them.
"""

import os
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from msgspec import Struct

from xscore.cache.judgments import find_query, insert_judgments_under, keep_untrusted, known_judgments
from xscore.cache.keys import JudgmentKey
from xscore.cache.prune import JudgedTurn, find_judge_keys, judge_names, judged_turns
from xscore.extensions.exchange import cache_parquet, cache_signature
from xscore.extensions.exchange.cache_parquet import GROUP_ROWS, MAX_ROWS, MAX_UNTRUSTED_ROWS, ExchangeRow, try_in_child
from xscore.extensions.exchange.cache_signature import USE_ITS_KEY, ExchangeKey
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.hashing import judgment_checksums, turn_checksum
from xscore.records import Judgment

_OF_TURN = """
    SELECT hash, score, prior, pack, position, checksum, coalesce(text, '')
    FROM judgment JOIN content ON content.id = judgment.content_id
    LEFT JOIN reason ON reason.query_id = judgment.query_id AND reason.content_id = judgment.content_id
    WHERE judgment.query_id = ? ORDER BY judgment.content_id
"""


class ExportFilter(Struct, frozen=True):
    """Which judgments."""

    judges: tuple[str, ...] = ()
    """Names (`provider:model`) or beginnings of judge keys (`find_judge_keys`); none: every judge."""
    since: float | None = None
    """Unix seconds; those of turns that were asked then or later."""
    reasons: bool = True


class CacheExport(Struct):
    """What went into the file."""

    judgments: int = 0
    turns: int = 0
    """Turns by one judge."""
    reasons: int = 0
    damaged: int = 0
    """Judgments that stayed behind, since they do not fit their checksum."""
    bytes: int = 0
    key: str = ""
    """Id of the key that signed."""


def export_judgments(connection: Connection, path: Path, key: ExchangeKey, wanted: ExportFilter) -> CacheExport:
    """Write the file, readable by the user alone; replace an earlier export, and nothing else.

    Raises NothingMatched where there is nothing to write or a judge is unknown, UsageError, StoreError.
    """
    place = path.resolve()
    if place.exists() and not place.is_file():
        raise UsageError(f"{path} is not a file", hint="Name a file to write, such as cache.parquet.")
    if not cache_signature.may_replace_export(place):
        raise UsageError(
            f"{path} is there and was not written by `xscore store export`",
            hint="Name another file, or remove this one first.",
        )
    found = CacheExport(key=key.id)
    aside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with database.read_snapshot(connection):
                turns = _chosen_turns(connection, wanted)
                entry = (cache_signature.SIGNATURE_ENTRY, cache_signature.unsigned_entry(key))
                cache_parquet.write_parquet(aside, lambda: _groups(connection, turns, wanted, found), signature=entry)
            if not found.judgments:
                raise NothingMatched("there is no judgment to export", hint="`xscore store cache` names the judges.")
            with aside.open("r+b") as file:
                cache_signature.sign_file(file, key)
                file.flush()
                os.fsync(file.fileno())
                found.bytes = file.seek(0, os.SEEK_END)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Name a file that you may write."
        ) from error
    return found


def _chosen_turns(connection: Connection, wanted: ExportFilter) -> list[tuple[JudgedTurn, str]]:
    """Return the turns that are wanted, each with its judge's name where that is known."""
    names, meant = judge_names(connection), find_judge_keys(connection, wanted.judges)
    return [
        (turn, names.get(turn.judge, ""))
        for turn in judged_turns(connection)
        if (wanted.since is None or (turn.used_at or 0.0) >= wanted.since)
        and (not wanted.judges or turn.judge in meant)
    ]


def _groups(
    connection: Connection, turns: list[tuple[JudgedTurn, str]], wanted: ExportFilter, found: CacheExport
) -> Iterator[list[ExchangeRow]]:
    group: list[ExchangeRow] = []
    for turn, name in turns:
        reader = connection.execute(_OF_TURN, (turn.query,))
        before = found.judgments
        while rows := reader.fetchmany(GROUP_ROWS):
            for row in _checked_rows(turn, name, rows, found, reasons=wanted.reasons):
                group.append(row)
                if len(group) == GROUP_ROWS:
                    yield group
                    group = []
        found.turns += found.judgments > before
    if group:
        yield group


def _checked_rows(
    turn: JudgedTurn, name: str, rows: list[tuple[Any, ...]], found: CacheExport, *, reasons: bool
) -> Iterator[ExchangeRow]:
    """Yield what fits its checksum."""
    begun = turn_checksum(turn.turn_key, turn.judge, turn.sample)
    for hash_, score, prior, pack, position, checksum, reason in rows:
        try:
            fits = judgment_checksums(begun, [(hash_, score, prior, pack, position)]) == [checksum] and 0 <= score <= 1
        except (ValueError, TypeError, AttributeError, struct.error):
            fits = False
        if not fits:
            found.damaged += 1
            continue
        told = reason if reasons and isinstance(reason, str) else ""
        found.judgments += 1
        found.reasons += bool(told)
        yield ExchangeRow(turn.turn_key, turn.judge, name, turn.sample, hash_, score, prior, pack, position, told)


CleanReason = Callable[[str], str]
"""Makes one harmless line, without secrets, of a model's reason."""


class CacheImport(Struct):
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


def import_judgments(
    connection: Connection,
    path: Path,
    key: ExchangeKey | None,
    *,
    folder: Path,
    reason: CleanReason,
    dry_run: bool = False,
) -> CacheImport:
    """Import the judgments of a file that someone with this key signed. folder: of the store.

    Raises StoreUntrusted for a file that is not signed with it as it stands, UsageError for one that cannot be read.
    """
    if key is None:
        raise UsageError("there is no key to check the file with", hint=USE_ITS_KEY)
    with cache_signature.private_copy(path, beside=folder) as file:
        cache_signature.check_signature(file, key, name=path)
        rows = cache_parquet.count_parquet_rows(file, name=path, at_most=MAX_ROWS)
        for _ in cache_parquet.read_parquet_rows(file, name=path, rows=rows):
            pass
        found = CacheImport(key=key.id)

        def keep(names: JudgmentKey, rows: Sequence[ExchangeRow]) -> int:
            insert_judgments_under(connection, [_judgment(row, reason) for row in rows], names)
            return len(rows)

        _import_rows(connection, cache_parquet.read_parquet_rows(file, name=path, rows=rows), found, keep, dry_run)
    return found


def import_untrusted(connection: Connection, path: Path, *, folder: Path, dry_run: bool = False) -> CacheImport:
    """Quarantine the scores of any file, whoever wrote it; another process reads it first.

    Raises UsageError for one that cannot be read.
    """
    with cache_signature.private_copy(path, beside=folder) as file:
        rows = try_in_child(file, name=path, at_most=MAX_UNTRUSTED_ROWS)
        found = CacheImport(believed=False)

        def keep(names: JudgmentKey, rows: Sequence[ExchangeRow]) -> int:
            return keep_untrusted(connection, names, [(row.hash, row.score) for row in rows])

        _import_rows(connection, cache_parquet.read_parquet_rows(file, name=path, rows=rows), found, keep, dry_run)
    return found


def _import_rows(
    connection: Connection,
    groups: Iterable[Sequence[ExchangeRow]],
    found: CacheImport,
    keep: Callable[[JudgmentKey, Sequence[ExchangeRow]], int],
    dry_run: bool,
) -> None:
    """Write each group in a transaction of its own, so that others at work on the store wait for milliseconds."""
    latest: JudgmentKey | None = None
    for group in groups:
        with database.transaction(connection) if not dry_run else database.read_snapshot(connection):
            for names, rows in _by_turn(group):
                fresh = _fresh(connection, names, rows)
                found.judgments += len(rows)
                found.added += len(fresh) if dry_run or not fresh else keep(names, fresh)
                found.turns += names != latest
                latest = names
    found.known = found.judgments - found.added


def _by_turn(group: Sequence[ExchangeRow]) -> Iterator[tuple[JudgmentKey, list[ExchangeRow]]]:
    for (turn_key, judge, sample), rows in groupby(group, key=lambda row: (row.turn_key, row.judge, row.sample)):
        yield (turn_key, judge, sample), list(rows)


def _fresh(connection: Connection, names: JudgmentKey, rows: Sequence[ExchangeRow]) -> list[ExchangeRow]:
    """Return those that are not judged here, each content once."""
    first: dict[str, ExchangeRow] = {}
    for row in rows:
        first.setdefault(row.hash, row)
    query = find_query(connection, names)
    known = {} if query is None else known_judgments(connection, names, query, first)
    return [row for row in first.values() if row.hash not in known]


def _judgment(row: ExchangeRow, clean: CleanReason) -> Judgment:
    return Judgment(row.hash, row.score, clean(row.reason) if row.reason else "", row.pack, row.position, row.prior)
