"""Rank memories against a query by seven rules and no model: the baseline that `memory list --match` shows.

In this order: 1.0 for an exact text match in title or text, else 0; +0.3 for each matching reference; +0.2 for the
scope; +0.1 for the kind; × (0.5 + 0.5 · importance); +0.1 if used within 24 h; +0.05 for each use, at most ten; never
more than 2. No database and no clock. Trade-off: a match is the same characters in the same case, so that anybody can
tell beforehand what will match.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from xscore.records.memory import Kind, Memory, MemoryScope

TEXT, REFERENCE, SCOPE, KIND = 1.0, 0.3, 0.2, 0.1
RECENT, EACH_USE, MOST_USES = 0.1, 0.05, 10
RECENT_S = 24 * 3_600.0
CAP = 2.0


class RegistryQuery(Struct, frozen=True, kw_only=True):
    """What is looked for; an empty field adds nothing."""

    text: str = ""
    references: Collection[str] = ()
    """Paths, URLs or memory ids."""
    scopes: Collection[MemoryScope] = ()
    kinds: Collection[Kind] = ()


def match_score(memory: Memory, query: RegistryQuery) -> float:
    """Return what the first four rules give: 0 where nothing of the query matches."""
    said = memory.particulars
    references = {memory.path, said.exception_of, *said.links, *said.paths} - {""}
    score = TEXT if query.text and (query.text in memory.title or query.text in memory.text) else 0.0
    score += REFERENCE * len(references.intersection(query.references))
    score += SCOPE if memory.scope in query.scopes else 0.0
    return score + (KIND if memory.kind in query.kinds else 0.0)


def registry_score(memory: Memory, query: RegistryQuery, *, now: float) -> float:
    """Return the score, 0..2. now: Unix seconds."""
    score = match_score(memory, query) * (0.5 + 0.5 * memory.importance)
    if memory.accessed_at > 0 and now - memory.accessed_at <= RECENT_S:
        score += RECENT
    return min(CAP, score + EACH_USE * min(memory.access_count, MOST_USES))


def select_by_rules(memories: Iterable[Memory], query: RegistryQuery, *, now: float) -> list[tuple[float, Memory]]:
    """Return the memories of which anything matches, with their scores, best first; ties by id."""
    scored = [(registry_score(one, query, now=now), one) for one in memories if match_score(one, query) > 0]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].id))
