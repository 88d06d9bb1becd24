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
    LEAST_DAYS,
    LIVE,
    ActionKind,
    ConsolidationDraft,
    Scope,
    as_superseded,
    groups_that_say_the_same,
    is_inferred_fact,
    is_user_stated,
    text_bytes,
)
from xscore.pipeline.contradictions import decayed, last_seen
from xscore.platform.figures import format_fraction
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
from xscore.store.composing import statement_text


def fade_confidence(
    draft: ConsolidationDraft, scope: Scope, drifting: Collection[str] = ()
) -> None:
    """Fade confidence for the days since it last faded.

    At most once a day, so that consolidation may run at any time; what was seen within a day does
    not fade.

    drifting: ids that fade faster, stated or not.
    """
    unfaded = draft.days_unfaded(scope)
    rules = draft.rules
    for memory in draft.of_scope(scope):
        if memory.status not in LIVE or memory.kind in HISTORY_KINDS:
            continue
        drifts = memory.id in drifting
        if is_user_stated(memory) and not drifts:
            continue
        rate = rules.decay_per_day
        latest = ""
        if drifts:
            rate *= rules.drift_rate
            latest = f", unused in the latest {rules.drift_projects} projects"
        # Not for the days before the last run: confidence has fallen for those already.
        days = min(draft.days_unseen(memory), unfaded)
        fallen = decayed(memory.confidence, days, rate)
        if days < LEAST_DAYS or fallen == memory.confidence:
            continue
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
            confidence = format_fraction(memory.confidence)
            least = format_fraction(draft.rules.weak_confidence)
            why = f"confidence {confidence} is below {least}"
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
            importance = format_fraction(memory.importance)
            least = format_fraction(rules.drop_importance)
            why = f"importance {importance} is below {least}, unused for {days:.0f} days"
            draft.erase(ActionKind.DROP, scope, memory, why=why)
        elif may_go and is_minor and days >= rules.prune_days:
            draft.erase(ActionKind.PRUNE, scope, memory, why=f"unused for {days:.0f} days")
        elif memory.status in LIVE and is_minor and days >= rules.archive_days:
            draft.archive(scope, memory, why=f"unused for {days:.0f} days")
        elif (
            memory.status in LIVE
            and _is_unproven(draft, memory)
            and days >= rules.inferred_days
        ):
            why = f"inferred, cites nothing, unused for {days:.0f} days"
            draft.archive(scope, memory, why=why)


def _is_unproven(draft: ConsolidationDraft, memory: Memory) -> bool:
    """Whether a fact of the project was inferred, and no code that it cites can prove it."""
    is_of_user = memory.layer is Layer.USER  # there confidence fades instead
    return is_inferred_fact(memory) and not is_of_user and memory.id not in draft.cited


def expire_waiting(draft: ConsolidationDraft, scope: Scope) -> None:
    """Erase facts of sessions that were not reviewed in `inferred_days`."""
    for memory in draft.of_scope(scope):
        days = draft.days_unseen(memory)
        is_waiting = memory.details.review == "waiting"
        if is_waiting and days >= draft.rules.inferred_days and memory.id not in draft.cited:
            why = f"taken from a session, not reviewed for {days:.0f} days"
            draft.erase(ActionKind.DROP, scope, memory, why=why)


