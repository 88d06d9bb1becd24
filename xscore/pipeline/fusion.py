"""Build the bundle from a selection: whole memories, conflicts resolved, near duplicates shown
once, within the budget.

Every chosen memory is accounted for: one that is merged into another or does not fit is named.
Places in code are never merged: two similar functions may both need the edit. Trade-off: only shown
memories are compared, so stored memories may repeat each other until `memory consolidate` merges
them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from xscore.pipeline.contradictions import resolve_conflicts
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.turn_stages import Opened, Ranking
from xscore.platform.git import run_git
from xscore.platform.git_folder import head_branch
from xscore.platform.text import join_sentences
from xscore.prompts.bundle_parts import (
    RANKED_BY_WORDS,
    BesideMemories,
    Bundle,
    BundleEntry,
    age_text,
)
from xscore.prompts.left_out import LeftOut, LeftOutCause
from xscore.records.judgment import UNRELATED_BELOW, PlacedBy, Ranked, Selection
from xscore.records.memory import CODE_KINDS, Citation, Kind, Layer, Memory, MemoryStatus, Relation
from xscore.records.turn import Scope
from xscore.store import evidence, memory_rows
from xscore.store.store import Store

NEAREST_BY_WORDS = 5
"""How many memories are named where words alone ranked and none reached the threshold."""
MOST_DETAILS = 20
"""Most details of kept summaries to consider, newest first."""


def build_bundle(
    parts: PipelineParts,
    options: TurnOptions,
    opened: Opened,
    ranking: Ranking,
    reasons: Mapping[str, str],
) -> Bundle:
    """Render the kept memories within the token budget, name those that came near, and warn of what
    does not fit.

    reasons: by content hash.
    """
    from xscore.prompts.bundle import render_bundle

    selection, turn = ranking.selection, opened.turn
    form = options.bundle or "xml"
    nearest = NEAREST_BY_WORDS if ranking.by_words and not selection.kept else 0
    settings, now = parts.settings.bundle, parts.clock()
    authority = {str(layer): share for layer, share in settings.authority.items()}
    shown = [entry.candidate.id for entry in selection.kept]
    titled = [
        entry.candidate.id
        for entry in selection.near_misses
        if not entry.candidate.path or entry.candidate.kind in {Kind.PATTERN, Kind.DECISION}
    ]
    memories = parts.store.memories([*shown, *titled])
    beside = replace(
        _repository_context(parts) if form == "memory" else BesideMemories(),
        task=turn.task,
        remark=RANKED_BY_WORDS if ranking.by_words else "",
        near=_near(selection, memories, reasons, nearest=nearest),
        failure_patterns=_passed(selection, memories, Kind.PATTERN, now=now),
        decisions=_passed(selection, memories, Kind.DECISION, now=now),
    )
    kept = _bundle_entries(parts.store, selection, memories, reasons)
    entries = _without_near_duplicates(
        without_conflicts(kept, authority=authority, now=now), authority
    )
    budget = options.max_tokens or settings.max_tokens
    bundle = render_bundle(
        _with_details(parts.store, entries, turn.scope),
        form=form,
        max_tokens=budget,
        settings=replace(settings, ceilings=dict(opened.routing.plan.ceilings)),
        now=now,
        beside=beside,
    )
    lost = len(bundle.left_out)
    if not lost:
        return bundle
    warning = join_sentences(
        f"{lost} of {len(kept)} chosen memories do not fit into {budget:,} tokens and are only"
        " named",
        "Raise bundle.max_tokens (`context --max-tokens`) to show them.",
    )
    return replace(bundle, warnings=(warning,))


def _near(
    selection: Selection,
    memories: Mapping[str, Memory],
    reasons: Mapping[str, str],
    *,
    nearest: int,
) -> tuple[LeftOut, ...]:
    """Return what passed without a place or is just below the threshold; if that is less, the
    nearest few."""
    if selection.near_misses and selection.near_misses[0].score < UNRELATED_BELOW:
        nearest = 0  # none is near
    return tuple(
        LeftOut(
            near.candidate,
            LeftOutCause.NO_PLACE if selection.passed(near) else LeftOutCause.BELOW,
            near.score,
            selection.thresholds.of(near.candidate),
            reason=reason_of(near, reasons),
            tokens=near.candidate.tokens,
            title=memories[near.candidate.id].title if near.candidate.id in memories else "",
        )
        for place, near in enumerate(selection.near_misses)
        if (selection.came_near(near) or (place < nearest and near.score > 0))
        # Named where it stands.
        and selection.placed_by.get(near.candidate.id) is not PlacedBy.FOLDED
    )


def reason_of(ranked: Ranked, reasons: Mapping[str, str]) -> str:
    """Return why the judge gave its score. reasons: by content hash, of stored judgments."""
    return ranked.judgment.reason or reasons.get(ranked.candidate.content_hash, "")


def _passed(
    selection: Selection, memories: Mapping[str, Memory], kind: Kind, *, now: float
) -> tuple[str, ...]:
    """Return a line for each of the latest decisions, or known failure patterns, that passed, shown
    or not."""
    passed = [
        entry.candidate.id
        for entry in (*selection.kept, *selection.near_misses)
        if selection.passed(entry)
    ]
    passed_memories: list[Memory] = []
    for id_ in passed:
        memory = memories.get(id_)
        if memory is None or memory.kind is not kind:
            continue
        # A pattern that is not an antipattern reports no failure.
        if kind is not Kind.PATTERN or memory.particulars.polarity == "antipattern":
            passed_memories.append(memory)
    return tuple(_dated_lines(passed_memories, now=now))


def _dated_lines(memories: Iterable[Memory], *, now: float) -> list[str]:
    latest = sorted(memories, key=_latest_first)[:LATEST_DECISIONS]
    return [
        f"{age_text(now - memory.updated_at)}: {memory.title} [{memory.id}]" for memory in latest
    ]


def _latest_first(memory: Memory) -> tuple[float, str]:
    return -memory.updated_at, memory.id


def _bundle_entries(
    store: Store, selection: Selection, memories: Mapping[str, Memory], reasons: Mapping[str, str]
) -> list[BundleEntry]:
    kept_ids = [entry.candidate.id for entry in selection.kept]
    kept = {id_: memories[id_] for id_ in kept_ids if id_ in memories}
    headers = store.headers({memory.path for memory in kept.values() if memory.path})
    changed = _changed(store, kept)
    return [
        BundleEntry(
            memory=kept[entry.candidate.id],
            ranked=entry,
            header=headers.get(entry.candidate.path, ""),
            reason=reason_of(entry, reasons),
            below_threshold=entry.candidate.id in selection.filled,
            changed=changed.get(entry.candidate.id, ()),
        )
        for entry in selection.kept
        if entry.candidate.id in kept
    ]


def _changed(store: Store, memories: Mapping[str, Memory]) -> dict[str, tuple[Citation, ...]]:
    """Look up which code cited by stale memories has changed."""
    stale = [memory.id for memory in memories.values() if memory.status is MemoryStatus.STALE]
    cited = evidence.citations_of(store.connection, stale) if stale else {}
    return {id_: tuple(span for span in spans if span.is_changed) for id_, spans in cited.items()}


def _without_near_duplicates(
    entries: Sequence[BundleEntry], authority: Mapping[str, float]
) -> list[BundleEntry]:
    texts = comparable_texts(entries)
    if len(texts) < 2:
        return list(entries)
    # Most turns show one such memory or none.
    from xscore.store.near_duplicates import near_duplicates

    return merge_near_duplicates(entries, near_duplicates(texts), authority=authority)


def _with_details(store: Store, entries: Sequence[BundleEntry], scope: Scope) -> list[BundleEntry]:
    """Link kept details to their kept summaries, and add others that are shown if there is room."""
    summaries = {entry.memory.id for entry in entries if entry.memory.kind is Kind.SUMMARY}
    if not summaries:
        return list(entries)
    belongs = {
        edge.source: edge.target
        for edge in store.edges_touching(summaries)
        if edge.relation is Relation.BELONGS_TO and edge.target in summaries
    }
    present_ids = {id_ for entry in entries for id_ in (entry.memory.id, *entry.others)}
    details = [
        memory
        for memory in store.memories(belongs.keys() - present_ids).values()
        if _may_be_shown(memory, scope)
    ]
    latest = sorted(details, key=_latest_first)[:MOST_DETAILS]
    tied = [replace(entry, summary=belongs.get(entry.memory.id, "")) for entry in entries]
    return [*tied, *(BundleEntry(memory, None, summary=belongs[memory.id]) for memory in latest)]


def _may_be_shown(memory: Memory, scope: Scope) -> bool:
    live = memory.status in {MemoryStatus.ACTIVE, MemoryStatus.STALE}
    inside = (not scope.kinds or memory.kind in scope.kinds) and (
        not scope.layers or memory.layer in scope.layers
    )
    return live and inside


PLACE_KINDS = CODE_KINDS | {Kind.CONFIG, Kind.TEXT}
"""Kinds that are places in code and never merge, whatever their text."""


def without_conflicts(
    entries: Sequence[BundleEntry], *, authority: Mapping[str, float], now: float
) -> list[BundleEntry]:
    """Replace entries that contradict each other with one entry of one sentence."""
    conflicts = resolve_conflicts([entry.memory for entry in entries], authority=authority, now=now)
    text = {conflict.winner: conflict.text for conflict in conflicts}
    losers = {
        conflict.winner: [id_ for id_ in conflict.memory_ids if id_ != conflict.winner]
        for conflict in conflicts
    }
    gone = {id_ for ids in losers.values() for id_ in ids}
    return [
        (
            replace(entry, resolved=text[entry.memory.id], settles=tuple(losers[entry.memory.id]))
            if entry.memory.id in text
            else entry
        )
        for entry in entries
        if entry.memory.id not in gone
    ]


def comparable_texts(entries: Sequence[BundleEntry]) -> dict[str, str]:
    """Return id -> text of the entries to compare; resolved conflicts are left out."""
    return {
        entry.memory.id: entry.memory.text
        for entry in entries
        if entry.memory.kind not in PLACE_KINDS and not entry.settles
    }


def merge_near_duplicates(
    entries: Sequence[BundleEntry],
    groups: Sequence[Sequence[str]],
    *,
    authority: Mapping[str, float],
) -> list[BundleEntry]:
    """Keep the most authoritative, then newest, of each group of near duplicates, and name the
    others in it."""
    by_id = {entry.memory.id: entry.memory for entry in entries}
    stands_for: dict[str, tuple[str, ...]] = {}
    for group in groups:
        first, *duplicates = sorted(
            (by_id[id_] for id_ in group), key=lambda memory: _authority_rank(memory, authority)
        )
        stands_for[first.id] = tuple(duplicate.id for duplicate in duplicates)
    gone = {id_ for ids in stands_for.values() for id_ in ids}
    return [
        replace(entry, alike=stands_for.get(entry.memory.id, ()))
        for entry in entries
        if entry.memory.id not in gone
    ]


def _authority_rank(memory: Memory, authority: Mapping[str, float]) -> tuple[float, float, str]:
    return -authority.get(Layer(memory.layer).value, 0.0), -memory.updated_at, memory.id


LATEST_DECISIONS = 5
"""Most decisions to show, and most verdicts on the context of a task."""


def _repository_context(parts: PipelineParts) -> BesideMemories:
    """Read the git state (if git is used), and decisions and verdicts on the context of a task from
    the store."""
    root, now, connection = parts.root, parts.clock(), parts.store.connection
    decided = memory_rows.select_memories(
        connection,
        "id IN (SELECT id FROM memory WHERE kind = 'decision' AND status IN ('active', 'stale')"
        " ORDER BY updated_at DESC, id LIMIT ?)",
        (LATEST_DECISIONS,),
    )
    lines = _dated_lines(decided, now=now)
    verdicts = connection.execute(
        "SELECT at, subject, payload FROM event WHERE name = 'decision.recorded' AND subject LIKE"
        " 't\\_%' ESCAPE '\\' ORDER BY id DESC LIMIT ?",
        (LATEST_DECISIONS,),
    ).fetchall()
    for at, turn_id, payload in verdicts:
        verdict = json.loads(payload)
        words = f"{verdict['accepted']} accepted, {sum(verdict['rejected'].values())} rejected"
        lines.append(f"{age_text(now - at)}: context of {turn_id}: {words}")
    if not (parts.settings.index.git and root.is_git and root.git_dir):
        return BesideMemories(history=tuple(lines))
    commit = (run_git(root.path, "rev-parse", "--short", "HEAD") or "").strip()
    return BesideMemories(branch=head_branch(root.git_dir), commit=commit, history=tuple(lines))
