"""Memories that say the same become one (L03): the clearest stays, its evidence adds up, the others are superseded.

Only memories of one layer, scope and kind that speak of the same file, or of none, are compared, and two keys are never
made one. What a person said stays before what was inferred, then what has a key, then the latest, then the longest.
Trade-off: the others stay in the store, superseded, until they are pruned, so that nothing is lost by a comparison.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from xscore.learning.actions import ActionKind, Scope
from xscore.learning.draft import Draft, Similar, superseded
from xscore.learning.retention import LIVE, RECORDS, was_said
from xscore.records import Layer, Memory


def merge(draft: Draft, layers: Collection[Layer], scope: Scope, *, similar: Similar) -> None:
    """Merge what says the same in these layers, until nothing does."""
    while _merged(draft, layers, scope, similar):
        pass


def _merged(draft: Draft, layers: Collection[Layer], scope: Scope, similar: Similar) -> bool:
    pools: dict[tuple[str, ...], dict[str, Memory]] = {}
    for memory in draft.of(layers):
        if memory.status in LIVE and memory.kind not in RECORDS:
            pool = (memory.layer, memory.scope, memory.kind, _place(memory))
            pools.setdefault(pool, {})[memory.id] = memory
    found = False
    for name in sorted(pools):
        by_id = pools[name]
        for group in similar({id_: memory.text for id_, memory in by_id.items()}) if len(by_id) > 1 else []:
            found |= _merge_group(draft, scope, [by_id[id_] for id_ in group])
    return found


def _merge_group(draft: Draft, scope: Scope, group: Sequence[Memory]) -> bool:
    if len({memory.key for memory in group if memory.key}) > 1:
        group = [memory for memory in group if not memory.key]
    if len(group) < 2:
        return False
    best, *others = sorted(group, key=_clarity, reverse=True)
    occurrences = sum(memory.particulars.occurrences for memory in group)
    kept = replace(
        best,
        key=next((memory.key for memory in group if memory.key), ""),
        evidence_count=sum(memory.evidence_count for memory in group),
        importance=max(memory.importance for memory in group),
        confidence=max(memory.confidence for memory in group),
        particulars=replace(best.particulars, occurrences=occurrences),
    )
    why = f"{len(group)} say the same; seen {kept.evidence_count} times in all"
    draft.act(ActionKind.MERGE, scope, kept, *(superseded(memory, best.id) for memory in others), why=why)
    return True


def _clarity(memory: Memory) -> tuple[bool, bool, float, int, str]:
    return (was_said(memory), bool(memory.key), memory.updated_at, len(memory.text), memory.id)


def _place(memory: Memory) -> str:
    return memory.path or next(iter(memory.particulars.paths), "")
