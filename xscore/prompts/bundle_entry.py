"""What goes into a bundle and what comes out of it: the records at the door of `prompts.bundle`. No code of its own."""

from dataclasses import dataclass

from xscore.records import Citation, Layer, Memory, Ranked

SYSTEM_CONTEXT = frozenset({Layer.SESSION, Layer.PROJECT, Layer.USER})
"""Layers of the first section, *system context*: what is known of the work, the project, the user. The others are
*evidence*: places in the repository, and decisions."""


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """A chosen memory on its way into the bundle."""

    memory: Memory
    ranked: Ranked | None
    """None: a detail of a kept summary, which was not chosen for itself."""
    header: str = ""
    """Imports and module head of its file, the same for every memory of that file."""
    below_threshold: bool = False
    """Taken in by `min_keep`."""
    alike: tuple[str, ...] = ()
    """Ids of chosen memories that say nearly the same, which this one stands for."""
    resolved: str = ""
    """The one sentence that settles it against others; shown in place of its text."""
    settles: tuple[str, ...] = ()
    """Ids of the chosen memories that the sentence settles as well."""
    changed: tuple[Citation, ...] = ()
    """Spans it rests on that are no longer what was cited."""
    summary: str = ""
    """Id of the kept summary that it is a detail of."""

    @property
    def score(self) -> float:
        """Its final score; 0 for a detail."""
        return self.ranked.score if self.ranked else 0.0

    @property
    def others(self) -> tuple[str, ...]:
        """Ids of the chosen memories that are shown through this one."""
        return (*self.alike, *self.settles)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the `memory` form says beside the memories."""

    branch: str = ""
    commit: str = ""
    """Short hash of the commit that is checked out."""
    history: tuple[str, ...] = ()
    """Decisions made lately, one line each, newest first."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What the answering model is shown of the memories."""

    text: str
    included: tuple[str, ...]
    """Memory ids, in the order shown."""
    omitted: tuple[str, ...]
    """Memory ids that did not fit."""
    tokens: int
    """Estimated; at most the budget, but for the note when even that does not fit."""
    merged: tuple[str, ...] = ()
    """Chosen memories that are named beside another one that says it for them: near duplicates, settled conflicts."""

    @property
    def citable(self) -> tuple[str, ...]:
        """Ids that an answer may cite."""
        return (*self.included, *self.merged)
