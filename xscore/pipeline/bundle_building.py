"""Build the bundle from a selection: whole memories, conflicts resolved, near duplicates shown
once, within the budget.

Every chosen memory is accounted for: one that is merged into another or does not fit is named.
Places in code are never merged: two similar functions may both need the edit. Trade-off: only shown
memories are compared, so stored memories may repeat each other until `memory consolidate` merges
them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.turn_stages import PreparedTurn, Ranking
from xscore.platform.git import run_git
from xscore.platform.git_folder import head_branch
from xscore.platform.text import join_sentences
from xscore.prompts.bundle import render_bundle
from xscore.prompts.bundle_headings import RANKED_BY_WORDS, LeftOutCause
from xscore.prompts.bundle_parts import (
    Bundle,
    BundleEntry,
    BundleExtras,
    age_text,
)
from xscore.prompts.left_out import LeftOut, telling_words
from xscore.records.judgment import UNRELATED_WORDS_BELOW, PlacedBy, Ranked, Selection
from xscore.records.memory import (
    CODE_KINDS,
    Citation,
    Kind,
    Layer,
    Memory,
    MemorySource,
    MemoryStatus,
    Relation,
)
from xscore.records.turn import Scope
from xscore.store.memory_queries import latest_decisions
from xscore.store.purposes import purposes_to_show
from xscore.store.store import Store

if TYPE_CHECKING:
    from xscore.pipeline.contradictions import ResolvedConflict
    from xscore.pipeline.outdated import OutdatedMemories

NEAREST_BY_WORDS = 5
"""How many memories are named where words alone ranked and none reached the threshold."""
MOST_DETAILS = 20
"""Most details of kept summaries to consider, newest first."""
LATEST_DECISIONS = 5
"""Most decisions to show, and most outcomes of recent selections."""
_ONE_PURPOSE = "SELECT 1 FROM purpose LIMIT 1"
PLACE_KINDS = CODE_KINDS | {Kind.CONFIG, Kind.TEXT}
"""Kinds that are places in code and never merge, whatever their text."""


def build_bundle(
    parts: PipelineParts,
    options: TurnOptions,
    prepared: PreparedTurn,
    ranking: Ranking,
    reasons: Mapping[str, str],
) -> Bundle:
    """Render the kept memories within the token budget, name those that came near, and warn of what
    does not fit.

    reasons: by content hash.
    """
    settings = parts.settings.bundle
    now = parts.clock()
    form = options.bundle or "xml"
    budget = options.max_tokens or settings.max_tokens
    memories = _memories_to_show(parts.store, ranking.selection)
    kept = _bundle_entries(parts.store, ranking.selection, memories, reasons)
    authority = {str(layer): share for layer, share in settings.authority.items()}
    entries = without_conflicts(kept, authority=authority, now=now)
    entries = _without_near_duplicates(entries, authority)
    entries = _with_details(parts.store, entries, prepared.turn.scope)
    extras = BundleExtras()
    if form == "memory":
        extras = _repository_context(parts)
    bundle = render_bundle(
        entries,
        form=form,
        max_tokens=budget,
        settings=replace(settings, ceilings=dict(prepared.routing.plan.ceilings)),
        now=now,
        extras=_with_selection(
            extras, prepared.turn.task, ranking, memories, reasons, entries=entries, now=now
        ),
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


def _memories_to_show(store: Store, selection: Selection) -> Mapping[str, Memory]:
    """Read what was kept, and near misses that are named by their title, by id."""
    ids = [entry.candidate.id for entry in selection.kept]
    for entry in selection.near_misses:
        candidate = entry.candidate
        if not candidate.path or candidate.kind in {Kind.PATTERN, Kind.DECISION}:
            ids.append(candidate.id)
    return store.memories(ids)


def _with_selection(
    extras: BundleExtras,
    task: str,
    ranking: Ranking,
    memories: Mapping[str, Memory],
    reasons: Mapping[str, str],
    *,
    entries: Sequence[BundleEntry],
    now: float,
) -> BundleExtras:
    """Add the task, how it was ranked, and what came near without a place."""
    selection = ranking.selection
    # What another memory settles, or says in the same words, is not listed as if it held, too.
    said_by_others = {id_ for entry in entries for id_ in entry.others}
    own_memories = {id_: memories[id_] for id_ in memories.keys() - said_by_others}
    remark, nearest = "", 0
    if ranking.by_words:
        remark = RANKED_BY_WORDS
        # Words alone say little: where nothing passed, the reader is shown the nearest.
        nearest = 0 if selection.kept else NEAREST_BY_WORDS
    return replace(
        extras,
        task_words=telling_words(task),
        remark=remark,
        near=_near(selection, memories, reasons, nearest=nearest),
        failure_patterns=_passed(selection, memories, Kind.PATTERN, now=now),
        decisions=_passed(selection, own_memories, Kind.DECISION, now=now),
    )


def _near(
    selection: Selection,
    memories: Mapping[str, Memory],
    reasons: Mapping[str, str],
    *,
    nearest: int,
) -> tuple[LeftOut, ...]:
    """Return what passed without a place or is just below the threshold; if that is less, the
    nearest few."""
    if selection.near_misses and selection.near_misses[0].score < UNRELATED_WORDS_BELOW:
        nearest = 0  # none is near
    left_out: list[LeftOut] = []
    for place, near in enumerate(selection.near_misses):
        candidate = near.candidate
        is_among_nearest = place < nearest and near.score > 0
        if not (selection.came_near(near) or is_among_nearest):
            continue
        # What is folded is named there.
        if selection.placed_by.get(candidate.id) is PlacedBy.FOLDED:
            continue
        cause = LeftOutCause.NO_PLACE if selection.passed(near) else LeftOutCause.BELOW
        memory = memories.get(candidate.id)
        left_out.append(
            LeftOut(
                candidate,
                cause,
                near.score,
                selection.thresholds.of(candidate),
                reason=reason_of(near, reasons),
                tokens=candidate.tokens,
                title="" if memory is None else memory.title,
            )
        )
    return tuple(left_out)


def reason_of(ranked: Ranked, reasons: Mapping[str, str]) -> str:
    """Return why the judge gave its score. reasons: by content hash, of stored judgments."""
    return ranked.judgment.reason or reasons.get(ranked.candidate.content_hash, "")


def _passed(
    selection: Selection, memories: Mapping[str, Memory], kind: Kind, *, now: float
) -> tuple[str, ...]:
    """Return a line for each of the latest decisions, or known failure patterns, that passed, shown
    or not."""
    passed_memories: list[Memory] = []
    for entry in (*selection.kept, *selection.near_misses):
        memory = memories.get(entry.candidate.id)
        if memory is None or memory.kind is not kind or not selection.passed(entry):
            continue
        # A pattern that is not an antipattern reports no failure.
        if kind is not Kind.PATTERN or memory.details.polarity == "antipattern":
            passed_memories.append(memory)
    return tuple(_dated_lines(passed_memories, now=now))


def _dated_lines(memories: Iterable[Memory], *, now: float) -> list[str]:
    lines: list[str] = []
    for memory in sorted(memories, key=_latest_first)[:LATEST_DECISIONS]:
        age = age_text(now - memory.updated_at)
        lines.append(f"{age}: {memory.title} [{memory.id}]")
    return lines


def _latest_first(memory: Memory) -> tuple[float, str]:
    return -memory.updated_at, memory.id


def _bundle_entries(
    store: Store,
    selection: Selection,
    memories: Mapping[str, Memory],
    reasons: Mapping[str, str],
) -> list[BundleEntry]:
    # A memory that was removed in the meantime has no entry.
    kept = [entry for entry in selection.kept if entry.candidate.id in memories]
    headers = store.headers({entry.candidate.path for entry in kept if entry.candidate.path})
    kept_memories = [memories[entry.candidate.id] for entry in kept]
    outdated = _outdated(store, kept_memories)
    purposes = _purposes(store, kept_memories)
    entries: list[BundleEntry] = []
    for ranked in kept:
        candidate = ranked.candidate
        changed: tuple[Citation, ...] = ()
        drift = ""
        if outdated is not None:
            changed = outdated.changed.get(candidate.id, ())
            drift = outdated.drift.get(candidate.id, "")
        entry = BundleEntry(
            memory=memories[candidate.id],
            ranked=ranked,
            header=headers.get(candidate.path, ""),
            purposes=purposes.get(candidate.path, ()),
            reason=reason_of(ranked, reasons),
            below_threshold=candidate.id in selection.filled,
            changed=changed,
            drift=drift,
        )
        entries.append(entry)
    return entries


def _purposes(store: Store, memories: Sequence[Memory]) -> Mapping[str, tuple[str, ...]]:
    """Look up what a model says that the files are for, and their classes that were hit, by
    path."""
    # Most stores have none: a model writes them when it is asked to.
    if store.connection.execute(_ONE_PURPOSE).fetchone() is None:
        return {}
    return purposes_to_show(store.connection, memories)


def _outdated(store: Store, memories: Iterable[Memory]) -> "OutdatedMemories | None":
    """Look up what no longer holds of memories that were stated; None if none is shown."""
    stated = [memory for memory in memories if memory.source is not MemorySource.INDEX]
    # Most turns show none.
    if not stated:
        return None
    from xscore.pipeline.outdated import find_outdated  # only where such a memory is shown

    return find_outdated(store, stated)


def _without_near_duplicates(
    entries: Sequence[BundleEntry], authority: Mapping[str, float]
) -> list[BundleEntry]:
    texts = comparable_texts(entries)
    if len(texts) < 2:
        return list(entries)
    # Most turns show one such memory or none.
    from xscore.store.near_duplicates import near_duplicates

    return merge_near_duplicates(entries, near_duplicates(texts), authority=authority)


def _with_details(
    store: Store, entries: Sequence[BundleEntry], scope: Scope
) -> list[BundleEntry]:
    """Link kept details to their kept summaries, and add others that are shown if there is room."""
    summaries = {entry.memory.id for entry in entries if entry.memory.kind is Kind.SUMMARY}
    if not summaries:
        return list(entries)
    summary_of: dict[str, str] = {}
    for edge in store.edges_touching(summaries):
        if edge.relation is Relation.BELONGS_TO and edge.target in summaries:
            summary_of[edge.source] = edge.target
    present_ids: set[str] = set()
    for entry in entries:
        present_ids.update((entry.memory.id, *entry.others))
    absent = store.memories(summary_of.keys() - present_ids)
    details = [memory for memory in absent.values() if _may_be_shown(memory, scope)]
    details.sort(key=_latest_first)
    linked: list[BundleEntry] = []
    for entry in entries:
        linked.append(replace(entry, summary=summary_of.get(entry.memory.id, "")))
    for memory in details[:MOST_DETAILS]:
        linked.append(BundleEntry(memory, None, summary=summary_of[memory.id]))
    return linked


def _may_be_shown(memory: Memory, scope: Scope) -> bool:
    """Whether a detail is live and within the scope of the turn."""
    if memory.status not in {MemoryStatus.ACTIVE, MemoryStatus.STALE}:
        return False
    if scope.kinds and memory.kind not in scope.kinds:
        return False
    return not scope.layers or memory.layer in scope.layers


def without_conflicts(
    entries: Sequence[BundleEntry], *, authority: Mapping[str, float], now: float
) -> list[BundleEntry]:
    """Replace entries that contradict each other with one entry of one sentence."""
    stated = [
        entry.memory for entry in entries if entry.memory.source is not MemorySource.INDEX
    ]
    conflicts: Sequence[ResolvedConflict] = ()
    if len(stated) > 1:
        # Most bundles are all code.
        from xscore.pipeline.contradictions import resolve_conflicts

        conflicts = resolve_conflicts(stated, authority=authority, now=now)
    text_of: dict[str, str] = {}
    losers_of: dict[str, tuple[str, ...]] = {}
    for conflict in conflicts:
        winner = conflict.winner
        text_of[winner] = conflict.text
        losers_of[winner] = tuple(id_ for id_ in conflict.memory_ids if id_ != winner)
    losers = set(chain.from_iterable(losers_of.values()))
    entries_left: list[BundleEntry] = []
    for entry in entries:
        id_ = entry.memory.id
        if id_ in text_of:
            resolved = replace(entry, resolved=text_of[id_], settles=losers_of[id_])
        else:
            resolved = entry
        if id_ not in losers:
            entries_left.append(resolved)
    return entries_left


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
    represented: dict[str, tuple[str, ...]] = {}
    merged: set[str] = set()
    for group in groups:
        memories = [by_id[id_] for id_ in group]
        memories.sort(key=lambda memory: _authority_rank(memory, authority))
        first, *duplicates = [memory.id for memory in memories]
        represented[first] = tuple(duplicates)
        merged.update(duplicates)
    kept = [entry for entry in entries if entry.memory.id not in merged]
    return [replace(entry, alike=represented.get(entry.memory.id, ())) for entry in kept]


def _authority_rank(memory: Memory, authority: Mapping[str, float]) -> tuple[float, float, str]:
    return -authority.get(Layer(memory.layer).value, 0.0), -memory.updated_at, memory.id


def _repository_context(parts: PipelineParts) -> BundleExtras:
    """Read the git state (if git is used), and decisions and outcomes of recent selections from the
    store."""
    root = parts.root
    now = parts.clock()
    connection = parts.store.connection
    decided = latest_decisions(connection, LATEST_DECISIONS)
    lines = _dated_lines(decided, now=now)
    selection_outcomes = connection.execute(
        "SELECT at, subject, payload FROM event WHERE name = 'decision.recorded' AND subject LIKE"
        " 't\\_%' ESCAPE '\\' ORDER BY id DESC LIMIT ?",
        (LATEST_DECISIONS,),
    ).fetchall()
    for at, turn_id, payload in selection_outcomes:
        selection_outcome = json.loads(payload)
        accepted = selection_outcome["accepted"]
        rejected = sum(selection_outcome["rejected"].values())
        age = age_text(now - at)
        lines.append(f"{age}: context of {turn_id}: {accepted} accepted, {rejected} rejected")
    if not (parts.settings.index.git and root.is_git and root.git_dir):
        return BundleExtras(history=tuple(lines))
    commit = (run_git(root.path, "rev-parse", "--short", "HEAD") or "").strip()
    return BundleExtras(branch=head_branch(root.git_dir), commit=commit, history=tuple(lines))
