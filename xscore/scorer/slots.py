"""The words of packing: limits, slots, the order and cost of memories. Pure.

It does not decide which memory goes where; `shelf` keeps the lasting assignment and `packs` groups what is sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xscore.records import Candidate

ENTRY_TOKENS = 20
"""What the fence of one memory adds to its text."""
FILL = 1.0
"""Share of the token aim to which a new pack is filled."""
FILL_SIZE = 0.9
"""Share of the size limit to which a new pack is filled; the rest is room for newcomers."""
OVERFULL = 1.15
"""Share of the token aim beyond which a pack splits."""
AT_FILE_END = 0.85
"""A new pack this full ends with a file instead of taking the next one in."""


class Slot(NamedTuple):
    """Where a memory is judged."""

    pack: str
    position: int


@dataclass(frozen=True, slots=True)
class Profile:
    """How large packs are. The name keys the stored assignment: another profile, another assignment."""

    tokens: int = 2_500
    size: int = 20

    @property
    def name(self) -> str:
        """Identify the assignment made under these limits."""
        return f"packs-1:{self.tokens}x{self.size}"

    @property
    def is_plain(self) -> bool:
        """Whether each memory has a prompt of its own."""
        return self.size == 1


def profile(
    *,
    cache_floor: int = 0,
    context_tokens: int | None = None,
    pack_size: int | None = None,
    pack_tokens: int | None = None,
) -> Profile:
    """Choose pack limits for a model, unless the user did.

    cache_floor: fewest tokens of prefix the provider caches; a floor above 2,048 needs larger packs to be reached.
    context_tokens: what prompt and reply may take together; a pack aims at half of it at most.
    """
    large = cache_floor > 2_048
    tokens = pack_tokens or (4_600 if large else 2_500)
    if context_tokens is not None:
        tokens = max(200, min(tokens, context_tokens // 2))
    return Profile(tokens=tokens, size=pack_size or (60 if large else 20))


def natural_order(candidate: Candidate) -> tuple[str, int, str, str]:
    """Sort memories as a reader meets them."""
    return (candidate.path, candidate.start_line, candidate.entity, candidate.id)


def cost(candidate: Candidate) -> int:
    """Tokens a memory takes in a pack, fence included."""
    return candidate.tokens + ENTRY_TOKENS


def in_groups(members: Sequence[Candidate], tokens: int, size: int) -> list[list[Candidate]]:
    """Cut a sequence in order into groups within the limits, at the end of a file where one is nearly full."""
    groups: list[list[Candidate]] = []
    filled = 0
    for member in members:
        group = groups[-1] if groups else []
        full = filled + cost(member) > tokens or len(group) >= size
        nearly = filled > AT_FILE_END * tokens or len(group) > AT_FILE_END * size
        if not group or full or (nearly and group[-1].path != member.path):
            groups.append([])
            filled = 0
        groups[-1].append(member)
        filled += cost(member)
    return groups
