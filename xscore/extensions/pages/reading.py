"""Read a turn's page from the store: the receipt, and the scores of all candidates as they can be
found again.

A receipt lists what was kept and what came near; every other score is looked up by content in the
stored judgments, so it is exact for what has not changed, and missing for what has: the page says
so. Sends nothing and writes nothing. Trade-off: the candidates come from the store of
today.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.ledger import calls_of_turn
from xscore.extensions.pages.map_memories import MappedTurn, map_turn
from xscore.extensions.pages.records import ListedMemory, MapLink, TurnPage
from xscore.extensions.pages.threads import thread_of
from xscore.pipeline.answer_citations import cited_of
from xscore.pipeline.assembly import assemble_parts
from xscore.pipeline.choice_words import words_of_listed
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.past_turns import find_past_turn
from xscore.pipeline.stored_receipt import read_receipt
from xscore.platform.text import counted
from xscore.records.events import Observer
from xscore.records.judgment import SCORE_TOLERANCE, PlacedBy
from xscore.records.memory import Layer, Memory
from xscore.records.receipt import Answer, Selected
from xscore.settings import Settings
from xscore.settings.model import PrimarySettings
from xscore.store.store import Store
from xscore.store.turn_history import PastTurn, load_listed_turn

NEAR_SHOWN = 40
"""Near misses shown with their text; the map has all of them."""
LINES_SHOWN = 240
CHARS_SHOWN = 16_000
"""Most characters shown of a memory's text."""
LINKED = 300
"""The best memories whose links are on the map."""
LINKS_SHOWN = 4_000
ASK_FIRST = 'Ask something first: xscore ask "…".'


def read_turn_page(parts: PipelineParts, turn_id: str = "") -> TurnPage:
    """Return the page of a turn, the latest for an empty id.

    Raises NothingMatched for an unknown turn, StoreDamaged.
    """
    past = find_past_turn(parts, turn_id, hint=ASK_FIRST)
    connection = parts.store.connection
    now = parts.clock()
    receipt = read_receipt(past.receipt) if past.receipt else None
    listed = load_listed_turn(connection, past.turn.id, now=now)
    mapped = map_turn(parts, past, receipt)
    kept, near = _listed(parts, past, receipt, mapped)
    return TurnPage(
        repository=Path(parts.root.path).name,
        turn=listed,
        task=past.turn.task,
        errors=past.turn.errors,
        receipt=receipt,
        memories=mapped.memories,
        links=_links(parts, mapped),
        kept=kept,
        near=near,
        sentences=mapped.sentences,
        explained=mapped.explained,
        calls=tuple(calls_of_turn(connection, past.turn.id)),
        thread=thread_of(connection, listed, receipt, now=now),
        notes=tuple(_notes(past, receipt, mapped, kept)),
        made_at=now,
        reasons_left_out=mapped.reasons_left_out,
    )


def page_from_store(store: Store, settings: Settings, turn_id: str) -> TurnPage:
    """Return the page of a turn of an open store, without a key or a model: nothing is judged
    for it, so the judge by words takes the place of the user's.

    Raises NothingMatched, StoreDamaged.
    """
    judge = replace(settings.judge, model="lexical")
    settings = replace(settings, judge=judge, primary=PrimarySettings())
    return read_turn_page(assemble_parts(store, settings, None, Observer()), turn_id)


class _Listing(Struct, frozen=True):
    """What the listed memories of a receipt are shown with."""

    past: PastTurn
    receipt: Answer
    mapped: MappedTurn
    stored: Mapping[str, Memory]
    """Memories as they are in the store now, by id."""
    cited_ids: tuple[str, ...]
    """Ids of the chosen memories that the answer uses."""


def _listed(
    parts: PipelineParts, past: PastTurn, receipt: Answer | None, mapped: MappedTurn
) -> tuple[tuple[ListedMemory, ...], tuple[ListedMemory, ...]]:
    """Return what was kept and what came near, in the receipt's order."""
    if receipt is None:
        return (), ()
    near = receipt.near_misses[:NEAR_SHOWN]
    parts.store.others.close()  # those of another turn
    if receipt.scope.also:
        from xscore.pipeline.other_repositories import open_others  # few turns name one

        open_others(parts, receipt.scope.also)
    stored = parts.store.memories([memory.id for memory in (*receipt.selected, *near)])
    listing = _Listing(past, receipt, mapped, stored, cited_of(past.answer, receipt.selected))
    kept_memories = [
        _listed_memory(memory, listing, is_kept=True) for memory in receipt.selected
    ]
    near_memories = [_listed_memory(memory, listing, is_kept=False) for memory in near]
    return tuple(kept_memories), tuple(near_memories)


