"""The brief of an agent's session: what was decided, committed and said before that bears on its
first prompt.

One text of at most `MOST_BYTES`, with what the session got at its start; made of what the
first prompt's turn judged. Later prompts add to it only on another subject, or what was stated
since. Each memory is shown once per session. Only ids are kept of it (`store.hook_state`), so that
it is rendered again from the store for a sub-agent, and holds nothing that was erased. Trade-off:
whether a prompt is about another subject is decided by its words alone.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from xscore.extensions.agents.agent_bundle import quoted, size_of
from xscore.extensions.agents.brief_items import (
    BriefItem,
    ItemMaker,
    Mark,
    Quote,
    limited,
    remark_of,
)
from xscore.extensions.agents.data_fence import DATA_NOTE, FENCE
from xscore.pipeline.amendments import Weights
from xscore.records.memory import Kind, Memory
from xscore.records.receipt import Answer, Selected
from xscore.store.hook_state import SessionBrief
from xscore.store.memory_queries import SpokenWords
from xscore.store.store import Store
from xscore.store.term_vectors import text_terms

MOST_BYTES = 2_000
"""Most bytes of UTF-8 of a session's start and its brief together."""
LEAST_LINE = 200
"""Bytes of room that each item needs; the last ones are left out where there is less."""
LEAST_QUOTE = 60
"""Smallest room for a quote; a shorter one says nothing."""
HEAD = "xscore remembers earlier work that bears on this prompt, in its own words."
FEWEST_TERMS = 4
"""Fewest terms of a prompt that may begin a subject; one of fewer goes on with the last."""
SHARED_WEIGHT = 0.12
"""Least share of the weight of a prompt's terms that earlier ones of its subject have (decision
0052)."""


def brief_of_turn(
    store: Store,
    answer: Answer,
    spoken: Sequence[Selected],
    before: SessionBrief,
    *,
    every: bool,
) -> tuple[str, SessionBrief | None]:
    """Return what a prompt's session is told now, and what it has been told with it; "" and None:
    nothing.

    spoken: the selected memories that come from no file, best first.
    before: what it has got so far.
    every: tell what bears on each prompt, not on the first of a subject alone.
    """
    memories = store.memories([entry.id for entry in spoken])
    chosen = [memories[entry.id] for entry in spoken if entry.id in memories]
    terms = text_terms(answer.task)
    is_first = not before.at
    chosen = [memory for memory in chosen if memory.id not in before.told]
    if not (is_first or every or _tells_again(store, terms, before)):
        chosen = [memory for memory in chosen if is_new(memory, since=before.at)]
    now = before.at or store.clock()
    maker = ItemMaker(store, now=now if is_first else store.clock())
    marks = {entry.id: Mark(entry.score, remark_of(entry)) for entry in spoken}
    items = limited(maker.items(chosen, marks), before.told)
    room = MOST_BYTES - before.start_bytes if is_first else MOST_BYTES
    lines = lines_within(items, room - size_of(_fenced([])))
    if not lines:
        return "", None
    told_items = items[: len(lines)]
    heads = tuple(item.head for item in told_items)
    ids = [memory_id for item in told_items for memory_id in item.ids]
    after = replace(
        before,
        at=now,
        heads=heads if is_first else before.heads,
        told=(*before.told, *ids),
        subject=tuple({*before.subject, *terms}),
        is_whole=not answer.partial,
    )
    return _fenced(lines), after


def render_again(store: Store, brief: SessionBrief) -> str:
    """Return a session's brief as it was shown, without what has been erased since; "" if there is
    none."""
    if not brief.heads:
        return ""
    memories = store.memories(brief.heads)
    chosen = [memories[head] for head in brief.heads if head in memories]
    items = ItemMaker(store, now=brief.at).items(chosen)
    lines = lines_within(items, MOST_BYTES - size_of(_fenced([])))
    return _fenced(lines) if lines else ""


def _tells_again(store: Store, terms: frozenset[int], before: SessionBrief) -> bool:
    """Whether a later prompt gets a brief as the first one did: on another subject, or where the
    first was told before all was judged."""
    if not before.is_whole:
        return True
    words = SpokenWords(store.connections_of_a_turn())
    vectors = [*words.read_vectors(chats=True), *words.read_vectors(chats=False)]
    return is_other_subject(terms, before, Weights.of_vectors(vectors))


def is_other_subject(terms: frozenset[int], before: SessionBrief, weights: Weights) -> bool:
    """Whether a prompt with these terms is about something else than those before it. weights:
    those of what was said; what is said everywhere tells no subject."""
    if len(terms) < FEWEST_TERMS:
        return False
    shared = weights.sum_of(terms.intersection(before.subject))
    return shared < SHARED_WEIGHT * weights.sum_of(terms)


def is_new(memory: Memory, *, since: float) -> bool:
    """Whether a fact holds only since a moment; commits and chats of a session are its own."""
    return memory.updated_at > since and memory.kind not in (Kind.COMMIT, Kind.EXCHANGE)


def lines_within(items: Sequence[BriefItem], room: int) -> list[str]:
    """Return the lines of the first items that fit: first the most telling words of all, then
    whatever else there is room for, best item first."""
    while items and len(items) * LEAST_LINE > room:
        items = items[:-1]
    sizes = [size_of(_line(item, room, quotes=1)) + 1 for item in items]
    shares = divide_room(room, sizes, [item.weight for item in items])
    spare = room - sum(shares)
    lines: list[str] = []
    for item, share in zip(items, shares, strict=True):
        line = _line(item, share + spare - 1)
        spare -= max(0, size_of(line) + 1 - share)
        if line:
            lines.append(line)
    return lines


def divide_room(room: int, sizes: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Divide a room by weight: none gets more than its size, and what the small ones leave goes to
    the others."""
    shares = [0] * len(sizes)
    waiting = sum(weights)
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place] / weights[place]):
        share = int(room * weights[place] / waiting)
        shares[place] = min(sizes[place], share)
        room -= shares[place]
        waiting -= weights[place]
    return shares


def _line(item: BriefItem, room: int, *, quotes: int | None = None) -> str:
    """Return an item with the quotes that fit, most telling first; "" if none does.

    quotes: most of them; None: all.
    """
    line = f"- {quoted(item.caption, room)}:"
    room_left = room - size_of(line)
    is_quoted = False
    for quote in item.quotes[:quotes]:
        words = _fitting(quote, room_left)
        if not words:
            break
        line += words
        room_left -= size_of(words)
        is_quoted = True
    return line if is_quoted else ""


def _fitting(quote: Quote, room: int) -> str:
    """Return a quote within a number of bytes; "" where it would say nothing."""
    label = f" {quote.label}" if quote.label else ""
    room -= size_of(f"{label} “”")
    if room < min(LEAST_QUOTE, len(quote.words)):
        return ""
    # Bytes of UTF-8 are never fewer than characters; escapes may make it longer, too.
    limit = room
    words = quoted(quote.words, limit)
    while size_of(words) > room and limit > 1:
        limit = max(1, limit - (size_of(words) - room))
        words = quoted(quote.words, limit)
    return f"{label} “{words}”" if size_of(words) <= room else ""


def _fenced(lines: Iterable[str]) -> str:
    return "\n".join([HEAD, DATA_NOTE, f"<{FENCE}>", *lines, f"</{FENCE}>"])
