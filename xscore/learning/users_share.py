"""From projects to the user (L02, L09): what this one says is noted, what enough of them say becomes the user's own.

It reads and writes nothing itself: observations and drafts in, drafts and notes out. What the user said themselves is
never replaced by what was inferred, and what they erased for good never comes back. A choice made otherwise on purpose
in this project is marked as an exception and left alone. Trade-off: only what has a key is compared across projects.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from xscore.hashing import digest
from xscore.learning.actions import ActionKind
from xscore.learning.choices import NAMED, VALUE_WORDS, Chosen, chosen, normal, read_value, topic, value
from xscore.learning.draft import Draft, superseded
from xscore.learning.drift import is_drifting
from xscore.learning.feedback import Signal, moved
from xscore.learning.promotion import Promotion, promotions
from xscore.learning.retention import LIVE, was_said
from xscore.memory import door
from xscore.memory.spoken import entity_of
from xscore.records import Kind, Layer, Memory, MemoryScope, Observation, Source, Status
from xscore.settings import MemorySettings

COMPARED = frozenset({Kind.TECH_STACK, Kind.DECISION, Kind.CONVENTION, Kind.PATTERN, Kind.PREFERENCE})
"""Kinds of which what holds in several projects says something of their user."""
_OF_THE_REPOSITORY = (Layer.PROJECT, Layer.GOVERNANCE)


@dataclass(frozen=True, slots=True)
class Noted:
    """What the user's store is to note of this project."""

    project: str
    new: tuple[Observation, ...]
    ended: tuple[str, ...]
    """Keys of which the project says nothing any more."""
    observed: tuple[Chosen, ...]
    """All projects' observations, once that is done."""
    adopts: frozenset[tuple[str, str]]
    """Topics and values that this project newly says, and said under no key before."""
    projects: Mapping[str, float]
    """All projects, this one seen now."""


def note(
    repository: Draft,
    user: Draft,
    known: Sequence[Observation],
    *,
    project: str,
    projects: Mapping[str, float],
    now: float,
) -> Noted:
    """Compare what this project says with what was noted of it; the actions stand in the user's draft."""
    said = {each.key: each for each in known if each.project == project}
    saying = {memory.key: memory for memory in sorted(_comparable(repository), key=_weight)}
    new = tuple(
        Observation(project, key, str(memory.kind), value(memory), now)
        for key, memory in sorted(saying.items())
        if key not in said or (said[key].kind, said[key].value) != (str(memory.kind), value(memory))
    )
    ended = tuple(sorted(said.keys() - saying.keys()))
    for each in new:
        user.note(ActionKind.OBSERVE, "user", saying[each.key], why=f"{each.key}: {each.value}")
    for key in ended:
        user.note(ActionKind.OBSERVE, "user", why=f"{key}: this project says nothing of it any more")
    replaced = {*ended, *(one.key for one in new)}
    kept = [chosen(each) for each in known if each.project != project or each.key not in replaced]
    fresh = [chosen(each) for each in new]
    before = {(each.topic, each.value) for each in map(chosen, said.values())}
    adopts = frozenset((each.topic, each.value) for each in fresh) - before
    seen = {**projects, project: max(now, projects.get(project, now))}
    return Noted(project, new, ended, (*kept, *fresh), adopts, seen)


def promote(user: Draft, noted: Noted, rules: MemorySettings, *, forgotten: Collection[str], now: float) -> None:
    """Make what enough projects say the user's. forgotten: ids that were erased and must not come back."""
    by_topic = _by_topic(user)
    for found in promotions(noted.observed, len(noted.projects), rules):
        memory, about = of_the_user(found, now=now), by_topic.get(topic(found.key), [])
        same = [each for each in about if normal(value(each)) == normal(found.value)]
        live = [each for each in about if each.status in LIVE]
        why = f"{found.key}: {found.value}, in {found.projects} of {found.of} projects (support {found.support:.2f})"
        agreeing = next((each for each in same if each.status in LIVE), None)
        if agreeing is not None:
            if (topic(found.key), normal(found.value)) in noted.adopts:
                _adopt(user, agreeing, rules, why)
        elif memory.id not in forgotten and not any(map(_is_stated, about)) and _is_news(user, same, found):
            stepping_back = [superseded(each, memory.id) for each in live]
            user.act(ActionKind.PROMOTE, "user", memory, *stepping_back, why=why)


def see(user: Draft, noted: Noted) -> None:
    """A preference is seen wherever a project that says the same is."""
    seen: dict[tuple[str, str], float] = {}
    for each in noted.observed:
        at = noted.projects.get(each.observed.project, 0.0)
        seen[each.topic, each.value] = max(at, seen.get((each.topic, each.value), 0.0))
    for about, memories in _by_topic(user).items():
        for memory in memories:
            at = seen.get((about, normal(value(memory))), 0.0)
            if at:
                user.seen[memory.id] = max(user.seen.get(memory.id, 0.0), at)


