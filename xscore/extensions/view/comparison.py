"""Two turns side by side: which memories rose, which fell, and what only one of them chose.

Scores are those of the turns' own pages (`extensions.pages.reading`), joined by memory id; a memory
that only one of them could judge has one score. Computes, and reads nothing. Trade-off: a score
that moved by less than `LEAST_CHANGE` counts as the same, since a judge asked twice says as much.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from xscore.extensions.pages.records import MapMemory, TurnPage

LEAST_CHANGE = 0.05
ROWS_SHOWN = 60
"""Rows shown of memories that rose, and of those that fell."""


class ComparedMemory(NamedTuple):
    """A memory with its scores in both turns."""

    memory: MapMemory
    before: float | None
    now: float | None
    rank_before: int
    """Rank among the chosen memories of the earlier turn, from 1; 0 if it was not chosen."""
    rank_now: int

    @property
    def change(self) -> float | None:
        """How far it rose; None if one of the turns has no score of it."""
        if self.before is None or self.now is None:
            return None
        return self.now - self.before


class TurnComparison(Struct, frozen=True, kw_only=True):
    """Two turns compared."""

    before: TurnPage
    """The earlier turn of the two."""
    now: TurnPage
    memories: tuple[ComparedMemory, ...]
    """All candidates of either turn, by path and line."""
    chosen: tuple[ComparedMemory, ...]
    """Memories that either turn chose: the later turn's in its order, then those that only the
    earlier one chose."""
    rose: tuple[ComparedMemory, ...]
    """Memories that rose, the most first."""
    fell: tuple[ComparedMemory, ...]
    incomparable: int
    """How many memories have no score in one of the turns, or in both."""

    @property
    def is_same_question(self) -> bool:
        """Whether both turns asked the same."""
        return self.before.task == self.now.task

    @property
    def in_both(self) -> int:
        """Return how many both chose."""
        return sum(bool(memory.rank_now and memory.rank_before) for memory in self.chosen)

    @property
    def only_before(self) -> int:
        """Return how many only the earlier turn chose."""
        return sum(not memory.rank_now for memory in self.chosen)

    @property
    def only_now(self) -> int:
        """Return how many only the later turn chose."""
        return sum(not memory.rank_before for memory in self.chosen)


def compare_turns(before: TurnPage, now: TurnPage) -> TurnComparison:
    """Join the memories of two turns."""
    memories = _joined(before, now)
    chosen: list[ComparedMemory] = []
    moved: list[tuple[float, ComparedMemory]] = []
    incomparable = 0
    for memory in memories:
        if memory.rank_now or memory.rank_before:
            chosen.append(memory)
        change = memory.change
        if change is None:
            incomparable += 1
        elif abs(change) >= LEAST_CHANGE:
            moved.append((change, memory))
    chosen.sort(key=lambda memory: (not memory.rank_now, memory.rank_now or memory.rank_before))
    moved.sort(key=lambda pair: -abs(pair[0]))
    return TurnComparison(
        before=before,
        now=now,
        memories=memories,
        chosen=tuple(chosen),
        rose=tuple([memory for change, memory in moved if change > 0]),
        fell=tuple([memory for change, memory in moved if change < 0]),
        incomparable=incomparable,
    )


def _joined(before: TurnPage, now: TurnPage) -> tuple[ComparedMemory, ...]:
    """Return the candidates of either turn with the scores of both, by path and line."""
    scores_before = _scores(before)
    scores_now = _scores(now)
    ranks_before = _ranks(before)
    ranks_now = _ranks(now)
    # The later turn's entry of a memory counts.
    by_id = {memory.id: memory for memory in (*before.memories, *now.memories)}
    memories: list[ComparedMemory] = []
    for id_, memory in by_id.items():
        memories.append(
            ComparedMemory(
                memory=memory,
                before=scores_before.get(id_),
                now=scores_now.get(id_),
                rank_before=ranks_before.get(id_, 0),
                rank_now=ranks_now.get(id_, 0),
            )
        )
    memories.sort(key=lambda compared: (compared.memory.path, compared.memory.start_line))
    return tuple(memories)


def _scores(page: TurnPage) -> Mapping[str, float | None]:
    return {memory.id: memory.score for memory in page.memories}


def _ranks(page: TurnPage) -> Mapping[str, int]:
    """Return the places among the chosen, by the ids on the map."""
    ranks: dict[str, int] = {}
    for rank, entry in enumerate(page.kept, start=1):
        if entry.place >= 0:
            ranks[page.memories[entry.place].id] = rank
    return ranks
