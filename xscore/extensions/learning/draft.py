"""The memories of one store while consolidation is planned, with each change and its reason.

Each rule sees what the rules before it left; the difference between before and after is written, so
what is shown and what is done cannot differ. Trade-off: everything that is not the index's is held
in memory.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.pipeline.contradictions import days_since, last_seen
from xscore.platform.clock import DAY_S
from xscore.records.memory import (
    FACT_KINDS,
    Citation,
    Kind,
    Layer,
    Memory,
    MemorySource,
    MemoryStatus,
)
from xscore.settings import MemorySettings
from xscore.store import memory_writer
from xscore.store.near_duplicates import near_duplicates

Scope = Literal["session", "project", "user"]
LAYERS: dict[Scope, tuple[Layer, ...]] = {
    "session": (Layer.SESSION,),
    "project": (Layer.PROJECT, Layer.GOVERNANCE),
    "user": (Layer.USER,),
}
SCOPES: tuple[Scope, ...] = tuple(LAYERS)


class ActionKind(StrEnum):
    """The kind of action."""

    CARRY = "carry"
    """What a session learned becomes the project's."""
    SUMMARISE = "summarise"
    """The summary of a closed session is made or updated."""
    MERGE = "merge"
    """Memories that say the same become one; the others are superseded."""
    EXCEPT = "except"
    """A deliberate choice of this project is marked as an exception from the user's preference."""
    FADE = "fade"
    """Confidence falls with the days it was not seen, faster where the latest projects do without
    it."""
    ARCHIVE = "archive"
    """A memory is no longer a candidate: long unused, too weak, or the layer is over its
    cap."""
    DROP = "drop"
    """A memory is erased: unimportant and unused."""
    PRUNE = "prune"
    """A memory is erased: unused for a year."""
    INFER = "infer"
    """A part of the stack that manifests or imports show is noted, or its citation is updated."""
    OBSERVE = "observe"
    """The user's store records, or no longer records, what this project states for a key."""
    PROMOTE = "promote"
    """What holds in enough projects becomes a memory of the user's."""


class Action(Struct, frozen=True):
    """One thing that consolidation does, or would do."""

    kind: ActionKind
    scope: Scope
    memory_ids: tuple[str, ...]
    """Ids of the memories; the one that stays or is made comes first. Empty for ended
    observations."""
    why: str
    """The reason, with its figures."""
    title: str = ""
    """Title of the first memory, for people."""


class Consolidation(Struct, frozen=True, kw_only=True):
    """What a run of consolidation did, or would do."""

    actions: tuple[Action, ...]
    dry_run: bool
    considered: int
    """Number of memories considered, without indexed ones."""
    counts: dict[str, int] = field(default_factory=dict)
    """Action kind -> how many."""
    skipped: tuple[str, ...] = ()
    """What was skipped, and why."""


def count_by_kind(actions: Iterable[Action]) -> dict[str, int]:
    """Return how many actions there are of each kind, in the order of the kinds."""
    counts = Counter(action.kind for action in actions)
    by_kind: dict[str, int] = {}
    for kind in ActionKind:
        if counts[kind]:
            by_kind[str(kind)] = counts[kind]
    return by_kind


HISTORY_KINDS = frozenset({Kind.EXCHANGE, Kind.SUMMARY})
"""Kinds of events, which stay true, so they neither fade nor merge."""
LIVE = frozenset({MemoryStatus.ACTIVE, MemoryStatus.STALE})
LEAST_DAYS = 1.0
"""Fewest days by which confidence falls."""


def is_inferred_fact(memory: Memory) -> bool:
    """Whether it is a fact that no person stated or accepted, and no file shows."""
    is_inferred = memory.source is MemorySource.INFERRED and not memory.is_shown_by_files
    return is_inferred and memory.kind in FACT_KINDS


def is_user_stated(memory: Memory) -> bool:
    """Whether a person stated it."""
    return memory.is_stated and memory.kind not in HISTORY_KINDS


