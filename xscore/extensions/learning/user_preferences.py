"""From projects to the user: what at least 3 projects and half of all say becomes the user's own (L02, L09, H25).

Confidence is the share of projects. A stated preference is never replaced by an inference, an erased one never comes
back, a project's deliberate choice is marked as an exception, and what the latest projects do without fades faster.
`suggestions` names what the user usually does and this project says nothing about; nothing is applied. Trade-off: only
keyed memories are compared, and projects that say nothing about a key count against it.
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.learning.draft import (
    HISTORY_KINDS,
    LIVE,
    ActionKind,
    ConsolidationDraft,
    as_superseded,
    is_user_stated,
)
from xscore.extensions.learning.feedback import Signal, changed_confidence
from xscore.pipeline.contradictions import (
    NAMED,
    VALUE_WORDS,
    ParsedChoice,
    choice_in_text,
    chosen_value,
    normalized,
    parse_choice,
    topic_of_key,
)
from xscore.platform.hashing import digest
from xscore.records.memory import Kind, Layer, Memory, MemoryScope, MemorySource, MemoryStatus
from xscore.records.statement import Observation
from xscore.settings import MemorySettings
from xscore.store import memory_rows, memory_writer
from xscore.store.lookup import list_observations
from xscore.store.remembering import entity_for_key
from xscore.store.store import Store

_USUAL = (
    "layer = 'user' AND status = 'active' AND kind IN ('preference', 'pattern') AND key <> '' AND confidence >= ?"
    " AND coalesce(json_extract(attrs, '$.polarity'), '') <> 'antipattern'"
)


class Suggestion(Struct, frozen=True):
    """Something the user usually does."""

    key: str
    value: str
    memory_id: str
    confidence: float
    projects: int
    """Projects that do so; 0: none was seen, the user said it."""


class Suggestions(Struct, frozen=True):
    """All of them, in one sentence and one by one."""

    text: str
    """`You typically use Prisma + Postgres; …`; empty: nothing to suggest."""
    suggestions: tuple[Suggestion, ...]


def suggest_preferences(store: Store, *, at_least: float) -> Suggestions:
    """Return what to suggest, surest first. at_least: confidence below which nothing is suggested.

    Nothing is where the user's own store is not to be opened, or there is none.
    """
    user = store.user_connection()
    if user is None:
        return Suggestions("", ())
    known = memory_rows.select_memories(store.connection, "source <> 'index' AND status IN ('active', 'stale')", ())
    settled = {topic_of_key(memory.key) for memory in known} | {topic_of_key(key) for key in muted_keys(store)}
    told = normalized(
        "\n".join(f"{memory.title}\n{memory.text}" for memory in known if memory.kind not in HISTORY_KINDS)
    )
    doing: dict[tuple[str, str], set[str]] = {}
    for each in map(parse_choice, list_observations(user)):
        doing.setdefault((each.topic, each.value), set()).add(each.observed.project)
    found = [
        Suggestion(memory.key, chosen_value(memory), memory.id, memory.confidence, len(doing.get(_choice(memory), ())))
        for memory in memory_rows.select_memories(user, _USUAL, (at_least,))
        if topic_of_key(memory.key) not in settled and normalized(chosen_value(memory)) not in told
    ]
    found.sort(key=lambda each: (-each.confidence, -each.projects, each.key))
    return Suggestions(_sentence(found), tuple(found))


def set_muted(store: Store, key: str, *, muted: bool, now: float) -> bool:
    """Suggest nothing of this key any more, or suggest it again; False: it was so already.

    Raises UsageError where the user's store is not to be opened.
    """
    if muted:
        sql = "INSERT INTO muted_key (key, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
        return store.home_of(Layer.USER).execute(sql, (key, now)).rowcount > 0
    user = store.user_connection()
    return user is not None and user.execute("DELETE FROM muted_key WHERE key = ?", (key,)).rowcount > 0


def muted_keys(store: Store) -> tuple[str, ...]:
    """Return the muted keys, sorted."""
    user = store.user_connection()
    return () if user is None else tuple(key for (key,) in user.execute("SELECT key FROM muted_key ORDER BY key"))


def _choice(memory: Memory) -> tuple[str, str]:
    return topic_of_key(memory.key), normalized(chosen_value(memory))


def _sentence(found: Sequence[Suggestion]) -> str:
    if not found:
        return ""
    named = [each.value for each in found if len(each.value.split()) <= VALUE_WORDS]
    rules = [each.value for each in found if len(each.value.split()) > VALUE_WORDS]
    parts = [f"You typically use {' + '.join(named)}"] if named else []
    parts += [f"You usually hold that: {'; '.join(rules)}"] if rules else []
    keys = ", ".join(each.key for each in found)
    return f"{'. '.join(parts)}. Nothing of this is remembered of this project yet ({keys})."


class Promotion(Struct, frozen=True):
    """A value that enough projects choose."""

    key: str
    value: str
    """In the words of the project that was seen last."""
    kind: str
    """Of the memory that was seen last."""
    projects: int
    of: int
    """All projects that took part."""
    confidence: float


def promotions(observed: Sequence[ParsedChoice], of: int, rules: MemorySettings) -> list[Promotion]:
    """Return at most one promotion a topic, by topic; of two values with equal support the one seen last.

    Confidence is proportional to the support, `inferred_confidence` at `promote_support`.
    """
    makers: dict[tuple[str, str], dict[str, Observation]] = {}
    for each in sorted(observed, key=lambda each: (each.observed.seen_at, each.observed.key)):
        makers.setdefault((each.topic, each.value), {})[each.observed.project] = each.observed
    best: dict[str, tuple[tuple[int, float, str], Promotion]] = {}
    for (topic, value), by in makers.items():
        count = len(by)
        if count < rules.promote_projects or count < rules.promote_support * of:
            continue
        newest = max(by.values(), key=lambda each: (each.seen_at, each.project))
        confidence = min(1.0, rules.inferred_confidence * count / of / max(rules.promote_support, 1e-9))
        rank = (count, newest.seen_at, value)
        if topic not in best or rank > best[topic][0]:
            best[topic] = (rank, Promotion(newest.key, newest.value, newest.kind, count, of, confidence))
    return [best[key][1] for key in sorted(best)]


COMPARED = frozenset({Kind.TECH_STACK, Kind.DECISION, Kind.CONVENTION, Kind.PATTERN, Kind.PREFERENCE})
"""Kinds of which what holds in several projects says something of their user."""
_OF_THE_REPOSITORY = (Layer.PROJECT, Layer.GOVERNANCE)


class ObservationChanges(Struct, frozen=True):
    """What the user's store is to note of this project."""

    project: str
    new: tuple[Observation, ...]
    ended: tuple[str, ...]
    """Keys of which the project says nothing any more."""
    observed: tuple[ParsedChoice, ...]
    """All projects' observations, once that is done."""
    adopts: frozenset[tuple[str, str]]
    """Topics and values that this project newly says, and said under no key before."""
    projects: Mapping[str, float]
    """All projects, this one seen now."""


