"""Memories that contradict each other, brought to one sentence (L07). Pure; both stay in the store.

Two memories conflict when they speak of one topic and choose otherwise. The topic is that of their key; one without a
key joins what its alternatives name. An explicit choice of a narrower scope is an exception from a wider one and wins;
else the largest of authority of the layer × confidence × freshness × evidence does. The sentence names the winner and
what it departs from, and nothing of their ages. Trade-off: a contradiction that shares neither a key nor a named
alternative is not seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xscore.learning.choices import names_a_choice, normal, topic, value
from xscore.learning.decay import days_since, decay, last_seen
from xscore.records import Kind, Layer, Memory, MemoryScope, Source, Status

FRESHNESS_PER_DAY = 0.01
"""λ of freshness, which only orders contradicting memories: after 69 days one weighs half."""
_BREADTH = {MemoryScope.SESSION: 0, MemoryScope.REPOSITORY: 1, MemoryScope.WORKSPACE: 2, MemoryScope.GLOBAL: 3}
_WHERE = {
    MemoryScope.SESSION: "in this session",
    MemoryScope.REPOSITORY: "in this project",
    MemoryScope.WORKSPACE: "in this workspace",
    MemoryScope.GLOBAL: "everywhere",
}
_HISTORY = frozenset({Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE, Kind.TODO})
"""Kinds that record what happened: they choose nothing that could be contradicted."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A conflict as the answering model is told of it."""

    memory_ids: tuple[str, ...]
    """All that take part, sorted."""
    text: str
    """One sentence with the exception noted, to be shown in their place."""
    winner: str
    """Id of the memory that holds here."""


def resolve(memories: Iterable[Memory], *, authority: Mapping[str, float], now: float) -> list[Resolved]:
    """Return one resolution for each topic that these memories contradict each other about, by memory ids.

    authority: `settings.bundle.authority`. now: Unix seconds. The order of the memories does not matter. What agrees,
    comes from the index, or is not active or stale takes no part.
    """
    choosers = sorted((memory for memory in memories if _chooses(memory)), key=lambda memory: memory.id)
    found = [_resolved(group, authority, now) for group in _topics(choosers)]
    return sorted((each for each in found if each is not None), key=lambda each: each.memory_ids)


def weight(memory: Memory, *, authority: Mapping[str, float], now: float) -> float:
    """Return authority × confidence × freshness × n/(n+1), where n is how often it was seen."""
    freshness = decay(1.0, days_since(last_seen(memory), now), FRESHNESS_PER_DAY)
    count = max(memory.evidence_count, 1)
    evidence = count / (count + 1)
    return authority.get(memory.layer.value, 0.0) * memory.confidence * freshness * evidence


def _chooses(memory: Memory) -> bool:
    live = memory.status in (Status.ACTIVE, Status.STALE)
    return live and memory.source is not Source.INDEX and memory.kind not in _HISTORY


def _topics(memories: Sequence[Memory]) -> list[list[Memory]]:
    """Group by topic; a decision without a key joins what its alternatives name."""
    choosing: dict[str, list[Memory]] = {}
    for memory in memories:
        choosing.setdefault(normal(value(memory)), []).append(memory)
    groups: dict[str, list[Memory]] = {}
    for memory in memories:
        groups.setdefault(_topic(memory, choosing), []).append(memory)
    return [group for group in groups.values() if len(group) > 1]


def _topic(memory: Memory, choosing: Mapping[str, Sequence[Memory]]) -> str:
    if memory.key:
        return topic(memory.key)
    rejected = [rival for name in memory.particulars.alternatives for rival in choosing.get(normal(name), ())]
    return next((topic(rival.key) for rival in rejected if rival.key), memory.id)


def _resolved(group: Sequence[Memory], authority: Mapping[str, float], now: float) -> Resolved | None:
    best_first = sorted(group, key=lambda memory: (-weight(memory, authority=authority, now=now), memory.id))
    winner = _exception(best_first) or best_first[0]
    others = [memory for memory in best_first if normal(value(memory)) != normal(value(winner))]
    if not others:
        return None
    ids = tuple(sorted(memory.id for memory in group))
    return Resolved(ids, _sentence(winner, others[0]), winner.id)


def _exception(best_first: Sequence[Memory]) -> Memory | None:
    """Return the explicit memory of the narrowest scope, where there is a wider one for it to be an exception from."""
    widest = max(_BREADTH[memory.scope] for memory in best_first)
    said = [memory for memory in best_first if memory.source is Source.EXPLICIT and _BREADTH[memory.scope] < widest]
    return min(said, key=lambda memory: _BREADTH[memory.scope], default=None)


def _sentence(winner: Memory, other: Memory) -> str:
    here, there = value(winner), value(other)
    named = names_a_choice(winner) and names_a_choice(other)
    if not named:
        here, there = f"“{here}”", f"“{there}”"
    if _BREADTH[winner.scope] < _BREADTH[other.scope]:
        explicitly = "explicitly chose" if winner.source is Source.EXPLICIT else "is seen to use"
        place = _WHERE[winner.scope].removeprefix("in ")
        exception = f"{_article(here)} {here} exception" if named else "an exception"
        return f"{_rule(other)} {there}, but {_WHERE[winner.scope]} {explicitly} {here}; treat {place} as {exception}."
    if _BREADTH[winner.scope] > _BREADTH[other.scope]:
        weaker = "named" if other.source is Source.EXPLICIT else "only inferred"
        return f"{_rule(winner)} {here}; {there} is {weaker} {_WHERE[other.scope]} and weighs less; go by {here}."
    where = _WHERE[winner.scope].capitalize()
    return f"{where} {here} holds ({winner.kind}); {there} ({other.kind}) is contradicted by it."


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"


def _rule(memory: Memory) -> str:
    return (
        "User usually uses" if memory.layer is Layer.USER else f"{_WHERE[memory.scope].capitalize()} one usually uses"
    )
