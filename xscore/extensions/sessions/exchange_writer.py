"""Turn imported exchanges into memories and store them, file by file: memories, links, failures,
and what was read.

Each exchange becomes one memory of the session layer; only failures with a way out become failures
of the project. Question and answer are shortened with a mark, after secrets are removed, so that no
cut leaves half of one. Exchanges that are known, erased, archived or changed by the user are left
alone; one that continued is updated. Their age counts from the import. Trade-off: a file with more
exchanges than a batch is stored in steps, and read again from its start if that is cut short.
"""

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.extensions.sessions.session_places import relative_path
from xscore.extensions.sessions.session_reader import FailedCommand, ImportedExchange
from xscore.platform import database
from xscore.platform.files import changed_ns
from xscore.platform.hashing import digest
from xscore.platform.paths import RepositoryRoot
from xscore.prompts.fences import shorten_middle
from xscore.records.memory import Kind, Layer, Memory, MemoryDetails, MemorySource, MemoryStatus
from xscore.store import failures, memory_writer
from xscore.store.composing import TITLE_CHARS, first_line_title
from xscore.store.events import EventName, emit_event
from xscore.store.imported_memories import imported_exchange_ordinal
from xscore.store.memory_queries import MemoryState, memory_states
from xscore.store.memory_rows import IN_JSON_LIST
from xscore.store.memory_updates import note_access
from xscore.store.mention_links import link_mentions
from xscore.store.personal_data import redact_said
from xscore.store.redaction import redact
from xscore.store.session_summary import exchange_card, exchange_text
from xscore.store.store import Store

MAX_EXCHANGE_CHARS = 4_000
"""Most characters kept of the question, and of the answer."""
OUTPUT_CHARS = 1_200
COMMAND_CHARS = 400
FIX_CHARS = 800
CONFIDENCE = 0.6
"""Confidence in what an agent once said, as low as that of what is inferred."""
BATCH_FILES = 200
BATCH_EXCHANGES = 500
READERS_VERSION = 6
"""Version of all readers; files read by another version are read again."""
_SECRET_CHARS = 2_000
"""Longest secret on one line; a key of many lines is recognized by either end."""
_PROBES = re.compile(
    r"(?:[^\s=]+=\S* )*(?:grep|rg|ag|ls|cat|head|find|fd|test|\[|which|command|diff|stat|pgrep)\b"
)
"""Matches commands that answer a question by failing."""
_ERROR = re.compile(
    r"error|exception|traceback|fail|panic|fatal|not found|undefined|cannot", re.IGNORECASE
)


class ExchangeMemory(Struct, frozen=True):
    """An exchange on its way into the store."""

    memory: Memory
    failures: tuple[FailedCommand, ...]
    """Failed commands that become failures of the project; redacted and short."""
    answer: str
    """The answer in short, as the fix of the failures."""
    secrets: int


def exchange_memory(
    exchange: ImportedExchange, root: RepositoryRoot, *, now: float, allow_pii: bool = False
) -> ExchangeMemory:
    """Make the memory of an exchange. now: unix seconds; later times are clipped to it."""
    question = redact(_shorten(exchange.asked, MAX_EXCHANGE_CHARS), prose=True)
    question_text = question.text
    answered = _shorten(exchange.answered, MAX_EXCHANGE_CHARS)
    failed = [_shortened_failure(failure) for failure in exchange.failures]
    paths = dict.fromkeys(relative_path(root, exchange.cwd, path) for path in exchange.paths)
    paths.pop("", None)
    changed = f"Files changed: {', '.join(paths)}" if paths else ""
    further_parts = (*map(_failure_text, failed), changed)
    at, ended = (min(max(moment, 0.0), now) for moment in (exchange.at, exchange.ended_at))
    memory, secrets = memory_writer.make_memory(
        layer=Layer.SESSION,
        kind=Kind.EXCHANGE,
        title=_title(question_text, allow_pii=allow_pii),
        text=exchange_text(question_text, answered, *further_parts),
        card=exchange_card(answered, *further_parts),
        ordinal=imported_exchange_ordinal(exchange.origin, exchange.identity),
        details=MemoryDetails(
            imported_from=exchange.origin, session=exchange.session[:200], paths=tuple(paths)
        ),
        confidence=CONFIDENCE,
        source=MemorySource.IMPORT,
        created_at=at,
        updated_at=max(at, ended),
        allow_pii=allow_pii,
    )
    kept = tuple(failure for failure in failed if _is_worth_remembering(failure, answered))
    return ExchangeMemory(memory, kept, answered, secrets + question.count)


