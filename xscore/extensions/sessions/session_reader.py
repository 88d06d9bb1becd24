"""What the readers of all formats share: the open exchange, and a file of unknown records that is
refused.

Every format reports events in order; only the agent's last words and the last failed commands are
kept. What was injected into them is removed (`prompts.injected_text`). To add a format, write a
subclass in a module of its own and name it in `importing.FORMATS`. Trade-offs: a command counts as
failed by its last run alone; a format sees one file at a time, so copies across files are
recognised by identity alone.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.sessions.session_lines import (
    SessionLine,
    UnreadableSession,
    parse_record,
)
from xscore.prompts.injected_text import cleaned_text, spoken_text, without_recall

LOG_ENDINGS = (".jsonl", ".jsonl.zst")
MAX_PATHS = 40
MAX_FAILURES = 5
MAX_CALLS = 200
"""Most commands that are tracked until they end."""
OUTPUT_CHARS = 32_000
"""Most characters kept of a failed command's output, from its end; the memory keeps less."""


class FailedCommand(Struct, frozen=True):
    """A command that failed during an exchange."""

    command: str
    output: str
    """The end of the command's output."""
    passed_later: bool = False
    """Whether the same command succeeded later in the exchange."""


class ImportedExchange(Struct, frozen=True, kw_only=True):
    """One task of a past session and its answer."""

    origin: str
    """Name of the format: `claude-code`, `codex`, `aider`, `cline`."""
    session: str
    """The agent's name for the session."""
    identity: str
    """Identity of the exchange, stable across copies and repeated reads."""
    asked: str
    """What the person typed, without injected text."""
    answered: str
    """The agent's last words."""
    at: float
    """Unix seconds of the question."""
    ended_at: float
    """Unix seconds of the last record."""
    cwd: str
    """The agent's working directory."""
    paths: tuple[str, ...] = ()
    """Changed files as the agent wrote them, in order of the first change."""
    failures: tuple[FailedCommand, ...] = ()


