"""How large packs are, and which of them a turn sends. Pure.

Whole packs are sent as they are, so that the provider's prefix cache serves them; what is left
is packed for one turn only. Which memories share a pack from turn to turn is
`pack_assignment`'s business. Trade-off: the misses of a pack that is partly known share no
bytes with it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from xscore.platform.hashing import digest
from xscore.platform.tokens import estimate
from xscore.records.candidates import Candidate, Slots
from xscore.records.memory import Kind, Layer

ENTRY_TOKENS = 20
"""Tokens that the fence of one memory adds to its text."""
AT_FILE_END = 0.85
"""How full a new pack must be to end with a file instead of taking the next one in."""


class PackProfile(Struct, frozen=True):
    """How large packs are. The name keys the stored assignment: another profile, another
    assignment."""

    tokens: int = 2_500
    size: int = 20
    longest_piece: int | None = None
    """Tokens of a memory beyond which it is judged in parts; None: a whole pack."""
    is_independent: bool = False
    """Whether memories of one request do not influence each other, so that none has a lasting
    place."""

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


def purpose_tokens(candidate: Candidate) -> int:
    """Tokens of the purpose of a memory's file, for a judge that is shown it with each memory.

    A pack has it once for all memories of the file and does not count it, so that packs stay as
    they are when it is rewritten.
    """
    if candidate.purpose:
        return estimate(len(candidate.purpose), kind=Kind.DOC)
    return 0


def group_in_order(
    members: Sequence[Candidate], tokens: int, size: int
) -> list[list[Candidate]]:
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


class Pack(Struct, frozen=True):
    """Memories that share a prompt, in their order in it."""

    id: str
    members: tuple[Candidate, ...]
    is_lasting: bool = False
    """Whether it will be the same in later turns, so that its prompt begins with the same
    bytes."""


def packs_to_send(
    misses: Sequence[Candidate], slots: Slots, profile: PackProfile
) -> list[Pack]:
    """Group what is to be judged: whole packs as they are, the misses of partly known ones in
    throwaway packs.

    slots: those of the whole pool. A memory without a slot goes into a throwaway pack. The
        user's own memories share no pack with the repository's, whose slots were assigned
        apart.
    """
    if profile.is_independent:
        return filled_packs(misses, profile)
    if profile.is_plain:
        return [Pack("", (miss,), is_lasting=True) for miss in misses]
    sizes = Counter(pack for pack, _ in slots.values())
    grouped: dict[str, list[Candidate]] = {}
    loose: list[Candidate] = []
    for miss in misses:
        if miss.id in slots:
            grouped.setdefault(slots[miss.id][0], []).append(miss)
        else:
            loose.append(miss)
    complete = []
    for pack, members in grouped.items():
        if len(members) < sizes[pack]:
            loose.extend(members)
        else:
            members.sort(key=lambda member: slots[member.id][1])
            complete.append(Pack(pack, tuple(members), is_lasting=True))
    of_user, of_repository = _own_and_others(loose)
    throwaway = throwaway_packs(of_repository, profile) + throwaway_packs(of_user, profile)
    return complete + throwaway


def _own_and_others(
    misses: Sequence[Candidate],
) -> tuple[Sequence[Candidate], Sequence[Candidate]]:
    """Tell the user's own memories from the repository's."""
    of_user: list[Candidate] = []
    of_repository: list[Candidate] = []
    for miss in misses:
        (of_user if miss.layer is Layer.USER else of_repository).append(miss)
    return of_user, of_repository


def filled_packs(misses: Sequence[Candidate], profile: PackProfile) -> list[Pack]:
    """Fill requests in this order, as full as the limits allow; the user's own memories share none
    with the others."""
    groups: list[list[Candidate]] = []
    for of_one_store in _own_and_others(misses):
        # The first of each store begins a request.
        filled = profile.tokens + 1
        for miss in of_one_store:
            # A longer one is judged in parts, and one part is all that a request has of it.
            tokens = min(packed_tokens(miss), profile.longest) + purpose_tokens(miss)
            is_full = filled + tokens > profile.tokens or len(groups[-1]) >= profile.size
            if is_full:
                groups.append([])
                filled = 0
            groups[-1].append(miss)
            filled += tokens
    return [Pack("q_" + digest(group[0].id)[:16], tuple(group)) for group in groups]


def throwaway_packs(misses: Iterable[Candidate], profile: PackProfile) -> list[Pack]:
    """Pack memories for one turn only, as full as the limits allow; the stored assignment is not
    touched."""
    ordered = sorted(misses, key=natural_order)
    groups: list[list[Candidate]] = []
    in_packs: list[Candidate] = []
    for miss in ordered:
        if miss.tokens > profile.tokens:
            groups.append([miss])
        else:
            in_packs.append(miss)
    groups += group_in_order(in_packs, profile.tokens, profile.size)
    packs: list[Pack] = []
    for group in groups:
        name = digest(*(member.id for member in group))
        packs.append(Pack("x_" + name[:16], tuple(group)))
    return packs