class ConsolidationDraft:
    """Memories by id, before and as planned, with the actions in between."""

    def __init__(
        self,
        memories: Iterable[Memory],
        rules: MemorySettings,
        *,
        now: float,
        threads: Mapping[str, str] | None = None,
        faded_at: Mapping[str, float] | None = None,
        cited: AbstractSet[str] = frozenset(),
    ) -> None:
        """Begin with these memories, and no action.

        now: unix seconds.
        threads: memory id -> its working session.
        faded_at: scope -> when confidence faded.
        cited: ids of the memories that cite code.
        """
        self.rules: MemorySettings = rules
        self.now: float = now
        self.before: dict[str, Memory] = {memory.id: memory for memory in memories}
        self.after: dict[str, Memory] = dict(self.before)
        self.threads: dict[str, str] = dict(threads or {})
        self.members: dict[str, tuple[str, ...]] = {}
        """Updated summary -> its exchanges."""
        self.citations: dict[str, tuple[Citation, ...]] = {}
        """Memory id -> its new citations."""
        self.cited: AbstractSet[str] = cited
        self.seen: dict[str, float] = {}
        """Memory id -> when it was last seen elsewhere, if known (unix seconds)."""
        self.actions: list[Action] = []
        self._faded_at: dict[str, float] = dict(faded_at or {})

    @property
    def erased(self) -> list[str]:
        """Ids to erase, sorted."""
        return sorted(self.before.keys() - self.after.keys())

    @property
    def changed(self) -> list[Memory]:
        """New and changed memories, superseded and archived ones first."""
        memories: list[Memory] = []
        for id_, memory in self.after.items():
            if self.before.get(id_) != memory:
                memories.append(memory)
        return sorted(memories, key=lambda memory: (memory.status in LIVE, memory.id))

    def of_scope(self, scope: Scope) -> list[Memory]:
        """Return the memories of a scope, sorted by id; what another member of the team shares is
        theirs to tidy."""
        memories: list[Memory] = []
        for _, memory in sorted(self.after.items()):
            if memory.layer in LAYERS[scope] and not memory.is_from_team:
                memories.append(memory)
        return memories

    def days_unseen(self, memory: Memory) -> float:
        """Return the days since a memory was last said, changed, used, or seen in a project."""
        return (self.now - max(last_seen(memory), self.seen.get(memory.id, 0.0))) / DAY_S

    def days_unfaded(self, scope: Scope) -> float:
        """Return the days since confidence last faded, so that nothing fades twice."""
        return days_since(self._faded_at.get(scope, 0.0), self.now)

    def change(self, kind: ActionKind, scope: Scope, *memories: Memory, why: str) -> None:
        """Replace these memories, and record why."""
        for memory in memories:
            self.after[memory.id] = memory
        self.record(kind, scope, *memories, why=why)

    def archive(self, scope: Scope, memory: Memory, *, why: str) -> None:
        """Make a memory no candidate any longer, and record why."""
        self.change(
            ActionKind.ARCHIVE,
            scope,
            memory_writer.with_status(memory, MemoryStatus.ARCHIVED),
            why=why,
        )

    def erase(self, kind: ActionKind, scope: Scope, memory: Memory, *, why: str) -> None:
        """Remove a memory, and record why."""
        del self.after[memory.id]
        self.record(kind, scope, memory, why=why)

    def record(self, kind: ActionKind, scope: Scope, *memories: Memory, why: str) -> None:
        """Record an action."""
        ids = tuple(memory.id for memory in memories)
        title = ""
        if memories:
            title = memories[0].title
        self.actions.append(Action(kind, scope, ids, why, title))


def text_bytes(memory: Memory) -> int:
    """Return the bytes of its text, which count towards the cap of its layer."""
    return len(memory.text.encode("utf-8", "surrogatepass"))


def groups_that_say_the_same(memories: Iterable[Memory]) -> list[list[Memory]]:
    """Return the groups of two or more memories whose texts say the same."""
    by_id = {memory.id: memory for memory in memories}
    groups: list[list[Memory]] = []
    for ids in near_duplicates({id_: memory.text for id_, memory in by_id.items()}):
        groups.append([by_id[id_] for id_ in ids])
    return groups


def as_superseded(memory: Memory, by: str) -> Memory:
    """Return the memory as superseded by another."""
    return replace(memory_writer.with_status(memory, MemoryStatus.SUPERSEDED), superseded_by=by)
