"""A store's judgments as one signed file, to be exported from one clone of a repository and
imported into another.

The file is compressed lines of JSON, one judgment each: keys, scores and reasons; no task, source
or path, and nothing of the user's own layer. An import is trusted if its signature is right, else
refused or quarantined; every row is checked before the first is written. Existing judgments win, so
a killed import is completed by repeating it. The signature (HMAC-SHA256) stands in the first line
and covers every byte after it, so nothing unsigned is unpacked. Anyone with the key can make every
machine believe any score, so it comes from the environment or a file of the user's alone.
Trade-offs: `since` is when a turn was last asked here; judgments of unknown contents are imported
too, until a prune removes them.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from sqlite3 import Connection
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from xscore.cache.judgment_store import insert_judgments, keep_untrusted
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import JudgmentKey
from xscore.cache.prune import find_judge_keys, judge_names, judged_turns
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreUntrusted, UsageError, newer_file_error
from xscore.platform.files import read_input_file, write_atomically
from xscore.platform.hashing import has_judgment_checksum, turn_checksum
from xscore.records.judgment import Judgment
from xscore.scorer.replies import printable_reason

KEY_BYTES = 32
MAX_BYTES = 1_000_000_000
_DISTINCT = 12
"""32 random key bytes have about 30 distinct values, and never fewer than this."""
_MAX_KEY_FILE_BYTES = 4_096
NEW_KEY_HINT = (
    "`xscore store key` prints a new one; keep it in XSCORE_CACHE_KEY, or in a file that only you"
    " can read."
)
FORM = 3
"""Of the file; in its first line and its signature."""
_PURPOSE = b"xscore cache export %d\0" % FORM
_HEADER = re.compile(rb"xscore-cache %d ([0-9a-f]{16}) ([0-9a-f]{64})\n" % FORM)
_ANY_HEADER = re.compile(rb"xscore-cache (\d{1,6}) ")
USE_ITS_KEY = (
    "Give the key that it was exported with, as XSCORE_CACHE_KEY or with --key-file; or take it"
    " with --untrusted into quarantine, where it orders work and never scores."
)
_ASK = (
    "Ask for a new export, or take it with --untrusted into quarantine, where it orders work and"
    " never scores."
)
EXPORT_HINT = "Name what `xscore store export` of this version wrote."


class ExchangeKey(Struct, frozen=True):
    """A key, and a displayable name for it."""

    secret: bytes

    def __repr__(self) -> str:
        return f"ExchangeKey({self.id})"

    @property
    def id(self) -> str:
        """Name the key in 16 hex characters that reveal nothing of it."""
        return hashlib.blake2b(self.secret, digest_size=8, person=b"xscore-cache").hexdigest()


def parse_exchange_key(text: str, *, where: str) -> ExchangeKey:
    """Read a key, 32 random bytes or more as hex.

    Raises UsageError; the message never shows the text.
    """
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) < KEY_BYTES:
        raise UsageError(
            f"{where} is not a key: a key has at least {KEY_BYTES} bytes, in hex", hint=NEW_KEY_HINT
        )
    if len(set(secret)) < _DISTINCT:
        raise UsageError(f"{where} is not a key: its bytes are not random", hint=NEW_KEY_HINT)
    return ExchangeKey(secret)


def exchange_key(text: str, path: Path | None) -> ExchangeKey | None:
    """Return the key in force: from the named file, else the text; None without either.

    Raises UsageError for a file that others may read.
    """
    if path is not None:
        content = read_input_file(
            path, max_bytes=_MAX_KEY_FILE_BYTES, hint=NEW_KEY_HINT, private=True
        )
        return parse_exchange_key(content.decode("ascii", "replace"), where=str(path))
    if text.strip():
        return parse_exchange_key(text, where="XSCORE_CACHE_KEY (cache.key)")
    return None


def _foreign_file_error(path: Path, data: bytes) -> UsageError:
    """Return why this is not a file that this xscore reads."""
    match = _ANY_HEADER.match(data)
    form = int(match[1]) if match else FORM
    if form > FORM:
        return newer_file_error(str(path), form, FORM)
    if form < FORM:
        return UsageError(
            f"{path} was made by an older xscore (schema {form}; this one reads {FORM})",
            hint="Export it again with `xscore store export` of this version.",
        )
    return UsageError(f"{path} is not a cache export", hint=EXPORT_HINT)


def signed(body: bytes, key: ExchangeKey) -> bytes:
    """Return a file: the header line, then the body."""
    return f"xscore-cache {FORM} {key.id} {_signature(body, key)}\n".encode() + body


def read_export(path: Path, key: ExchangeKey | None) -> bytes:
    """Return the body of a file signed with this key and unchanged since; without a key, of any
    export.

    Raises StoreUntrusted with the reason, UsageError for what is not an export.
    """
    data = read_input_file(path, max_bytes=MAX_BYTES, hint=EXPORT_HINT)
    header = _HEADER.match(data)
    if header is None:
        raise _foreign_file_error(path, data)
    body = data[header.end() :]
    by = header[1].decode()
    signature = header[2].decode()
    if key and by != key.id:
        raise StoreUntrusted(
            f"{path} is signed with another key ({by}; yours is {key.id})", hint=USE_ITS_KEY
        )
    if key and not hmac.compare_digest(signature, _signature(body, key)):
        raise StoreUntrusted(
            f"{path} was altered after it was signed, or damaged on its way", hint=_ASK
        )
    return body


def may_replace_export(path: Path) -> bool:
    """Whether the path is free, or holds an export signed by any key."""
    try:
        with path.open("rb") as file:
            head = file.read(128)
        return not head or _HEADER.match(head) is not None
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _signature(body: bytes, key: ExchangeKey) -> str:
    return hmac.new(key.secret, _PURPOSE + body, hashlib.sha256).hexdigest()


GROUP_ROWS = 50_000
"""Rows of one transaction, so that other processes wait only milliseconds."""
MAX_ROWS = 10_000_000
MAX_UNTRUSTED_ROWS = 1_000_000
_MAX_LINE_BYTES = 8_000
_PIECE_BYTES = 1_024
"""Unpacked at a time: at most 1 MB comes out of so little."""
_OF_TURN = """
    SELECT hash, score, prior, pack, position, checksum, coalesce(text, '')
    FROM judgment JOIN content ON content.id = judgment.content_id
    LEFT JOIN reason ON reason.query_id = judgment.query_id
      AND reason.content_id = judgment.content_id
    WHERE judgment.query_id = ? ORDER BY judgment.content_id
