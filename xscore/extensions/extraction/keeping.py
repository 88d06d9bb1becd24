"""Keep the facts of a session: once each, inferred, and waiting unless the user wants otherwise.

A fact that is known is not kept again; said in another session it is believed more. What the
user takes back or decides again supersedes what was inferred, never what was stated; the old
fact stays, superseded. Everything of a session is one transaction in each store. Trade-off: two
facts are the same if they have the same words that say something, or the same quote; a
paraphrase in other words waits, too.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from sqlite3 import Connection
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.extraction.facts import Fact, SaidFact
from xscore.extensions.extraction.retractions import Retraction, content_words
from xscore.extensions.extraction.session_facts import (
    DATED,
    SessionFacts,
    fact_digests,
    negates,
)
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records.memory import (
    Citation,
    Kind,
    Layer,
    Memory,
    MemoryDetails,
    MemorySource,
    MemoryStatus,
)
from xscore.records.statement import LAYERS_BY_KIND, Statement
from xscore.store import evidence, extracted_facts, memory_rows, memory_writer
from xscore.store.citing import parse_citation
from xscore.store.composing import memory_from_statement, statement_text
from xscore.store.memory_updates import note_access, set_trust
from xscore.store.near_duplicates import near_duplicates
from xscore.store.store import Store

Mode = Literal["ask", "auto"]
REPEATED_BY = 0.1
"""How much confidence a fact gains that the user says in another session, too."""
MOST_CONFIDENCE = 0.9
"""Highest confidence of a fact that has not been reviewed."""
LEAST_SHARED = 0.75
"""Two facts are the same if the longer shares this part of its words with the shorter, and the
shorter adds none."""
_LIVE = (MemoryStatus.ACTIVE, MemoryStatus.STALE)


class KeptFacts(Struct, frozen=True, kw_only=True):
    """What became of the facts of a session."""

    new: tuple[str, ...] = ()
    """Ids of the new memories."""
    repeated: int = 0
    superseded: int = 0
    read: int = 0
    """Exchanges that had not been read before."""
    refused: int = 0
    """Facts that were refused: known as rejected or erased, or more than may wait."""


def keep_facts(
    store: Store,
    session_facts: SessionFacts,
    *,
    mode: Mode,
    now: float,
    read: Sequence[str] = (),
) -> KeptFacts:
    """Keep the facts of a session, and note that its exchanges were read.

    now: Unix seconds.
    read: ids of the exchanges.
    Raises StoreError.
    """
    with ExitStack() as transactions:
        # The user's store is locked first, as everywhere: two runs cannot wait for each other.
        user_connection = _connection_of_user(store, session_facts)
        if user_connection is not None:
            transactions.enter_context(database.transaction(user_connection))
        transactions.enter_context(database.transaction(store.connection))
        keeper = _Keeper(store, user_connection, mode=mode, now=now)
        keeper.take_back(session_facts.retractions)
        for said_fact in session_facts.kept:
            keeper.keep(said_fact)
        newly_read = extracted_facts.mark_read(store.connection, read)
    return replace(keeper.result(), read=newly_read)


def _connection_of_user(store: Store, session_facts: SessionFacts) -> Connection | None:
    """Return the user's own store, which is created only for a preference; None if there is
    none."""
    if store.user_data_dir is None:
        return None
    is_needed = any(said_fact.kind is Kind.PREFERENCE for said_fact in session_facts.kept)
    return store.user_connection(create=is_needed)


class _Keeper:
    """Keeps facts in open transactions."""

    def __init__(
        self, store: Store, user_connection: Connection | None, *, mode: Mode, now: float
    ) -> None:
        self._store = store
        self._user_connection = user_connection
        self._mode = mode
        self._now = now
        self._known: dict[Layer, list[Memory]] = {}
        self._new: list[str] = []
        self._repeated = self._superseded = self._refused = 0
        self._waiting = extracted_facts.count_waiting(store.connection)

    def result(self) -> KeptFacts:
        return KeptFacts(
            new=tuple(self._new),
            repeated=self._repeated,
            superseded=self._superseded,
            refused=self._refused,
        )

    def keep(self, said_fact: SaidFact) -> None:
        """Keep one fact, or note that it was said again."""
        layer = LAYERS_BY_KIND[said_fact.kind][0]
        connection = self._home_of(layer)
        if connection is None:  # the user's own store is switched off
            self._refused += 1
            return
        memories = self._known_of(connection, layer)
        same = next((memory for memory in memories if _says_the_same(memory, said_fact)), None)
        if same is not None and _is_live_or_waiting(same):
            self._say_again(connection, same, said_fact)
            return
        is_refused = same is not None and same.details.review == "rejected"
        fact = said_fact.fact
        digests = fact_digests(said_fact.kind, fact.text, fact.quote)
        # What was rejected stays so when its row is erased.
        is_refused = is_refused or extracted_facts.was_rejected(connection, digests)
        if is_refused or self._waiting >= extracted_facts.MOST_WAITING:
            self._refused += 1
            return
        self._write(connection, said_fact, layer)

    def take_back(self, retractions: Iterable[Retraction]) -> None:
        """Supersede what was inferred in earlier sessions and is taken back in this one."""
        named = [retraction for retraction in retractions if retraction.named]
        if named:
            layers = [Layer.PROJECT, Layer.GOVERNANCE, Layer.USER]
        else:
            layers = []
        for layer in layers:
            connection = self._home_of(layer)
            if connection is None:
                continue
            for memory in list(self._known_of(connection, layer)):
                words = content_words(statement_text(memory))
                is_open = _is_inferred_fact(memory) and _is_live_or_waiting(memory)
                if is_open and any(retraction.names(words) for retraction in named):
                    self._supersede(connection, memory)

    def _write(self, connection: Connection, said_fact: SaidFact, layer: Layer) -> None:
        holder = self._holder_of(connection, layer, said_fact.fact.topic)
        topic = said_fact.fact.topic
        # What a person stated is never replaced by what was inferred.
        if topic and holder is not None and not _is_inferred_fact(holder):
            topic = ""
        memory, citations = self._memory_of(said_fact, topic)
        if memory_rows.is_erased(connection, memory.id):
            self._refused += 1
            return
        # In `ask` it is superseded when the new one is accepted; a guess is replaced by a guess.
        if holder is not None and topic and (_is_active(memory) or not _is_live(holder)):
            self._supersede(connection, holder, by=memory.id)
        memory_writer.write_memory(connection, memory, before=None, now=self._now)
        if citations:
            evidence.attach_citations(connection, memory.id, citations)
        extracted_facts.note_saying(connection, memory.id, said_fact.exchange)
        # An old session, read today, does not count as unused since then.
        note_access(connection, [memory.id], now=self._now)
        memories = self._known_of(connection, layer)
        memories[:] = [entry for entry in memories if entry.id != memory.id]
        memories.append(memory)
        self._new.append(memory.id)
        self._waiting += not _is_active(memory)

    def _memory_of(
        self, said_fact: SaidFact, topic: str
    ) -> tuple[Memory, tuple[Citation, ...]]:
        fact = said_fact.fact
        citations, paths = self._cited(fact)
        waits = self._mode == "ask" or said_fact.kind is Kind.PREFERENCE
        details = MemoryDetails(
            rationale=getattr(fact, "because", ""),
            resolution=getattr(fact, "fix", ""),
            quote=fact.quote,
            quoted_in=said_fact.exchange,
            # A preference reaches all repositories, so it always waits.
            review="waiting" if waits else "unreviewed",
            paths=paths,
            occurrences=1,
        )
        settings = self._store.settings
        statement = Statement(
            text=fact.text,
            kind=said_fact.kind,
            key=topic or _key_of_preference(said_fact),
            source=MemorySource.INFERRED,
            confidence=settings.inferred_confidence,
            allow_pii=settings.allow_pii,
            at=min(said_fact.at, self._now),
        )
        memory, _ = memory_from_statement(statement, details, now=self._now)
        if waits:
            memory = memory_writer.with_status(memory, MemoryStatus.ARCHIVED)
        return memory, citations

    def _cited(self, fact: Fact) -> tuple[tuple[Citation, ...], tuple[str, ...]]:
        """Return the lines that a fact cites, and the files that it names and that are here."""
        citations: list[Citation] = []
        paths: list[str] = []
        for name in fact.files:
            try:
                citation = parse_citation(self._store.root, name)
            except UsageError:  # no file of this repository
                continue
            paths.append(citation.path)
            # A file that is only named does not make the fact stale whenever it changes.
            if citation.start_line:
                citations.append(citation)
        return tuple(citations), tuple(dict.fromkeys(paths))

    def _say_again(self, connection: Connection, memory: Memory, said_fact: SaidFact) -> None:
        self._repeated += 1
        before = extracted_facts.exchanges_saying(connection, memory.id)
        is_new = extracted_facts.note_saying(connection, memory.id, said_fact.exchange)
        if not (is_new and _is_inferred_fact(memory)):
            return
        sessions = extracted_facts.sessions_of(self._store.connection, before)
        own_sessions = extracted_facts.sessions_of(self._store.connection, {said_fact.exchange})
        confidence = memory.confidence
        # What an agent repeats, it may have read here; what one session says twice is one word.
        if said_fact.by == "user" and sessions and not own_sessions & sessions:
            confidence = min(max(confidence, MOST_CONFIDENCE), confidence + REPEATED_BY)
        occurrences = memory.details.occurrences + 1
        repeated = replace(
            memory,
            confidence=confidence,
            evidence_count=memory.evidence_count + 1,
            details=replace(memory.details, occurrences=occurrences),
        )
        memory_writer.write_memory(
            connection, repeated, before=memory, now=self._now, link=False
        )
        set_trust(
            connection,
            repeated.id,
            confidence=repeated.confidence,
            evidence_count=repeated.evidence_count,
            used_at=self._now,
        )
        self._replace_known(connection, repeated)

    def _supersede(self, connection: Connection, memory: Memory, *, by: str = "") -> None:
        self._superseded += 1
        was_waiting = not _is_live(memory)
        former = memory_writer.with_status(memory, MemoryStatus.SUPERSEDED)
        former = replace(former, superseded_by=by, details=replace(former.details, review=""))
        memory_writer.write_memory(connection, former, before=memory, now=self._now, link=False)
        self._replace_known(connection, former)
        self._waiting -= was_waiting

    def _replace_known(self, connection: Connection, memory: Memory) -> None:
        memories = self._known_of(connection, memory.layer)
        memories[:] = [memory if entry.id == memory.id else entry for entry in memories]

    def _holder_of(self, connection: Connection, layer: Layer, topic: str) -> Memory | None:
        """Return the memory of a topic: a candidate, otherwise one that waits for review."""
        if not topic:
            return None
        holders = [
            memory
            for memory in self._known_of(connection, layer)
            if memory.key == topic and _is_live_or_waiting(memory)
        ]
        return min(holders, key=lambda memory: not _is_live(memory), default=None)

    def _known_of(self, connection: Connection, layer: Layer) -> list[Memory]:
        if layer not in self._known:
            self._known[layer] = extracted_facts.comparable_memories(connection, layer)
        return self._known[layer]

    def _home_of(self, layer: Layer) -> Connection | None:
        if layer is Layer.USER:
            return self._user_connection
        return self._store.connection


def _key_of_preference(said_fact: SaidFact) -> str:
    """Return the key that every preference needs, where no topic is known."""
    if said_fact.kind is not Kind.PREFERENCE:
        return ""
    return "_".join(sorted(content_words(said_fact.fact.text))[:4])[:60] or "preference"


def _is_active(memory: Memory) -> bool:
    return memory.status is MemoryStatus.ACTIVE


def _is_live(memory: Memory) -> bool:
    return memory.status in _LIVE


def _is_live_or_waiting(memory: Memory) -> bool:
    """Whether a memory is a candidate, or waits to become one."""
    return _is_live(memory) or memory.details.review == "waiting"


def _is_inferred_fact(memory: Memory) -> bool:
    return memory.source is MemorySource.INFERRED and bool(memory.details.quote)


def _says_the_same(memory: Memory, said_fact: SaidFact) -> bool:
    fact = said_fact.fact
    quote = " ".join(memory.details.quote.split()).casefold()
    new_quote = " ".join(fact.quote.split()).casefold()
    is_same_quote = bool(quote) and quote == new_quote
    if is_same_quote and memory.kind is said_fact.kind:
        return True
    if memory.details.quoted_in == said_fact.exchange and _overlap(quote, new_quote):
        return memory.kind is said_fact.kind
    before = DATED.sub("", statement_text(memory))
    after = DATED.sub("", fact.text)
    if negates(before) != negates(after):
        return False
    shorter, longer = sorted((content_words(before), content_words(after)), key=len)
    if not shorter:
        return False
    if shorter <= longer and len(shorter) >= LEAST_SHARED * len(longer):
        return True
    # Synonyms and an afterthought: worth the work only where most words are shared.
    is_close = 2 * len(shorter & longer) >= len(longer)
    return is_close and bool(near_duplicates({"before": before, "after": after}))


def _overlap(quote: str, new_quote: str) -> bool:
    """Whether one quote is part of the other: a rule and a model have found the same words."""
    return bool(quote) and (quote in new_quote or new_quote in quote)
