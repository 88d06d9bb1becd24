"""The packs of a pool, assigned once for all who ask.

A forecast and the judge after it must use the same packs, and so must all questions of a list, each
of which has a pool of its own over the same memories. Trade-off: it remembers the latest pool only,
and is the one thing in a judge's description that changes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xscore.records.candidates import Candidate, Slot, Slots
from xscore.records.memory import Layer
from xscore.store.pack_slot_rows import load_pack_slots, save_pack_slots
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.scorer.packs import PackProfile


class PackSlots:
    """The latest assignment under each profile."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[Sequence[Candidate], Slots]] = {}

    def of(
        self, memories: tuple[Candidate, ...], profile: "PackProfile", store: Store
    ) -> Slots:
        """Assign every memory of a pool to a pack, the user's own separately; store changes."""
        latest = self._latest.get(profile.name)
        # The same tuple, not an equal one: comparing thousands of memories would cost more than it
        # saves.
        if latest is not None and latest[0] is memories:
            return latest[1]
        slots = _assign(memories, profile, store)
        self._latest[profile.name] = (memories, slots)
        return slots


def _assign(memories: Sequence[Candidate], profile: "PackProfile", store: Store) -> Slots:
    # A turn that is all cached packs nothing.
    from xscore.scorer.pack_assignment import assign_packs

    slots: dict[str, Slot] = {}
    if store.others:
        of_others = {memory.id for memory in memories if store.others.have(memory.id)}
        # Which of them join depends on the task, so their packs last no longer than the turn, and
        # those of this repository stay as they are without them.
        lent = [memory for memory in memories if memory.id in of_others]
        slots.update(assign_packs(lent, {}, profile).slots)
        memories = [memory for memory in memories if memory.id not in of_others]
    of_user = [memory for memory in memories if memory.layer is Layer.USER]
    # Most pools have no memory of the user's own: then nothing is copied.
    of_repository = memories
    if of_user:
        of_repository = [memory for memory in memories if memory.layer is not Layer.USER]
    # The second connection, the user's own store, may not be there.
    for connection, members in zip(
        store.connections_of_a_turn(), (of_repository, of_user), strict=False
    ):
        assigned = assign_packs(members, load_pack_slots(connection, profile.name), profile)
        if assigned.moved or assigned.gone:
            save_pack_slots(connection, profile.name, assigned.slots)
        slots.update(assigned.slots)
    return slots