def compare_observations(
    repository: ConsolidationDraft,
    user: ConsolidationDraft,
    known: Sequence[Observation],
    *,
    project: str,
    projects: Mapping[str, float],
    now: float,
) -> ObservationChanges:
    """Compare what this project says with what was noted of it; the actions stand in the user's draft."""
    said = {each.key: each for each in known if each.project == project}
    saying = {memory.key: memory for memory in sorted(_comparable(repository), key=_weight)}
    new = tuple(
        Observation(project, key, str(memory.kind), chosen_value(memory), now)
        for key, memory in sorted(saying.items())
        if key not in said or (said[key].kind, said[key].value) != (str(memory.kind), chosen_value(memory))
    )
    ended = tuple(sorted(said.keys() - saying.keys()))
    for each in new:
        user.record(ActionKind.OBSERVE, "user", saying[each.key], why=f"{each.key}: {each.value}")
    for key in ended:
        user.record(ActionKind.OBSERVE, "user", why=f"{key}: this project says nothing of it any more")
    replaced = {*ended, *(one.key for one in new)}
    kept = [parse_choice(each) for each in known if each.project != project or each.key not in replaced]
    fresh = [parse_choice(each) for each in new]
    before = {(each.topic, each.value) for each in map(parse_choice, said.values())}
    adopts = frozenset((each.topic, each.value) for each in fresh) - before
    seen = {**projects, project: max(now, projects.get(project, now))}
    return ObservationChanges(project, new, ended, (*kept, *fresh), adopts, seen)


