"""Import the past sessions of a repository: find the files, read what is new, remember each exchange once.

A file that does not follow its format is refused with the line and what was expected; nothing read from it since the
last commit is kept, and other files continue. It never runs by itself. Trade-off: the exchange an agent is working on
is imported as far as it goes, and updated by the next import. A new format is a module of its own and a name in
`FORMATS`.
"""

import os
import stat
from collections.abc import Collection, Iterator
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.aider import AIDER
from xscore.extensions.sessions.bookmarks import (
    READERS_VERSION,
    Bookmark,
    has_same_head,
    hash_head,
    home_relative,
    load_bookmark,
)
from xscore.extensions.sessions.claude_code import CLAUDE_CODE
from xscore.extensions.sessions.cline import CLINE
from xscore.extensions.sessions.codex import CODEX
from xscore.extensions.sessions.exchange_writer import ExchangeWriter, exchange_memory, is_in_repository
from xscore.extensions.sessions.session_format import (
    AgentFolders,
    ImportedExchange,
    ReadPosition,
    RefusedFile,
    SessionFile,
    SessionFormat,
    SessionImportReport,
    SessionLine,
    SessionReader,
    UnreadableSession,
)
from xscore.platform.files import settled_mtime_ns
from xscore.store.store import Store

FORMATS: dict[str, SessionFormat] = {each.origin: each for each in (CLAUDE_CODE, CODEX, AIDER, CLINE)}
_COUNTED = ("added", "updated", "known", "forgotten")
_BEGINNING = ReadPosition(0, 1, {})


def import_sessions(
    store: Store,
    folders: AgentFolders,
    *,
    now: float,
    origins: Collection[str] = (),
    since: float = 0.0,
    dry_run: bool = False,
) -> SessionImportReport:
    """Import the exchanges of all agents, or of some. now, since: unix seconds. Raises StoreError."""
    run = _Import(store, folders, now=now, since=since, dry_run=dry_run)
    for format_ in FORMATS.values():
        if not origins or format_.origin in origins:
            for file in format_.find(folders):
                run.import_file(format_, file)
    run.writer.commit()
    return run.report(dry_run=dry_run)


class _OpenedFile(Struct):
    file: SessionFile
    name: str
    info: os.stat_result
    head_hash: str
    taken: int = 0
    """The last line of which something is stored."""


