"""The formats that are read, by the name that `--from` takes. A new one is a module of its own and a line here.

Import the past sessions of a repository: find the files, read what is new, remember each exchange once.

A file that cannot be read as its format says is refused with the line and what was expected there; nothing that was
just read of it is kept, and the others go on. It neither runs by itself nor follows an agent at work. Trade-off: what
an agent is saying at the moment is taken as far as it goes, and renewed by the next import.
"""

import os
import stat
from collections.abc import Collection, Iterator
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.sessions import exchange_writer, session_lines
from xscore.extensions.sessions.aider import Aider
from xscore.extensions.sessions.claude_code import ClaudeCode
from xscore.extensions.sessions.cline import Cline
from xscore.extensions.sessions.codex import Codex
from xscore.extensions.sessions.exchange_writer import (
    READERS_VERSION,
    Bookmark,
    ExchangeWriter,
    RepositoryFolder,
    exchange_memory,
)
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
from xscore.store.store import Store

FORMATS: dict[str, SessionFormat] = {each.origin: each for each in (ClaudeCode(), Codex(), Aider(), Cline())}


_START = ReadPosition(0, 1, {})


def import_sessions(
    store: Store,
    places: AgentFolders,
    *,
    now: float,
    origins: Collection[str] = (),
    since: float = 0.0,
    dry_run: bool = False,
) -> SessionImportReport:
    """Take the exchanges of all agents, or of some, into the store.

    now, since: Unix seconds. dry_run: read and count, write nothing. Raises StoreError.
    """
    shelf = ExchangeWriter(store.connection, now=now, dry_run=dry_run, memory=store.settings)
    work = _Import(store, places, shelf, now=now, since=since)
    for format_ in FORMATS.values():
        if not origins or format_.origin in origins:
            for file in format_.find(places):
                work.file(format_, file)
    shelf.put_away()
    return work.report(dry_run=dry_run)


class _Opened(Struct):
    """A file that is being read."""

    file: SessionFile
    name: str
    info: os.stat_result
    head_hash: str
    known: Bookmark | None
    taken: int = 0
    """The last line of which something is in the store."""


