"""From projects to the user: what at least 3 projects, and half of all, say becomes a preference.

Confidence is the share of projects. A stated preference is never replaced by an inference, an
erased one never comes back, a project's deliberate choice is marked as an exception, and what the
latest projects do without fades faster. `suggestions` names what the user usually does and this
project says nothing about; nothing is applied. Trade-off: only keyed memories are compared, and
projects that say nothing about a key count against it.
"""

from collections import defaultdict
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
    choice_in_text,
    chosen_value,
    normalized,
    topic_of_key,
)
from xscore.platform.hashing import integer_id
from xscore.records.memory import (
    OBSERVED_ORIGIN,
    Kind,
    Layer,
    Memory,
    MemoryScope,
    MemorySource,
    MemoryStatus,
)
from xscore.records.statement import Observation
from xscore.settings import MemorySettings
from xscore.store import memory_rows, memory_writer
from xscore.store.composing import entity_for_key
from xscore.store.lookup import list_observations
from xscore.store.store import Store

Choice = tuple[str, str]
"""What something is about (a topic) and what is chosen, in comparable form."""
_USUAL = (
    "layer = 'user' AND status = 'active' AND kind IN ('preference', 'pattern') AND key <> '' AND"
    " confidence >= ? AND coalesce(json_extract(attrs, '$.polarity'), '') <> 'antipattern'"
)


class Suggestion(Struct, frozen=True):
    """Something the user usually does."""

    key: str
    value: str
    memory_id: str
    confidence: float
    projects: int
    """Number of projects that do so; 0 if the user stated it."""

    @property
    def is_name(self) -> bool:
        """Whether its value names something to use; otherwise it is a rule."""
        return len(self.value.split()) <= VALUE_WORDS


class Suggestions(Struct, frozen=True):
    """All suggestions, in one sentence and one by one."""

    text: str
    """The sentence, such as `You typically use Prisma + Postgres; …`; empty if there is
    none."""
    suggestions: tuple[Suggestion, ...]


def suggest_preferences(store: Store, *, at_least: float) -> Suggestions:
    """Return the suggestions, surest first; none without a store of the user's that may be opened.

    at_least: lowest confidence to suggest.
    """
    user = store.user_connection()
    if user is None:
        return Suggestions("", ())
    where = "source <> 'index' AND kind <> 'document' AND status IN ('active', 'stale')"
    preferences = memory_rows.select_memories(store.connection, where, ())
    settled = set(map(topic_of_key, muted_keys(store)))
    notes: list[str] = []
    for memory in preferences:
        settled.add(topic_of_key(memory.key))
        if memory.kind not in HISTORY_KINDS:
            notes.append(f"{memory.title}\n{memory.text}")
    noted = normalized("\n".join(notes))
    projects: dict[Choice, set[str]] = defaultdict(set)
    for observation in list_observations(user):
        projects[_choice(observation)].add(observation.project)
    suggestions: list[Suggestion] = []
    for memory in memory_rows.select_memories(user, _USUAL, (at_least,)):
        value = chosen_value(memory)
        # A note without a key may name the value as well: then nothing is missing here.
        if topic_of_key(memory.key) in settled or normalized(value) in noted:
            continue
        count = len(projects[_choice(memory)])
        suggestions.append(Suggestion(memory.key, value, memory.id, memory.confidence, count))
    suggestions.sort(
        key=lambda suggestion: (-suggestion.confidence, -suggestion.projects, suggestion.key)
    )
    return Suggestions(_sentence(suggestions), tuple(suggestions))


def set_muted(store: Store, key: str, *, muted: bool, now: float) -> bool:
    """Stop or resume suggesting this key; False: already so.

    Raises UsageError where the user's store is not to be opened.
    """
    if muted:
        sql = "INSERT INTO muted_key (key, at) VALUES (?, ?) ON CONFLICT DO NOTHING"
        return store.home_of(Layer.USER).execute(sql, (key, now)).rowcount > 0
    user = store.user_connection()
    return (
        user is not None
        and user.execute("DELETE FROM muted_key WHERE key = ?", (key,)).rowcount > 0
    )