def promote_preferences(
    user: ConsolidationDraft,
    changes: ObservationChanges,
    rules: MemorySettings,
    *,
    forgotten: Collection[str],
    now: float,
) -> None:
    """Make what enough projects say the user's. forgotten: ids that were erased and must not come back."""
    by_topic = _by_topic(user)
    for found in promotions(changes.observed, len(changes.projects), rules):
        memory, about = user_memory(found, now=now), by_topic.get(topic_of_key(found.key), [])
        same = [each for each in about if normalized(chosen_value(each)) == normalized(found.value)]
        live = [each for each in about if each.status in LIVE]
        share = f"{found.projects} of {found.of} projects (support {found.projects / found.of:.2f})"
        why = f"{found.key}: {found.value}, in {share}"
        agreeing = next((each for each in same if each.status in LIVE), None)
        if agreeing is not None:
            if (topic_of_key(found.key), normalized(found.value)) in changes.adopts:
                _adopt(user, agreeing, rules, why)
        elif memory.id not in forgotten and not any(map(_is_stated, about)) and _is_news(user, same, found):
            stepping_back = [as_superseded(each, memory.id) for each in live]
            user.change(ActionKind.PROMOTE, "user", memory, *stepping_back, why=why)


def mark_seen(user: ConsolidationDraft, changes: ObservationChanges) -> None:
    """A preference is seen wherever a project that says the same is."""
    seen: dict[tuple[str, str], float] = {}
    for each in changes.observed:
        at = changes.projects.get(each.observed.project, 0.0)
        seen[each.topic, each.value] = max(at, seen.get((each.topic, each.value), 0.0))
    for about, memories in _by_topic(user).items():
        for memory in memories:
            at = seen.get((about, normalized(chosen_value(memory))), 0.0)
            if at:
                user.seen[memory.id] = max(user.seen.get(memory.id, 0.0), at)


def drifting_preferences(user: ConsolidationDraft, changes: ObservationChanges, rules: MemorySettings) -> set[str]:
    """Return the ids of preferences that none of the latest projects shares, deliberate exceptions left out."""
    said: dict[str, dict[str, ParsedChoice]] = {}
    for each in changes.observed:
        said.setdefault(each.topic, {})[each.observed.project] = each
    newest_first = sorted(changes.projects, key=lambda name: (-changes.projects[name], name))
    found = set[str]()
    for topic, memories in _by_topic(user).items():
        about = said.get(topic, {})
        for memory in memories:
            value = normalized(chosen_value(memory))
            shares = {name: each.value == value for name, each in about.items()}
            excepted = {
                name for name, each in about.items() if each.observed.kind == Kind.DECISION and not shares[name]
            }
            latest = [name for name in newest_first if name not in excepted][: rules.drift_projects]
            if len(latest) == rules.drift_projects and not any(shares.get(name) for name in latest):
                found.add(memory.id)
    return found