class _Import:
    """One import: reads file after file, and keeps the account."""

    def __init__(self, store: Store, places: AgentFolders, shelf: ExchangeWriter, *, now: float, since: float) -> None:
        self._connection, self._places, self._shelf = store.connection, places, shelf
        self._place = RepositoryFolder(store.root)
        self._allow_pii = store.settings.allow_pii
        self._now, self._since = now, since
        self._files = self._unchanged = self._bytes = self._elsewhere = 0
        self._refused: list[RefusedFile] = []
        self._notes: list[str] = []

    def file(self, format_: SessionFormat, file: SessionFile) -> None:
        """Read one file, if it is of this repository and not as it was."""
        name = exchange_writer.home_relative(file.path, self._places.home)
        try:
            info = file.path.lstat()
            left_out = file.left_out or ("" if stat.S_ISREG(info.st_mode) else "no regular file")
            if left_out:
                self._notes.extend([f"{name}: left out, {left_out}"] if file.certain else [])
                return
            known = exchange_writer.load_bookmark(self._connection, name)
            if info.st_mtime < self._since or not (known or self._is_ours(format_, file)):
                return
            self._files += 1
            if known and self._is_as_it_was(known, info):
                self._unchanged += 1
                self._refuse_again(known)
                return
            with session_lines.open_session_file(file.path) as stream:
                seen = _Opened(file, name, os.fstat(stream.fileno()), "", known)
                seen.head_hash = exchange_writer.hash_head(stream, seen.info.st_size)
                self._read(format_, seen, stream)
        except UnreadableSession as error:
            self._refused.append(RefusedFile(name, file.origin, str(error)))
        except OSError as error:
            self._refused.append(RefusedFile(name, file.origin, f"it cannot be read: {error.strerror}"))

    def report(self, *, dry_run: bool) -> SessionImportReport:
        """Add up."""
        counts = self._shelf.counts
        named = ("added", "updated", "known", "forgotten", "failures", "links")
        told = {name: counts[name] for name in named}
        return SessionImportReport(
            dry_run=dry_run,
            files=self._files,
            unchanged=self._unchanged,
            bytes_read=self._bytes,
            exchanges=sum(counts[name] for name in named[:4]) + self._elsewhere,
            elsewhere=self._elsewhere,
            secrets_redacted=counts["secrets"],
            by_origin=dict(sorted(self._shelf.by_origin.items())),
            refused=tuple(self._refused),
            notes=tuple(self._notes),
            **told,
        )

    def _is_ours(self, format_: SessionFormat, file: SessionFile) -> bool:
        if file.certain:
            return True
        folders = [file.cwd] if file.cwd else format_.cwd_of(session_lines.read_head(file.path))
        return any(map(self._place.holds, folders))

    def _is_as_it_was(self, known: Bookmark, info: os.stat_result) -> bool:
        return (
            (known.size, known.mtime_ns) == (info.st_size, info.st_mtime_ns)
            and known.is_current
            and known.since <= self._since
        )

    def _refuse_again(self, known: Bookmark) -> None:
        if known.note:
            self._refused.append(RefusedFile(known.path, known.origin, known.note))

    def _read(self, format_: SessionFormat, seen: _Opened, stream: BinaryIO) -> None:
        start = self._start(seen, stream)
        self._bytes += max(0, seen.info.st_size - start.offset)
        reader = format_.reader(seen.file, start.state)
        line, too_long = None, 0
        try:
            for line in self._lines(seen, stream, start):
                too_long += line.is_cut
                exchange = reader.take(line)
                if exchange is None:
                    continue
                self._keep(exchange)
                if self._shelf.is_full:
                    start = reader.mark() or _after(line, reader)
                    seen.taken = max(seen.taken, start.number - 1)
                    self._shelf.put_away(
                        replace(self._bookmark(seen, start), size=0, mtime_ns=0)
                    )  # not read to its end
            stop = reader.mark() or (_after(line, reader) if line else start)
            exchange = reader.rest()
        except (UnreadableSession, OSError) as error:
            self._refuse(seen, start, str(error))
            return
        if exchange is not None:
            self._keep(exchange)
        if too_long:
            limit = session_lines.MAX_LINE_BYTES >> 20
            left_out = "1 line" if too_long == 1 else f"{too_long:,} lines"
            self._notes.append(f"{seen.name}: {left_out} of more than {limit} MiB left out")
        if line is not None and line.is_open and not seen.file.whole and not _is_whole(line):
            self._notes.append(f"{seen.name}: its last line is only half written; the next import reads it")
        if line is not None:
            seen.taken = line.number + line.lines - 1 - (line.is_open and not _is_whole(line))
        self._shelf.finish(self._bookmark(seen, stop))

    def _start(self, seen: _Opened, stream: BinaryIO) -> ReadPosition:
        """Go on where the last import stopped, if the file only grew and was read by the same rules."""
        known = seen.known
        if known is None or seen.file.whole or not known.is_current or known.since > self._since:
            return _START
        if seen.info.st_size < known.size or not exchange_writer.is_same_file(stream, known):
            return _START
        number, state, taken = (known.state.get(name) for name in ("line", "reader", "taken"))
        seen.taken = taken if isinstance(taken, int) else 0
        return ReadPosition(
            known.read_to, number if isinstance(number, int) else 1, state if isinstance(state, dict) else {}
        )

    def _lines(self, seen: _Opened, stream: BinaryIO, start: ReadPosition) -> Iterator[SessionLine]:
        if seen.file.whole:
            return session_lines.read_array(stream)
        path, speaking, place = seen.file.path, seen.file.speaking, {"offset": start.offset, "number": start.number}
        return (
            session_lines.read_runs(path, stream, speaking, **place)
            if speaking
            else session_lines.read_lines(path, stream, **place)
        )

    def _keep(self, exchange: ImportedExchange) -> None:
        if exchange.ended_at < self._since or not self._place.holds(exchange.cwd):
            self._elsewhere += 1
        else:
            self._shelf.add(exchange_memory(exchange, self._place, now=self._now, allow_pii=self._allow_pii))

    def _refuse(self, seen: _Opened, start: ReadPosition, reason: str) -> None:
        """Drop what was just read, and remember the refusal, so that the file is not read again until it changes."""
        self._shelf.discard()
        if seen.taken:
            reason += f"; what stands up to line {seen.taken:,} was taken"
        self._refused.append(RefusedFile(seen.name, seen.file.origin, reason))
        self._shelf.finish(self._bookmark(seen, start, note=reason))

    def _bookmark(self, seen: _Opened, at: ReadPosition, *, note: str = "") -> Bookmark:
        return Bookmark(
            path=seen.name,
            origin=seen.file.origin,
            size=seen.info.st_size,
            mtime_ns=exchange_writer.seen_mtime_ns(seen.info, now=self._now),
            read_to=at.offset,
            head_hash=seen.head_hash,
            note=note,
            state={
                "readers": READERS_VERSION,
                "since": self._since,
                "line": at.number,
                "taken": seen.taken,
                "reader": dict(at.state),
            },
        )


def _after(line: SessionLine, reader: SessionReader) -> ReadPosition:
    return ReadPosition(line.end, line.number + (line.lines if line.end > line.offset else 0), reader.state())


def _is_whole(line: SessionLine) -> bool:
    """Whether a last line without an end is a record all the same."""
    return not line.data.lstrip().startswith(b"{") or line.data.rstrip().endswith(b"}")
