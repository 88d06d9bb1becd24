"""One store's memories while consolidation is planned: what one rule leaves is what the next one sees.

It holds records and changes nothing in the store; `learning.rows` makes the store like it. Trade-off: the difference
between before and after is written, not the actions, so that what is shown and what is done cannot differ in a rule.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from xscore.learning.actions import Action, ActionKind, Scope
from xscore.learning.decay import last_seen
from xscore.learning.retention import LIVE
from xscore.memory import door
from xscore.records import Layer, Memory, Status

Similar = Callable[[Mapping[str, str]], list[tuple[str, ...]]]
"""Texts by id -> groups of ids that say the same (`memory.likeness.near_duplicates`)."""


class Draft:
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


def superseded(memory: Memory, by: str) -> Memory:
    """Return the memory stepped back behind another."""
    return replace(door.with_status(memory, Status.SUPERSEDED), superseded_by=by)
