"""Which memories are judged together from turn to turn. Pure.

The assignment is kept, because a pack whose bytes stay the same is served from the provider's
prefix cache. So an edit changes as few packs as possible: a newcomer joins a neighbour, a full pack
splits, a pack that changed dissolves into its neighbours if they have room
(`docs/internals/decisions/0002-packs.md`).
Trade-off: up to a quarter more packs than the tightest filling, for about one changed pack an edit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct, field

from xscore.platform.hashing import digest
from xscore.records.candidates import Candidate, Slot, Slots
from xscore.scorer.packs import (
    ENTRY_TOKENS,
    PackProfile,
    group_in_order,
    natural_order,
    packed_tokens,
)

FILL_SIZE_SHARE = 0.9
"""Share of the size limit to which a new pack is filled, up to its token aim; the rest is room for
newcomers."""
OVERFULL_SHARE = 1.15
"""Share of the token aim beyond which a pack splits."""


class PackDraft(Struct):
    """A pack under change."""

    id: str
    members: list[Candidate]
    tokens: int = 0
    touched: bool = False
    """Whether its members have changed; one that is untouched keeps their order."""

    def add(self, members: Sequence[Candidate]) -> None:
        """Take members in, in natural order."""
        self.members = sorted([*self.members, *members], key=natural_order)
        self.tokens += sum(map(packed_tokens, members))
        self.touched = True

    def fits(self, newcomers: Sequence[Candidate], tokens: int, size: int) -> bool:
        """Whether these have room in it, within these limits."""
        return (
            self.tokens + sum(map(packed_tokens, newcomers)) <= tokens
            and len(self.members) + len(newcomers) <= size
        )


class PackAssigner(Struct):
    """All packs of a pool while newcomers are placed."""

    ordered: Sequence[Candidate]
    known: Slots
    profile: PackProfile
    drafts: dict[str, PackDraft] = field(default_factory=dict)
    draft_of: dict[str, PackDraft] = field(default_factory=dict)
    _names: int = 0

    def __post_init__(self) -> None:
        for member in self.ordered:
            if member.id in self.known:
                self._place_known(member, self.known[member.id][0])
        known_sizes = Counter(pack for pack, _ in self.known.values())
        for draft in list(self.drafts.values()):
            self._evict_oversized(draft)
            if len(draft.members) < known_sizes[draft.id]:
                draft.touched = True
            if not draft.members:
                del self.drafts[draft.id]

    def _place_known(self, member: Candidate, pack: str) -> None:
        draft = self.drafts.setdefault(pack, PackDraft(pack, []))
        draft.members.append(member)
        draft.tokens += packed_tokens(member)
        self.draft_of[member.id] = draft

    def _evict_oversized(self, draft: PackDraft) -> None:
        """Take out what has grown longer than a pack; alone in its pack it may stay."""
        if len(draft.members) == 1:
            return
        for member in list(filter(self._is_oversized, draft.members)):
            draft.members.remove(member)
            draft.tokens -= packed_tokens(member)
            draft.touched = True
            del self.draft_of[member.id]

    def _is_oversized(self, member: Candidate) -> bool:
        return member.tokens > self.profile.tokens

    @property
    def _fill(self) -> tuple[int, int]:
        return self.profile.tokens, max(1, int(FILL_SIZE_SHARE * self.profile.size))

    def place_newcomers(self) -> None:
        """Place each run of neighbours that have no pack yet."""
        for before, run, after in _runs(self.ordered, self.draft_of, self.profile.tokens):
            if self._is_oversized(run[0]):
                self._new_draft(run)
            else:
                self._place(run, self._neighbours(before, run, after))

    def _place(self, run: Sequence[Candidate], neighbours: Sequence[PackDraft]) -> None:
        """Place a run in an adjacent pack, if there is room or the run is small; otherwise in
        its own."""
        for draft in neighbours:
            if draft.fits(run, self.profile.tokens, self.profile.size):
                self._join(draft, run)
                return
        groups = group_in_order(run, *self._fill)
        # A pack that overflows is split later: two changed packs, and none that holds next to
        # nothing.
        if neighbours and len(groups) == 1 and self._is_small(run):
            self._join(neighbours[0], run)
            return
        for group in groups:
            self._new_draft(group)

    def _neighbours(
        self, before: Candidate | None, run: Sequence[Candidate], after: Candidate | None
    ) -> list[PackDraft]:
        """Packs adjacent to the run, those that hold the same file first."""
        in_file: list[PackDraft] = []
        elsewhere: list[PackDraft] = []
        for neighbour, near in ((before, run[0]), (after, run[-1])):
            if neighbour is None or self._is_oversized(neighbour):
                continue
            is_same_file = neighbour.path == near.path
            (in_file if is_same_file else elsewhere).append(self.draft_of[neighbour.id])
        return in_file + elsewhere

    def _is_small(self, run: Sequence[Candidate]) -> bool:
        tokens, size = self._fill
        return sum(map(packed_tokens, run)) < tokens // 2 and len(run) <= size // 2

    def _join(self, draft: PackDraft, members: Sequence[Candidate]) -> None:
        draft.add(members)
        for member in members:
            self.draft_of[member.id] = draft

    def _new_draft(self, members: Sequence[Candidate]) -> None:
        self._names += 1
        name = digest(self.profile.name, *(member.id for member in members))
        while f"p_{name[:16]}" in self.drafts:
            name = digest(name, str(self._names))
        draft = PackDraft(f"p_{name[:16]}", [])
        self.drafts[draft.id] = draft
        self._join(draft, members)

    def split_overfull(self) -> None:
        """Halve packs that grew past their limits; the part with most members keeps the name."""
        for draft in list(self.drafts.values()):
            if len(draft.members) > 1 and self._is_overfull(draft.members):
                self._split(draft)

    def _is_overfull(self, members: Sequence[Candidate]) -> bool:
        return (
            sum(map(packed_tokens, members)) > OVERFULL_SHARE * self.profile.tokens
            or len(members) > self.profile.size
        )

    def _split(self, draft: PackDraft) -> None:
        members = sorted(draft.members, key=natural_order)
        groups = _halves(members)
        if any(len(group) > 1 and self._is_overfull(group) for group in groups):
            groups = group_in_order(members, *self._fill)
        keep = max(groups, key=len)
        draft.members = []
        draft.tokens = 0
        for group in groups:
            if group is keep:
                self._join(draft, group)
            else:
                self._new_draft(group)

    def dissolve_touched(self) -> None:
        """Give the members of a pack that changed to the adjacent packs, where those have room
        for all of them."""
        if not any(draft.touched for draft in self.drafts.values()):
            return
        row = sorted(self.drafts.values(), key=lambda draft: natural_order(draft.members[0]))
        for at, draft in enumerate(row):
            if draft.touched and not self._is_oversized(draft.members[0]):
                before = self._open(_nearest_filled(row, at, -1))
                after = self._open(_nearest_filled(row, at, 1))
                self._dissolve(draft, before, after)

    def _dissolve(
        self, draft: PackDraft, before: PackDraft | None, after: PackDraft | None
    ) -> None:
        """Give all members to the adjacent packs, in order; change nothing where there is no
        room."""
        taken = self._taken(before, draft.members)
        for_before = draft.members[:taken]
        for_after = draft.members[taken:]
        if for_after and (after is None or not after.fits(for_after, *self._fill)):
            return
        if before is not None and for_before:
            self._join(before, for_before)
        if after is not None and for_after:
            self._join(after, for_after)
        # It stays in the row, where `_nearest_filled` passes over what is empty.
        draft.members = []
        del self.drafts[draft.id]

    def _open(self, draft: PackDraft | None) -> PackDraft | None:
        if draft is None or self._is_oversized(draft.members[0]):
            return None
        return draft

    def _taken(self, before: PackDraft | None, members: Sequence[Candidate]) -> int:
        """How many of the members, from the first, fit into the pack before them."""
        if before is None:
            return 0
        count = 0
        while count < len(members) and before.fits(members[: count + 1], *self._fill):
            count += 1
        return count

    def slots(self) -> dict[str, Slot]:
        """Number the members of every pack; one whose membership is as it was keeps its order."""
        slots: dict[str, Slot] = {}
        for draft in self.drafts.values():
            members = draft.members
            if not draft.touched:
                members = sorted(members, key=lambda member: self.known[member.id][1])
            for position, member in enumerate(members):
                slots[member.id] = Slot(draft.id, position)
        return slots


def _runs(
    ordered: Sequence[Candidate], draft_of: Mapping[str, PackDraft], oversized: int
) -> Iterator[tuple[Candidate | None, list[Candidate], Candidate | None]]:
    """Yield maximal runs of neighbours without a pack, each between the placed ones around it;
    oversized ones alone."""
    # Told before the first run is placed: placing one must not end the next.
    placed = [member.id in draft_of for member in ordered]
    before: Candidate | None = None
    run: list[Candidate] = []
    pending: list[tuple[Candidate | None, list[Candidate]]] = []
    for member, is_placed in zip(ordered, placed, strict=True):
        if is_placed:
            if run:
                pending.append((before, run))
            for placed_before, neighbours in pending:
                yield placed_before, neighbours, member
            before = member
            run = []
            pending = []
        elif member.tokens > oversized:
            pending.append((before, [member]))
        else:
            run.append(member)
    if run:
        pending.append((before, run))
    for placed_before, neighbours in pending:
        yield placed_before, neighbours, None


def _halves(members: Sequence[Candidate]) -> list[list[Candidate]]:
    """Cut a sequence of two or more where both sides cost about the same."""
    total = sum(map(packed_tokens, members))
    before = 0
    for at, member in enumerate(members[:-1], start=1):
        before += packed_tokens(member)
        # The middle of the whole falls before the middle of the next member.
        if before + packed_tokens(members[at]) / 2 > total / 2:
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


class Assignment(Struct, frozen=True):
    """The slots of a whole pool, and how they differ from what was known."""

    slots: Slots
    moved: Mapping[str, Slot]
    """Slots that are new or other than before."""
    gone: frozenset[str]
    """Memories that had a slot and are no longer in the pool."""


def assign_packs(
    memories: Iterable[Candidate],
    known_slots: Slots,
    profile: PackProfile,
) -> Assignment:
    """Give every memory of the whole pool (not of a narrowed one) a slot, changing as few packs as
    can be.

    A plain profile has no packs, and so no slots. About 3 µs a memory.
    """
    if profile.is_plain:
        return Assignment(slots={}, moved={}, gone=frozenset(known_slots))
    memories = tuple(memories)
    # In most turns: placing tens of thousands once more takes six times as long as seeing this.
    if _stays_as_it_is(memories, known_slots, profile):
        return Assignment(slots=known_slots, moved={}, gone=frozenset())
    return place_all(memories, known_slots, profile)


def place_all(
    memories: Iterable[Candidate],
    known_slots: Slots,
    profile: PackProfile,
) -> Assignment:
    """Place every memory, beginning with those that have a slot."""
    ordered = sorted(memories, key=natural_order)
    assigner = PackAssigner(ordered, known_slots, profile)
    assigner.place_newcomers()
    assigner.split_overfull()
    assigner.dissolve_touched()
    slots = assigner.slots()
    moved = {id_: slot for id_, slot in slots.items() if known_slots.get(id_) != slot}
    return Assignment(
        slots=slots, moved=moved, gone=frozenset(known_slots.keys() - slots.keys())
    )


def _stays_as_it_is(
    memories: Sequence[Candidate],
    known_slots: Slots,
    profile: PackProfile,
) -> bool:
    """Whether these are the memories that have slots, in packs that are whole and within their
    limits: nothing would be placed, split or dissolved."""
    if len(memories) != len(known_slots):
        return False
    sizes = Counter(map(itemgetter(0), known_slots.values()))
    tokens_of_pack = dict.fromkeys(sizes, 0)
    for memory in memories:
        slot = known_slots.get(memory.id)
        if slot is None:
            return False
        pack, position = slot
        is_alone = sizes[pack] == 1
        # One that has grown longer than a pack is taken out of it; alone it may stay.
        if position >= sizes[pack] or (memory.tokens > profile.tokens and not is_alone):
            return False
        tokens_of_pack[pack] += memory.tokens + ENTRY_TOKENS
    # No two at one position, so that with the bound above each pack is numbered without a gap.
    if len(set(known_slots.values())) != len(known_slots):
        return False
    most = OVERFULL_SHARE * profile.tokens
    for pack, size in sizes.items():
        if size > 1 and (size > profile.size or tokens_of_pack[pack] > most):
            return False
    return True
