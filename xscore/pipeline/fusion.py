"""From a selection to the bundle: what the kept memories say together, within the budget.

Whole memories are fetched, conflicts settled to one sentence, near duplicates shown once, and details put behind kept
summaries; then `prompts.bundle` renders them. Nothing that was chosen vanishes: what another memory says for it is
named there, and what does not fit is named too. Trade-off: only what is shown is compared, so two stored memories may
go on saying the same until `consolidate` merges them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xscore.memory import evidence
from xscore.memory.store import Store
from xscore.pipeline.parts import Parts
from xscore.prompts.bundle_entry import Bundle, BundleEntry
from xscore.records import Citation, Kind, Layer, Memory, Relation, Scope, Selection, Status

MOST_DETAILS = 20
"""Details of kept summaries that are looked at, newest first."""


@dataclass(frozen=True, slots=True)
class Context:
    """The bundle of a turn, and what should be said of it."""

    bundle: Bundle
    warnings: tuple[str, ...]


NO_CONTEXT = Context(Bundle("", (), (), 0), ())
"""Of a turn that ends with its selection."""
EVERYTHING = Scope()


def fuse(
    parts: Parts,
    selection: Selection,
    *,
    form: str,
    max_tokens: int | None = None,
    ceilings: Mapping[Layer, float] | None = None,
    scope: Scope = EVERYTHING,
) -> Context:
    """Render the kept memories within the token budget.

    form: `xml`, `markdown`, `json` or `memory`. ceilings: the plan's, layer -> share; None: those of the settings.
    scope: the user's narrowing, which the details of summaries keep to as well.
    """
    from xscore.pipeline.fusion_rules import settled  # a turn that ends with its selection renders nothing
    from xscore.pipeline.surroundings import surroundings
    from xscore.prompts.bundle import render

    settings, now = parts.settings.bundle, parts.clock()
    authority = {str(layer): share for layer, share in settings.authority.items()}
    kept = _kept(parts.store, selection)
    entries = _told_once(settled(kept, authority=authority, now=now), authority)
    budget = max_tokens or settings.max_tokens
    bundle = render(
        _with_details(parts.store, entries, scope),
        form=form,
        max_tokens=budget,
        settings=settings,
        now=now,
        ceilings=ceilings,
        surroundings=surroundings(parts) if form == "memory" else None,
    )
    return Context(bundle, _warnings(bundle, len(kept), budget))


def _kept(store: Store, selection: Selection) -> list[BundleEntry]:
    memories = store.memories(entry.candidate.id for entry in selection.kept)
    headers = store.headers({memory.path for memory in memories.values() if memory.path})
    changed = _changed(store, memories)
    return [
        BundleEntry(
            memory=memories[entry.candidate.id],
            ranked=entry,
            header=headers.get(entry.candidate.path, ""),
            below_threshold=entry.candidate.id in selection.filled,
            changed=changed.get(entry.candidate.id, ()),
        )
        for entry in selection.kept
        if entry.candidate.id in memories
    ]


def _changed(store: Store, memories: Mapping[str, Memory]) -> dict[str, tuple[Citation, ...]]:
    """Look up what of the code that stale memories cite is no longer as it was."""
    stale = [memory.id for memory in memories.values() if memory.status is Status.STALE]
    cited = evidence.citations(store.connection, stale) if stale else {}
    return {id_: tuple(span for span in spans if span.is_changed) for id_, spans in cited.items()}


def _told_once(entries: Sequence[BundleEntry], authority: Mapping[str, float]) -> list[BundleEntry]:
    from xscore.pipeline.fusion_rules import may_repeat, shown_once

    texts = may_repeat(entries)
    if len(texts) < 2:
        return list(entries)
    from xscore.memory.likeness.near_duplicates import near_duplicates  # most turns show one such memory or none

    return shown_once(entries, near_duplicates(texts), authority=authority)


def _with_details(store: Store, entries: Sequence[BundleEntry], scope: Scope) -> list[BundleEntry]:
    """Tie kept details to their kept summaries, and add others, which are shown where room is left (H19)."""
    summaries = {entry.memory.id for entry in entries if entry.memory.kind is Kind.SUMMARY}
    if not summaries:
        return list(entries)
    belongs = {
        edge.source: edge.target
        for edge in store.edges_touching(summaries)
        if edge.relation is Relation.BELONGS_TO and edge.target in summaries
    }
    there = {id_ for entry in entries for id_ in (entry.memory.id, *entry.others)}
    found = [memory for memory in store.memories(belongs.keys() - there).values() if _may_be_shown(memory, scope)]
    latest = sorted(found, key=lambda memory: (-memory.updated_at, memory.id))[:MOST_DETAILS]
    tied = [replace(entry, summary=belongs.get(entry.memory.id, "")) for entry in entries]
    return [*tied, *(BundleEntry(memory, None, summary=belongs[memory.id]) for memory in latest)]


def _may_be_shown(memory: Memory, scope: Scope) -> bool:
    live = memory.status in {Status.ACTIVE, Status.STALE}
    inside = (not scope.kinds or memory.kind in scope.kinds) and (not scope.layers or memory.layer in scope.layers)
    return live and inside


def _warnings(bundle: Bundle, chosen: int, budget: int) -> tuple[str, ...]:
    if not bundle.omitted:
        return ()
    said = f"{len(bundle.omitted)} of {chosen} chosen memories do not fit into {budget:,} tokens and are only named"
    return (f"{said}. Raise bundle.max_tokens (`context --max-tokens`) to show them.",)
