"""A turn's task, its working session, and how its layers were routed."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from xscore.records.memory import Layer


class Scope(Struct, frozen=True):
    """Which memories the user admits; an empty part admits all."""

    paths: tuple[str, ...] = ()
    """Globs over memory paths (as in .gitignore); memories without a path are kept."""
    kinds: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    """Files and folders, named like `Turn.file`; a stored turn has them relative to the root."""
    also: tuple[str, ...] = ()
    """Other repositories whose memories are candidates too: the name or the folder of one that is
    indexed on this machine. A stored turn has their names."""


class CommitFacts(Struct, frozen=True, array_like=True):
    """What boosts may know of a commit; read in `pipeline.recent_files`, and noted in the store.

    A text must be redacted there.
    """

    committed_at: float
    """Unix seconds."""


class ChangedFile(Struct, frozen=True, omit_defaults=True):
    """A file changed recently, in the working tree or by a commit."""

    path: str
    age_days: float
    lines: tuple[tuple[int, int], ...] = ()
    """First and last lines of the uncommitted edits; empty if there are none."""
    commit: CommitFacts | None = None
    """The newest commit that touched it; None if that is not among the recent ones."""


class Turn(Struct, frozen=True, kw_only=True):
    """One task against one repository. Only `task` is required; the pipeline fills in the rest."""

    task: str
    errors: str = ""
    """Error output or stack traces, as pasted; part of the turn key after normalisation."""
    about: tuple[tuple[str, str], ...] = ()
    """Other things that the task is about, by name, such as `("customer", "Ann")`; part of the
    turn key."""
    file: str = ""
    line: int = 0
    recent: tuple[str, ...] = ()
    scope: Scope = Scope()
    file_text: str = ""
    """Text of `file`, redacted; shown to the answering model."""
    diff: str = ""
    """The uncommitted change, redacted; shown to the answering model."""
    changed: tuple[ChangedFile, ...] | None = None
    """Changed files; None: git is not asked, and the times of the files count instead."""
    thread: str = ""
    """The working session of this turn; its own exchanges are not candidates. Empty: the
    session of the branch.

    A thread named here carries its earlier judgments over (`pipeline.carrying`)."""
    follows_latest: bool = False
    """Whether to continue in the thread of this branch's latest turn, and carry its judgments
    over."""
    fresh: bool = False
    """Whether to start a new working session on this branch; exchanges of the previous one
    become candidates."""
    rejudge_all: bool = False
    """Whether to carry nothing over. It is set for an opened turn of no named or continued
    thread."""
    checkpoint: str = ""
    """Name of a checkpoint to continue from, shown to the answering model."""
    id: str = ""
    """Id of the turn, `t_…`, assigned when it begins."""
    continues: str = ""
    """The turn that this one finishes; its judgments count as carried."""

    @property
    def may_carry(self) -> bool:
        """Whether it may take over what earlier turns of its thread judged."""
        return bool(self.thread or self.follows_latest) and not (self.rejudge_all or self.fresh)


class SessionInfo(Struct, frozen=True, kw_only=True):
    """How a turn resumed its working session, for the receipt."""

    thread: str
    branch: str
    resumed: bool
    """Whether it continues after a pause, in another terminal, after another branch, or after
    an interrupted turn."""
    last_task: str
    """The task before this turn, redacted; empty if there was none."""
    last_updated: float


class WorkingSession(Struct, frozen=True, kw_only=True):
    """A working session (thread) as the store remembers it."""

    thread: str
    branch: str
    ticket: str
    task: str
    recent: tuple[str, ...]
    file: str
    line: int
    summary: str
    opened_at: float
    last_updated: float
    closed_at: float | None
    tasks: int = 0
    carried: int = 0
    """How many judgments the latest turn took over from earlier ones."""


class SessionEntry(Struct, frozen=True, kw_only=True):
    """One task of a session and its outcome: extracted, never rephrased."""

    turn_id: str
    exchange: str
    task: str
    state: str
    outcome: str = ""
    error: str = ""
    """Last line of the errors that came with the task."""
    files: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    """`path::entity` of memories that task or answer name or cite."""
    memory_ids: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    """Lines `Goal: …` of the task."""
    opened: tuple[str, ...] = ()
    """Open items in task and answer: `- [ ] …`, `TODO: …`, `Next: …`."""
    closed: tuple[str, ...] = ()
    """Finished items in task and answer: `- [x] …`, `Done: …`."""


class SessionSummary(Struct, frozen=True, kw_only=True):
    """Summary of a session."""

    goals: tuple[str, ...]
    files: tuple[str, ...]
    entities: tuple[str, ...]
    pending: tuple[str, ...]
    """Interrupted tasks, and what is left to do."""
    memory_ids: tuple[str, ...]
    text: str


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A named snapshot of a working session that any later turn can continue."""

    name: str
    created_at: float
    branch: str = ""
    summary: str = ""
    goals: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    memory_ids: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    persona: str = ""
    entries: tuple[SessionEntry, ...] = ()
    by: str = ""
    """Who sent it to the team; empty if it was saved here."""
    is_shared: bool = False
    """Whether it is sent to the team."""


class TaskType(StrEnum):
    """Kind of work; it shapes the bundle, never what is judged."""

    EDIT = "edit"
    EXPLAIN = "explain"
    DESIGN = "design"
    REFACTOR = "refactor"
    RESEARCH = "research"


class BundlePlan(Struct, frozen=True):
    """Share of the bundle for each layer, by the kind of task."""

    task_type: TaskType
    because: str
    """The words of the task, or the setting, that decided."""
    ceilings: Mapping[Layer, float]
    """Largest share of the memory text per layer. Code and documents get the rest."""

    def __post_init__(self) -> None:
        if (
            any(share < 0 for share in self.ceilings.values())
            or sum(self.ceilings.values()) > 1 + 1e-9
        ):
            raise ValueError(
                f"the ceilings of a plan are shares of one bundle: {dict(self.ceilings)}"
            )


class LayerReport(Struct, frozen=True):
    """What one layer contributed to the pool."""

    layer: Layer
    memories: int
    fetch_ms: float
    is_late: bool = False
    """Whether the layer missed its deadline."""
    problem: str = ""


class Routing(Struct, frozen=True):
    """A plan and its result."""

    plan: BundlePlan
    layers: tuple[LayerReport, ...] = ()
