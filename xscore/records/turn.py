"""The task that is asked, the working session it belongs to, and how its layers were routed."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from xscore.records.memory import Layer


class Scope(Struct, frozen=True):
    """Which memories the user admits; an empty part admits all."""

    paths: tuple[str, ...] = ()
    """Globs over memory paths (gitwildmatch); memories without a path are kept."""
    kinds: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


class ChangedFile(Struct, frozen=True):
    """A file changed recently, in the working tree or by a commit."""

    path: str
    age_days: float


class Turn(Struct, frozen=True, kw_only=True):
    """One task against one repository. Only `task` is required; the pipeline fills in the rest."""

    task: str
    errors: str = ""
    """Error output or stack traces, as pasted; part of the turn key after normalisation."""
    file: str = ""
    """The file being edited, relative to the root."""
    line: int = 0
    """1-based line in `file`; 0: unknown."""
    recent: tuple[str, ...] = ()
    """Recently opened files, newest first."""
    scope: Scope = Scope()
    file_text: str = ""
    """Text of `file`, redacted; shown to the answering model."""
    diff: str = ""
    """The uncommitted change, redacted; shown to the answering model."""
    changed: tuple[ChangedFile, ...] = ()
    thread: str = ""
    """The working session this turn belongs to; its own exchanges are not candidates. Empty: that of the branch."""
    fresh: bool = False
    """Begin a new working session on this branch; exchanges of the one before are candidates then."""
    checkpoint: str = ""
    """Name of a checkpoint to continue from, shown to the answering model."""
    id: str = ""
    """`t_…`, assigned when the turn begins."""
    continues: str = ""
    """The turn that this one finishes; its judgments count as carried."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """How a turn resumed its working session, for the receipt."""

    thread: str
    branch: str
    """As git names it; empty: no git."""
    resumed: bool
    """After a pause, from another terminal, after another branch, or after an interrupted turn."""
    last_task: str
    """What it was working on before this turn, redacted; empty: nothing yet."""
    last_updated: float
    """Unix seconds of that work; 0: there was none."""


class WorkingSession(Struct, frozen=True, kw_only=True):
    """A working session (thread) as the store remembers it."""

    thread: str
    branch: str
    ticket: str
    """From the branch's name: `ABC-123`, `#123`; or empty."""
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


class SessionEntry(Struct, frozen=True, kw_only=True):
    """One task of a session and its outcome: extracted, never rephrased."""

    turn_id: str
    exchange: str
    """Id of the exchange kept of the answer, or empty."""
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


class SessionSummary(Struct, frozen=True, kw_only=True):
    """Summary of a session."""

    goals: tuple[str, ...]
    files: tuple[str, ...]
    entities: tuple[str, ...]
    pending: tuple[str, ...]
    """Interrupted tasks, and what is left to do."""
    memory_ids: tuple[str, ...]
    text: str
    """All of it in words, latest task last."""


class Checkpoint(Struct, frozen=True, kw_only=True):
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
    entries: tuple[SessionEntry, ...] = ()
    """The tasks that all of this was gathered from."""


class TaskType(StrEnum):
    """Kind of work; it shapes the bundle, never what is judged."""

    EDIT = "edit"
    EXPLAIN = "explain"
    DESIGN = "design"
    REFACTOR = "refactor"
    RESEARCH = "research"


class BundlePlan(Struct, frozen=True):
    """What the bundle grants to each layer, by the kind of task."""

    task_type: TaskType
    because: str
    """The words of the task that decided, or what else did."""
    ceilings: Mapping[Layer, float]
    """Most that a layer may take, as a share of the memory text. Code and documents get what the others leave."""

    def __post_init__(self) -> None:
        if any(share < 0 for share in self.ceilings.values()) or sum(self.ceilings.values()) > 1 + 1e-9:
            raise ValueError(f"the ceilings of a plan are shares of one bundle: {dict(self.ceilings)}")


class LayerReport(Struct, frozen=True):
    """What one layer contributed to the pool."""

    layer: Layer
    memories: int
    fetch_ms: float
    is_late: bool = False
    """It missed its deadline and was fetched after the others."""
    problem: str = ""
    """Why it could not be read, or empty."""


class Routing(Struct, frozen=True):
    """A plan and its result."""

    plan: BundlePlan
    layers: tuple[LayerReport, ...] = ()
