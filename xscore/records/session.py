"""The working session and its checkpoints: what was worked on, where it stands, and how a turn took it up."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """How a turn took its working session up, as the receipt tells it."""

    thread: str
    branch: str
    """As git names it; empty: no git."""
    resumed: bool
    """It was taken up again: after a pause, from another terminal, after another branch, or after a turn cut short."""
    last_task: str
    """What it was working on before this turn, redacted; empty: nothing yet."""
    last_updated: float
    """Unix seconds of that work; 0: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingSession:
    """A working session (thread) as the store remembers it."""

    thread: str
    branch: str
    ticket: str
    """Read off the branch's name: `ABC-123`, `#123`; empty: it names none."""
    task: str
    """What was worked on last."""
    recent: tuple[str, ...]
    """Files that were open, newest first."""
    file: str
    line: int
    summary: str
    opened_at: float
    last_updated: float
    closed_at: float | None
    """None: open."""
    tasks: int = 0
    """Turns that belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One task of a session with what it came to: extracted, never rephrased."""

    turn_id: str
    exchange: str
    """Id of the exchange that the answer left behind; empty: it left none."""
    task: str
    """In one line."""
    state: str
    """As the turn's: done, partial, failed, interrupted, running."""
    outcome: str = ""
    """First sentence of the answer."""
    error: str = ""
    """Last line of the errors that came with the task."""
    files: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    """`path::entity` of memories that task or answer name or cite."""
    memory_ids: tuple[str, ...] = ()
    """Ids of those memories."""
    goals: tuple[str, ...] = ()
    """Lines `Goal: …` of the task."""
    opened: tuple[str, ...] = ()
    """What task and answer leave to do: `- [ ] …`, `TODO: …`, `Next: …`."""
    closed: tuple[str, ...] = ()
    """What they say is done: `- [x] …`, `Done: …`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What a session comes to."""

    goals: tuple[str, ...]
    files: tuple[str, ...]
    entities: tuple[str, ...]
    pending: tuple[str, ...]
    """Tasks that were cut short, and what was said to be left to do."""
    memory_ids: tuple[str, ...]
    text: str
    """All of it in words, latest task last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A named snapshot of a working session, to be taken up in any later turn."""

    name: str
    created_at: float
    """Unix seconds."""
    branch: str = ""
    summary: str = ""
    goals: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    """Exchanges and memories it rests on; their texts stay where they are."""
    notes: tuple[str, ...] = ()
    persona: str = ""
    entries: tuple[SessionEntry, ...] = field(default=(), repr=False)
    """The tasks that all of this was gathered from."""
