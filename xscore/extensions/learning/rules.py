"""The rules of consolidation: carry over, merge, fade, expire, apply caps, summarise. Drafts in,
drafts out.

A closed session's decisions become governance, the rest the project's. Memories of one layer,
scope, kind and file that say the same are merged; the others stay, superseded. What a person said
is never erased for its age unless something newer superseded it. No model is asked. Trade-off:
everything a session noted is carried over; what turns out useless fades like any other memory.
"""

from collections.abc import Callable, Collection, Sequence

from msgspec.structs import replace

from xscore.extensions.learning.draft import (
    HISTORY_KINDS,
    LAYERS,
    LIVE,
    ActionKind,
    ConsolidationDraft,
    Scope,
    as_superseded,
    is_user_stated,
)
from xscore.pipeline.contradictions import decayed, last_seen
from xscore.platform.hashing import integer_id, memory_id
from xscore.platform.text import counted
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.store import memory_writer
from xscore.store.near_duplicates import near_duplicates
from xscore.store.remembering import statement_text

LEAST_DAYS = 1.0
"""Confidence falls by whole days or more."""


def fade_confidence(
    draft: ConsolidationDraft, scope: Scope, drifting: Collection[str] = ()
) -> None:
    """Fade confidence for the days since it last faded. drifting: ids that fade faster, stated or
    not.

    At most once a day, so that consolidation may run at any time; what was seen within a day does
    not fade.
    """
    unfaded = draft.days_unfaded(scope)
    rules = draft.rules
    for memory in draft.of_scope(scope):
        drifts = memory.id in drifting
        if (
            memory.status not in LIVE
            or memory.kind in HISTORY_KINDS
            or (is_user_stated(memory) and not drifts)
        ):
            continue
        days = min(draft.days_unseen(memory), unfaded)
        rate = rules.decay_per_day * (rules.drift_rate if drifts else 1.0)
        fallen = decayed(memory.confidence, days, rate)
        if days < LEAST_DAYS or fallen == memory.confidence:
            continue
        latest = ""
        if drifts:
            latest = f", unused in the latest {rules.drift_projects} projects"
        why = f"confidence {memory.confidence:.3f} -> {fallen:.3f}, {days:.1f} days unseen{latest}"
        draft.change(ActionKind.FADE, scope, replace(memory, confidence=fallen), why=why)


def archive_weak(draft: ConsolidationDraft) -> None:
    """Archive inferred user memories of too little confidence."""
    for memory in draft.of_scope("user"):
        is_weak = (
            memory.source is MemorySource.INFERRED
            and memory.confidence < draft.rules.weak_confidence
        )
        if memory.status in LIVE and is_weak:
            why = f"confidence {memory.confidence:.3f} is below {draft.rules.weak_confidence:g}"
            draft.archive("user", memory, why=why)


def expire_unused(draft: ConsolidationDraft, scope: Scope) -> None:
    """Erase unimportant unused memories, prune and archive long unused ones of low importance.

    A summary goes with the last of its exchanges.
    """
    rules = draft.rules
    for memory in draft.of_scope(scope):
        days = draft.days_unseen(memory)
        is_said = is_user_stated(memory) and memory.status is not MemoryStatus.SUPERSEDED
        may_go = memory.kind is not Kind.SUMMARY and not is_said
        is_minor = memory.importance < rules.high_importance
        if may_go and memory.importance < rules.drop_importance and days >= rules.drop_days:
            why = (
                f"importance {memory.importance:g} is below {rules.drop_importance:g}, unused for"
                f" {days:.0f} days"
            )
            draft.erase(ActionKind.DROP, scope, memory, why=why)
        elif may_go and is_minor and days >= rules.prune_days:
            draft.erase(ActionKind.PRUNE, scope, memory, why=f"unused for {days:.0f} days")
        elif memory.status in LIVE and is_minor and days >= rules.archive_days:
            draft.archive(scope, memory, why=f"unused for {days:.0f} days")


