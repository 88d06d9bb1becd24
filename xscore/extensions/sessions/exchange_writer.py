"""Which recorded folders belong to this repository, and how a file that was changed there is called from its root.

A folder counts when the repository around it is this one: worktrees, nested repositories and neighbours with a similar
name are others. Trade-off: a folder that is gone is judged by the nearest one above it that is there.

Exchanges as memories: one each, in the session layer, through the one door; and what failed in them as failures.

The question and the last answer are kept to `ASKED_CHARS` and `ANSWERED_CHARS`, with a mark where something is left
out; secrets are taken out before, so that no cut leaves half of one. The id is made of what tells the exchange apart,
so a copy is the same memory. Trade-off: only a failure with a way out is worth one, so a command that failed and was
not heard of again is told in the exchange alone.

How far each session file was read, so that the next import reads what is new: rows of `session_file`.

A file of the same size and time is not opened; one that only grew is read on; any other is read anew. Trade-off: a file
that is written anew with the same beginning and a larger size is taken for one that grew.

Exchanges go into the store in batches: memories, links, failures and bookmarks in one transaction each.

What is known, forgotten, put away or the user's own by now is left alone; an exchange that went on since is renewed.
A batch that never commits has left nothing. Trade-off: a file with more exchanges than a batch is committed in steps,
each to the end of an exchange.
"""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from xscore.extensions.sessions.exchange_builder import joined_path
from xscore.extensions.sessions.session_format import FailedCommand, ImportedExchange
from xscore.platform import database, hashing
from xscore.platform.database import damage_if_invalid
from xscore.platform.files import settled_mtime_ns
from xscore.platform.hashing import digest, file_digest
from xscore.platform.paths import RepositoryRoot, find_root, portable_name
from xscore.prompts.fences import shorten_middle
from xscore.records import Kind, Layer, Memory, MemoryDetails, MemorySource, MemoryStatus
from xscore.settings import MemorySettings
from xscore.store import failures, memory_writer
from xscore.store.events import EventName, emit_event
from xscore.store.mention_links import link_mentions
from xscore.store.redaction import redact
from xscore.store.remembering import TITLE_CHARS, first_line_title, redact_statement
from xscore.store.session_summary import exchange_text


class RepositoryFolder:
    """The repository as recorded folders see it."""

    def __init__(self, root: RepositoryRoot) -> None:
        self._root = root.path
        self._known: dict[str, bool] = {}

    def holds(self, cwd: str) -> bool:
        """Whether a recorded folder is the root or lies inside it, and in no other repository."""
        if cwd not in self._known:
            self._known[cwd] = self._looks(cwd)
        return self._known[cwd]

    def within(self, cwd: str, path: str) -> str:
        """Name a file from the root, as the index does; empty: it lies elsewhere."""
        if not cwd.startswith("/") or "\0" in cwd + path:
            return ""
        own, full = f"{self._root}{os.sep}", joined_path(cwd, path)
        if not full.startswith(own):
            full = os.path.realpath(full)
        return portable_name(full.removeprefix(own)) if full.startswith(own) else ""

    def _looks(self, cwd: str) -> bool:
        if not cwd.startswith("/") or "\0" in cwd:
            return False
        real = os.path.realpath(cwd)
        if real != str(self._root) and not real.startswith(f"{self._root}{os.sep}"):
            return False
        return real == str(self._root) or find_root(self._root / real).path == self._root


ASKED_CHARS = 4_000
ANSWERED_CHARS = 4_000
OUTPUT_CHARS = 1_200
COMMAND_CHARS = 400
FIX_CHARS = 800
CONFIDENCE = 0.6
"""What an agent once said is no more certain than what is inferred."""
_MARGIN_CHARS = 3_000
_SECRET_CHARS = 2_000
"""Longest secret on one line; a key of many lines is known by either of its ends."""
_PROBES = re.compile(r"(?:\S+=\S* )*(?:grep|rg|ag|ls|cat|head|find|fd|test|\[|which|command|diff|stat|pgrep)\b")
"""Commands that answer a question by failing."""
_ERROR = re.compile(r"error|exception|traceback|fail|panic|fatal|not found|undefined|cannot", re.IGNORECASE)


