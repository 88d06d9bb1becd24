"""The exchange that is open while a file is read: who said what, which files changed, which command failed.

Every format tells it what happened, in order; it decides what an exchange is. It keeps the last words of the agent
alone, and of failed commands the last few. Trade-off: an exchange that nobody answered, and in which no command failed,
is no exchange.
"""

import posixpath
from dataclasses import dataclass, field, replace

from xscore.sessions.exchange import Exchange, Failing
from xscore.sessions.injected import plain, said, without_recall
from xscore.sessions.session_format import Mark

MAX_PATHS = 40
MAX_FAILURES = 5
MAX_CALLS = 200
"""Commands whose end has not been told."""
OUTPUT_CHARS = 32_000
"""Of a failed command, the end; what is remembered of it is shorter still."""


@dataclass(slots=True)
class _Draft:
    exchange: Exchange
    mark: Mark
    answer: str = ""
    ended_at: float = 0.0
    paths: dict[str, None] = field(default_factory=dict)
    failures: dict[str, Failing] = field(default_factory=dict)


class Conversation:
    """What a reader builds exchanges with."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._draft: _Draft | None = None
        self._calls: dict[str, str] = {}

    @property
    def mark(self) -> Mark | None:
        """Where the open exchange began."""
        return self._draft.mark if self._draft else None

    @property
    def asked(self) -> str:
        """What the open exchange asks; empty: none is open."""
        return self._draft.exchange.asked if self._draft else ""

    @property
    def is_answered(self) -> bool:
        """Whether anything was done about it yet."""
        return bool(self._draft and (self._draft.answer or self._draft.paths or self._draft.failures))

    @property
    def awaited(self) -> tuple[bytes, ...]:
        """Calls that run a command which failed before: their end is worth a look even when they succeed."""
        failed = self._draft.failures if self._draft else {}
        return tuple(call.encode() for call, command in self._calls.items() if command in failed) if failed else ()

    def ask(
        self, text: str, *, identity: str, session: str, at: float, cwd: str, branch: str = "", mark: Mark
    ) -> Exchange | None:
        """Open an exchange with what the person said; return the one that ends with it. Injected text opens none."""
        words = said(text)
        if not words:
            return None
        ended = self.close()
        asked = Exchange(
            origin=self._origin,
            session=plain(session),
            identity=identity,
            asked=words,
            answered="",
            at=at,
            ended_at=at,
            cwd=plain(cwd),
            branch=plain(branch),
        )
        self._draft = _Draft(asked, mark, ended_at=at)
        return ended

    def answer(self, text: str, *, at: float = 0.0) -> None:
        """Note what the agent said; only its last words stay."""
        if self._draft is not None and text.strip():
            self._draft.answer = text
            self._draft.ended_at = max(self._draft.ended_at, at)

    def touch(self, path: str) -> None:
        """Note a file that was changed."""
        if self._draft is not None and path and len(self._draft.paths) < MAX_PATHS:
            self._draft.paths[plain(path)] = None

    def run(self, call: str, command: str) -> None:
        """Note a command that was begun."""
        if self._draft is not None and command.strip():
            while len(self._calls) >= MAX_CALLS:
                del self._calls[next(iter(self._calls))]
            self._calls[call] = plain(command).strip()

    def end(self, call: str, *, failed: bool, output: str = "") -> None:
        """Note how a command ended; the second telling of an end counts for nothing."""
        command = self._calls.pop(call, "")
        if self._draft is None or not command:
            return
        known = self._draft.failures.get(command)
        if failed:
            told = Failing(command, without_recall(plain(output[-OUTPUT_CHARS:])))
            self._draft.failures.pop(command, None)
            self._draft.failures[command] = told
            while len(self._draft.failures) > MAX_FAILURES:
                del self._draft.failures[next(iter(self._draft.failures))]
        elif known is not None:
            self._draft.failures[command] = replace(known, passed_later=True)

    def close(self) -> Exchange | None:
        """End the open exchange and return it, if it came to anything."""
        draft, self._draft = self._draft, None
        self._calls.clear()
        if draft is None:
            return None
        answered = without_recall(plain(draft.answer))
        if not answered and not draft.failures and not draft.paths:
            return None
        return replace(
            draft.exchange,
            answered=answered,
            ended_at=draft.ended_at,
            paths=tuple(draft.paths),
            failures=tuple(draft.failures.values()),
        )


def patched(patch: str) -> list[str]:
    """Name the files of a patch in the form that agents apply (`*** Update File: …`)."""
    heads = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
    return [line.partition(": ")[2].strip() for line in patch.splitlines() if line.startswith(heads)]


def joined(cwd: str, path: str) -> str:
    """Where a path points that was written in a folder."""
    return posixpath.normpath(posixpath.join(cwd, path))
