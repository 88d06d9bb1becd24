"""What was said before and bears on a prompt, as items of a brief: decisions, conventions and
failures, commits, and past chats.

It joins the exchanges of a chat, and limits how many items of each sort are shown. Each item has
a citation, an age and the words themselves: nothing is rephrased. Of a chat it tells how it ended,
since that is where people settle what they agree on. Trade-off: what was said in the middle of a
long chat is shown only where it matched best.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from xscore.prompts.bundle_parts import age_text
from xscore.records.judgment import AMENDED
from xscore.records.memory import (
    Citation,
    Kind,
    Memory,
    MemorySource,
    SpokenMemory,
    commit_name,
)
from xscore.records.receipt import Selected
from xscore.store.drift import drift_warnings
from xscore.store.evidence import citations_of
from xscore.store.memory_queries import SpokenWords
from xscore.store.session_summary import exchange_parts
from xscore.store.store import Store

MOST_SAID, MOST_FACTS = 3, 3
"""Most commits and chats, and most facts, of one brief."""
MOST_EXCHANGES = 4
"""Most exchanges of a chat that are quoted."""
AUTHOR_CHARS, NAMED_SPANS = 40, 2
LEAST_WEIGHT = 0.05
"""Weight of an item, however low its score."""
CODE = "[code]"
"""Replaces a fenced block: what it holds is in the repository, or never came to be."""
FENCES = ("```", "~~~")
_PAST_WORDS = frozenset({Kind.COMMIT, Kind.EXCHANGE, Kind.SUMMARY})
_AFTER_MESSAGE = ("\n\nFiles: ", "\n\nIn: ")
"""How lines begin that the memory of a commit adds to its message."""


class Quote(Struct, frozen=True):
    """Words that an item quotes."""

    words: str
    label: str = ""
    """What the memories are, such as `ended`."""


class BriefItem(Struct, frozen=True):
    """One item of a brief."""

    head: str
    """Id of the memory that the item is cited by."""
    ids: tuple[str, ...]
    """Ids of all memories whose words the item may quote."""
    caption: str
    """What the item is, its citation and its age."""
    quotes: tuple[Quote, ...]
    """The most telling first."""
    is_fact: bool = False
    weight: float = 1.0
    """The item's share of the room, relative to the others."""


class Mark(Struct, frozen=True):
    """What a turn says about a memory."""

    score: float = 1.0
    remark: str = ""
    """The text after the item's caption."""


NO_MARK = Mark()