def muted_keys(store: Store) -> tuple[str, ...]:
    """Return the muted keys, sorted."""
    user = store.user_connection()
    if user is None:
        return ()
    return tuple(key for (key,) in user.execute("SELECT key FROM muted_key ORDER BY key"))


def _choice(of: Memory | Observation) -> Choice:
    value = of.value if isinstance(of, Observation) else chosen_value(of)
    return topic_of_key(of.key), normalized(value)


def _sentence(suggestions: Sequence[Suggestion]) -> str:
    if not suggestions:
        return ""
    named: list[str] = []
    rules: list[str] = []
    for suggestion in suggestions:
        (named if suggestion.is_name else rules).append(suggestion.value)
    parts: list[str] = []
    if named:
        parts.append(f"You typically use {' + '.join(named)}")
    if rules:
        parts.append(f"You usually hold that: {'; '.join(rules)}")
    keys = ", ".join(suggestion.key for suggestion in suggestions)
    return f"{'. '.join(parts)}. This project has no memory of it yet ({keys})."


class Promotion(Struct, frozen=True):
    """A value chosen by enough projects."""

    key: str
    value: str
    """The value in the words of the latest project."""
    kind: str
    """Kind of the latest memory."""
    projects: int
    of: int
    """Number of projects that were compared."""
    confidence: float


def promotions(
    observed: Sequence[Observation], of: int, rules: MemorySettings
) -> list[Promotion]:
    """Return at most one promotion per topic; if two values have equal support, the latest.

    Confidence is proportional to the support, `inferred_confidence` at `promote_support`.
    """
    makers: dict[Choice, dict[str, Observation]] = {}
    # If one project has two observations, the latest counts.
    for observation in sorted(observed, key=lambda latest: (latest.seen_at, latest.key)):
        makers.setdefault(_choice(observation), {})[observation.project] = observation
    promoted: dict[str, Promotion] = {}
    ranks: dict[str, tuple[int, float, str]] = {}
    for (topic, value), by_project in makers.items():
        count = len(by_project)
        if count < rules.promote_projects or count < rules.promote_support * of:
            continue
        newest = max(by_project.values(), key=lambda latest: (latest.seen_at, latest.project))
        rank = (count, newest.seen_at, value)
        if topic in ranks and rank <= ranks[topic]:
            continue
        # A support of 0 may be set: then every value is as sure as can be.
        share = count / of / max(rules.promote_support, 1e-9)
        confidence = min(1.0, rules.inferred_confidence * share)
        ranks[topic] = rank
        promoted[topic] = Promotion(
            newest.key, newest.value, newest.kind, count, of, confidence
        )
    return [promoted[topic] for topic in sorted(promoted)]


COMPARED = frozenset(
    {Kind.TECH_STACK, Kind.DECISION, Kind.CONVENTION, Kind.PATTERN, Kind.PREFERENCE}
)
"""Kinds whose agreement across projects describes their user."""


class ObservationChanges(Struct, frozen=True):
    """Changes to the user's store about this project."""

    project: str
    new: tuple[Observation, ...]
    ended: tuple[str, ...]
    """Keys that the project no longer states."""
    observed: tuple[Observation, ...]
    """All projects' observations, after the changes."""
    adopts: frozenset[Choice]
    """What this project newly states, and has not stated without a key before."""
    projects: Mapping[str, float]
    """All projects, this one seen now."""


