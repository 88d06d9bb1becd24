"""The registry: query, register, update and remove memories of every layer, by rules that anybody can follow.

Its scores are `registry_score`'s; nothing here calls a model. Removing is erasure, with all that hangs on a memory.
Trade-off: a query reads every memory that is not from the index and scores it, some 30 ms of CPU for a thousand.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xscore.memory.databases import Databases
from xscore.memory.lookup import Choice, chosen, exactly
from xscore.memory.registry_score import matched, registry_score
from xscore.memory.remembering import Change, change, remember
from xscore.records import Citation, MemoryId, RegistryHit, RegistryQuery, Remembered, Statement

if TYPE_CHECKING:
    from xscore.memory.erasure import Erasure


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
        found = [memory for memory in chosen(self._databases, Choice(layers=layers)) if memory.source != "index"]
        if asked.text or asked.references or asked.scope or asked.kind:
            found = [memory for memory in found if matched(memory, asked) > 0]
        hits = [RegistryHit(memory, registry_score(memory, asked, now=moment)) for memory in found]
        return sorted(hits, key=lambda hit: (-hit.score, hit.memory.id))[:limit]

    def register(
        self, statement: Statement, *, citations: Iterable[Citation] = (), now: float | None = None
    ) -> Remembered:
        """Keep a statement. See `remembering.remember`."""
        return remember(self._databases, statement, citations=citations, now=now)

    def update(
        self,
        memory_id: MemoryId | str,
        wanted: Change,
        *,
        citations: Iterable[Citation] | None = None,
        now: float | None = None,
    ) -> Remembered:
        """Change a memory. See `remembering.change`."""
        return change(self._databases, memory_id, wanted, citations=citations, now=now)

    def remove(self, *ids: MemoryId | str, now: float | None = None) -> "Erasure":
        """Erase memories for good, with all that was made with them. Raises NothingMatched, UsageError."""
        from xscore.memory.erasure import erase

        for identifier in ids:
            exactly(self._databases, identifier)
        return erase(self._databases, ids, now=self._databases.moment(now))
