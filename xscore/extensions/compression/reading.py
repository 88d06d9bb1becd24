"""Find the logs of a repository's sessions, and read one as turns.

A log longer than `TAIL_BYTES` is read from its end where an agent waits for it. Only regular files
of this user are opened, and no link is followed. Trade-off: a log that breaks its format is read as
far as it goes, and the rest is named.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from xscore.extensions.compression.recording import RECORDERS, TurnRecorder, recorder_of
from xscore.extensions.compression.session_turns import AgentSession
from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.aider import FILE as AIDER_FILE
from xscore.extensions.sessions.cline import FILE as CLINE_FILE
from xscore.extensions.sessions.session_lines import (
    MAX_LINE_BYTES,
    SessionLine,
    UnreadableSession,
)
from xscore.extensions.sessions.session_places import home_relative, is_of_repository
from xscore.extensions.sessions.session_reader import (
    LOG_ENDINGS,
    AgentFolders,
    LineDamage,
    SessionFile,
)
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.paths import RepositoryRoot

_META_BYTES = 2_000
"""How much of the start of a rollout is read for its name."""
TAIL_BYTES = 8 << 20
"""How much of the end of a longer log is read: about a quarter of a second."""


class SessionLog(Struct, frozen=True):
    """A log that holds a session."""

    file: SessionFile
    origin: str
    """The name of its format."""

    @property
    def modified_at(self) -> float:
        """When it was last written, in Unix seconds; 0 where it is gone."""
        try:
            return self.file.path.lstat().st_mtime
        except OSError:
            return 0.0


class SessionReading(Struct, frozen=True):
    """What came of reading a log."""

    session: AgentSession
    problem: str = ""
    """The first line that could not be read, and why; empty if all could. The others were
    read."""


def read_session(
    log: SessionLog,
    *,
    allow_pii: bool,
    home: Path,
    erased: Collection[str] = (),
    shown_whole: Collection[int] = (),
    tail_only: bool = False,
) -> SessionReading:
    """Read a log.

    erased: ids of memories; turns of an exchange that was erased are left out.
    shown_whole: numbers of turns whose outputs are wanted as they are.
    tail_only: read no more than `TAIL_BYTES`, from the end.

    Raises UnreadableSession, OSError.
    """
    path = log.file.path
    recorder = recorder_of(log.file, log.origin, allow_pii=allow_pii, shown_whole=shown_whole)
    with session_lines.open_session_file(path) as stream:
        is_tail = tail_only and _has_tail(log, stream)
        try:
            damage = _read_lines(log, stream, recorder, is_tail=is_tail)
        except UnreadableSession as error:  # nothing can be read from there on
            damage = error
            recorder.close()
    if damage and not recorder.is_known and not recorder.turns:
        raise damage
    recorder.finish()
    kept = tuple([turn for turn in recorder.turns if turn.memory_id not in erased])
    session = AgentSession(
        origin=log.origin,
        session=recorder.session,
        path=home_relative(path, home),
        turns=kept,
        changed=tuple(recorder.changed),
        items=tuple(recorder.items.values()),
        tokens=sum(turn.tokens for turn in kept),
        is_tail=is_tail,
    )
    return SessionReading(session, str(damage or ""))


def read_tail(
    path: Path, origin: str, *, allow_pii: bool, erased: Collection[str]
) -> AgentSession | None:
    """Return the session of a log that an agent named; None where it cannot be read as one.

    origin: a format; an agent whose logs are not read has none.
    """
    if origin not in RECORDERS or not _can_be_read(path):
        return None
    log = SessionLog(SessionFile(path), origin)
    try:
        read = read_session(
            log, allow_pii=allow_pii, home=Path.home(), erased=erased, tail_only=True
        )
    except (UnreadableSession, OSError):
        return None
    return read.session


def _has_tail(log: SessionLog, stream: BinaryIO) -> bool:
    size = os.fstat(stream.fileno()).st_size
    is_plain = not (log.file.is_json_array or session_lines.is_compressed(log.file.path))
    return is_plain and size > TAIL_BYTES


def _read_lines(
    log: SessionLog, stream: BinaryIO, recorder: TurnRecorder, *, is_tail: bool
) -> UnreadableSession | None:
    """Read the lines; return what was wrong with the first one that could not be read.

    An agent that was killed leaves half a line, and goes on behind it: what counts most is after.
    """
    damage = LineDamage()
    if log.file.is_json_array:
        lines = session_lines.read_array(stream)
    elif is_tail:
        lines = _tail_lines(stream)
    else:
        lines = session_lines.read_lines(log.file.path, stream)
    for line in lines:
        damage.read_line(recorder, line)
    return damage.first


def _tail_lines(stream: BinaryIO) -> Iterator[SessionLine]:
    """Yield the first line, in which some formats name the session, and those of the end."""
    first = stream.readline(MAX_LINE_BYTES)
    yield SessionLine(1, first.rstrip(b"\r\n"))
    stream.seek(-TAIL_BYTES, os.SEEK_END)
    stream.readline()  # the rest of a line whose start is not here
    number = 1
    while data := stream.readline(MAX_LINE_BYTES):
        number += 1
        if data.endswith(b"\n"):
            yield SessionLine(number, data.rstrip(b"\r\n"))


def find_log(root: RepositoryRoot, folders: AgentFolders, named: str) -> SessionLog:
    """Return the log that the user means.

    named: a file, or the start of a log's name, as agents name it by the session; empty: the
        log of this repository that was written last.

    Raises UsageError, NothingMatched.
    """
    path = Path(named).expanduser()
    if named and path.is_file():
        return _log_of_file(path.absolute())
    logs = list(_logs_here(root, folders))
    if named:
        matching = [log for log in logs if _names_log(named, log)]
        if not matching:
            raise NothingMatched(
                f"no session of this repository is named {named!r}",
                hint="Name a log file; without a name it is the latest session.",
            )
        logs = matching
    if not logs:
        raise NothingMatched(
            "no log of a coding agent names this repository as its folder",
            hint="Name the log file: xscore session compress FILE.",
        )
    return max(logs, key=lambda log: (log.modified_at, str(log.file.path)))


def _logs_here(root: RepositoryRoot, folders: AgentFolders) -> Iterator[SessionLog]:
    for origin, recorder in RECORDERS.items():
        for file in recorder.find(folders):
            if file.skip_reason or not _can_be_read(file.path):
                continue
            try:
                is_here = is_of_repository(root, file)
            except UnreadableSession:
                continue
            if is_here:
                yield SessionLog(file, origin)


def _can_be_read(path: Path) -> bool:
    return not session_lines.is_compressed(path) or session_lines.can_decompress()


def _names_log(named: str, log: SessionLog) -> bool:
    """Whether a session's id names this log; a rollout has it at the end of its name."""
    path = log.file.path
    stem = path.name.partition(".jsonl")[0]
    return stem.startswith(named) or stem.endswith(named) or path.parent.name == named


def _log_of_file(path: Path) -> SessionLog:
    """Return the log of a file that the user named. Raises UsageError."""
    name = path.name
    if name == CLINE_FILE:
        return SessionLog(SessionFile(path, is_json_array=True), "cline")
    if name.endswith(AIDER_FILE):
        return SessionLog(SessionFile(path, cwd=str(path.parent)), "aider")
    if name.endswith(LOG_ENDINGS) and _can_be_read(path):
        is_rollout = b'"session_meta"' in session_lines.read_head(path)[:_META_BYTES]
        return SessionLog(SessionFile(path), "codex" if is_rollout else "claude-code")
    raise UsageError(
        f"{name} does not have the name of a coding agent's log",
        hint="Logs of Claude Code and Codex (.jsonl), Aider (.aider.chat.history.md) and Cline"
        " (ui_messages.json) are read.",
    )