def _listed_memory(memory: Selected, listing: _Listing, *, is_kept: bool) -> ListedMemory:
    stored = listing.stored.get(memory.id)
    text, left_out = "", 0
    is_changed = False
    # The words of the user's own memories stay in their store, as in the receipt.
    if stored is not None and memory.layer != Layer.USER:
        text, left_out = _first_lines(stored.text)
        is_changed = _has_changed(stored, listing)
        memory = replace(memory, title=stored.title if not memory.path else memory.title)
    return ListedMemory(
        memory=memory,
        text=text,
        lines_left_out=left_out,
        sentence=words_of_listed(memory, listing.receipt, is_kept=is_kept),
        why=_why(memory, is_kept=is_kept),
        place=listing.mapped.place_of.get(memory.id, -1),
        is_changed=is_changed,
        is_cited=memory.id in listing.cited_ids,
    )


def _first_lines(text: str) -> tuple[str, int]:
    """Return the beginning of a text, and how many of its lines are not in it."""
    lines = text.split("\n")
    shown = "\n".join(lines[:LINES_SHOWN])[:CHARS_SHOWN]
    return shown, len(lines) - 1 - shown.count("\n")


def _has_changed(stored: Memory, listing: _Listing) -> bool:
    """Return whether the text in the store is another one than what the turn judged."""
    if listing.receipt.ranked_by_words:
        # Words leave no judgment that would tell the content.
        return stored.updated_at > listing.past.started_at
    return stored.id not in listing.mapped.judged_ids


def _why(memory: Selected, *, is_kept: bool) -> str:
    if memory.placed_by in {PlacedBy.FILLED, PlacedBy.MIN_KEEP, PlacedBy.FOLDED}:
        return memory.placed_by
    reaches = memory.threshold - SCORE_TOLERANCE
    if not is_kept:
        return "passed" if memory.score >= reaches else "near"
    return "judged" if memory.unboosted_score >= reaches else "boosted"


def _links(parts: PipelineParts, mapped: MappedTurn) -> tuple[MapLink, ...]:
    """Return the links of the best memories to others of the map."""
    best = [mapped.memories[place].id for place in mapped.by_score[:LINKED]]
    links: list[MapLink] = []
    for edge in parts.store.edges_touching(best):
        source = mapped.place_of.get(edge.source, -1)
        target = mapped.place_of.get(edge.target, -1)
        if source >= 0 and target >= 0 and source != target:
            links.append(MapLink(source, target, edge.relation))
    return tuple(links[:LINKS_SHOWN])


def _notes(
    past: PastTurn, receipt: Answer | None, mapped: MappedTurn, kept: Sequence[ListedMemory]
) -> Iterable[str]:
    """Say what cannot be shown as it was."""
    missing = sum(memory.score is None for memory in mapped.memories)
    if receipt is None:
        yield (
            "This turn has no receipt: it is still running, failed or was killed. The map shows"
            " what was judged until then, without boosts and without a cut."
        )
        return
    if receipt.ranked_by_words:
        yield (
            "Scores by words are not stored. Those of the chosen memories and near misses are the"
            " turn's own; all others were computed again for this page."
        )
    then = receipt.coverage.candidates
    now = len(mapped.memories)
    if then != now:
        yield (
            f"The turn had {counted(then, 'candidate')}; the same scope has {now:,} now. The map"
            " shows the current ones."
        )
    lost = missing - receipt.coverage.unjudged
    if lost > 0 and not receipt.ranked_by_words:
        verb = "is" if lost == 1 else "are"
        yield (
            f"{counted(lost, 'memory', 'memories')} of the map {verb} new or edited since, so this"
            " turn's scores do not apply to their current text."
        )
    gone = sum(memory.place < 0 for memory in kept)
    if gone:
        yield f"{counted(gone, 'chosen memory', 'chosen memories')} have left the store since."
    if not past.turn.task:
        yield "The question was erased."