"""
_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Share = Annotated[float, Meta(ge=0, le=1)]


class ExchangeRow(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One judgment, as a row of the file."""

    turn_key: _Hash
    judge: _Hash
    """Judge key."""
    judge_name: Annotated[str, Meta(max_length=400)]
    """`provider:model` where it is known."""
    sample: Annotated[int, Meta(ge=0, le=1_000)]
    hash: _Hash
    """Of the content."""
    score: _Share
    prior: _Share
    pack: Annotated[str, Meta(max_length=64)]
    position: Annotated[int, Meta(ge=0, le=10_000)]
    reason: Annotated[str, Meta(max_length=4_000)]


class CacheExport(Struct):
    """The contents of the file."""

    judgments: int = 0
    turns: int = 0
    """Turns by one judge."""
    reasons: int = 0
    damaged: int = 0
    """Judgments left out because they do not match their checksum."""
    bytes: int = 0
    key: str = ""
    """Id of the key that signed."""


class CacheImport(Struct):
    """What an import did or would do."""

    judgments: int = 0
    """In the file."""
    added: int = 0
    known: int = 0
    """Judged here before, or twice in the file: the first is kept."""
    turns: int = 0
    """Turns by one judge in the file."""
    believed: bool = True
    """False: they are in quarantine."""
    key: str = ""
    """Id of the key that signed; empty: not checked."""


def export_judgments(
    connection: Connection,
    path: Path,
    key: ExchangeKey,
    *,
    judges: Sequence[str] = (),
    since: float = 0.0,
    reasons: bool = True,
) -> CacheExport:
    """Write the file, readable only by the user; replace only an earlier export.

    judges: names (`provider:model`) or beginnings of judge keys; none: every judge.
    since: Unix seconds; only turns asked then or later.
    reasons: whether to include them.
    Raises NothingMatched where there is nothing to write or a judge is unknown, UsageError,
    StoreError.
    """
    if path.exists() and not path.is_file():
        raise UsageError(
            f"{path} is not a file", hint="Name a file to write, such as judgments.xscore."
        )
    if not may_replace_export(path):
        raise UsageError(
            f"{path} exists and was not written by `xscore store export`",
            hint="Name another file, or remove this one first.",
        )
    report = CacheExport(key=key.id)
    packer = zlib.compressobj()
    rows = _rows(connection, report, judges=judges, since=since, reasons=reasons)
    with database.read_snapshot(connection):
        packed = [packer.compress(msgspec.json.encode(row) + b"\n") for row in rows]
    if not report.judgments:
        raise NothingMatched(
            "there is no judgment to export", hint="`xscore store cache` names the judges."
        )
    content = signed(b"".join([*packed, packer.flush()]), key)
    write_atomically(path, content, mode=0o600)
    report.bytes = len(content)
    return report