def _title(question: str, *, allow_pii: bool) -> str:
    """Return the first line; redacted before it is cut, so that no half of a secret is left."""
    line = (question.strip().splitlines() or [""])[0].strip()
    if len(line) <= TITLE_CHARS:
        return line
    return first_line_title(
        redact_said(line[: TITLE_CHARS + _SECRET_CHARS], allow_pii=allow_pii).text
    )


def _shorten(text: str, limit: int) -> str:
    """Keep both ends; redacted before the cut, so that no half of a secret is left."""
    if len(text) <= limit:
        return text
    return shorten_middle(redact(text).text, limit)


def _shortened_failure(failed: FailedCommand) -> FailedCommand:
    output = failed.output.strip()
    if len(failed.output) > OUTPUT_CHARS:
        output = redact(failed.output).text.strip()
        output = output if len(output) <= OUTPUT_CHARS else f"[…]\n{output[-OUTPUT_CHARS:]}"
    return FailedCommand(_shorten(failed.command, COMMAND_CHARS), output, failed.passed_later)


def _failure_text(failed: FailedCommand) -> str:
    later = ""
    if failed.passed_later:
        later = "\nThe same command passed later."
    return f"Failed: `{failed.command}`\n{failed.output}".rstrip() + later


def answers_by_failing(command: str) -> bool:
    """Whether a command answers a question by failing, as `grep` and `test` do."""
    return _PROBES.match(command) is not None


def _is_worth_remembering(failed: FailedCommand, answered: str) -> bool:
    if not failed.output or answers_by_failing(failed.command):
        return False
    return failed.passed_later or bool(answered and _ERROR.search(failed.output))


class ReadFile(Struct, frozen=True):
    """A session file as it was when it was read; one row of `session_file`."""

    path: str
    origin: str
    size: int
    mtime_ns: int
    readers: int
    """`READERS_VERSION` at the time of reading."""
    since: float
    """The `--since` it was read with, in Unix seconds."""
    note: str = ""
    """Why the file was refused; empty if it was not."""

    def is_current(self, info: os.stat_result, *, since: float) -> bool:
        """Whether it has not changed, and today's readers read it, from that time on or earlier."""
        is_same = (self.size, self.mtime_ns) == (info.st_size, changed_ns(info))
        return is_same and self.readers == READERS_VERSION and self.since <= since


def load_read_file(connection: sqlite3.Connection, path: str) -> ReadFile | None:
    """Return what is known about a session file."""
    columns = ", ".join(ReadFile.__struct_fields__)
    row = connection.execute(
        f"SELECT {columns} FROM session_file WHERE path = ?", (path,)
    ).fetchone()
    return ReadFile(*row) if row else None


class RefusedFile(Struct, frozen=True):
    """A file that could not be read."""

    path: str
    origin: str
    reason: str
    """The line, and what was expected there."""


