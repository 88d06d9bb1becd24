"""What a past session comes to: exchanges, each with the words of the person and of the agent, and what went wrong.

Records only; how a format spells them is each format's business, and how they become memories `remembering`'s.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failing:
    """A command that failed during an exchange."""

    command: str
    output: str
    """The end of what it printed."""
    passed_later: bool = False
    """Whether the very same command succeeded after that, in the same exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One task of a past session, and what came of it."""

    origin: str
    """Name of the format: `claude-code`, `codex`, `aider`, `cline`."""
    session: str
    """The agent's own name of the session."""
    identity: str
    """The same wherever the exchange was copied to, and whenever it is read again."""
    asked: str
    """What the person said; nothing that a tool, an agent or xscore put there."""
    answered: str
    """The last words of the agent."""
    at: float
    """Unix seconds of the question."""
    ended_at: float
    """Unix seconds of the last record."""
    cwd: str
    """Where the agent stood when it was asked."""
    branch: str = ""
    paths: tuple[str, ...] = ()
    """Files it changed, as the agent wrote them, in order of the first change."""
    failures: tuple[Failing, ...] = ()