class ExchangeMemory(Struct, frozen=True):
    """An exchange on its way into the store."""

    memory: Memory
    lessons: tuple[FailedCommand, ...]
    """What became failures of the project; redacted and short."""
    answer: str
    """Short, for what mended them."""
    secrets: int


def exchange_memory(
    exchange: ImportedExchange, place: RepositoryFolder, *, now: float, allow_pii: bool = False
) -> ExchangeMemory:
    """Make the memory of an exchange. now: Unix seconds; no memory is of later than that."""
    asked, answered = _short(exchange.asked, ASKED_CHARS), _short(exchange.answered, ANSWERED_CHARS)
    failed = [_shortened_failure(each) for each in exchange.failures]
    paths = [place.within(exchange.cwd, path) for path in exchange.paths]
    paths = list(dict.fromkeys(path for path in paths if path))
    changed = f"Files changed: {', '.join(paths)}" if paths else ""
    at, ended = _no_later(exchange.at, now), _no_later(exchange.ended_at, now)
    memory, secrets = memory_writer.make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=_title(asked, allow_pii=allow_pii),
        text=exchange_text(asked, answered, *map(_failure_text, failed), changed),
        ordinal=imported_exchange_ordinal(exchange.origin, exchange.identity),
        particulars=MemoryDetails(origin=exchange.origin, session=exchange.session[:200], paths=tuple(paths)),
        confidence=CONFIDENCE,
        source=MemorySource.IMPORT,
        created_at=at,
        updated_at=max(at, ended),
        allow_pii=allow_pii,
    )
    return ExchangeMemory(memory, tuple(filter(lambda each: _is_lesson(each, answered), failed)), answered, secrets)


def _title(asked: str, *, allow_pii: bool) -> str:
    """The first line; what is cut is clean before, so that no half of a secret is left."""
    line = (asked.strip().splitlines() or [""])[0].strip()
    if len(line) <= TITLE_CHARS:
        return line
    return first_line_title(redact_statement(line[: TITLE_CHARS + _SECRET_CHARS], allow_pii=allow_pii))


def imported_exchange_ordinal(origin: str, identity: str) -> int:
    """Tell this exchange from all others."""
    return hashing.integer_id("past exchange", origin, identity)


def record_exchange_failures(
    connection: sqlite3.Connection, one: ExchangeMemory, *, pattern_at: int, allow_pii: bool
) -> list[str]:
    """Count the failures of an exchange, each once however often it is read; return their ids, to be linked."""
    memory, found = one.memory, list[str]()
    for failing in one.lessons:
        fix = shorten_middle(one.answer, FIX_CHARS)
        if failing.passed_later:
            fix = f"{fix}\n`{failing.command}` passed then.".strip()
        failure = failures.record_failure_within(
            connection,
            text=f"{failing.command}\n{failing.output}",
            resolution=fix,
            origin=memory.particulars.origin,
            session=memory.particulars.session,
            paths=memory.particulars.paths,
            seen_at=memory.created_at,
            occurrence=digest("past failure", memory.id, failing.command),
            pattern_at=pattern_at,
            allow_pii=allow_pii,
            link=False,
            told_by=memory.id,
        )
        found.append(failure.memory.id)
    return found


def _short(text: str, limit: int) -> str:
    """Keep both ends. Of a very long text only they are looked at, with so much beyond the cut as a secret takes."""
    if len(text) <= limit:
        return text
    if len(text) <= 4 * _MARGIN_CHARS:
        return shorten_middle(redact(text).text, limit)
    head, tail = limit // 3 + _MARGIN_CHARS, limit - limit // 3 + _MARGIN_CHARS
    first, last = redact(text[:head]).text[:-_SECRET_CHARS], redact(text[-tail:]).text[_SECRET_CHARS:]
    left = len(text) - limit
    return f"{first[: limit // 3]}\n[… {left} characters left out …]\n{last[-(limit - limit // 3) :]}"


def _shortened_failure(failing: FailedCommand) -> FailedCommand:
    output = redact(failing.output).text.strip() if len(failing.output) > OUTPUT_CHARS else failing.output.strip()
    tail = output if len(output) <= OUTPUT_CHARS else f"[…]\n{output[-OUTPUT_CHARS:]}"
    return FailedCommand(_short(failing.command, COMMAND_CHARS), tail, failing.passed_later)