def _rows(
    connection: Connection,
    report: CacheExport,
    *,
    judges: Sequence[str],
    since: float,
    reasons: bool,
) -> Iterator[ExchangeRow]:
    """Yield the wanted rows that match their checksum, and count them."""
    names = judge_names(connection)
    keys = find_judge_keys(connection, judges)
    for turn in judged_turns(connection):
        if (turn.used_at or 0.0) < since or (judges and turn.judge not in keys):
            continue
        before = report.judgments
        begun = turn_checksum(turn.turn_key, turn.judge, turn.sample)
        of_turn = (turn.turn_key, turn.judge, names.get(turn.judge, ""), turn.sample)
        for hash_, score, prior, pack, at, checksum, text in connection.execute(
            _OF_TURN, (turn.query,)
        ):
            if not has_judgment_checksum(begun, (hash_, score, prior, pack, at), checksum):
                report.damaged += 1
                continue
            reason = text if reasons and isinstance(text, str) else ""
            report.judgments += 1
            report.reasons += bool(reason)
            yield ExchangeRow(*of_turn, hash_, score, prior, pack, at, reason)
        report.turns += report.judgments > before


def import_judgments(
    connection: Connection, path: Path, key: ExchangeKey | None, *, dry_run: bool = False
) -> CacheImport:
    """Import the judgments of a file signed with this key; without a key, quarantine the scores of
    any export.

    Raises StoreUntrusted for a file that is not signed with the key as it stands, UsageError for
    one that cannot be read.
    """
    body = read_export(path, key)
    report = CacheImport(believed=key is not None, key=key.id if key else "")
    row_limit = MAX_ROWS if report.believed else MAX_UNTRUSTED_ROWS
    for _ in _read_rows(body, path, row_limit):  # every row is checked before the first is written
        pass
    # Unpacked again, so that little is held in memory.
    latest = None
    rows = _read_rows(body, path, row_limit)
    while group := list(islice(rows, GROUP_ROWS)):
        with database.read_snapshot(connection) if dry_run else database.transaction(connection):
            for names, of_turn in groupby(
                group, key=lambda row: (row.turn_key, row.judge, row.sample)
            ):
                judgments = list(of_turn)
                # Of two with one content the first counts.
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
    connection: Connection, names: JudgmentKey, rows: Sequence[ExchangeRow], is_believed: bool
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


def _read_rows(data: bytes, path: Path, max_rows: int) -> Iterator[ExchangeRow]:
    """Yield the rows, each checked. Raises UsageError for a value that no judgment has."""
    decoder = msgspec.json.Decoder(ExchangeRow)
    number = 0
    try:
        for line in _unpacked_lines(data):
            if number == max_rows:
                hint = "Export less at a time: `xscore store export --since 30d`."
                raise UsageError(f"{path} holds more than {max_rows:,} judgments", hint=hint)
            row = decoder.decode(line)
            number += 1
            yield row
    except (ValueError, zlib.error) as error:
        reason = f"{path} is not a cache export: judgment {number + 1:,}: {str(error)[:200]}"
        raise UsageError(reason, hint=EXPORT_HINT) from error


def _unpacked_lines(data: bytes) -> Iterator[bytes]:
    """Yield the unpacked lines.

    Raises ValueError for a file that is cut short or goes on after its end.
    """
    unpacker = zlib.decompressobj()
    begun = b""
    at = 0
    while at < len(data) and not unpacker.eof:
        *complete, begun = (begun + unpacker.decompress(data[at : at + _PIECE_BYTES])).split(b"\n")
        at += _PIECE_BYTES
        yield from complete
        if len(begun) > _MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {_MAX_LINE_BYTES:,} bytes")
    if not unpacker.eof:
        raise ValueError("the file ends in the middle: it is cut short")
    if begun or unpacker.unused_data or at < len(data):
        raise ValueError("the file continues past its end")