def keep_to_caps(draft: ConsolidationDraft, scope: Scope) -> None:
    """Archive the least valuable memories of a layer over its rows or bytes, by importance ×
    confidence."""
    for layer in LAYERS[scope]:
        max_rows = draft.rules.max_rows[layer]
        max_bytes = draft.rules.max_bytes[layer]
        size = 0
        live = [
            memory
            for memory in draft.of_scope(scope)
            if memory.layer is layer and memory.status in LIVE
        ]
        over = list[Memory]()
        for rows, memory in enumerate(sorted(live, key=_value, reverse=True), 1):
            size += len(memory.text.encode("utf-8", "surrogatepass"))
            if over or rows > max_rows or size > max_bytes:
                over.append(memory)
        why = (
            f"the {layer} layer is over its cap of {max_rows:,} rows or {max_bytes:,} bytes, this"
            " is of least value"
        )
        for memory in reversed(over):
            draft.archive(scope, memory, why=why)


def _value(memory: Memory) -> tuple[float, float, str]:
    return (memory.importance * memory.confidence, last_seen(memory), memory.id)


def merge_duplicates(draft: ConsolidationDraft, scope: Scope) -> None:
    """Merge memories that say the same, until none do."""
    while _merge_once(draft, scope):
        pass


def _merge_once(draft: ConsolidationDraft, scope: Scope) -> bool:
    pools: dict[tuple[str, ...], dict[str, Memory]] = {}
    for memory in draft.of_scope(scope):
        if memory.status in LIVE and memory.kind not in HISTORY_KINDS:
            file = memory.path or next(iter(memory.particulars.paths), "")
            pools.setdefault((memory.layer, memory.scope, memory.kind, file), {})[memory.id] = (
                memory
            )
    merged = False
    for _, by_id in sorted(pools.items()):
        for group in (
            near_duplicates({id_: memory.text for id_, memory in by_id.items()})
            if len(by_id) > 1
            else []
        ):
            merged |= _merge_group(draft, scope, [by_id[id_] for id_ in group])
    return merged


def _merge_group(draft: ConsolidationDraft, scope: Scope, group: Sequence[Memory]) -> bool:
    if len({memory.key for memory in group if memory.key}) > 1:
        group = [memory for memory in group if not memory.key]
    if len(group) < 2:
        return False
    best, *repeats = sorted(  # the clearest first
        group,
        key=lambda memory: (
            is_user_stated(memory),
            bool(memory.key),
            memory.updated_at,
            len(memory.text),
            memory.id,
        ),
        reverse=True,
    )
    occurrences = sum(memory.particulars.occurrences for memory in group)
    keys = [memory.key for memory in group if memory.key]
    kept = replace(
        best,
        key=keys[0] if keys else "",
        evidence_count=sum(memory.evidence_count for memory in group),
        importance=max(memory.importance for memory in group),
        confidence=max(memory.confidence for memory in group),
        particulars=replace(best.particulars, occurrences=occurrences),
    )
    why = f"{len(group)} say the same; seen {kept.evidence_count} times in all"
    draft.change(
        ActionKind.MERGE,
        scope,
        kept,
        *(as_superseded(memory, best.id) for memory in repeats),
        why=why,
    )
    return True


CARRIED = frozenset(
    map(
        Kind, ("decision", "failure", "convention", "pattern", "tech_stack", "architecture", "todo")
    )
)
"""Kinds kept after the session that noted them."""
SUMMARY_IMPORTANCE = 0.6
"""Slightly above that of its exchanges."""
_TITLE_CHARS = 80

_Slot = tuple[Layer, MemoryScope, str]
"""The place in which only one memory can be active, if it has a key."""


def carry_over(draft: ConsolidationDraft, closed: Collection[str]) -> None:
    """Move the notes of these closed sessions to the project."""
    active = {}
    for memory in draft.after.values():
        if memory.status is MemoryStatus.ACTIVE:
            active[_slot_of(memory)] = memory.id
    archived = {  # of the user's choices: an inference takes their place at no run
        _slot_of(memory)
        for memory in draft.after.values()
        if memory.key and memory.status is MemoryStatus.ARCHIVED and is_user_stated(memory)
    }
    for noted in draft.of_scope("session"):
        thread = draft.threads.get(noted.id) or noted.particulars.session
        if noted.status not in LIVE or noted.kind not in CARRIED or thread not in closed:
            continue
        if is_user_stated(noted) or _slot_of(_project_memory(noted, thread)) not in archived:
            _carry_one(draft, noted, thread, active)


