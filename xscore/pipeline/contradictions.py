"""Memories that contradict each other, resolved in one sentence, and how confidence decays. Pure.

Two memories conflict when they share a topic (of their key, or of a named alternative) and choose
differently. A choice is the value in a memory's first sentence: `Use Prisma for the ORM` chooses
`Prisma`. An explicit choice of a narrower scope wins; otherwise the largest authority × confidence
× freshness × evidence. Both stay in the store. Trade-off: values are compared by their words, so a
choice worded differently is another choice.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp

from msgspec import Struct

from xscore.platform.clock import DAY_S
from xscore.records.memory import (
    Kind,
    Layer,
    Memory,
    MemoryScope,
    MemorySource,
    MemoryStatus,
    key_of_all_members,
)


def decayed(base: float, days: float, per_day: float) -> float:
    """Return base · exp(−per_day · days); negative days count as 0."""
    return base * exp(-per_day * max(days, 0.0))


def days_since(moment: float, now: float) -> float:
    """Return the days between two Unix times; 0 if the first is in the future."""
    return max(now - moment, 0.0) / DAY_S


def last_seen(memory: Memory) -> float:
    """Return when a memory was last said, changed, imported or used (unix seconds)."""
    return max(memory.created_at, memory.updated_at, memory.accessed_at)


VALUE_WORDS = 3
"""Most words of a value; a longer one is compared as a whole sentence."""
NAMED = frozenset({Kind.TECH_STACK, Kind.DECISION, Kind.PREFERENCE})
"""Kinds that choose something by name."""

_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)[.!?](?=\s+[^a-z\s]|\s*\Z)|\n")
_LEAD = re.compile(
    r"(?:(?:we|i|user|this"
    r" project|always|usually|typically|generally|explicitly|please|decided|decision)[:,]? )*"
    r"(?:(?:use|uses|using|prefer|prefers|choose|chooses|chose|chosen|adopt|adopts|adopted|pick|picked|go"
    r" with"
    r"|goes with|went with|is|are|to use)[:]? )*",
    re.IGNORECASE,
)
"""First words of a choice. This pattern and the next two read a sentence whose words are one
space apart."""
_REASON = re.compile(r",? (?:because|since|so that) .*", re.IGNORECASE)
_REST = re.compile(r" for .*|,? (?:not|rather than|instead of) .*", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
AUTHOR_CHARS = 60
_NOT_A_NAME = re.compile(r"[^\w .,'’-]+")
_FOLDERS = re.compile(
    r"^(?:preference|decision|tech_stack|convention|pattern|stack|tool|user|project)s?[.:/]"
)


def chosen_value(memory: Memory) -> str:
    """Return what a memory chooses; see `read_value`."""
    return choice_in_text(memory.text.strip() or memory.title.strip())


def choice_in_text(text: str) -> str:
    """Return what is chosen (`Prisma`), or the whole first sentence if that is more than a few
    words."""
    first_sentence, *_ = _END.split(text, maxsplit=1)
    sentence = _until_steady(_without_reason, _SPACE.sub(" ", first_sentence).strip())
    name = _until_steady(_without_lead, sentence)
    if len(name.split()) <= VALUE_WORDS:
        return name
    return sentence


def _until_steady(shorten: Callable[[str], str], text: str) -> str:
    """Shorten a text until nothing goes any more, so that parsing a value again changes nothing."""
    before = ""
    while text != before:
        before = text
        text = shorten(text)
    return text


def _without_reason(sentence: str) -> str:
    return _REASON.sub("", sentence, count=1).strip() or sentence


def _without_lead(name: str) -> str:
    """Leave out words such as `we use`, and then what follows the name: `for …`, `instead of …`."""
    lead = _LEAD.match(name)
    rest = name[lead.end() :] if lead else name
    if rest != name:
        rest = _REST.sub("", rest, count=1)
    return rest.strip(" \"'`.") or name


def names_a_choice(memory: Memory) -> bool:
    """Whether its value is a name (`Prisma`), rather than a sentence or a rule."""
    return memory.kind in NAMED and len(chosen_value(memory).split()) <= VALUE_WORDS


def normalized(text: str) -> str:
    """Return the form in which values are compared: case, spaces and closing punctuation do not
    matter."""
    return _SPACE.sub(" ", text).strip(" .!,;:\"'`").casefold()


def topic_of_key(key: str) -> str:
    """Return what a key is about: `preference.orm` and `ORM` are both `orm`; empty for no key."""
    return _FOLDERS.sub("", normalized(key_of_all_members(key)).replace(" ", "_"))


FRESHNESS_PER_DAY = 0.01
"""λ of freshness, which only orders contradicting memories: after 69 days one weighs half."""
_BREADTH = {
    MemoryScope.SESSION: 0,
    MemoryScope.REPOSITORY: 1,
    MemoryScope.WORKSPACE: 2,
    MemoryScope.GLOBAL: 3,
}
_WHERE = {
    MemoryScope.SESSION: "in this session",
    MemoryScope.REPOSITORY: "in this project",
    MemoryScope.WORKSPACE: "in this workspace",
    MemoryScope.GLOBAL: "everywhere",
}
_HISTORY = frozenset({Kind.EXCHANGE, Kind.SUMMARY, Kind.FAILURE, Kind.TODO, Kind.DOCUMENT})
"""Kinds that record what happened: they choose nothing that could be contradicted."""


class ResolvedConflict(Struct, frozen=True):
    """A conflict as the answering model is shown it."""

    memory_ids: tuple[str, ...]
    """Ids of all memories that take part, sorted."""
    text: str
    """One sentence with the exception noted, to be shown in their place."""
    winner: str
    """Id of the memory that holds here."""


def resolve_conflicts(
    memories: Iterable[Memory], *, authority: Mapping[str, float], now: float
) -> list[ResolvedConflict]:
    """Return one resolution for each topic on which these memories contradict each other, by memory
    ids.

    authority: `settings.bundle.authority`.
    now: Unix seconds. The order of the memories does not matter. What agrees, comes from the index,
        or is neither active nor stale is ignored.
    """
    choosers = sorted(filter(_chooses, memories), key=lambda memory: memory.id)
    conflicts: list[ResolvedConflict] = []
    for group in _topics(choosers):
        conflict = _resolved(group, authority, now)
        if conflict is not None:
            conflicts.append(conflict)
    return sorted(conflicts, key=lambda conflict: conflict.memory_ids)


def conflict_weight(memory: Memory, *, authority: Mapping[str, float], now: float) -> float:
    """Return authority × confidence × freshness × n/(n+1), where n is how often the memory was
    seen."""
    freshness = decayed(1.0, days_since(last_seen(memory), now), FRESHNESS_PER_DAY)
    count = max(memory.evidence_count, 1)
    trust = authority.get(memory.layer.value, 0.0) * memory.confidence
    return trust * freshness * count / (count + 1)


def _chooses(memory: Memory) -> bool:
    live = memory.status in (MemoryStatus.ACTIVE, MemoryStatus.STALE)
    return live and memory.source is not MemorySource.INDEX and memory.kind not in _HISTORY


def _topics(memories: Sequence[Memory]) -> list[list[Memory]]:
    """Group by topic; a decision without a key joins what its alternatives name."""
    choosing: dict[str, list[Memory]] = {}
    for memory in memories:
        choosing.setdefault(normalized(chosen_value(memory)), []).append(memory)
    groups: dict[str, list[Memory]] = {}
    for memory in memories:
        key = memory.key or _key_of_rivals(memory, choosing)
        topic = topic_of_key(key) if key else memory.id
        groups.setdefault(topic, []).append(memory)
    return [group for group in groups.values() if len(group) > 1]


def _key_of_rivals(memory: Memory, choosing: Mapping[str, Sequence[Memory]]) -> str:
    """Return the key of the first memory that chooses what this one rejects; empty if there is
    none.

    choosing: value -> the memories that choose it.
    """
    for name in memory.details.alternatives:
        for rival in choosing.get(normalized(name), ()):
            if rival.key:
                return rival.key
    return ""


def _resolved(
    group: Sequence[Memory], authority: Mapping[str, float], now: float
) -> ResolvedConflict | None:
    def weakest_last(memory: Memory) -> tuple[float, str]:
        return -conflict_weight(memory, authority=authority, now=now), memory.id

    best_first = sorted(group, key=weakest_last)
    winner = _exception(best_first) or best_first[0]
    value = normalized(chosen_value(winner))
    for memory in best_first:
        if normalized(chosen_value(memory)) != value:
            ids = tuple(sorted(member.id for member in group))
            return ResolvedConflict(ids, _sentence(winner, memory), winner.id)
    return None


def _exception(best_first: Sequence[Memory]) -> Memory | None:
    """Return the stated memory of the narrowest scope, if there is a wider one that it is an
    exception to."""
    widest = max(_BREADTH[memory.scope] for memory in best_first)
    narrower = [
        memory for memory in best_first if memory.is_stated and _BREADTH[memory.scope] < widest
    ]
    return min(narrower, key=lambda memory: _BREADTH[memory.scope], default=None)


def _sentence(winner: Memory, loser: Memory) -> str:
    winning = chosen_value(winner)
    losing = chosen_value(loser)
    named = names_a_choice(winner) and names_a_choice(loser)
    if not named:
        winning = f"“{winning}”"
        losing = f"“{losing}”"
    if _BREADTH[winner.scope] < _BREADTH[loser.scope]:
        explicitly = "explicitly chose" if winner.is_stated else "is seen to use"
        place = _WHERE[winner.scope].removeprefix("in ")
        exception = "an exception"
        if named:
            article = "an" if winning[:1].lower() in "aeiou" else "a"
            exception = f"{article} {winning} exception"
        return (
            f"{_rule(loser)} {losing}, but {_WHERE[winner.scope]} {explicitly} {winning}; treat"
            f" {place} as {exception}."
        )
    if _BREADTH[winner.scope] > _BREADTH[loser.scope]:
        inferred = "only inferred" if loser.source is MemorySource.INFERRED else "only imported"
        weaker = "named" if loser.is_stated else inferred
        return (
            f"{_rule(winner)} {winning}; {losing} is {weaker} {_WHERE[loser.scope]} and weighs"
            f" less; follow {winning}."
        )
    where = _WHERE[winner.scope].capitalize()
    return (
        f"{where} {winning} holds ({_described(winner, loser)}); {losing}"
        f" ({_described(loser, winner)}) is contradicted by it."
    )


def _described(memory: Memory, rival: Memory) -> str:
    """Return the kind of a memory; where another member of the team says otherwise, who says it."""
    if not (memory.is_from_team or rival.is_from_team):
        return str(memory.kind)
    author = _NOT_A_NAME.sub("-", memory.details.author)[:AUTHOR_CHARS]
    default = "a member of the team" if memory.is_from_team else "the user"
    return f"{memory.kind} by {author or default}"


def _rule(memory: Memory) -> str:
    if memory.layer is Layer.USER:
        return "User usually uses"
    return f"{_WHERE[memory.scope].capitalize()} one usually uses"
