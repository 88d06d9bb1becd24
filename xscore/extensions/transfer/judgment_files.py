"""A store's judgments as one signed file, to be exported from one clone of a repository and
imported into another.

A record holds keys, a score and a reason; no task, source or path, and nothing of the user's
own layer. An import is trusted if its signature is right, otherwise refused or quarantined;
every record is checked before the first is written. Existing judgments win, so a killed import
is completed by repeating it. Trade-offs: `since` is when a turn was last asked here; judgments
of unknown contents are imported too, until a prune removes them.
"""

import stat
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from sqlite3 import Connection

from msgspec import Struct

from xscore.cache.judgment_store import insert_judgments, keep_untrusted
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import JudgmentKey
from xscore.cache.prune import find_judge_keys, judge_names, judged_turns
from xscore.extensions.transfer.older_files import is_judgments_line, upgrade_file
from xscore.extensions.transfer.saved_files import (
    Contents,
    SavedFile,
    decode_file,
    encode_file,
    is_signed_with,
    read_records,
)
from xscore.extensions.transfer.saved_records import SavedJudgment
from xscore.extensions.transfer.transfer_keys import TransferKey
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreUntrusted, UsageError
from xscore.platform.files import is_there, read_input_file, write_atomically
from xscore.platform.hashing import has_judgment_checksum, turn_checksum
from xscore.records.judgment import Judgment
from xscore.scorer.chat_replies import printable_reason

MAX_BYTES = 1_000_000_000
GROUP_ROWS = 50_000
"""Rows written in one transaction, so that other processes wait only milliseconds."""
MAX_ROWS = 10_000_000
MAX_UNTRUSTED_ROWS = 1_000_000
_HEAD_BYTES = 512
"""Longest first line, in bytes."""
USE_ITS_KEY = (
    "Give the key that it was exported with, as XSCORE_CACHE_KEY or with --key-file; or import it"
    " with --untrusted into quarantine, where it orders the work and never counts as a score."
)
_EXPORT_AGAIN = (
    "Ask for a new export, or import it with --untrusted into quarantine, where it orders the work"
    " and never counts as a score."
)
EXPORT_HINT = "Name a file that `xscore store export` wrote."
_JUDGMENTS_OF_TURN = """
    SELECT hash, score, prior, pack, position, checksum, coalesce(text, '')
    FROM judgment JOIN content ON content.id = judgment.content_id
    LEFT JOIN reason ON reason.query_id = judgment.query_id
      AND reason.content_id = judgment.content_id
    WHERE judgment.query_id = ? ORDER BY judgment.content_id
"""


def read_export(path: Path, key: TransferKey | None) -> SavedFile:
    """Return a file signed with this key and unchanged since; without a key, any file of judgments.

    Raises StoreUntrusted with the reason, UsageError for what is not a file of judgments.
    """
    data = read_input_file(path, max_bytes=MAX_BYTES, hint=EXPORT_HINT)
    name = str(path)
    data = upgrade_file(data, name, key, hint=EXPORT_HINT, max_judgments=_max_rows(key))
    file = decode_file(data, name, Contents.JUDGMENTS, hint=EXPORT_HINT)
    if key is None:
        return file
    signer = file.header.signer
    if not signer:
        raise StoreUntrusted(f"{path} is not signed", hint=_EXPORT_AGAIN)
    if signer != key.id:
        raise StoreUntrusted(
            f"{path} is signed with another key ({signer}; yours is {key.id})", hint=USE_ITS_KEY
        )
    if not is_signed_with(file, key):
        raise StoreUntrusted(
            f"{path} was altered after it was signed, or damaged in transit", hint=_EXPORT_AGAIN
        )
    return file


def may_replace_export(path: Path) -> bool:
    """Whether the path is free, or holds judgments exported by this xscore or an earlier one."""
    try:
        with path.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    first_line = head.partition(b"\n")[0]
    if not head or is_judgments_line(first_line):
        return True
    try:
        file = decode_file(first_line, str(path), Contents.JUDGMENTS, hint="")
    except UsageError:
        return False
    return bool(file.header.signature)


def _max_rows(key: TransferKey | None) -> int:
    if key is None:
        return MAX_UNTRUSTED_ROWS
    return MAX_ROWS


class JudgmentExport(Struct):
    """The contents of the file."""

    judgments: int = 0
    turns: int = 0
    """Number of turns by one judge."""
    reasons: int = 0
    damaged: int = 0
    """Judgments left out because they do not match their checksum."""
    bytes: int = 0
    key: str = ""
    """Id of the key that signed the file."""


class JudgmentImport(Struct):
    """What an import did or would do."""

    judgments: int = 0
    """Number of judgments in the file."""
    added: int = 0
    known: int = 0
    """Judgments that were known here, or are in the file twice: the first is kept."""
    turns: int = 0
    """Number of turns by one judge in the file."""
    believed: bool = True
    """Whether the judgments are believed; if not, they are in quarantine."""
    key: str = ""
    """Id of the key that signed the file; empty: not checked."""