def summarise_sessions(
    draft: ConsolidationDraft, closed: Collection[str], *, summary_of: Callable[[str], str]
) -> None:
    """Summarise closed sessions without a summary, or with newer exchanges.

    summary_of: the text of a session's summary; empty for none.
    """
    exchanges: dict[str, list[Memory]] = {}
    for memory in draft.of_scope("session"):
        thread = draft.threads.get(memory.id, "")
        if memory.kind is Kind.EXCHANGE and thread in closed:
            exchanges.setdefault(thread, []).append(memory)
    for thread in sorted(exchanges):
        newest = max(memory.updated_at for memory in exchanges[thread])
        summary = draft.after.get(summary_id(thread))
        if summary is None or newest > summary.updated_at:
            _summarise_one(draft, thread, exchanges[thread], summary_of(thread))


def summary_id(thread: str) -> str:
    """Name the summary of a session."""
    return memory_id(Layer.SESSION, "", Kind.SUMMARY, "", integer_id("summary", thread))


def _carry_one(
    draft: ConsolidationDraft, noted: Memory, thread: str, active: dict[_Slot, str]
) -> None:
    """active: place -> id of its memory; a place with a key has room for one."""
    memory = _project_memory(noted, thread)
    standing = active.get(_slot_of(memory), memory.id) if memory.key else memory.id
    rival = draft.after[standing] if standing != memory.id else None
    if rival is not None and is_user_stated(rival) and not is_user_stated(memory):
        return
    carried = draft.after.get(memory.id)
    if carried is not None and carried.status in LIVE:
        memory = replace(carried, evidence_count=carried.evidence_count + noted.evidence_count)
    stepping_back = []
    for replaced in (rival, noted):
        if replaced is not None:
            stepping_back.append(as_superseded(replaced, memory.id))
    draft.change(
        ActionKind.CARRY,
        "session",
        memory,
        *stepping_back,
        why=f"noted in the closed session {thread}",
    )
    active[_slot_of(memory)] = memory.id


def _project_memory(noted: Memory, thread: str) -> Memory:
    parts = memory_writer.fields_of(
        noted,
        layer=Layer.GOVERNANCE if noted.kind is Kind.DECISION else Layer.PROJECT,
        particulars=replace(noted.particulars, session=thread),
        scope=MemoryScope.REPOSITORY,
        status=MemoryStatus.ACTIVE,
    )
    ordinal = integer_id("said", noted.key, statement_text(noted))
    # Redacted when it was stored.
    return memory_writer.make_memory(**parts, ordinal=ordinal, allow_pii=True)[0]


def _slot_of(memory: Memory) -> _Slot:
    return (memory.layer, memory.scope, memory.key)


def _summarise_one(
    draft: ConsolidationDraft, thread: str, exchanges: list[Memory], text: str
) -> None:
    if not text.strip():
        return
    first = min(exchanges, key=lambda memory: (memory.created_at, memory.id))
    count = counted(len(exchanges), "exchange")
    summary, _ = memory_writer.make_memory(
        layer=Layer.SESSION,
        kind=Kind.SUMMARY,
        title=f"Session of {count}: {first.title}"[:_TITLE_CHARS],
        text=text,
        ordinal=integer_id("summary", thread),
        particulars=MemoryDetails(session=thread),
        scope=MemoryScope.SESSION,
        importance=SUMMARY_IMPORTANCE,
        source=MemorySource.INFERRED,
        created_at=draft.now,
        updated_at=draft.now,
    )
    if earlier := draft.after.get(summary.id):
        lasting = ("created_at", "importance", "accessed_at", "access_count")
        summary = replace(summary, **{name: getattr(earlier, name) for name in lasting})
    draft.threads[summary.id] = thread
    draft.members[summary.id] = tuple(memory.id for memory in exchanges)
    why = f"{count} of a closed session, in their own words"
    draft.change(ActionKind.SUMMARISE, "session", summary, why=why)
