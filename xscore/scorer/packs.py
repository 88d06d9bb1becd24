"""Which memories are judged together. Pure.

The assignment of memories to packs is kept from turn to turn, because a pack whose bytes stay the same is served from
the provider's prefix cache. So nothing is ever packed anew as a whole: a newcomer joins a neighbour, a full pack splits
in two, two packs that fit into one merge, and all others stay as they are (`docs/decisions/0002-packs.md`).
It does not load texts, render, or store the assignment.
Trade-off: packs are begun a little below their limit and merge only when touched, which costs up to a quarter more
packs than the tightest filling, for about one changed pack an edit.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xscore.hashing import digest
from xscore.records import Candidate
from xscore.scorer.shelf import Shelf
from xscore.scorer.slots import Profile, Slot, in_groups, natural_order, profile

__all__ = ["Assignment", "Pack", "Profile", "Slot", "assign", "profile", "throwaway", "to_send"]


@dataclass(frozen=True, slots=True)
class Pack:
    """Memories that share a prompt, in the order in which they stand in it."""

    id: str
    members: tuple[Candidate, ...]
    is_kept: bool = False
    """It will be the same in later turns, so that its prompt begins with the same bytes."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The slots of a whole pool, and how they differ from what was known."""

    slots: Mapping[str, Slot]
    moved: Mapping[str, Slot]
    """Slots that are new or other than before."""
    gone: frozenset[str]
    """Memories that had a slot and are no longer in the pool."""


def assign(memories: Iterable[Candidate], known: Mapping[str, tuple[str, int]], profile: Profile) -> Assignment:
    """Give every memory of the whole pool (not of a narrowed one) a slot, changing as few packs as can be.

    A plain profile has no packs, and so no slots. About 3 µs a memory.
    """
    if profile.is_plain:
        return Assignment(slots={}, moved={}, gone=frozenset(known))
    ordered = sorted(memories, key=natural_order)
    shelf = Shelf(ordered, known, profile)
    shelf.place_newcomers()
    shelf.split_overfull()
    shelf.dissolve_touched()
    slots = shelf.slots()
    moved = {id_: slot for id_, slot in slots.items() if known.get(id_) != slot}
    return Assignment(slots=slots, moved=moved, gone=frozenset(known.keys() - slots.keys()))


def to_send(misses: Sequence[Candidate], slots: Mapping[str, tuple[str, int]], profile: Profile) -> list[Pack]:
    """Group what is to be judged: whole packs as they stand, the misses of partly known ones in throwaway packs.

    slots: of the whole pool. A memory without a slot goes into a throwaway pack.
    """
    if profile.is_plain:
        return [Pack("", (miss,), is_kept=True) for miss in misses]
    sizes: dict[str, int] = {}
    for pack, _ in slots.values():
        sizes[pack] = sizes.get(pack, 0) + 1
    grouped: dict[str, list[Candidate]] = {}
    for miss in misses:
        grouped.setdefault(slots[miss.id][0] if miss.id in slots else "", []).append(miss)
    loose = grouped.pop("", [])
    whole = []
    for pack, members in grouped.items():
        if len(members) < sizes[pack]:
            loose.extend(members)
        else:
            members.sort(key=lambda member: slots[member.id][1])
            whole.append(Pack(pack, tuple(members), is_kept=True))
    return whole + throwaway(loose, profile)


def throwaway(misses: Iterable[Candidate], profile: Profile) -> list[Pack]:
    """Pack memories for one turn only, as full as the limits allow; the stored assignment is not touched."""
    ordered = sorted(misses, key=natural_order)
    groups = [[miss] for miss in ordered if miss.tokens > profile.tokens]
    groups += in_groups([miss for miss in ordered if miss.tokens <= profile.tokens], profile.tokens, profile.size)
    return [Pack("x_" + digest(*(member.id for member in group))[:16], tuple(group)) for group in groups]
