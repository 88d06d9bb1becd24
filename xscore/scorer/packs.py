"""Which memories are judged together. Pure.

The assignment is kept from turn to turn, because a pack whose bytes stay the same is served from
the provider's prefix cache. So an edit changes as few packs as possible: a newcomer joins a
neighbour, a full pack splits, a pack that changed dissolves into its neighbours if they have room
(`docs/internals/decisions/0002-packs.md`).
Trade-off: up to a quarter more packs than the tightest filling, for about one changed pack an edit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from xscore.platform.hashing import digest
from xscore.records.memory import Candidate, Layer

ENTRY_TOKENS = 20
"""What the fence of one memory adds to its text."""
FILL_SIZE_SHARE = 0.9
"""Share of the size limit to which a new pack is filled, up to its token aim; the rest is room for
newcomers."""
OVERFULL_SHARE = 1.15
"""Share of the token aim beyond which a pack splits."""
AT_FILE_END = 0.85
"""A new pack this full ends with a file instead of taking the next one in."""


class Slot(NamedTuple):
    """Where a memory is judged."""

    pack: str
    position: int


class PackProfile(Struct, frozen=True):
    """How large packs are. The name keys the stored assignment: another profile, another
    assignment."""

    tokens: int = 2_500
    size: int = 20
    longest_piece: int | None = None
    """Tokens of a memory beyond which it is judged in parts; None: a whole pack."""
    is_independent: bool = False
    """Memories of one request do not influence each other: none has a lasting place."""

    @property
    def name(self) -> str:
        """Identify the assignment made under these limits."""
        return f"packs-1:{self.tokens}x{self.size}"

    @property
    def longest(self) -> int:
        """Tokens of a memory beyond which it is judged in parts."""
        return self.longest_piece or self.tokens

    @property
    def is_plain(self) -> bool:
        """Whether a memory is judged by itself, so that no pack is part of its judgment."""
        return self.size == 1 or self.is_independent


def fit_profile(tokens: int, size: int, *, context_tokens: int) -> PackProfile:
    """Return these limits, with packs of at most half the context, which prompt and reply share."""
    return PackProfile(tokens=max(200, min(tokens, context_tokens // 2)), size=size)


def natural_order(candidate: Candidate) -> tuple[str, int, str, str]:
    """Sort memories as a reader meets them."""
    return (candidate.path, candidate.start_line, candidate.entity, candidate.id)


def packed_tokens(candidate: Candidate) -> int:
    """Tokens a memory takes in a pack, fence included."""
    return candidate.tokens + ENTRY_TOKENS


def group_in_order(members: Sequence[Candidate], tokens: int, size: int) -> list[list[Candidate]]:
    """Cut a sequence in order into groups within the limits, at the end of a file where one is
    nearly full."""
    groups: list[list[Candidate]] = []
    filled = 0
    for member in members:
        group = groups[-1] if groups else []
        full = filled + packed_tokens(member) > tokens or len(group) >= size
        nearly = filled > AT_FILE_END * tokens or len(group) > AT_FILE_END * size
        if not group or full or (nearly and group[-1].path != member.path):
            groups.append([])
            filled = 0
        groups[-1].append(member)
        filled += packed_tokens(member)
    return groups


class PackDraft(Struct):
    """A pack under change."""

    id: str
    members: list[Candidate]
    tokens: int = 0
    touched: bool = False
    """Its members are other than they were known; one that is untouched keeps their order."""

    def add(self, members: Sequence[Candidate]) -> None:
        """Take members in, in natural order."""
        self.members = sorted([*self.members, *members], key=natural_order)
        self.tokens += sum(map(packed_tokens, members))
        self.touched = True

    def fits(self, more: Sequence[Candidate], tokens: int, size: int) -> bool:
        """Whether these have room in it, within these limits."""
        return (
            self.tokens + sum(map(packed_tokens, more)) <= tokens
            and len(self.members) + len(more) <= size
        )


class PackAssigner(Struct):
    """All packs of a pool while newcomers are placed."""

    ordered: Sequence[Candidate]
    known: Mapping[str, tuple[str, int]]
    profile: PackProfile
    boxes: dict[str, PackDraft] = field(default_factory=dict)
    home: dict[str, PackDraft] = field(default_factory=dict)
    _names: int = 0

    def __post_init__(self) -> None:
        sizes = Counter(pack for pack, _ in self.known.values())
        for member in self.ordered:
            if member.id in self.known:
                pack = self.known[member.id][0]
                box = self.boxes.setdefault(pack, PackDraft(pack, []))
                box.members.append(member)
                box.tokens += packed_tokens(member)
                self.home[member.id] = box
        for box in list(self.boxes.values()):
            self._evict_oversized(box)
            box.touched = box.touched or len(box.members) < sizes[box.id]
            if not box.members:
                del self.boxes[box.id]

    def _evict_oversized(self, box: PackDraft) -> None:
        if len(box.members) == 1:
            return
        for member in [member for member in box.members if self._is_oversized(member)]:
            box.members.remove(member)
            box.tokens -= packed_tokens(member)
            box.touched = True
            del self.home[member.id]

    def _is_oversized(self, member: Candidate) -> bool:
        return member.tokens > self.profile.tokens

    @property
    def _fill(self) -> tuple[int, int]:
        return self.profile.tokens, max(1, int(FILL_SIZE_SHARE * self.profile.size))

    def place_newcomers(self) -> None:
        """House each run of neighbours that have no pack yet."""
        for before, run, after in _runs(self.ordered, self.home, self.profile.tokens):
            if self._is_oversized(run[0]):
                self._new_box(run)
                continue
            neighbours = self._neighbours(before, run, after)
            roomy = next(
                (
                    box
                    for box in neighbours
                    if box.fits(run, self.profile.tokens, self.profile.size)
                ),
                None,
            )
            groups = group_in_order(run, *self._fill)
            if roomy is not None:
                self._join(roomy, run)
            elif neighbours and len(groups) == 1 and self._is_small(run):
                self._join(neighbours[0], run)
            else:
                for group in groups:
                    self._new_box(group)

    def _neighbours(
        self, before: Candidate | None, run: Sequence[Candidate], after: Candidate | None
    ) -> list[PackDraft]:
        """Packs beside the run, those that hold the same file first."""
        found: list[tuple[bool, PackDraft]] = []
        for neighbour, near in ((before, run[0]), (after, run[-1])):
            if neighbour is not None and not self._is_oversized(neighbour):
                found.append((neighbour.path != near.path, self.home[neighbour.id]))
        return [box for _, box in sorted(found, key=lambda pair: pair[0])]

    def _is_small(self, run: Sequence[Candidate]) -> bool:
        tokens, size = self._fill
        return sum(map(packed_tokens, run)) < tokens // 2 and len(run) <= size // 2

    def _join(self, box: PackDraft, members: Sequence[Candidate]) -> None:
        box.add(members)
        for member in members:
            self.home[member.id] = box

    def _new_box(self, members: Sequence[Candidate]) -> None:
        self._names += 1
        name = digest(self.profile.name, *(member.id for member in members))
        while f"p_{name[:16]}" in self.boxes:
            name = digest(name, str(self._names))
        box = PackDraft(f"p_{name[:16]}", [])
        self.boxes[box.id] = box
        self._join(box, members)

    def split_overfull(self) -> None:
        """Halve packs that grew past their limits; the part with most members keeps the name."""
        for box in list(self.boxes.values()):
            if len(box.members) > 1 and self._is_overfull(box.members):
                self._split(box)

    def _is_overfull(self, members: Sequence[Candidate]) -> bool:
        return (
            sum(map(packed_tokens, members)) > OVERFULL_SHARE * self.profile.tokens
            or len(members) > self.profile.size
        )

    def _split(self, box: PackDraft) -> None:
        members = sorted(box.members, key=natural_order)
        groups = _halves(members)
        if any(len(group) > 1 and self._is_overfull(group) for group in groups):
            groups = group_in_order(members, *self._fill)
        keep = max(groups, key=len)
        box.members, box.tokens = [], 0
        for group in groups:
            if group is keep:
                self._join(box, group)
            else:
                self._new_box(group)

    def dissolve_touched(self) -> None:
        """Give the members of a pack that changed to the packs beside it, where those have room for
        all of them."""
        if not any(box.touched for box in self.boxes.values()):
            return
        row = sorted(self.boxes.values(), key=lambda box: natural_order(box.members[0]))
        for at, box in enumerate(row):
            if not box.touched or self._is_oversized(box.members[0]):
                continue
            left, right = (
                self._open(_nearest_filled(row, at, -1)),
                self._open(_nearest_filled(row, at, 1)),
            )
            taken = self._taken(left, box.members)
            if taken < len(box.members) and (
                right is None or not right.fits(box.members[taken:], *self._fill)
            ):
                continue
            for other, members in ((left, box.members[:taken]), (right, box.members[taken:])):
                if other is not None and members:
                    self._join(other, members)
            box.members = []
            del self.boxes[box.id]

    def _open(self, box: PackDraft | None) -> PackDraft | None:
        return None if box is None or self._is_oversized(box.members[0]) else box

    def _taken(self, left: PackDraft | None, members: Sequence[Candidate]) -> int:
        """How many of the members, from the first, fit into the pack before them."""
        count = 0
        while (
            left is not None
            and count < len(members)
            and left.fits(members[: count + 1], *self._fill)
        ):
            count += 1
        return count

    def slots(self) -> dict[str, Slot]:
        """Number the members of every pack; one whose membership is as it was keeps its order."""
        found: dict[str, Slot] = {}
        for box in self.boxes.values():
            members = box.members
            if not box.touched:
                members = sorted(members, key=lambda member: self.known[member.id][1])
            for position, member in enumerate(members):
                found[member.id] = Slot(box.id, position)
        return found


def _runs(
    ordered: Sequence[Candidate], home: Mapping[str, PackDraft], oversized: int
) -> Iterator[tuple[Candidate | None, list[Candidate], Candidate | None]]:
    """Yield maximal runs of neighbours without a home, each between the housed ones around it;
    oversized ones alone."""
    housed = [member.id in home for member in ordered]
    before: Candidate | None = None
    run: list[Candidate] = []
    pending: list[tuple[Candidate | None, list[Candidate]]] = []
    for member, is_housed in zip(ordered, housed, strict=True):
        if is_housed:
            if run:
                pending.append((before, run))
            yield from ((left, found, member) for left, found in pending)
            before, run, pending = member, [], []
        elif member.tokens > oversized:
            pending.append((before, [member]))
        else:
            run.append(member)
    if run:
        pending.append((before, run))
    yield from ((left, found, None) for left, found in pending)


def _halves(members: Sequence[Candidate]) -> list[list[Candidate]]:
    """Cut a sequence of two or more where both sides cost about the same."""
    total, spent = sum(map(packed_tokens, members)), 0
    for at, member in enumerate(members[:-1], start=1):
        spent += packed_tokens(member)
        if spent + packed_tokens(members[at]) / 2 > total / 2:
            return [list(members[:at]), list(members[at:])]
    return [list(members[:-1]), list(members[-1:])]


def _nearest_filled(row: Sequence[PackDraft], at: int, step: int) -> PackDraft | None:
    """Return the nearest pack in this direction that still has members."""
    at += step
    while 0 <= at < len(row):
        if row[at].members:
            return row[at]
        at += step
    return None


class Pack(Struct, frozen=True):
    """Memories that share a prompt, in the order in which they stand in it."""

    id: str
    members: tuple[Candidate, ...]
    is_kept: bool = False
    """It will be the same in later turns, so that its prompt begins with the same bytes."""


class Assignment(Struct, frozen=True):
    """The slots of a whole pool, and how they differ from what was known."""

    slots: Mapping[str, Slot]
    moved: Mapping[str, Slot]
    """Slots that are new or other than before."""
    gone: frozenset[str]
    """Memories that had a slot and are no longer in the pool."""


def assign_packs(
    memories: Iterable[Candidate], known: Mapping[str, tuple[str, int]], profile: PackProfile
) -> Assignment:
    """Give every memory of the whole pool (not of a narrowed one) a slot, changing as few packs as
    can be.

    A plain profile has no packs, and so no slots. About 3 µs a memory.
    """
    if profile.is_plain:
        return Assignment(slots={}, moved={}, gone=frozenset(known))
    ordered = sorted(memories, key=natural_order)
    shelf = PackAssigner(ordered, known, profile)
    shelf.place_newcomers()
    shelf.split_overfull()
    shelf.dissolve_touched()
    slots = shelf.slots()
    moved = {id_: slot for id_, slot in slots.items() if known.get(id_) != slot}
    return Assignment(slots=slots, moved=moved, gone=frozenset(known.keys() - slots.keys()))


def packs_to_send(
    misses: Sequence[Candidate], slots: Mapping[str, tuple[str, int]], profile: PackProfile
) -> list[Pack]:
    """Group what is to be judged: whole packs as they stand, the misses of partly known ones in
    throwaway packs.

    slots: of the whole pool. A memory without a slot goes into a throwaway pack. The user's own
        memories share no pack with the repository's, whose slots were assigned apart.
    """
    if profile.is_independent:
        return filled_packs(misses, profile)
    if profile.is_plain:
        return [Pack("", (miss,), is_kept=True) for miss in misses]
    sizes = Counter(pack for pack, _ in slots.values())
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
    own, others = _own_and_others(loose)
    return whole + throwaway_packs(others, profile) + throwaway_packs(own, profile)


def _own_and_others(misses: Sequence[Candidate]) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """Tell the user's own memories from the repository's."""
    own = [miss for miss in misses if miss.layer is Layer.USER]
    return own, [miss for miss in misses if miss.layer is not Layer.USER] if own else misses


def filled_packs(misses: Sequence[Candidate], profile: PackProfile) -> list[Pack]:
    """Fill requests in this order, as full as the limits allow; the user's own memories share none
    with the others."""
    groups: list[list[Candidate]] = []
    for of_one_store in _own_and_others(misses):
        filled = profile.tokens + 1
        for miss in of_one_store:
            taken = min(packed_tokens(miss), profile.longest)
            if filled + taken > profile.tokens or len(groups[-1]) >= profile.size:
                groups.append([])
                filled = 0
            groups[-1].append(miss)
            filled += taken
    return [Pack("q_" + digest(group[0].id)[:16], tuple(group)) for group in groups]


def throwaway_packs(misses: Iterable[Candidate], profile: PackProfile) -> list[Pack]:
    """Pack memories for one turn only, as full as the limits allow; the stored assignment is not
    touched."""
    ordered = sorted(misses, key=natural_order)
    groups = [[miss] for miss in ordered if miss.tokens > profile.tokens]
    groups += group_in_order(
        [miss for miss in ordered if miss.tokens <= profile.tokens], profile.tokens, profile.size
    )
    return [
        Pack("x_" + digest(*(member.id for member in group))[:16], tuple(group)) for group in groups
    ]
