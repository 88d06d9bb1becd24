"""How long a memory is kept (L03, L06): what is dropped, archived and pruned, and what never is. Pure.

What a person said is never erased for its age or small importance, unless something newer superseded it: it is only
archived. Exchanges and summaries record what happened and were not said to be kept. Trade-off: a store of someone who
says a lot keeps it, archived, until they erase it; the caps of a layer count what is not archived.
"""

from xscore.learning.decay import days_since, last_seen
from xscore.records import Kind, Memory, Source, Status
from xscore.settings import MemorySettings

_RECORDS = frozenset({Kind.EXCHANGE, Kind.SUMMARY})
LIVE = frozenset({Status.ACTIVE, Status.STALE})


def is_dropped(memory: Memory, rules: MemorySettings, *, now: float) -> bool:
    """Whether it is erased for being unimportant and unused: importance < 0.2, and not seen for 30 days."""
    unused = days_since(last_seen(memory), now) >= rules.drop_days
    return memory.importance < rules.drop_importance and unused and _may_be_erased(memory)


def is_pruned(memory: Memory, rules: MemorySettings, *, now: float) -> bool:
    """Whether it is erased for its age: not seen for a year, and not of high importance."""
    return _is_past(memory, rules.prune_days, rules, now) and _may_be_erased(memory)


def is_archived(memory: Memory, rules: MemorySettings, *, now: float) -> bool:
    """Whether it is to be a candidate no more: not seen for 180 days, and not of high importance."""
    return memory.status in LIVE and _is_past(memory, rules.archive_days, rules, now)


def was_said(memory: Memory) -> bool:
    """Whether a person put it there to be kept."""
    return memory.source is Source.EXPLICIT and memory.kind not in _RECORDS


def _may_be_erased(memory: Memory) -> bool:
    return not was_said(memory) or memory.status is Status.SUPERSEDED


def _is_past(memory: Memory, days: float, rules: MemorySettings, now: float) -> bool:
    return memory.importance < rules.high_importance and days_since(last_seen(memory), now) >= days