def keep_to_caps(draft: ConsolidationDraft, scope: Scope) -> None:
    """Archive the least valuable memories of a layer over its rows or bytes, by importance ×
    confidence."""
    for layer in LAYERS[scope]:
        max_rows = draft.rules.max_rows[layer]
        max_bytes = draft.rules.max_bytes[layer]
        live: list[Memory] = []
        for memory in draft.of_scope(scope):
            if memory.layer is layer and memory.status in LIVE:
                live.append(memory)
        size = 0
        over: list[Memory] = []
        for rows, memory in enumerate(sorted(live, key=_value, reverse=True), 1):
            size += text_bytes(memory)
            # After the first that has no room no smaller one takes its place: it is worth less.
            if over or rows > max_rows or size > max_bytes:
                over.append(memory)
        why = (
            f"the {layer} layer is over its cap of {max_rows:,} rows or {max_bytes:,} bytes, this"
            " is the least valuable"
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
    comparable: dict[tuple[str, ...], list[Memory]] = {}
    for memory in draft.of_scope(scope):
        if memory.status in LIVE and memory.kind not in HISTORY_KINDS:
            file = memory.path or next(iter(memory.details.paths), "")
            place = (memory.layer, memory.scope, memory.kind, file)
            comparable.setdefault(place, []).append(memory)
    has_merged = False
    for _, memories in sorted(comparable.items()):
        for group in groups_that_say_the_same(memories):
            has_merged |= _merge_group(draft, scope, group)
    return has_merged


def _merge_group(draft: ConsolidationDraft, scope: Scope, group: Sequence[Memory]) -> bool:
    keys = [memory.key for memory in group if memory.key]
    if len(set(keys)) > 1:
        # Two keys are two topics, whatever the words: only what has none may merge.
        group = [memory for memory in group if not memory.key]
        keys = []
    if len(group) < 2:
        return False
    best, *repeats = sorted(group, key=_clarity, reverse=True)
    occurrences = evidence_count = 0
    importance = confidence = 0.0
    for memory in group:
        occurrences += memory.details.occurrences
        evidence_count += memory.evidence_count
        importance = max(importance, memory.importance)
        confidence = max(confidence, memory.confidence)
    kept = replace(
        best,
        key=next(iter(keys), ""),
        evidence_count=evidence_count,
        importance=importance,
        confidence=confidence,
        details=replace(best.details, occurrences=occurrences),
    )
    why = f"{len(group)} say the same; seen {kept.evidence_count} times in all"
    superseded = [as_superseded(memory, best.id) for memory in repeats]
    draft.change(ActionKind.MERGE, scope, kept, *superseded, why=why)
    return True


def _clarity(memory: Memory) -> tuple[bool, bool, float, int, str]:
    """Rank a memory among those that say the same: the highest stays."""
    return (
        is_user_stated(memory),
        bool(memory.key),
        memory.updated_at,
        len(memory.text),
        memory.id,
    )


CARRIED = frozenset(
    map(
        Kind,
        ("decision", "failure", "convention", "pattern", "tech_stack", "architecture", "todo"),
    )
)
"""Kinds kept after the session that noted them."""
SUMMARY_IMPORTANCE = 0.6
"""Importance of a summary: slightly above that of its exchanges."""
_TITLE_CHARS = 80

_Slot = tuple[Layer, MemoryScope, str]
"""The place in which only one memory can be active, if it has a key."""


def carry_over(draft: ConsolidationDraft, closed: Collection[str]) -> None:
    """Move the notes of these closed sessions to the project."""
    active: dict[_Slot, str] = {}
    archived = set[_Slot]()
    for memory in draft.after.values():
        if memory.status is MemoryStatus.ACTIVE:
            active[_slot_of(memory)] = memory.id
        # A choice of the user's own: no inference ever takes its place.
        elif memory.key and memory.status is MemoryStatus.ARCHIVED and is_user_stated(memory):
            archived.add(_slot_of(memory))
    for noted in draft.of_scope("session"):
        thread = draft.threads.get(noted.id) or noted.details.session
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
    """Move one note of a session to the project.

    active: place -> id of its memory; a place with a key has room for one.
    """
    memory = _project_memory(noted, thread)
    rival: Memory | None = None
    if memory.key:
        standing = active.get(_slot_of(memory), memory.id)
        if standing != memory.id:
            rival = draft.after[standing]
    # What a person said is not replaced by what a session inferred.
    if rival is not None and is_user_stated(rival) and not is_user_stated(memory):
        return
    carried = draft.after.get(memory.id)
    if carried is not None and carried.status in LIVE:
        memory = replace(carried, evidence_count=carried.evidence_count + noted.evidence_count)
    superseded = [as_superseded(noted, memory.id)]
    if rival is not None:
        superseded.insert(0, as_superseded(rival, memory.id))
    why = f"noted in the closed session {thread}"
    draft.change(ActionKind.CARRY, "session", memory, *superseded, why=why)
    active[_slot_of(memory)] = memory.id


def _project_memory(noted: Memory, thread: str) -> Memory:
    layer = Layer.PROJECT
    if noted.kind is Kind.DECISION:
        layer = Layer.GOVERNANCE
    parts = memory_writer.fields_of(
        noted,
        layer=layer,
        details=replace(noted.details, session=thread),
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
        details=MemoryDetails(session=thread),
        scope=MemoryScope.SESSION,
        importance=SUMMARY_IMPORTANCE,
        source=MemorySource.INFERRED,
        created_at=draft.now,
        updated_at=draft.now,
    )
    earlier = draft.after.get(summary.id)
    if earlier is not None:
        # The text is new; what was learned of its use stays.
        summary = replace(
            summary,
            created_at=earlier.created_at,
            importance=earlier.importance,
            accessed_at=earlier.accessed_at,
            access_count=earlier.access_count,
        )
    draft.threads[summary.id] = thread
    draft.members[summary.id] = tuple(memory.id for memory in exchanges)
    why = f"{count} of a closed session, in their own words"
    draft.change(ActionKind.SUMMARISE, "session", summary, why=why)