class ItemMaker:
    """Makes items of a store's memories; ages count from one moment, so that they stay the same."""

    def __init__(self, store: Store, *, now: float) -> None:
        """now: Unix seconds."""
        self._store = store
        self._words = SpokenWords(store.connections_of_a_turn())
        self._now = now

    def items(
        self, memories: Sequence[Memory], marks: Mapping[str, Mark] = {}
    ) -> list[BriefItem]:
        """Return the items of these memories, in their order; exchanges of one chat are one.

        marks: what the turn says about them, by id.
        """
        drifts = drift_warnings(self._store, memories)
        # It was never confirmed, and it does not hold: it is left out.
        memories = [
            memory for memory in memories if not (memory.id in drifts and is_unreviewed(memory))
        ]
        chats = self._chats_of(memories)
        citations = self._citations_of(memories)
        item_by_name: dict[str, BriefItem] = {}
        for memory in memories:
            name = _chat_of(memory) or memory.id
            if name in item_by_name:
                continue
            chat = chats.get(name)
            if chat:
                item = self._chat_item(memory, chat)
            elif memory.kind is Kind.COMMIT:
                item = self._commit_item(memory)
            elif memory.kind in _PAST_WORDS:
                item = self._exchange_item(memory)
            else:
                item = self._fact_item(memory, citations.get(memory.id, ()))
                item = _with_drift(item, drifts.get(memory.id, ""))
            mark = marks.get(memory.id, NO_MARK)
            item_by_name[name] = replace(
                item,
                caption=f"{item.caption}{mark.remark}",
                weight=max(mark.score, LEAST_WEIGHT),
            )
        return list(item_by_name.values())

    def _chats_of(self, memories: Iterable[Memory]) -> dict[str, list[SpokenMemory]]:
        """Return the exchanges of the chats that these memories belong to, oldest first."""
        names = sorted({_chat_of(memory) for memory in memories} - {""})
        chats: dict[str, list[SpokenMemory]] = {}
        for exchange in self._words.read_chats(names) if names else ():
            chats.setdefault(exchange.session, []).append(exchange)
        for exchanges in chats.values():
            exchanges.sort(key=lambda exchange: (exchange.at, exchange.id))
        return chats

    def _citations_of(self, memories: Iterable[Memory]) -> dict[str, tuple[Citation, ...]]:
        facts = [memory.id for memory in memories if memory.kind not in _PAST_WORDS]
        if not facts:
            return {}
        citations: dict[str, tuple[Citation, ...]] = {}
        for connection in self._store.connections_of_a_turn():
            citations |= citations_of(connection, facts)
        return citations

    def _age(self, at: float) -> str:
        return age_text(self._now - at)

    def _commit_item(self, memory: Memory) -> BriefItem:
        author = ""
        if memory.details.author:
            author = f" by {memory.details.author[:AUTHOR_CHARS]}"
        message = memory.text
        for mark in _AFTER_MESSAGE:
            message = message.partition(mark)[0]
        caption = f"{commit_name(memory.place)}, {self._age(memory.updated_at)}{author}"
        return BriefItem(memory.id, (memory.id,), caption, (Quote(message),))

    def _exchange_item(self, memory: Memory) -> BriefItem:
        question, reply = exchange_parts(memory.text)
        quotes = [
            Quote(without_code(reply), "answered"),
            Quote(without_code(question), "asked"),
        ]
        if memory.kind is Kind.SUMMARY:
            quotes = [Quote(memory.text)]
        caption = f"past session [{memory.id}], {self._age(memory.updated_at)}"
        with_words = tuple(quote for quote in quotes if quote.words)
        return BriefItem(memory.id, (memory.id,), caption, with_words)

    def _chat_item(self, best: Memory, chat: Sequence[SpokenMemory]) -> BriefItem:
        """Return the item of a chat: how it ended, what matched best, what led to the end."""
        last = chat[-1]
        by_telling = [last]
        if best.id != last.id:
            by_telling += [exchange for exchange in chat if exchange.id == best.id]
        by_telling += [exchange for exchange in reversed(chat) if exchange not in by_telling]
        quotes: list[Quote] = []
        for exchange in by_telling[:MOST_EXCHANGES]:
            question, reply = exchange_parts(exchange.text)
            # Where the agent had the last word, it sums up what the user said before.
            quotes.append(Quote(without_code(reply), "ended" if exchange is last else "said"))
            quotes.append(Quote(without_code(question), "asked"))
        with_words = tuple(quote for quote in quotes if quote.words)
        caption = f"past session [{best.id}], {self._age(last.at)}"
        ids = tuple(exchange.id for exchange in chat)
        return BriefItem(best.id, ids, caption, with_words)

    def _fact_item(self, memory: Memory, cited: Sequence[Citation]) -> BriefItem:
        age = self._age(memory.updated_at)
        who = f"said by {memory.details.author[:AUTHOR_CHARS] or 'the user'}"
        if memory.source is MemorySource.IMPORT and not memory.is_from_team:
            who = "imported"
        if memory.is_shown_by_files:
            who = "seen in files here"
        elif is_unreviewed(memory):
            who = "inferred, not reviewed"
        places = [citation.place for citation in cited[:NAMED_SPANS]]
        cites = f", cites {', '.join(places)}" if places else ""
        caption = f"{memory.kind} [{memory.id}], {who}, {age}{cites}"
        quotes = [Quote(memory.text)]
        # An unreviewed fact is shown with the words that it rests on.
        words = memory.details.quote
        if words and words not in memory.text and is_unreviewed(memory):
            quotes.append(Quote(words, "from the words"))
        return BriefItem(memory.id, (memory.id,), caption, tuple(quotes), is_fact=True)


def _with_drift(item: BriefItem, warning: str) -> BriefItem:
    """Say what no longer holds of a fact."""
    return replace(item, caption=f"{item.caption}; {warning}") if warning else item


def without_code(words: str) -> str:
    """Return words without their fenced blocks; one that never closes goes to the end."""
    if not any(mark in words for mark in FENCES):
        return words
    kept: list[str] = []
    fence = ""
    for line in words.split("\n"):
        start = line.lstrip()[: len(FENCES[0])]
        if not fence and start in FENCES:
            fence = start
            kept.append(CODE)
        elif not fence:
            kept.append(line)
        elif start == fence:
            fence = ""
    return "\n".join(kept)


def is_unreviewed(memory: Memory) -> bool:
    """Whether a memory was inferred or taken from a session, and has not been reviewed."""
    is_inferred = memory.source is MemorySource.INFERRED and not memory.is_shown_by_files
    return is_inferred or memory.details.review == "unreviewed"


def remark_of(memory: Selected) -> str:
    """Return what the order of words says about a memory that a later one amends."""
    for boost in memory.boosts:
        if boost.name == AMENDED:
            return f"; {boost.because}"
    return ""


def limited(items: Iterable[BriefItem], told_ids: Iterable[str]) -> list[BriefItem]:
    """Return the first items of each sort that were not shown before.

    told_ids: IDs already shown.
    """
    earlier_ids = frozenset(told_ids)
    chosen: list[BriefItem] = []
    counts = {True: MOST_FACTS, False: MOST_SAID}
    for item in items:
        if counts[item.is_fact] and earlier_ids.isdisjoint(item.ids):
            counts[item.is_fact] -= 1
            chosen.append(item)
    return chosen


def _chat_of(memory: Memory) -> str:
    return memory.details.session if memory.kind is Kind.EXCHANGE else ""
