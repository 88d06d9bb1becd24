"""From a selection to the bundle: what the kept memories say together, within the budget.

Whole memories are fetched, conflicts settled to one sentence, near duplicates shown once, and details put behind kept
summaries; then `prompts.bundle` renders them. Nothing that was chosen vanishes: what another memory says for it is
named there, and what does not fit is named too. Trade-off: only what is shown is compared, so two stored memories may
go on saying the same until `consolidate` merges them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xscore.pipeline.parts import Parts
from xscore.prompts.bundle import render
from xscore.prompts.bundle_entry import Bundle, BundleEntry
from xscore.records import Layer, Selection


@dataclass(frozen=True, slots=True)
class Context:
    """The bundle of a turn, and what should be said of it."""

    bundle: Bundle
    warnings: tuple[str, ...]


NO_CONTEXT = Context(Bundle("", (), (), 0), ())
"""Of a turn that ends with its selection."""


def fuse(
    parts: Parts,
    selection: Selection,
    *,
    form: str,
    max_tokens: int | None = None,
    ceilings: Mapping[Layer, float] | None = None,
) -> Context:
    """Render the kept memories within the token budget.

    form: `xml`, `markdown`, `json` or `memory`. ceilings: the plan's, layer -> share; None: those of the settings.
    """
    memories = parts.store.memories(entry.candidate.id for entry in selection.kept)
    headers = parts.store.headers({memory.path for memory in memories.values() if memory.path})
    entries = [
        BundleEntry(
            memory=memories[entry.candidate.id],
            ranked=entry,
            header=headers.get(entry.candidate.path, ""),
            below_threshold=entry.candidate.id in selection.filled,
        )
        for entry in selection.kept
        if entry.candidate.id in memories
    ]
    bundle_settings = parts.settings.bundle
    budget = max_tokens or bundle_settings.max_tokens
    now = parts.clock()
    bundle = render(entries, form=form, max_tokens=budget, settings=bundle_settings, now=now, ceilings=ceilings)
    return Context(bundle, _warnings(bundle, len(entries), budget))


def _warnings(bundle: Bundle, chosen: int, budget: int) -> tuple[str, ...]:
    if not bundle.omitted:
        return ()
    said = f"{len(bundle.omitted)} of {chosen} chosen memories do not fit into {budget:,} tokens and are only named"
    return (f"{said}. Raise bundle.max_tokens (`context --max-tokens`) to show them.",)