def mark_exceptions(repository: ConsolidationDraft, user: ConsolidationDraft) -> None:
    """Mark what this project chose on purpose, and otherwise than its user does."""
    preferences = {
        topic_of_key(each.key): each for each in user.in_layers((Layer.USER,)) if each.key and each.status in LIVE
    }
    for memory in _comparable(repository):
        preference = preferences.get(topic_of_key(memory.key))
        if preference is None or not is_user_stated(memory) or memory.particulars.exception_of == preference.id:
            continue
        if normalized(chosen_value(memory)) == normalized(chosen_value(preference)):
            continue
        marked = replace(memory, particulars=replace(memory.particulars, exception_of=preference.id))
        reason = memory.particulars.rationale or "chosen explicitly"
        why = f"{chosen_value(memory)} here, {chosen_value(preference)} usually: {reason}"
        repository.change(ActionKind.EXCEPT, "user", marked, why=why)


def _comparable(repository: ConsolidationDraft) -> list[Memory]:
    return [
        memory
        for memory in repository.in_layers(_OF_THE_REPOSITORY)
        if memory.key and memory.kind in COMPARED and memory.status is MemoryStatus.ACTIVE
    ]


def _weight(memory: Memory) -> tuple[bool, float, str]:
    """The last one counts where several speak of a key: what was decided, then the latest."""
    return (memory.kind is Kind.DECISION, memory.updated_at, memory.id)


def _by_topic(user: ConsolidationDraft) -> dict[str, list[Memory]]:
    """What the user's layer holds under keys, so that nothing is compared with all of it."""
    found: dict[str, list[Memory]] = {}
    for memory in user.in_layers((Layer.USER,)):
        if memory.key:
            found.setdefault(topic_of_key(memory.key), []).append(memory)
    return found


def _adopt(user: ConsolidationDraft, memory: Memory, rules: MemorySettings, why: str) -> None:
    """A further project does what is known already."""
    after = memory.confidence
    if not is_user_stated(memory):
        after = changed_confidence(after, Signal.ADOPTION, rules.feedback)
    grown = replace(memory, evidence_count=memory.evidence_count + 1, confidence=after)
    user.change(ActionKind.PROMOTE, "user", grown, why=why)


def _is_stated(memory: Memory) -> bool:
    """Whether the user said it, though it may be archived by now, and nothing newer took its place."""
    return is_user_stated(memory) and memory.status is not MemoryStatus.SUPERSEDED


def _is_news(user: ConsolidationDraft, same: Sequence[Memory], found: Promotion) -> bool:
    """What was archived, itself or as what took its place, comes back only with more projects than it had then."""
    return all(
        _heir(user, each).status is not MemoryStatus.ARCHIVED or found.projects > each.evidence_count for each in same
    )


def _heir(user: ConsolidationDraft, memory: Memory) -> Memory:
    """Return what stands in the place of a memory that stepped back, at the end of the line."""
    passed = set[str]()
    while memory.status is MemoryStatus.SUPERSEDED and memory.superseded_by in user.after and memory.id not in passed:
        passed.add(memory.id)
        memory = user.after[memory.superseded_by]
    return memory


def user_memory(found: Promotion, *, now: float) -> Memory:
    """Make the memory that a promotion becomes."""
    named = found.kind in NAMED and len(found.value.split()) <= VALUE_WORDS
    kind = Kind.PATTERN if found.kind == Kind.PATTERN else Kind.PREFERENCE
    worded = f"Usually uses {found.value}."
    is_read_back = normalized(choice_in_text(worded)) == normalized(
        found.value
    )  # else a second run would not agree with it
    text = worded if named and is_read_back else found.value
    memory, _ = memory_writer.make_memory(
        layer=Layer.USER,
        kind=kind,
        title=f"{found.key}: {found.value}",
        text=text,
        entity=entity_for_key(Layer.USER, found.key),
        ordinal=int(digest("said", found.key, text)[:15], 16),
        key=found.key,
        scope=MemoryScope.GLOBAL,
        confidence=found.confidence,
        evidence_count=found.projects,
        source=MemorySource.INFERRED,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # it came through the door before
    )
    return memory
