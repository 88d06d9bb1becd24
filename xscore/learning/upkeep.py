"""What time does to the memories of a layer: they fade, are archived, and go. The same for both stores.

Each rule is a pure function of its own (`decay`, `retention`, `caps`); here they are applied, one after the other.
What a person said does not fade. Trade-off: fading is counted from the last run, which one value in the store tells; a
store that was salvaged fades anew from when each memory was last seen.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from xscore.learning.actions import ActionKind, Scope
from xscore.learning.caps import over_cap
from xscore.learning.decay import SECONDS_PER_DAY, days_since, decay
from xscore.learning.draft import Draft
from xscore.learning.retention import LIVE, RECORDS, is_archived, is_dropped, is_pruned, was_said
from xscore.memory import door
from xscore.records import Layer, Memory, Source, Status
from xscore.settings import MemorySettings

LEAST_DAYS = 1.0
"""Confidence falls by whole days or more."""


def fade(
    draft: Draft,
    layers: Collection[Layer],
    scope: Scope,
    rules: MemorySettings,
    *,
    now: float,
    drifting: Collection[str] = (),
) -> None:
    """Let confidence fall for the days since it last did (L05). drifting: ids that fade faster, said or not (L09).

    At most once a day, so that consolidation may run at any time; what was seen within a day does not fade.
    """
    if not is_due(draft, scope, now=now):
        return
    for memory in draft.of(layers):
        drifts = memory.id in drifting
        if memory.status not in LIVE or memory.kind in RECORDS or (was_said(memory) and not drifts):
            continue
        days = days_since(max(draft.last_seen(memory), draft.faded_at.get(scope, 0.0)), now)
        rate = rules.decay_per_day * (rules.drift_rate if drifts else 1.0)
        fallen = decay(memory.confidence, days, rate)
        if days < LEAST_DAYS or fallen == memory.confidence:
            continue
        latest = f", unused in the latest {rules.drift_projects} projects" if drifts else ""
        why = f"confidence {memory.confidence:.3f} -> {fallen:.3f}, {days:.1f} days unseen{latest}"
        draft.act(ActionKind.FADE, scope, replace(memory, confidence=fallen), why=why)


def is_due(draft: Draft, scope: Scope, *, now: float) -> bool:
    """Whether confidence last fell a day ago or more."""
    return days_since(draft.faded_at.get(scope, 0.0), now) >= LEAST_DAYS


def archive_weak(draft: Draft, scope: Scope, rules: MemorySettings) -> None:
    """Archive what was inferred of the user and is believed no more (L04)."""
    for memory in draft.of((Layer.USER,)):
        if memory.status in LIVE and memory.source is Source.INFERRED and memory.confidence < rules.weak_confidence:
            why = f"confidence {memory.confidence:.3f} is below {rules.weak_confidence:g}"
            draft.act(ActionKind.ARCHIVE, scope, _archived(memory), why=why)


def retire(draft: Draft, layers: Collection[Layer], scope: Scope, rules: MemorySettings, *, now: float) -> None:
    """Drop, prune and archive what has long been unused (L03, L06)."""
    for memory in draft.of(layers):
        days = (now - draft.last_seen(memory)) / SECONDS_PER_DAY
        if is_dropped(memory, days, rules):
            why = f"importance {memory.importance:g} is below {rules.drop_importance:g}, unused for {days:.0f} days"
            draft.erase(ActionKind.DROP, scope, memory, why=why)
        elif is_pruned(memory, days, rules):
            draft.erase(ActionKind.PRUNE, scope, memory, why=f"unused for {days:.0f} days")
        elif is_archived(memory, days, rules):
            draft.act(ActionKind.ARCHIVE, scope, _archived(memory), why=f"unused for {days:.0f} days")


def keep_to_caps(draft: Draft, layers: Iterable[Layer], scope: Scope, rules: MemorySettings) -> None:
    """Archive the least valuable of a layer that is over its rows or bytes (L11)."""
    for layer in layers:
        rows, size = rules.max_rows[layer.value], rules.max_bytes[layer.value]
        for memory in over_cap(draft.of((layer,)), max_rows=rows, max_bytes=size):
            why = f"the {layer} layer is over its cap of {rows:,} rows or {size:,} bytes, and this is of least value"
            draft.act(ActionKind.ARCHIVE, scope, _archived(memory), why=why)


def _archived(memory: Memory) -> Memory:
    return door.with_status(memory, Status.ARCHIVED)