class SessionImportReport(Struct, kw_only=True):
    """The result of one import."""

    dry_run: bool
    files: int = 0
    """Number of files of this repository."""
    unchanged: int = 0
    """How many of these were already imported and not opened."""
    bytes_read: int = 0
    exchanges: int = 0
    """Exchanges read: the sum of the next five figures."""
    added: int = 0
    updated: int = 0
    """Exchanges that were known and have continued since."""
    known: int = 0
    forgotten: int = 0
    """Exchanges that the user erased, so that they are not imported again."""
    elsewhere: int = 0
    """Exchanges of other folders, or older than `--since`."""
    failures: int = 0
    """Failing commands that became failures of the project."""
    links: int = 0
    """Edges to code that exchanges name."""
    secrets_redacted: int = 0
    by_origin: dict[str, int] = field(default_factory=Counter)
    """Exchanges added or updated, by origin."""
    damaged_lines: int = 0
    """Lines left out of files that were otherwise read."""
    refused: list[RefusedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class ExchangeWriter:
    """Collects what was read and commits it, some files at a time."""

    def __init__(
        self, store: Store, *, now: float, dry_run: bool = False, thread: str = ""
    ) -> None:
        """thread: the working session that the exchanges belong to."""
        self.now: float = now
        self.report: SessionImportReport = SessionImportReport(dry_run=dry_run)
        self._connection = store.connection
        self._settings = store.settings
        self._thread = thread
        self._pending: list[ExchangeMemory] = []
        self._files: list[ReadFile] = []
        self._seen: dict[str, MemoryState] = {}
        """State of what was stored so far, or would be in a dry run."""

    def add(self, exchanges: Sequence[ExchangeMemory], *read: ReadFile) -> None:
        """Take exchanges, and the file that was read to its end with them; commit when there are
        enough."""
        self._pending += exchanges
        self._files += read
        if len(self._pending) >= BATCH_EXCHANGES or len(self._files) >= BATCH_FILES:
            self.commit()

    def commit(self) -> None:
        """Commit what is pending."""
        pending = self._pending
        files = self._files
        self._pending = []
        self._files = []
        if self.report.dry_run:
            self._choose(pending)
        elif pending or files:
            with database.transaction(self._connection):
                if chosen := self._choose(pending):
                    self._write(chosen)
                self._connection.executemany(
                    "INSERT OR REPLACE INTO session_file VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    [(*astuple(file), self.now) for file in files],
                )

    def finish(self) -> SessionImportReport:
        """Commit what is pending, and add up."""
        self.commit()
        report = self.report
        report.exchanges = (
            report.added + report.updated + report.known + report.forgotten + report.elsewhere
        )
        report.by_origin = dict(sorted(report.by_origin.items()))
        return report

    def _write(self, chosen: Sequence[ExchangeMemory]) -> None:
        exchanges = [exchange.memory.id for exchange in chosen]
        memory_writer.put_memories(
            self._connection, [exchange.memory for exchange in chosen], thread=self._thread
        )
        self.report.links += link_mentions(self._connection, exchanges)
        failed: list[str] = []
        for exchange in chosen:
            failed += [self._record_failure(exchange, failure) for failure in exchange.failures]
        if failed:
            link_mentions(self._connection, failed)
        # Today's import does not count as unused for a year, however old the session: consolidation
        # counts from here.
        note_access(self._connection, [*failed, *exchanges], now=self.now)
        first = chosen[0].memory
        payload = {
            "layer": first.layer,
            "kind": first.kind,
            "source": first.source,
            "memories": len(chosen),
        }
        emit_event(self._connection, EventName.STORED, at=self.now, payload=payload)

    def _record_failure(self, exchange: ExchangeMemory, failed: FailedCommand) -> str:
        """Count a failure of an exchange, once however often it is read; return its id."""
        memory = exchange.memory
        fix = shorten_middle(exchange.answer, FIX_CHARS)
        resolution = fix
        if failed.passed_later:
            resolution = f"{fix}\n`{failed.command}` passed then.".strip()
        details = MemoryDetails(
            resolution=resolution,
            imported_from=memory.details.imported_from,
            session=memory.details.session,
            paths=memory.details.paths,
        )
        met = failures.Occurrence(
            text=f"{failed.command}\n{failed.output}",
            details=details,
            seen_at=memory.created_at,
            name=digest("past failure", memory.id, failed.command),
            source_exchange=memory.id,
        )
        pattern_at = self._settings.pattern_at
        allow_pii = self._settings.allow_pii
        return failures.record_failure_within(
            self._connection, met, pattern_at=pattern_at, allow_pii=allow_pii, link=False
        ).memory.id

    def _choose(self, pending: Sequence[ExchangeMemory]) -> list[ExchangeMemory]:
        """Choose what to write, each id once, and count what happens to the rest."""
        identifiers = [exchange.memory.id for exchange in pending]
        stored_states = memory_states(self._connection, identifiers)
        # What this import has written counts as stored.
        stored_states |= self._seen
        erased = f"SELECT memory_id FROM erased_memory WHERE memory_id {IN_JSON_LIST}"
        forgotten = {
            id_ for (id_,) in self._connection.execute(erased, (json.dumps(identifiers),))
        }
        chosen: dict[str, ExchangeMemory] = {}
        for exchange in pending:
            memory = exchange.memory
            report = self.report
            if memory.id in forgotten:
                outcome = "forgotten"
            else:
                outcome = _outcome(memory, stored_states.get(memory.id))
            setattr(report, outcome, getattr(report, outcome) + 1)
            if outcome in ("added", "updated"):
                chosen[memory.id] = exchange
                stored_states[memory.id] = MemoryState(
                    memory.text_hash,
                    memory.status,
                    memory.source,
                    memory.updated_at,
                )
                report.by_origin[memory.details.imported_from] += 1
                report.secrets_redacted += exchange.secrets
                report.failures += len(exchange.failures)
        self._seen |= {id_: stored_states[id_] for id_ in chosen}
        return list(chosen.values())


def _outcome(memory: Memory, stored: MemoryState | None) -> str:
    """Name the field of the report that counts it."""
    if stored is None:
        return "added"
    is_ours = stored.status == MemoryStatus.ACTIVE and stored.source == MemorySource.IMPORT
    continued = stored.text_hash != memory.text_hash and memory.updated_at >= stored.updated_at
    if is_ours and continued:
        return "updated"
    return "known"
