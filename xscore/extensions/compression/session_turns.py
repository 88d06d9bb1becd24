"""The turns of a coding agent's session, as compression sees them: words, calls of tools, what they
returned.

A turn is what one side said, with the calls that the agent made after it. Everything in it is
redacted already. It knows nothing of files, stores or budgets.
"""

from enum import StrEnum

from msgspec import Struct

from xscore.extensions.compression.output_frames import OutputFrame


class Speaker(StrEnum):
    """Who said the words of a turn."""

    USER = "user"
    AGENT = "agent"


class CallOutcome(StrEnum):
    """How a call ended."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    """The user did not allow the call."""
    UNKNOWN = "unknown"


class LoggedCall(Struct, frozen=True, kw_only=True):
    """One call of a tool."""

    tool: str
    """The agent's name for the tool; empty: a shell command."""
    subject: str
    """The command, or what else the tool was given, in one line."""
    names: tuple[str, ...] = ()
    """Names in what was left out of a long command."""
    outcome: CallOutcome = CallOutcome.UNKNOWN
    exit_code: int | None = None
    frame: OutputFrame = OutputFrame()
    output: str = ""
    """The whole output, where it was asked for."""
    answers_by_failing: bool = False
    """Whether the command answers by failing, as `grep` does: finding nothing is not a failed
    attempt."""
    path: str = ""
    """The file that the call read or changed."""

    @property
    def is_failed_attempt(self) -> bool:
        """Whether a command was tried and failed."""
        failed = self.outcome is CallOutcome.FAILED
        return failed and not self.tool and not self.answers_by_failing


class SessionTurn(Struct, frozen=True, kw_only=True):
    """What one side said, and the calls after it."""

    number: int
    """Number of the turn from 1, in the order of the log."""
    speaker: Speaker
    words: str
    calls: tuple[LoggedCall, ...] = ()
    memory_id: str = ""
    """Memory of its exchange, if that is imported."""
    tokens: int = 0
    """Estimated tokens of the words and the whole outputs."""


class OpenItem(Struct, frozen=True):
    """An item of the agent's own list of what to do."""

    text: str
    is_done: bool = False


class AgentSession(Struct, frozen=True, kw_only=True):
    """A session, read from its log."""

    origin: str
    session: str
    """The agent's name for the session."""
    path: str
    """Path of the log, with `~` for the home folder."""
    turns: tuple[SessionTurn, ...]
    changed: tuple[str, ...] = ()
    """Files that the agent changed, the latest last."""
    items: tuple[OpenItem, ...] = ()
    """The agent's list of what to do, as it last was."""
    tokens: int = 0
    """Tokens of all turns."""
    is_tail: bool = False
    """Whether the log was too long, and only its end was read."""

    @property
    def last_request(self) -> SessionTurn | None:
        """What the user said last."""
        spoken = (turn for turn in reversed(self.turns) if turn.speaker is Speaker.USER)
        return next(spoken, None)

    @property
    def failed_attempts(self) -> list[LoggedCall]:
        """Commands that were tried and failed, each once, the latest last."""
        attempts: dict[tuple[str, tuple[str, ...]], LoggedCall] = {}
        for turn in self.turns:
            for call in turn.calls:
                if call.is_failed_attempt:
                    key = (call.subject, call.frame.errors)
                    attempts.pop(key, None)
                    attempts[key] = call
        return list(attempts.values())
