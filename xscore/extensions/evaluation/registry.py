"""How well a memory answers a registry query, by seven rules and no model (requirement A04).

In this order: 1.0 for an exact text match in title or content, else 0; + 0.3 for a matching reference; + 0.2 for the
scope; + 0.1 for the kind; × (0.5 + 0.5 · importance); + 0.1 if it was used within 24 h; + 0.05 for each use, at most
ten; and never more than 2. No database, no clock. It is a tie-break and a free baseline, not a judgment.
Trade-off: a match is the very characters, case included, so that anybody can tell beforehand what will match.

The registry: query, register, update and remove memories of every layer, by rules that anybody can follow.

Its scores are `registry_score`'s; nothing here calls a model. Removing is erasure, with all that hangs on a memory.
Trade-off: a query reads every memory that is not from the index and scores it, some 30 ms of CPU for a thousand.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xscore.records import Citation, Memory, MemoryId, RegistryHit, RegistryQuery, Statement, StoredStatement
from xscore.store.lookup import MemoryFilter, filter_memories, memory_by_id
from xscore.store.opening import Databases
from xscore.store.remembering import MemoryChange, remember, update_memory

if TYPE_CHECKING:
    from xscore.extensions.privacy.erasure import Erasure


TEXT, REFERENCE, SCOPE, KIND = 1.0, 0.3, 0.2, 0.1
RECENT, EACH_USE, MOST_USES = 0.1, 0.05, 10
RECENT_S = 24 * 3_600.0
CAP = 2.0


def match_score(memory: Memory, query: RegistryQuery) -> float:
    """Return what rules one to four give: 0 where nothing of the query fits."""
    score = TEXT if query.text and (query.text in memory.title or query.text in memory.text) else 0.0
    if not references_of(memory).isdisjoint(query.references):
        score += REFERENCE
    if query.scope is not None and memory.scope is query.scope:
        score += SCOPE
    if query.kind is not None and memory.kind is query.kind:
        score += KIND
    return score


def registry_score(memory: Memory, query: RegistryQuery, *, now: float) -> float:
    """Return the score, 0..2. now: Unix seconds."""
    score = match_score(memory, query) * (0.5 + 0.5 * memory.importance)
    if memory.accessed_at > 0 and now - memory.accessed_at <= RECENT_S:
        score += RECENT
    score += EACH_USE * min(memory.access_count, MOST_USES)
    return min(CAP, score)


def halved(score: float) -> float:
    """Return the score as one of 0..1: for callers of the library that mix it with judges' scores, as no turn does."""
    return score / CAP


def references_of(memory: Memory) -> frozenset[str]:
    """Return what a memory refers to: its file, the files it touched, its links, the memory it is an exception from."""
    said = memory.particulars
    return frozenset(filter(None, (memory.path, said.exception_of, *said.links, *said.paths)))


class Registry:
    """The memories that were said, learned or imported, as one register."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    def query(
        self, query: RegistryQuery | None = None, *, limit: int = 20, now: float | None = None
    ) -> list[RegistryHit]:
        """Return the memories that fit, best first; all of them where the query asks for nothing.

        Left out are superseded and archived ones, those of the index, and those of which no word, reference, scope or
        kind fits. limit: at most so many. now: Unix seconds.
        """
        asked, moment = query or RegistryQuery(), self._databases.moment(now)
        layers = () if asked.layer is None else (asked.layer,)
        found = [
            memory
            for memory in filter_memories(self._databases, MemoryFilter(layers=layers))
            if memory.source != "index"
        ]
        if asked.text or asked.references or asked.scope or asked.kind:
            found = [memory for memory in found if match_score(memory, asked) > 0]
        hits = [RegistryHit(memory, registry_score(memory, asked, now=moment)) for memory in found]
        return sorted(hits, key=lambda hit: (-hit.score, hit.memory.id))[:limit]

    def register(
        self, statement: Statement, *, citations: Iterable[Citation] = (), now: float | None = None
    ) -> StoredStatement:
        """Keep a statement. See `remembering.remember`."""
        return remember(self._databases, statement, citations=citations, now=now)

    def update(
        self,
        memory_id: MemoryId | str,
        wanted: MemoryChange,
        *,
        citations: Iterable[Citation] | None = None,
        now: float | None = None,
    ) -> StoredStatement:
        """Change a memory. See `remembering.change`."""
        return update_memory(self._databases, memory_id, wanted, citations=citations, now=now)

    def remove(self, *ids: MemoryId | str, now: float | None = None) -> "Erasure":
        """Erase memories for good, with all that was made with them. Raises NothingMatched, UsageError."""
        from xscore.extensions.privacy.erasure import erase_memories

        for identifier in ids:
            memory_by_id(self._databases, identifier)
        return erase_memories(self._databases, ids, now=self._databases.moment(now))