class AgentFolders(Struct, frozen=True):
    """Where agents keep their sessions."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path()
    """The repository to import for; absolute, symlinks resolved."""


class SessionFile(Struct, frozen=True):
    """A file that may hold exchanges of this repository."""

    path: Path
    is_in_repository: bool = False
    """Whether its location proves that it belongs to the repository; otherwise its recorded
    folder decides."""
    is_json_array: bool = False
    cwd: str = ""
    """The folder it belongs to, when its records do not name one."""
    skip_reason: str = ""
    """Why the file is skipped; empty to read it."""


class SessionReader:
    """Reads one session file, line by line, and keeps its exchanges."""

    origin: ClassVar[str]
    """Name of the format."""
    expected: ClassVar[str] = ""
    """The records that a file should have had if it has only unknown ones."""

    def __init__(self, file: SessionFile, keep: Callable[[ImportedExchange], None]) -> None:
        """keep: is given each exchange when it has ended."""
        self.file: SessionFile = file
        self._keep = keep
        self.is_known: bool = False
        """Whether a record is of this format."""
        self.first_unknown: int = 0
        """The number of the first line that is of another format."""
        self.kept: int = 0
        """Number of exchanges so far."""
        self._open: ImportedExchange | None = None
        self._answer = ""
        self._paths: dict[str, None] = {}
        self._failures: dict[str, FailedCommand] = {}
        self._commands: dict[str, str] = {}
        """Call id -> command that has not ended."""

    @staticmethod
    def find(folders: AgentFolders) -> Iterator[SessionFile]:
        """Yield every session file of the agent, for any repository."""
        raise NotImplementedError

    def read_line(self, line: SessionLine) -> None:
        """Read a line. Raises UnreadableSession."""
        if line.is_truncated:  # what a person typed ends the exchange; a tool's output does not
            if self.is_typed(line.data):
                self.close()
        elif (record := parse_record(line)) is not None:
            self.read_record(record, line)

    def is_typed(self, start: bytes) -> bool:
        """Whether the line that begins so is what a person typed."""
        return False

    def read_record(self, record: dict[str, Any], line: SessionLine) -> None:
        """Read a line's JSON. Raises UnreadableSession."""
        raise NotImplementedError

    def finish(self) -> None:
        """End the exchange that is still open.

        Raises UnreadableSession for a file of unknown records only.
        """
        if self.first_unknown and not self.is_known:
            raise UnreadableSession(self.first_unknown, self.expected)
        self.close()

    def known(self) -> None:
        """Note a record of this format."""
        self.is_known = True

    def unknown(self, line: SessionLine) -> None:
        """Note a record that is not of this format."""
        self.first_unknown = self.first_unknown or line.number

    @property
    def is_unanswered(self) -> bool:
        """Whether an exchange is open and the agent has done nothing about it."""
        return self._open is not None and not (self._answer or self._paths or self._failures)

    def ask(self, text: str, *, identity: str, session: str, at: float, cwd: str) -> bool:
        """End the open exchange and open one with the person's words; False: injected text, which
        opens none."""
        words = spoken_text(text)
        if not words:
            return False
        self.close()
        self._open = ImportedExchange(
            origin=self.origin,
            session=cleaned_text(session),
            identity=identity,
            asked=words,
            answered="",
            at=at,
            ended_at=at,
            cwd=cleaned_text(cwd),
        )
        return True

    def answer(self, text: str, *, at: float = 0.0) -> None:
        """Keep the agent's latest words."""
        if self._open is not None and text.strip():
            self._answer = text
            self._open = replace(self._open, ended_at=max(self._open.ended_at, at))

    def add_paths(self, *paths: str) -> None:
        """Record changed files."""
        for path in filter(None, paths if self._open else ()):
            if len(self._paths) < MAX_PATHS:
                self._paths[cleaned_text(path)] = None

    def command_started(self, call: str, command: str) -> None:
        """Record a command that began."""
        if self._open is not None and command.strip():
            self._commands[call] = cleaned_text(command).strip()
            if len(self._commands) > MAX_CALLS:
                del self._commands[next(iter(self._commands))]

    def command_ended(self, call: str, *, failed: bool, output: str = "") -> None:
        """Record how a command ended; only the first report of an end counts."""
        command = self._commands.pop(call, "")
        failures = self._failures
        if failed and command:
            failures.pop(command, None)
            failures[command] = FailedCommand(
                command, without_recall(cleaned_text(output[-OUTPUT_CHARS:]))
            )
            if len(failures) > MAX_FAILURES:
                del failures[next(iter(failures))]
        elif command in failures:
            failures[command] = replace(failures[command], passed_later=True)

    def tool_called(self, call: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Pass over a call of a tool that runs no command; an exchange is remembered without it."""

    def tool_returned(self, call: str, *, failed: bool, output: str) -> None:
        """Pass over what such a call returned."""

    def call_refused(self, call: str, words: str) -> None:
        """Skip a call that the person did not allow. words: the refusal that the agent saw."""

    def close(self) -> None:
        """End the open exchange, and keep it if it has an answer, a change or a failure."""
        ended = self._open
        answered = without_recall(cleaned_text(self._answer))
        paths = tuple(self._paths)
        failures = tuple(self._failures.values())
        self._open = None
        self._answer = ""
        self._paths = {}
        self._failures = {}
        self._commands = {}
        if ended is not None and (answered or failures or paths):
            self.kept += 1
            self._keep(replace(ended, answered=answered, paths=paths, failures=failures))


class LineDamage(Struct):
    """The lines of a file that could not be read."""

    lines: int = 0
    first: UnreadableSession | None = None

    def read_line(self, reader: SessionReader, line: SessionLine) -> None:
        """Read a line, or count it."""
        try:
            reader.read_line(line)
        except UnreadableSession as error:
            self.lines += 1
            self.first = self.first or error
            # It may have been a question: what follows must not answer an earlier one.
            reader.close()


def entries(folder: Path) -> list[Path]:
    """Return what is in a folder, sorted; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
