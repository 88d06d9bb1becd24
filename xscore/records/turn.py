"""What is asked: the task, what is known of the moment, and which memories may take part."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scope:
    """A narrowing of the pool asked for by the user; empty parts narrow nothing."""

    paths: tuple[str, ...] = ()
    """Globs over memory paths (gitwildmatch); memories without a path are kept."""
    kinds: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file touched lately, by the working tree or by a commit."""

    path: str
    age_days: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One task against one repository. Only `task` is needed; `pipeline.context.complete` fills in the moment."""

    task: str
    errors: str = ""
    """Error output or stack traces, as pasted; part of the turn key after normalisation."""
    file: str = ""
    """The file being edited, relative to the root."""
    line: int = 0
    """1-based line in `file`; 0: unknown."""
    recent: tuple[str, ...] = ()
    """Recently opened files, newest first."""
    scope: Scope = field(default_factory=Scope)
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
    """Name of a checkpoint to go on from: the answering model is shown it."""
    id: str = ""
    """`t_…`, dealt when the turn begins."""
    continues: str = ""
    """The turn that this one finishes: what that one judged counts as carried."""