def _failure_text(failing: FailedCommand) -> str:
    later = "\nThe same command passed later." if failing.passed_later else ""
    return f"Failed: `{failing.command}`\n{failing.output}".rstrip() + later


def _is_lesson(failing: FailedCommand, answered: str) -> bool:
    if not failing.output or _PROBES.match(failing.command):
        return False
    return failing.passed_later or bool(answered and _ERROR.search(failing.output))


def _no_later(at: float, now: float) -> float:
    return min(max(at, 0.0), now)


READERS_VERSION = 1
"""Version of all readers together: another one reads every file anew."""
_HEAD_BYTES = 4096


class Bookmark(Struct, frozen=True, kw_only=True):
    """What is known of a session file."""

    path: str
    origin: str
    size: int
    mtime_ns: int
    read_to: int
    head_hash: str
    note: str = ""
    state: Mapping[str, object] = field(default_factory=dict)

    @property
    def since(self) -> float:
        """From when on exchanges were taken."""
        return float(str(self.state.get("since", 0.0)))

    @property
    def is_current(self) -> bool:
        """Whether today's readers read it."""
        return self.state.get("readers") == READERS_VERSION


def home_relative(path: Path, home: Path) -> str:
    """Write a path as the store keeps it: text, with `~` for the home folder."""
    text = str(path)
    return portable_name(f"~{text.removeprefix(str(home))}" if text.startswith(f"{home}{os.sep}") else text)


def load_bookmark(connection: sqlite3.Connection, path: str) -> Bookmark | None:
    """Return what is known of a file."""
    row = connection.execute(
        "SELECT origin, size, mtime_ns, read_to, head_hash, note, state FROM session_file WHERE path = ?", (path,)
    ).fetchone()
    if row is None:
        return None
    with damage_if_invalid("a session file"):
        origin, size, mtime_ns, read_to, head_hash, note, state = row
        return Bookmark(
            path=path,
            origin=str(origin),
            size=int(size),
            mtime_ns=int(mtime_ns),
            read_to=int(read_to),
            head_hash=str(head_hash),
            note=str(note),
            state=dict(json.loads(state)),
        )


def save_bookmark(connection: sqlite3.Connection, bookmark: Bookmark, *, now: float) -> None:
    """Keep it, in the transaction that puts what was read."""
    connection.execute(
        "INSERT INTO session_file (path, origin, size, mtime_ns, read_to, head_hash, note, state, imported_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET origin = excluded.origin,"
        " size = excluded.size, mtime_ns = excluded.mtime_ns, read_to = excluded.read_to,"
        " head_hash = excluded.head_hash, note = excluded.note, state = excluded.state,"
        " imported_at = excluded.imported_at",
        (
            *(bookmark.path, bookmark.origin, bookmark.size, bookmark.mtime_ns, bookmark.read_to),
            *(bookmark.head_hash, bookmark.note, json.dumps(bookmark.state), now),
        ),
    )


def hash_head(file: BinaryIO, size: int) -> str:
    """Identify the beginning of a file that has `size` bytes at least; the file is left at its start."""
    length = min(size, _HEAD_BYTES)
    found = f"{length}:{file_digest(file.read(length))}"
    file.seek(0)
    return found


def is_same_file(file: BinaryIO, known: Bookmark) -> bool:
    """Whether the file begins as it did."""
    length = known.head_hash.partition(":")[0]
    return length.isdigit() and hash_head(file, int(length)) == known.head_hash


def seen_mtime_ns(info: os.stat_result, *, now: float) -> int:
    """The time to remember: 0 where a later write could leave the same."""
    return settled_mtime_ns(info, now=now)


BATCH_EXCHANGES = 500
BATCH_FILES = 200

StoredState = tuple[str, str, str, float]
"""Text hash, status, source, time of a memory that is there."""