def export_judgments(
    connection: Connection,
    path: Path,
    key: TransferKey,
    *,
    judges: Sequence[str] = (),
    since: float = 0.0,
    reasons: bool = True,
) -> JudgmentExport:
    """Write the file, readable only by the user; replace only an earlier export.

    judges: names (`provider:model`) or beginnings of judge keys; none: every judge.
    since: Unix seconds; only turns asked then or later.
    reasons: whether to include them.
    Raises NothingMatched where there is nothing to write or a judge is unknown, UsageError,
    StoreError.
    """
    if is_there(path) and not is_there(path, stat.S_ISREG):
        raise UsageError(
            f"{path} is not a file", hint="Name a file to write, such as judgments.xscore."
        )
    if not may_replace_export(path):
        raise UsageError(
            f"{path} exists and was not written by `xscore store export`",
            hint="Name another file, or remove this one first.",
        )
    report = JudgmentExport(key=key.id)
    rows = _rows(connection, report, judges=judges, since=since, reasons=reasons)
    with database.read_snapshot(connection):
        content = encode_file(Contents.JUDGMENTS, rows, key)
    if not report.judgments:
        raise NothingMatched(
            "there is no judgment to export", hint="`xscore store cache` lists the judges."
        )
    write_atomically(path, content, mode=0o600)
    report.bytes = len(content)
    return report


def _rows(
    connection: Connection,
    report: JudgmentExport,
    *,
    judges: Sequence[str],
    since: float,
    reasons: bool,
) -> Iterator[SavedJudgment]:
    """Yield the wanted rows that match their checksum, and count them."""
    names = judge_names(connection)
    keys = find_judge_keys(connection, judges)
    for turn in judged_turns(connection):
        if (turn.used_at or 0.0) < since or (judges and turn.judge not in keys):
            continue
        before = report.judgments
        begun = turn_checksum(turn.turn_key, turn.judge, turn.draw)
        of_turn = (turn.turn_key, turn.judge, names.get(turn.judge, ""), turn.draw)
        for hash_, score, prior, pack, at, checksum, text in connection.execute(
            _JUDGMENTS_OF_TURN, (turn.query,)
        ):
            if not has_judgment_checksum(begun, (hash_, score, prior, pack, at), checksum):
                report.damaged += 1
                continue
            reason = text if reasons and isinstance(text, str) else ""
            report.judgments += 1
            report.reasons += bool(reason)
            yield SavedJudgment(*of_turn, hash_, score, prior, pack, at, reason)
        report.turns += report.judgments > before


def import_judgments(
    connection: Connection, path: Path, key: TransferKey | None, *, dry_run: bool = False
) -> JudgmentImport:
    """Import the judgments of a file signed with this key; without a key, quarantine the scores of
    any export.

    Raises StoreUntrusted for a file without a signature by the key that fits what it holds,
    UsageError for one that cannot be read.
    """
    file = read_export(path, key)
    report = JudgmentImport(believed=key is not None, key=key.id if key else "")
    # Every row is checked before the first is written.
    for _ in _read_rows(file, key):
        pass
    # Unpacked again, so that little is held in memory.
    latest = None
    rows = _read_rows(file, key)
    while group := list(islice(rows, GROUP_ROWS)):
        with (
            database.read_snapshot(connection) if dry_run else database.transaction(connection)
        ):
            for names, of_turn in groupby(
                group, key=lambda row: (row.turn_key, row.judge, row.draw)
            ):
                judgments = list(of_turn)
                # If two have one content, the first counts.
                first = {row.hash: row for row in reversed(judgments)}
                stored = read_judgments(connection, names, first)
                fresh = [row for content, row in first.items() if content not in stored]
                report.judgments += len(judgments)
                if dry_run or not fresh:
                    report.added += len(fresh)
                else:
                    report.added += _keep(connection, names, fresh, report.believed)
                report.turns += names != latest
                latest = names
    report.known = report.judgments - report.added
    return report


def _keep(
    connection: Connection, names: JudgmentKey, rows: Sequence[SavedJudgment], is_believed: bool
) -> int:
    """Store rows as judgments, or in quarantine; return how many are new."""
    if not is_believed:
        return keep_untrusted(connection, names, [(row.hash, row.score) for row in rows])
    judgments = []
    for row in rows:
        judgments.append(
            Judgment(
                row.hash,
                row.score,
                row.reason and printable_reason(row.reason),
                row.pack,
                row.position,
                row.prior,
            )
        )
    insert_judgments(connection, judgments, names)
    return len(rows)


def _read_rows(file: SavedFile, key: TransferKey | None) -> Iterator[SavedJudgment]:
    """Yield the rows, each checked. Raises UsageError for a value that no judgment has, and for too
    many rows."""
    max_rows = _max_rows(key)
    # No person writes judgments by hand, so the same key twice is not an error.
    records = read_records(file, hint=EXPORT_HINT, checks_keys=False)
    for count, (_, record) in enumerate(records, start=1):
        if count > max_rows:
            raise UsageError(
                f"{file.name} holds more than {max_rows:,} judgments",
                hint="Export less at a time: `xscore store export --since 30d`.",
            )
        if isinstance(record, SavedJudgment):
            yield record
