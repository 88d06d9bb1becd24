"""What consolidation does to memories, one action each, with why: shown by `--dry-run` before anything is changed.

How long a memory is kept (L03, L06): what is dropped, archived and pruned, and what never is. Pure.

What a person said is never erased for its age or small importance, unless something newer superseded it: it is only
archived. Exchanges and summaries record what happened and were not said to be kept. Trade-off: a store of someone who
says a lot keeps it, archived, until they erase it; the caps of a layer count what is not archived.

One store's memories while consolidation is planned: what one rule leaves is what the next one sees.

It holds records and changes nothing in the store; `learning.rows` makes the store like it. Trade-off: the difference
between before and after is written, not the actions, so that what is shown and what is done cannot differ in a rule.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.pipeline.contradictions import last_seen
from xscore.records import Kind, Layer, Memory, MemorySource, MemoryStatus
from xscore.settings import MemorySettings
from xscore.store import memory_writer

Scope = Literal["session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("session", "project", "user")


class ActionKind(StrEnum):
    """What is done."""

    CARRY = "carry"
    """What a session learned becomes the project's (L01)."""
    SUMMARISE = "summarise"
    """The summary of a closed session is made, or made anew."""
    MERGE = "merge"
    """Memories that say the same become one; the others are superseded (L03)."""
    EXCEPT = "except"
    """A deliberate choice of this project is marked as an exception from the user's preference (L09)."""
    FADE = "fade"
    """Confidence falls with the days it was not seen (L05), faster where the latest projects do without it (L09)."""
    ARCHIVE = "archive"
    """No candidate any more: long unused (L06), too weak (L04), or the layer is over its cap (L11)."""
    DROP = "drop"
    """Erased: unimportant and unused (L03)."""
    PRUNE = "prune"
    """Erased: unused for a year (L06)."""
    OBSERVE = "observe"
    """The user's store notes what this project says about a key, or that it says it no more."""
    PROMOTE = "promote"
    """What holds in enough projects becomes the user's (L02)."""


class Action(Struct, frozen=True):
    """One thing that consolidation does, or would do."""

    kind: ActionKind
    scope: Scope
    memory_ids: tuple[str, ...]
    """What it is done to; the one that stays, or comes to be, stands first. Empty for observations that end."""
    why: str
    """In words, with the figures that decided."""
    title: str = ""
    """Of the first memory, for people."""


class Consolidation(Struct, frozen=True, kw_only=True):
    """What a run of consolidation did, or would do."""

    actions: tuple[Action, ...]
    dry_run: bool
    considered: int
    """Memories that were looked at; those of the index are not."""
    counts: dict[str, int] = field(default_factory=dict)
    """Action kind -> how many."""
    skipped: tuple[str, ...] = ()
    """What was left out, and why."""


HISTORY_KINDS = frozenset({Kind.EXCHANGE, Kind.SUMMARY})
"""What happened: true for ever, so that it neither fades nor is merged."""
LIVE = frozenset({MemoryStatus.ACTIVE, MemoryStatus.STALE})


def is_dropped(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is erased for being unimportant and unused: importance < 0.2, and not seen for 30 days."""
    return memory.importance < rules.drop_importance and unseen_days >= rules.drop_days and _may_be_erased(memory)


def is_pruned(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is erased for its age: not seen for a year, and not of high importance."""
    return _is_past(memory, unseen_days, rules.prune_days, rules) and _may_be_erased(memory)


def is_archived(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is to be a candidate no more: not seen for 180 days, and not of high importance."""
    return memory.status in LIVE and _is_past(memory, unseen_days, rules.archive_days, rules)


def is_user_stated(memory: Memory) -> bool:
    """Whether a person put it there to be kept."""
    return memory.source is MemorySource.EXPLICIT and memory.kind not in HISTORY_KINDS


def _may_be_erased(memory: Memory) -> bool:
    if memory.kind is Kind.SUMMARY:  # it goes with the last of its exchanges
        return False
    return not is_user_stated(memory) or memory.status is MemoryStatus.SUPERSEDED


def _is_past(memory: Memory, unseen_days: float, days: float, rules: MemorySettings) -> bool:
    return memory.importance < rules.high_importance and unseen_days >= days


Similar = Callable[[Mapping[str, str]], list[tuple[str, ...]]]
"""Texts by id -> groups of ids that say the same (`memory.likeness.near_duplicates`)."""


class ConsolidationDraft:
    """Memories by id, before and as planned, with the actions that lead there."""

    def __init__(
        self,
        memories: Iterable[Memory] = (),
        *,
        threads: Mapping[str, str] | None = None,
        faded_at: Mapping[str, float] | None = None,
    ) -> None:
        self.before = {memory.id: memory for memory in memories}
        self.after = dict(self.before)
        self.threads = dict(threads or {})
        """Memory id -> working session, where it belongs to one."""
        self.members: dict[str, tuple[str, ...]] = {}
        """Summary made anew -> the exchanges it stands for."""
        self.seen: dict[str, float] = {}
        """Memory id -> when it was last seen elsewhere, where that is known (unix seconds)."""
        self.actions: list[Action] = []
        self.faded_at = dict(faded_at or {})
        """Scope -> when confidence was last made to fall (unix seconds): what fell is not counted twice."""

    @property
    def erased(self) -> list[str]:
        """Ids that are to go for good, sorted."""
        return sorted(self.before.keys() - self.after.keys())

    @property
    def changed(self) -> list[Memory]:
        """Memories that are new or not what they were, those that step back first."""
        found = [memory for id_, memory in self.after.items() if self.before.get(id_) != memory]
        return sorted(found, key=lambda memory: (memory.status in LIVE, memory.id))

    def of(self, layers: Collection[Layer]) -> list[Memory]:
        """Return the memories of these layers as they stand now, by id."""
        return sorted(
            (memory for memory in self.after.values() if memory.layer in layers), key=lambda memory: memory.id
        )

    def last_seen(self, memory: Memory) -> float:
        """Return when a memory was last said, changed, used, or seen in a project (unix seconds)."""
        return max(last_seen(memory), self.seen.get(memory.id, 0.0))

    def act(self, kind: ActionKind, scope: Scope, *memories: Memory, why: str) -> None:
        """Put these memories in the place of what they were, for this reason."""
        for memory in memories:
            self.after[memory.id] = memory
        self.note(kind, scope, *memories, why=why)

    def erase(self, kind: ActionKind, scope: Scope, *memories: Memory, why: str) -> None:
        """Take these memories away, for this reason."""
        for memory in memories:
            self.after.pop(memory.id, None)
        self.note(kind, scope, *memories, why=why)

    def note(self, kind: ActionKind, scope: Scope, *memories: Memory, why: str) -> None:
        """Note an action that leaves the memories as they are."""
        title = memories[0].title if memories else ""
        self.actions.append(Action(kind, scope, tuple(memory.id for memory in memories), why, title))


def as_superseded(memory: Memory, by: str) -> Memory:
    """Return the memory stepped back behind another."""
    return replace(memory_writer.with_status(memory, MemoryStatus.SUPERSEDED), superseded_by=by)