class _Import:
    """One import: reads file after file and counts."""

    def __init__(self, store: Store, folders: AgentFolders, *, now: float, since: float, dry_run: bool) -> None:
        self.writer = ExchangeWriter(store.connection, now=now, dry_run=dry_run, memory=store.settings)
        self._connection, self._folders, self._root = store.connection, folders, store.root
        self._allow_pii = store.settings.allow_pii
        self._now, self._since = now, since
        self._files = self._unchanged = self._bytes = self._elsewhere = 0
        self._refused: list[RefusedFile] = []
        self._notes: list[str] = []

    def import_file(self, format_: SessionFormat, file: SessionFile) -> None:
        """Read one file if it belongs to this repository and changed."""
        name = home_relative(file.path, self._folders.home)
        try:
            info = file.path.lstat()
            skip_reason = file.skip_reason or ("" if stat.S_ISREG(info.st_mode) else "no regular file")
            if skip_reason:
                self._notes.extend([f"{name}: left out, {skip_reason}"] if file.is_in_repository else [])
                return
            known = load_bookmark(self._connection, name)
            if info.st_mtime < self._since or not (known or self._is_ours(file)):
                return
            self._files += 1
            same_file = known and (known.size, known.mtime_ns) == (info.st_size, info.st_mtime_ns)
            if known and same_file and known.is_current(self._since):
                self._unchanged += 1
                if known.note:
                    self._refused.append(RefusedFile(known.path, known.origin, known.note))
                return
            with session_lines.open_session_file(file.path) as stream:
                info = os.fstat(stream.fileno())
                self._read(format_, _OpenedFile(file, name, info, hash_head(stream, info.st_size)), known, stream)
        except UnreadableSession as error:
            self._refused.append(RefusedFile(name, file.origin, str(error)))
        except OSError as error:
            self._refused.append(RefusedFile(name, file.origin, f"it cannot be read: {error.strerror}"))

    def report(self, *, dry_run: bool) -> SessionImportReport:
        """Add up."""
        counts = self.writer.counts
        return SessionImportReport(
            dry_run=dry_run,
            files=self._files,
            unchanged=self._unchanged,
            bytes_read=self._bytes,
            exchanges=sum(counts[name] for name in _COUNTED) + self._elsewhere,
            elsewhere=self._elsewhere,
            secrets_redacted=counts["secrets"],
            by_origin=dict(sorted(self.writer.by_origin.items())),
            refused=tuple(self._refused),
            notes=tuple(self._notes),
            **{name: counts[name] for name in (*_COUNTED, "failures", "links")},
        )

    def _is_ours(self, file: SessionFile) -> bool:
        if file.is_in_repository:
            return True
        cwds = [file.cwd] if file.cwd else session_lines.recorded_folders(session_lines.read_head(file.path))
        return any(is_in_repository(self._root, cwd) for cwd in cwds)

    def _read(self, format_: SessionFormat, opened: _OpenedFile, known: Bookmark | None, stream: BinaryIO) -> None:
        start = _BEGINNING
        if known and self._can_resume(opened, known, stream):
            start, opened.taken = known.position(), known.taken
        self._bytes += max(0, opened.info.st_size - start.offset)
        reader = format_.reader(opened.file, start.state)
        line, truncated = None, 0
        try:
            for line in _lines(opened.file, stream, start):
                truncated += line.is_truncated
                exchange = reader.read_line(line)
                if exchange is not None:
                    self._add(exchange)
                    start = self._commit_if_full(opened, start, line, reader)
            stop = reader.position() or (_after(line, reader) if line else start)
            exchange = reader.finish()
        except (UnreadableSession, OSError) as error:
            self._refuse(opened, start, str(error))
            return
        if exchange is not None:
            self._add(exchange)
        if truncated:
            limit = session_lines.MAX_LINE_BYTES >> 20
            count = "1 line" if truncated == 1 else f"{truncated:,} lines"
            self._notes.append(f"{opened.name}: {count} of more than {limit} MiB left out")
        if line is not None:
            is_half_written = line.is_unterminated and not opened.file.is_json_array and not _is_complete(line)
            opened.taken = line.number - is_half_written
            if is_half_written:
                self._notes.append(f"{opened.name}: its last line is only half written; the next import reads it")
        self.writer.file_done(self._bookmark(opened, stop))

    def _can_resume(self, opened: _OpenedFile, known: Bookmark, stream: BinaryIO) -> bool:
        grew = opened.info.st_size >= known.size and not opened.file.is_json_array
        return grew and known.is_current(self._since) and has_same_head(stream, known)

    def _commit_if_full(
        self, opened: _OpenedFile, start: ReadPosition, line: SessionLine, reader: SessionReader
    ) -> ReadPosition:
        """Commit a full batch in the middle of a file; return where reading resumes after a crash."""
        if not self.writer.is_full:
            return start
        start = reader.position() or _after(line, reader)
        opened.taken = max(opened.taken, start.number - 1)
        unfinished = replace(self._bookmark(opened, start), size=0, mtime_ns=0)
        self.writer.commit(unfinished)
        return start

    def _add(self, exchange: ImportedExchange) -> None:
        if exchange.ended_at < self._since or not is_in_repository(self._root, exchange.cwd):
            self._elsewhere += 1
        else:
            self.writer.add(exchange_memory(exchange, self._root, now=self._now, allow_pii=self._allow_pii))

    def _refuse(self, opened: _OpenedFile, start: ReadPosition, reason: str) -> None:
        """Drop what was just read, and keep the refusal so that the file is not read again until it changes."""
        self.writer.discard()
        if opened.taken:
            reason += f"; what stands up to line {opened.taken:,} was taken"
        self._refused.append(RefusedFile(opened.name, opened.file.origin, reason))
        self.writer.file_done(self._bookmark(opened, start, note=reason))

    def _bookmark(self, opened: _OpenedFile, at: ReadPosition, *, note: str = "") -> Bookmark:
        return Bookmark(
            path=opened.name,
            origin=opened.file.origin,
            size=opened.info.st_size,
            mtime_ns=settled_mtime_ns(opened.info, now=self._now),
            read_to=at.offset,
            head_hash=opened.head_hash,
            note=note,
            state={
                "readers": READERS_VERSION,
                "since": self._since,
                "line": at.number,
                "taken": opened.taken,
                "reader": dict(at.state),
            },
        )


def _lines(file: SessionFile, stream: BinaryIO, start: ReadPosition) -> Iterator[SessionLine]:
    if file.is_json_array:
        return session_lines.read_array(stream)
    return session_lines.read_lines(file.path, stream, offset=start.offset, number=start.number)


def _after(line: SessionLine, reader: SessionReader) -> ReadPosition:
    return ReadPosition(line.end, line.number + (line.end > line.offset), reader.state())


def _is_complete(line: SessionLine) -> bool:
    """Whether a last line without a line end is a whole record."""
    return not line.data.lstrip().startswith(b"{") or line.data.rstrip().endswith(b"}")
