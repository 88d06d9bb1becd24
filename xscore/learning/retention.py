"""How long a memory is kept (L03, L06): what is dropped, archived and pruned, and what never is. Pure.

What a person said is never erased for its age or small importance, unless something newer superseded it: it is only
archived. Exchanges and summaries record what happened and were not said to be kept. Trade-off: a store of someone who
says a lot keeps it, archived, until they erase it; the caps of a layer count what is not archived.
"""

from xscore.records import Kind, Memory, Source, Status
from xscore.settings import MemorySettings

RECORDS = frozenset({Kind.EXCHANGE, Kind.SUMMARY})
"""What happened: true for ever, so that it neither fades nor is merged."""
LIVE = frozenset({Status.ACTIVE, Status.STALE})


def is_dropped(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is erased for being unimportant and unused: importance < 0.2, and not seen for 30 days."""
    return memory.importance < rules.drop_importance and unseen_days >= rules.drop_days and _may_be_erased(memory)


def is_pruned(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is erased for its age: not seen for a year, and not of high importance."""
    return _is_past(memory, unseen_days, rules.prune_days, rules) and _may_be_erased(memory)


def is_archived(memory: Memory, unseen_days: float, rules: MemorySettings) -> bool:
    """Whether it is to be a candidate no more: not seen for 180 days, and not of high importance."""
    return memory.status in LIVE and _is_past(memory, unseen_days, rules.archive_days, rules)


def was_said(memory: Memory) -> bool:
    """Whether a person put it there to be kept."""
    return memory.source is Source.EXPLICIT and memory.kind not in RECORDS


def _may_be_erased(memory: Memory) -> bool:
    if memory.kind is Kind.SUMMARY:  # it goes with the last of its exchanges
        return False
    return not was_said(memory) or memory.status is Status.SUPERSEDED


def _is_past(memory: Memory, unseen_days: float, days: float, rules: MemorySettings) -> bool:
    return memory.importance < rules.high_importance and unseen_days >= days