def drifting(user: Draft, noted: Noted, rules: MemorySettings) -> set[str]:
    """Return the ids of preferences that the latest projects do without."""
    by_topic: dict[str, list[Chosen]] = {}
    for each in noted.observed:
        by_topic.setdefault(each.topic, []).append(each)
    newest_first = sorted(noted.projects, key=lambda name: (-noted.projects[name], name))
    return {
        memory.id
        for about, memories in _by_topic(user).items()
        for memory in memories
        if is_drifting(normal(value(memory)), by_topic.get(about, ()), newest_first, latest=rules.drift_projects)
    }


def mark_exceptions(repository: Draft, user: Draft) -> None:
    """Mark what this project chose on purpose, and otherwise than its user does."""
    preferences = {topic(each.key): each for each in user.of((Layer.USER,)) if each.key and each.status in LIVE}
    for memory in _comparable(repository):
        preference = preferences.get(topic(memory.key))
        if preference is None or not was_said(memory) or memory.particulars.exception_of == preference.id:
            continue
        if normal(value(memory)) == normal(value(preference)):
            continue
        marked = replace(memory, particulars=replace(memory.particulars, exception_of=preference.id))
        reason = memory.particulars.rationale or "chosen explicitly"
        why = f"{value(memory)} here, {value(preference)} usually: {reason}"
        repository.act(ActionKind.EXCEPT, "user", marked, why=why)


def _comparable(repository: Draft) -> list[Memory]:
    return [
        memory
        for memory in repository.of(_OF_THE_REPOSITORY)
        if memory.key and memory.kind in COMPARED and memory.status is Status.ACTIVE
    ]


def _weight(memory: Memory) -> tuple[bool, float, str]:
    """The last one counts where several speak of a key: what was decided, then the latest."""
    return (memory.kind is Kind.DECISION, memory.updated_at, memory.id)


def _by_topic(user: Draft) -> dict[str, list[Memory]]:
    """What the user's layer holds under keys, so that nothing is compared with all of it."""
    found: dict[str, list[Memory]] = {}
    for memory in user.of((Layer.USER,)):
        if memory.key:
            found.setdefault(topic(memory.key), []).append(memory)
    return found


def _adopt(user: Draft, memory: Memory, rules: MemorySettings, why: str) -> None:
    """A further project does what is known already."""
    after = memory.confidence if was_said(memory) else moved(memory.confidence, Signal.ADOPTION, rules.feedback)
    grown = replace(memory, evidence_count=memory.evidence_count + 1, confidence=after)
    user.act(ActionKind.PROMOTE, "user", grown, why=why)


def _is_stated(memory: Memory) -> bool:
    """Whether the user said it, though it may be archived by now, and nothing newer took its place."""
    return was_said(memory) and memory.status is not Status.SUPERSEDED


def _is_news(user: Draft, same: Sequence[Memory], found: Promotion) -> bool:
    """What was archived, itself or as what took its place, comes back only with more projects than it had then."""
    return all(_heir(user, each).status is not Status.ARCHIVED or found.projects > each.evidence_count for each in same)


def _heir(user: Draft, memory: Memory) -> Memory:
    """Return what stands in the place of a memory that stepped back, at the end of the line."""
    passed = set[str]()
    while memory.status is Status.SUPERSEDED and memory.superseded_by in user.after and memory.id not in passed:
        passed.add(memory.id)
        memory = user.after[memory.superseded_by]
    return memory


def of_the_user(found: Promotion, *, now: float) -> Memory:
    """Make the memory that a promotion becomes."""
    named = found.kind in NAMED and len(found.value.split()) <= VALUE_WORDS
    kind = Kind.PATTERN if found.kind == Kind.PATTERN else Kind.PREFERENCE
    worded = f"Usually uses {found.value}."
    is_read_back = normal(read_value(worded)) == normal(found.value)  # else a second run would not agree with it
    text = worded if named and is_read_back else found.value
    memory, _ = door.make(
        layer=Layer.USER,
        kind=kind,
        title=f"{found.key}: {found.value}",
        text=text,
        entity=entity_of(Layer.USER, found.key),
        ordinal=int(digest("said", found.key, text)[:15], 16),
        key=found.key,
        scope=MemoryScope.GLOBAL,
        confidence=found.confidence,
        evidence_count=found.projects,
        source=Source.INFERRED,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # it came through the door before
    )
    return memory
