"""What a change leaves untrue: documents that name what it removes, and decisions about it.

These are found, not guessed: a line of a document has a name that no code has any more, or a stated
memory cites lines that are different now. Trade-off: a decision that neither cites the code nor
names it is left to the judge.
"""

import re
from collections.abc import Iterable, Sequence

from xscore.extensions.checking.records import Change, Finding, FindingKind
from xscore.extensions.checking.removed_names import (
    NameMention,
    RemovedNames,
    living_names,
    removed_names,
    stale_mentions,
)
from xscore.platform.text import format_place
from xscore.records.memory import Citation, Kind, Memory
from xscore.store.evidence import citations_of
from xscore.store.fetched_pool import FetchedPool
from xscore.store.lookup import MemoryFilter, filter_memories
from xscore.store.store import Store

NAMED_SCORE = 0.95
"""Score of a document or a memory that names something that is gone."""
CITED_SCORE = 0.9
"""Score of a memory whose cited code has changed: what it says may still hold."""
MOST_NAMES_SHOWN = 3
_RECORDS = frozenset({Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE})
"""Kinds that tell what happened: they are not untrue afterwards."""


def untrue_findings(
    store: Store, pool: FetchedPool, change: Change, paths: Sequence[str]
) -> list[Finding]:
    """Return what the change leaves untrue, documents first.

    paths: the files that are there after the change.
    """
    removed = removed_names(change)
    documents = _of_documents(stale_mentions(store, pool, removed, paths))
    return [*documents, *_of_memories(store, pool, change, removed)]


def _of_documents(mentions: Iterable[NameMention]) -> list[Finding]:
    by_path: dict[str, list[NameMention]] = {}
    for mention in mentions:
        by_path.setdefault(mention.path, []).append(mention)
    findings: list[Finding] = []
    for path, of_path in sorted(by_path.items()):
        reasons = [_why_stale(mention) for mention in of_path[:MOST_NAMES_SHOWN]]
        if len(of_path) > MOST_NAMES_SHOWN:
            reasons.append(f"and {len(of_path) - MOST_NAMES_SHOWN} more such names")
        findings.append(
            Finding(
                kind=FindingKind.DOCUMENT,
                path=path,
                line=of_path[0].line,
                score=NAMED_SCORE,
                reasons=tuple(reasons),
            )
        )
    return findings


def _why_stale(mention: NameMention) -> str:
    if not mention.is_path:
        return f"line {mention.line} names `{mention.name}`, removed from {mention.came_from}"
    if mention.came_from:
        return f"line {mention.line} names {mention.name}, which is {mention.came_from} now"
    return f"line {mention.line} names {mention.name}, which is deleted"


def _of_memories(
    store: Store, pool: FetchedPool, change: Change, removed: RemovedNames
) -> list[Finding]:
    memories = [
        memory
        for memory in filter_memories(store, MemoryFilter())
        if memory.kind not in _RECORDS
    ]
    cited = citations_of(store.connection, [memory.id for memory in memories])
    named = {memory.id: _names_of(memory, removed) for memory in memories}
    every_name = frozenset().union(*named.values())
    alive = living_names(store, pool, every_name, defined=removed.defined)
    findings: list[Finding] = []
    for memory in memories:
        names = [name for name in named[memory.id] if name not in alive]
        broken = _broken(cited.get(memory.id, ()), change)
        reasons = [f"names `{name}`, removed from {removed.compounds[name]}" for name in names]
        reasons += [f"cites {_place(citation)}, which has changed" for citation in broken]
        if reasons:
            score = NAMED_SCORE if names else CITED_SCORE
            places = [(citation.path, citation.start_line) for citation in broken]
            places += [(removed.compounds[name], 0) for name in names]
            findings.append(_about(memory, score, reasons, places[0]))
    return findings


def _about(
    memory: Memory, score: float, reasons: Sequence[str], place: tuple[str, int]
) -> Finding:
    """Return the finding about a memory. place: the file and line that it is about."""
    path, line = place
    return Finding(
        kind=FindingKind.DECISION,
        path=path,
        line=line,
        memory_id=memory.id,
        title=memory.title,
        score=score,
        reasons=tuple(reasons[:MOST_NAMES_SHOWN]),
    )


def _names_of(memory: Memory, removed: RemovedNames) -> list[str]:
    words = dict.fromkeys(re.findall(r"--[\w-]+|\w+", f"{memory.title}\n{memory.text}"))
    return [word for word in words if word in removed.compounds]


def _broken(citations: Iterable[Citation], change: Change) -> list[Citation]:
    touched = change.paths
    return [
        citation for citation in citations if citation.is_changed and citation.path in touched
    ]


def _place(citation: Citation) -> str:
    return format_place(citation.path, citation.start_line, citation.end_line)