def compare_observations(
    repository: ConsolidationDraft,
    user: ConsolidationDraft,
    observations: Sequence[Observation],
    *,
    project: str,
    projects: Mapping[str, float],
) -> ObservationChanges:
    """Compare this project's statements with the recorded ones; the actions are in the user's
    draft."""
    by_key: dict[str, Observation] = {}
    for observation in observations:
        if observation.project == project:
            by_key[observation.key] = observation
    now = user.now
    # Where several memories speak of a key, what was decided counts, then the latest.
    comparable = sorted(
        _comparable(repository),
        key=lambda memory: (memory.kind is Kind.DECISION, memory.updated_at, memory.id),
    )
    saying = {memory.key: memory for memory in comparable}
    new: list[Observation] = []
    for key, memory in sorted(saying.items()):
        noted = Observation(project, key, str(memory.kind), chosen_value(memory), now)
        recorded = by_key.get(key)
        if recorded and (recorded.kind, recorded.value) == (noted.kind, noted.value):
            continue
        new.append(noted)
        user.record(ActionKind.OBSERVE, "user", memory, why=f"{key}: {noted.value}")
    ended = tuple(sorted(by_key.keys() - saying.keys()))
    for key in ended:
        user.record(
            ActionKind.OBSERVE, "user", why=f"{key}: this project no longer mentions it"
        )
    replaced = set(ended)
    replaced.update(observation.key for observation in new)
    kept: list[Observation] = []
    for observation in observations:
        if observation.project != project or observation.key not in replaced:
            kept.append(observation)
    adopts = frozenset(map(_choice, new)) - set(map(_choice, by_key.values()))
    seen = {**projects, project: max(now, projects.get(project, now))}
    return ObservationChanges(project, tuple(new), ended, (*kept, *new), adopts, seen)


def promote_preferences(
    user: ConsolidationDraft, changes: ObservationChanges, *, forgotten: Collection[str]
) -> None:
    """Promote to the user what enough projects state.

    forgotten: ids that were erased and must stay so.
    """
    by_topic: dict[str, list[Memory]] = defaultdict(list)
    for memory in _keyed(user):
        by_topic[topic_of_key(memory.key)].append(memory)
    for promotion in promotions(changes.observed, len(changes.projects), user.rules):
        choice = topic_of_key(promotion.key), normalized(promotion.value)
        rivals = by_topic[choice[0]]
        support = promotion.projects / promotion.of
        share = f"{promotion.projects} of {promotion.of} projects (support {support:.2f})"
        why = f"{promotion.key}: {promotion.value}, in {share}"
        same = [memory for memory in rivals if _choice(memory) == choice]
        agreeing = [memory for memory in same if memory.status in LIVE]
        if agreeing:
            if choice in changes.adopts:
                _adopt(user, agreeing[0], why)
            continue
        promoted = user_memory(promotion, now=user.now)
        if promoted.id in forgotten or not _may_promote(user, promotion, rivals, same):
            continue
        superseded: list[Memory] = []
        for memory in rivals:
            if memory.status in LIVE:
                superseded.append(as_superseded(memory, promoted.id))
        user.change(ActionKind.PROMOTE, "user", promoted, *superseded, why=why)


def _may_promote(
    user: ConsolidationDraft,
    promotion: Promotion,
    rivals: Sequence[Memory],
    same: Sequence[Memory],
) -> bool:
    """Return whether neither the user's own word nor an earlier archiving contradicts it.

    rivals: the memories of its topic.
    same: those of them that say what it says.
    """
    for memory in rivals:
        # What the user said holds, though it may be archived by now, unless something newer took
        # its place.
        if is_user_stated(memory) and memory.status is not MemoryStatus.SUPERSEDED:
            return False
    for memory in same:
        # What was archived, itself or as what took its place, comes back only with more projects
        # than it had then.
        is_archived = _successor(user, memory).status is MemoryStatus.ARCHIVED
        if is_archived and promotion.projects <= memory.evidence_count:
            return False
    return True


def mark_seen(user: ConsolidationDraft, changes: ObservationChanges) -> None:
    """Count a preference as seen in every project that shares it."""
    seen: dict[Choice, float] = {}
    for observation in changes.observed:
        choice = _choice(observation)
        at = changes.projects.get(observation.project, 0.0)
        seen[choice] = max(at, seen.get(choice, 0.0))
    for memory in _keyed(user):
        at = seen.get(_choice(memory), 0.0)
        if at:
            user.seen[memory.id] = max(user.seen.get(memory.id, 0.0), at)