class ExchangeWriter:
    """Collects what was read, and puts it away."""

    def __init__(self, connection: sqlite3.Connection, *, now: float, dry_run: bool, memory: MemorySettings) -> None:
        self._connection = connection
        self._now, self._dry_run, self._settings = now, dry_run, memory
        self._kept: list[ExchangeMemory] = []
        self._bookmarks: list[Bookmark] = []
        self._fresh = 0
        """Of `_kept`, how many are of the file that is being read."""
        self._seen: dict[str, StoredState] = {}
        """What a dry run would have put by now."""
        self.counts: Counter[str] = Counter()
        self.by_origin: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Whether it is time to put away what there is."""
        return len(self._kept) >= BATCH_EXCHANGES or len(self._bookmarks) >= BATCH_FILES

    def add(self, one: ExchangeMemory) -> None:
        """Take an exchange of the file that is being read."""
        self._kept.append(one)
        self._fresh += 1

    def discard(self) -> int:
        """Drop what came of the file that is being read and is not put away; return how much that was."""
        dropped, self._fresh = self._fresh, 0
        if dropped:
            del self._kept[-dropped:]
        return dropped

    def finish(self, bookmark: Bookmark) -> None:
        """The file is read: keep its bookmark with what came of it."""
        self._bookmarks.append(bookmark)
        self._fresh = 0

    def put_away(self, *so_far: Bookmark) -> None:
        """Commit what there is. so_far: of the file that is being read, up to its last whole exchange."""
        kept, marks = self._kept, [*self._bookmarks, *so_far]
        self._kept, self._bookmarks, self._fresh = [], [], 0
        if self._dry_run:
            self._settle(kept)
        elif kept or marks:
            with database.transaction(self._connection):
                chosen = self._settle(kept)
                self._write(chosen)
                for mark in marks:
                    save_bookmark(self._connection, mark, now=self._now)

    def _write(self, chosen: Sequence[ExchangeMemory]) -> None:
        if not chosen:
            return
        memory_writer.put_memories(self._connection, [one.memory for one in chosen])
        self.counts["links"] += link_mentions(self._connection, [one.memory.id for one in chosen])
        rules = self._settings
        failures = [
            failure
            for one in chosen
            for failure in record_exchange_failures(
                self._connection, one, pattern_at=rules.pattern_at, allow_pii=rules.allow_pii
            )
        ]
        if failures:
            link_mentions(self._connection, failures)
        first = chosen[0].memory
        told = {"layer": first.layer, "kind": first.kind, "source": first.source, "memories": len(chosen)}
        emit_event(self._connection, EventName.STORED, at=self._now, payload=told)

    def _settle(self, kept: Sequence[ExchangeMemory]) -> list[ExchangeMemory]:
        """Choose what is to be written, each id once, and count what becomes of the rest."""
        ids = [one.memory.id for one in kept]
        known = {**_known(self._connection, ids), **{id_: self._seen[id_] for id_ in ids if id_ in self._seen}}
        gone = _forgotten(self._connection, ids)
        chosen: dict[str, ExchangeMemory] = {}
        for one in kept:
            memory = one.memory
            became = "forgotten" if memory.id in gone else _outcome(memory, known.get(memory.id))
            self.counts[became] += 1
            if became not in ("added", "updated"):
                continue
            chosen[memory.id] = one
            known[memory.id] = (memory.text_hash, memory.status, memory.source, memory.updated_at)
            if self._dry_run:
                self._seen[memory.id] = known[memory.id]
            self.by_origin[memory.particulars.origin] += 1
            self.counts["secrets"] += one.secrets
            self.counts["failures"] += len(one.lessons)
        return list(chosen.values())


def _outcome(memory: Memory, known: StoredState | None) -> str:
    if known is None:
        return "added"
    text_hash, status, source, updated_at = known
    is_ours = status == MemoryStatus.ACTIVE and source == MemorySource.IMPORT
    went_on = text_hash != memory.text_hash and memory.updated_at >= updated_at
    return "updated" if is_ours and went_on else "known"


def _known(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, StoredState]:
    rows = connection.execute(
        "SELECT id, text_hash, status, source, updated_at FROM memory WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(ids),),
    )
    return {
        identifier: (text_hash, status, source, at) for identifier, text_hash, status, source, at in rows.fetchall()
    }


def _forgotten(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    rows = connection.execute(
        "SELECT memory_id FROM forgotten WHERE memory_id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
    )
    return {row[0] for row in rows.fetchall()}
