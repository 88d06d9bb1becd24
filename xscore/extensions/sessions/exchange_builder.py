"""The open exchange while a session file is read.

Every format reports events in order; only the agent's last words and the last failed commands are kept. What was
injected into them is removed (`prompts.injected_text`). Trade-off: a command counts as failed by its last run alone.
"""

from msgspec.structs import replace

from xscore.extensions.sessions.session_format import FailedCommand, ImportedExchange
from xscore.prompts.injected_text import cleaned_text, spoken_text, without_recall

MAX_PATHS = 40
MAX_FAILURES = 5
MAX_CALLS = 200
"""Commands that have not ended."""
OUTPUT_CHARS = 32_000
"""Of a failed command's output, its end; the memory keeps less."""


class ExchangeBuilder:
    """Builds exchanges from what a format reader reports, in order."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._open: ImportedExchange | None = None
        self._answer = ""
        self._paths: dict[str, None] = {}
        self._failures: dict[str, FailedCommand] = {}
        self._commands: dict[str, str] = {}
        """Call id -> command that has not ended."""

    @property
    def identity(self) -> str:
        """Of the open exchange; empty: none is open."""
        return self._open.identity if self._open else ""

    @property
    def is_unanswered(self) -> bool:
        """Whether an exchange is open and the agent has done nothing about it."""
        return self._open is not None and not (self._answer or self._paths or self._failures)

    def ask(self, text: str, *, identity: str, session: str, at: float, cwd: str) -> ImportedExchange | None:
        """Open an exchange with the person's words and return the one it ends. Injected text opens none."""
        words = spoken_text(text)
        if not words:
            return None
        ended = self.close()
        self._open = ImportedExchange(
            origin=self._origin,
            session=cleaned_text(session),
            identity=identity,
            asked=words,
            answered="",
            at=at,
            ended_at=at,
            cwd=cleaned_text(cwd),
        )
        return ended

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
        command, failures = self._commands.pop(call, ""), self._failures
        if failed and command:
            failures.pop(command, None)
            failures[command] = FailedCommand(command, without_recall(cleaned_text(output[-OUTPUT_CHARS:])))
            if len(failures) > MAX_FAILURES:
                del failures[next(iter(failures))]
        elif command in failures:
            failures[command] = replace(failures[command], passed_later=True)

    def close(self) -> ImportedExchange | None:
        """End the open exchange; return it if it has an answer, a change or a failure."""
        ended, answered = self._open, without_recall(cleaned_text(self._answer))
        paths, failures = tuple(self._paths), tuple(self._failures.values())
        self._open, self._answer, self._paths, self._failures, self._commands = None, "", {}, {}, {}
        if ended is None or not (answered or failures or paths):
            return None
        return replace(ended, answered=answered, paths=paths, failures=failures)


def patched_files(patch: str) -> list[str]:
    """Return the files named in a patch of the form `*** Update File: …`."""
    heads = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
    return [line.partition(": ")[2].strip() for line in patch.splitlines() if line.startswith(heads)]