def drifting_preferences(user: ConsolidationDraft, changes: ObservationChanges) -> set[str]:
    """Return the ids of preferences that none of the latest projects shares, except deliberate
    exceptions."""
    by_topic: dict[str, dict[str, Observation]] = defaultdict(dict)
    for observation in changes.observed:
        by_topic[topic_of_key(observation.key)][observation.project] = observation
    newest_first = sorted(changes.projects, key=lambda name: (-changes.projects[name], name))
    project_limit = user.rules.drift_projects
    drifting = set[str]()
    for memory in _keyed(user):
        choice = _choice(memory)
        sharing = set[str]()
        excepted = set[str]()
        for name, observation in by_topic[choice[0]].items():
            if _choice(observation) == choice:
                sharing.add(name)
            elif observation.kind == Kind.DECISION:
                # Decided otherwise for that project alone: it says nothing about the habit.
                excepted.add(name)
        latest = [name for name in newest_first if name not in excepted][:project_limit]
        if len(latest) == project_limit and sharing.isdisjoint(latest):
            drifting.add(memory.id)
    return drifting


def mark_exceptions(repository: ConsolidationDraft, user: ConsolidationDraft) -> None:
    """Mark this project's deliberate choices that differ from the user's preference."""
    preferences = {topic_of_key(live.key): live for live in _keyed(user) if live.status in LIVE}
    for memory in _comparable(repository):
        preference = preferences.get(topic_of_key(memory.key))
        if preference is None or not is_user_stated(memory):
            continue
        is_marked = memory.details.exception_of == preference.id
        if is_marked or _choice(memory) == _choice(preference):
            continue
        details = replace(memory.details, exception_of=preference.id)
        marked = replace(memory, details=details)
        reason = memory.details.rationale or "chosen explicitly"
        why = f"{chosen_value(memory)} here, {chosen_value(preference)} usually: {reason}"
        repository.change(ActionKind.EXCEPT, "user", marked, why=why)


def _comparable(repository: ConsolidationDraft) -> list[Memory]:
    """Return the project's active memories with keys that say something about its user."""
    memories: list[Memory] = []
    for memory in repository.of_scope("project"):
        # The commands and conventions of a repository are no taste of its user's.
        if memory.details.imported_from == OBSERVED_ORIGIN:
            continue
        if memory.key and memory.kind in COMPARED and memory.status is MemoryStatus.ACTIVE:
            memories.append(memory)
    return memories


def _keyed(user: ConsolidationDraft) -> list[Memory]:
    """Return the user layer's memories with keys."""
    return [memory for memory in user.of_scope("user") if memory.key]


def _adopt(user: ConsolidationDraft, memory: Memory, why: str) -> None:
    """Count another project that follows an existing memory."""
    after = memory.confidence
    if not is_user_stated(memory):
        after = changed_confidence(after, Signal.ADOPTION, user.rules.feedback)
    grown = replace(memory, evidence_count=memory.evidence_count + 1, confidence=after)
    user.change(ActionKind.PROMOTE, "user", grown, why=why)


def _successor(user: ConsolidationDraft, memory: Memory) -> Memory:
    """Follow `superseded_by` to the current memory."""
    passed = set[str]()
    while memory.status is MemoryStatus.SUPERSEDED and memory.superseded_by in user.after:
        # A store that was put together from others may hold a ring.
        if memory.id in passed:
            break
        passed.add(memory.id)
        memory = user.after[memory.superseded_by]
    return memory


def user_memory(promotion: Promotion, *, now: float) -> Memory:
    """Make the memory of a promotion."""
    kind = Kind.PREFERENCE
    if promotion.kind == Kind.PATTERN:
        kind = Kind.PATTERN
    text = promotion.value
    if promotion.kind in NAMED and len(promotion.value.split()) <= VALUE_WORDS:
        worded = f"Usually uses {promotion.value}."
        # A sentence that is read back as another value would be promoted again at each run.
        if normalized(choice_in_text(worded)) == normalized(promotion.value):
            text = worded
    memory, _ = memory_writer.make_memory(
        layer=Layer.USER,
        kind=kind,
        title=f"{promotion.key}: {promotion.value}",
        text=text,
        entity=entity_for_key(Layer.USER, promotion.key),
        ordinal=integer_id("said", promotion.key, text),
        key=promotion.key,
        scope=MemoryScope.GLOBAL,
        confidence=promotion.confidence,
        evidence_count=promotion.projects,
        source=MemorySource.INFERRED,
        created_at=now,
        updated_at=now,
        allow_pii=True,  # it was redacted when it was stored
    )
    return memory
