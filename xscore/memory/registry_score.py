"""How well a memory answers a registry query, by seven rules and no model (requirement A04).

In this order: 1.0 for an exact text match in title or content, else 0; + 0.3 for a matching reference; + 0.2 for the
scope; + 0.1 for the kind; × (0.5 + 0.5 · importance); + 0.1 if it was used within 24 h; + 0.05 for each use, at most
ten; and never more than 2. No database, no clock. It is a tie-break and a free baseline, not a judgment.
Trade-off: a match is the very characters, case included, so that anybody can tell beforehand what will match.
"""

from xscore.records import Memory, RegistryQuery

TEXT, REFERENCE, SCOPE, KIND = 1.0, 0.3, 0.2, 0.1
RECENT, EACH_USE, MOST_USES = 0.1, 0.05, 10
RECENT_S = 24 * 3_600.0
CAP = 2.0


def matched(memory: Memory, query: RegistryQuery) -> float:
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
    score = matched(memory, query) * (0.5 + 0.5 * memory.importance)
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
