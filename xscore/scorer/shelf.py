"""All packs of a pool while newcomers are housed: join, split and merge, each as local as can be. Pure.

A pack is a run of neighbours in natural order. It does not know what is judged or sent.
Trade-off: a merge is looked for only beside a pack that changed, so that an unchanged pool is left exactly as it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xscore.hashing import digest
from xscore.records import Candidate
from xscore.scorer.slots import FILL, FILL_SIZE, OVERFULL, Profile, Slot, cost, in_groups, natural_order


@dataclass(slots=True)
class Box:
    """A pack under change."""

    id: str
    members: list[Candidate]
    tokens: int = 0
    touched: bool = False
    known_order: bool = False

    def add(self, members: Sequence[Candidate]) -> None:
        """Take members in, in natural order."""
        self.members = sorted([*self.members, *members], key=natural_order)
        self.tokens += sum(map(cost, members))
        self.touched = True
        self.known_order = False


@dataclass(slots=True)
class Shelf:
    """All packs of a pool while newcomers are placed."""

    ordered: Sequence[Candidate]
    known: Mapping[str, tuple[str, int]]
    profile: Profile
    boxes: dict[str, Box] = field(default_factory=dict)
    home: dict[str, Box] = field(default_factory=dict)
    _names: int = 0

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        for pack, _ in self.known.values():
            sizes[pack] = sizes.get(pack, 0) + 1
        for member in self.ordered:
            if member.id in self.known:
                pack = self.known[member.id][0]
                box = self.boxes.setdefault(pack, Box(pack, []))
                box.members.append(member)
                box.tokens += cost(member)
                self.home[member.id] = box
        for box in list(self.boxes.values()):
            self._evict_oversized(box)
            box.touched = box.touched or len(box.members) < sizes[box.id]
            box.known_order = not box.touched
            if not box.members:
                del self.boxes[box.id]

    def _evict_oversized(self, box: Box) -> None:
        if len(box.members) == 1:
            return
        for member in [member for member in box.members if self._is_oversized(member)]:
            box.members.remove(member)
            box.tokens -= cost(member)
            box.touched = True
            del self.home[member.id]

    def _is_oversized(self, member: Candidate) -> bool:
        return member.tokens > self.profile.tokens

    @property
    def _fill(self) -> tuple[int, int]:
        return int(FILL * self.profile.tokens), max(1, int(FILL_SIZE * self.profile.size))

    def place_newcomers(self) -> None:
        """House each run of neighbours that have no pack yet."""
        for before, run, after in _runs(self.ordered, self.home, self.profile.tokens):
            if self._is_oversized(run[0]):
                self._new_box(run)
                continue
            neighbours = self._neighbours(before, run, after)
            roomy = next(
                (box for box in neighbours if self._fits(box, run, self.profile.tokens, self.profile.size)), None
            )
            groups = in_groups(run, *self._fill)
            if roomy is not None:
                self._join(roomy, run)
            elif neighbours and len(groups) == 1 and self._is_small(run):
                self._join(neighbours[0], run)
            else:
                for group in groups:
                    self._new_box(group)

    def _neighbours(self, before: Candidate | None, run: Sequence[Candidate], after: Candidate | None) -> list[Box]:
        """Packs beside the run, those that hold the same file first."""
        found: list[tuple[bool, Box]] = []
        for neighbour, near in ((before, run[0]), (after, run[-1])):
            if neighbour is not None and not self._is_oversized(neighbour):
                found.append((neighbour.path != near.path, self.home[neighbour.id]))
        return [box for _, box in sorted(found, key=lambda pair: pair[0])]

    def _is_small(self, run: Sequence[Candidate]) -> bool:
        tokens, size = self._fill
        return sum(map(cost, run)) < tokens // 2 and len(run) <= size // 2

    @staticmethod
    def _fits(box: Box, run: Sequence[Candidate], tokens: int, size: int) -> bool:
        return box.tokens + sum(map(cost, run)) <= tokens and len(box.members) + len(run) <= size

    def _join(self, box: Box, members: Sequence[Candidate]) -> None:
        box.add(members)
        for member in members:
            self.home[member.id] = box

    def _new_box(self, members: Sequence[Candidate]) -> None:
        self._names += 1
        name = digest(self.profile.name, *(member.id for member in members))
        while f"p_{name[:16]}" in self.boxes:
            name = digest(name, str(self._names))
        box = Box(f"p_{name[:16]}", [])
        self.boxes[box.id] = box
        self._join(box, members)

    def split_overfull(self) -> None:
        """Halve packs that grew past their limits; the part with most members keeps the name."""
        for box in list(self.boxes.values()):
            if len(box.members) > 1 and self._is_overfull(box.members):
                self._split(box)

    def _is_overfull(self, members: Sequence[Candidate]) -> bool:
        return sum(map(cost, members)) > OVERFULL * self.profile.tokens or len(members) > self.profile.size

    def _split(self, box: Box) -> None:
        members = sorted(box.members, key=natural_order)
        groups = _halves(members)
        if any(len(group) > 1 and self._is_overfull(group) for group in groups):
            groups = in_groups(members, *self._fill)
        keep = max(groups, key=len)
        box.members, box.tokens, box.touched, box.known_order = [], 0, True, False
        for group in groups:
            if group is keep:
                self._join(box, group)
            else:
                self._new_box(group)

    def dissolve_touched(self) -> None:
        """Give the members of a pack that changed to the packs beside it, where those have room for all of them."""
        if not any(box.touched for box in self.boxes.values()):
            return
        row = sorted(self.boxes.values(), key=lambda box: natural_order(box.members[0]))
        for at, box in enumerate(row):
            if not box.touched or self._is_oversized(box.members[0]):
                continue
            left, right = self._open(_filled(row, at, -1)), self._open(_filled(row, at, 1))
            taken = self._taken(left, box.members)
            if taken < len(box.members) and (right is None or not self._fits(right, box.members[taken:], *self._fill)):
                continue
            for other, members in ((left, box.members[:taken]), (right, box.members[taken:])):
                if other is not None and members:
                    self._join(other, members)
            box.members = []
            del self.boxes[box.id]

    def _open(self, box: Box | None) -> Box | None:
        return None if box is None or self._is_oversized(box.members[0]) else box

    def _taken(self, left: Box | None, members: Sequence[Candidate]) -> int:
        """How many of the members, from the first, fit into the pack before them."""
        count = 0
        while left is not None and count < len(members) and self._fits(left, members[: count + 1], *self._fill):
            count += 1
        return count

    def slots(self) -> dict[str, Slot]:
        """Number the members of every pack; one whose membership is as it was keeps its order."""
        found: dict[str, Slot] = {}
        for box in self.boxes.values():
            members = box.members
            if box.known_order:
                members = sorted(members, key=lambda member: self.known[member.id][1])
            for position, member in enumerate(members):
                found[member.id] = Slot(box.id, position)
        return found


def _runs(
    ordered: Sequence[Candidate], home: Mapping[str, Box], oversized: int
) -> Iterator[tuple[Candidate | None, list[Candidate], Candidate | None]]:
    """Yield maximal runs of neighbours without a home, each between the housed ones around it; oversized ones alone."""
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
    total, spent = sum(map(cost, members)), 0
    for at, member in enumerate(members[:-1], start=1):
        spent += cost(member)
        if spent + cost(members[at]) / 2 > total / 2:
            return [list(members[:at]), list(members[at:])]
    return [list(members[:-1]), list(members[-1:])]


def _filled(row: Sequence[Box], at: int, step: int) -> Box | None:
    """Return the nearest pack in this direction that still has members."""
    at += step
    while 0 <= at < len(row):
        if row[at].members:
            return row[at]
        at += step
    return None
