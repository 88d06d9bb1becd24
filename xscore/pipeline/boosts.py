"""Lift joined scores by links and recency: calls, tests, recent changes, the file at hand.

final = min(1, joined + sum of boosts), the sum capped, only for a joined score (`joining`) at or
above the floor, in one pass: a boosted candidate boosts no other. A booster is a function
`(Candidate, BoostContext) -> Boost | None`; `plugins.enabled` adds those of other packages, and a
weight of 0 turns one of ours off. Trade-off: only the best neighbour counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from xscore.extension import ENABLED_SETTING, enabled_plugins, plugin_errors
from xscore.platform.clock import DAY_S
from xscore.platform.paths import folder_of
from xscore.records.candidates import Candidate, path_of
from xscore.records.judgment import (
    USUAL_THRESHOLD,
    Boost,
    Ranked,
    Thresholds,
    candidate_of,
    score_of,
)
from xscore.records.memory import Edge, Kind, Relation
from xscore.records.turn import CommitFacts, Turn
from xscore.settings import BoostSettings, Settings

ORDERING = frozenset({"recency"})
"""Names of the boosts that say nothing about the task: alone they lift nothing over its
threshold."""
NOT_SCALED = frozenset({"dependency", "dependent", "hub_degree", "recency_half_life_days"})
"""Settings of boosts that are the same for scores by words: those of calls, which words count
themselves, and those that are no amounts. Every other is scaled (`boosts_by_words`)."""
LEAST_BOOST = 0.001
"""Smallest boost that is kept: smaller ones change nothing and read as noise."""


def boosts_by_words(settings: BoostSettings, thresholds: Thresholds) -> BoostSettings:
    """Return what may be added to scores by words.

    They are probabilities with a threshold of their own: each amount is scaled so that it is the
    same share of it as of a model's.
    """
    share = thresholds.default / USUAL_THRESHOLD
    scaled: dict[str, float] = {}
    for name in settings.__struct_fields__:
        if name not in NOT_SCALED:
            scaled[name] = getattr(settings, name) * share
    return replace(settings, **scaled)


class BoostContext(Struct, frozen=True, kw_only=True):
    """What a booster may look at in addition to the candidate itself."""

    turn: Turn
    settings: BoostSettings
    thresholds: Thresholds
    now: float
    """Unix seconds."""
    known: Mapping[str, tuple[Candidate, float]]
    """Candidates at the ends of edges, with scores before boosts, by id; duplicates have their own
    ids."""
    calls: Mapping[str, Sequence[str]]
    """Candidate id -> ids it calls."""
    callers: Mapping[str, Sequence[str]]
    tested_by: Mapping[str, Sequence[str]]
    tests: Mapping[str, Sequence[str]]
    degrees: Mapping[str, int]
    """Memory id -> how many memories it calls or is called by."""
    ages_days: Mapping[str, float]
    """Path -> days since its last change; none for files that changed no later than most others."""
    edited: Mapping[str, Sequence[tuple[int, int]]]
    """Path -> lines of the uncommitted edits."""
    commits: Mapping[str, CommitFacts]
    """Path -> the newest commit that touched it; files of recent commits have one."""


Booster = Callable[[Candidate, BoostContext], Boost | None]


class BoostRules(Struct, frozen=True, kw_only=True):
    """What decides how much is added."""

    settings: BoostSettings
    thresholds: Thresholds
    boosters: Sequence[Booster]
    now: float
    """Unix seconds."""
    links_counted: bool = False
    """Whether the scores already count who calls and tests whom, as those of words do: then
    only tests of what is being edited are boosted for a link."""


def boost(
    unboosted: Sequence[Ranked],
    turn: Turn,
    rules: BoostRules,
    *,
    edges: Sequence[Edge],
    degrees: Mapping[str, int],
) -> tuple[Ranked, ...]:
    """Return the same memories in the same order, some of them lifted.

    unboosted: as `joining.join` returns them.
    edges: at least those that touch a candidate at or above the floor.
    """
    ranked = list(unboosted)
    floor = rules.settings.floor
    scores = map(score_of, ranked)
    liftable = {place: ranked[place] for place, score in enumerate(scores) if score >= floor}
    around = _context(
        list(liftable.values()), ranked, turn, rules, edges=edges, degrees=degrees
    )
    for place, entry in liftable.items():
        boosts = _boosts_of(entry, around, rules.boosters)
        if boosts:
            lifted = _lifted(entry.score, boosts)
            ranked[place] = entry._replace(boosts=boosts, score=lifted)
    return tuple(ranked)


def _context(
    liftable: Sequence[Ranked],
    ranked: Sequence[Ranked],
    turn: Turn,
    rules: BoostRules,
    *,
    edges: Sequence[Edge],
    degrees: Mapping[str, int],
) -> BoostContext:
    """Return what boosters look at: the links of what can be lifted, and the scores at their
    ends."""
    inside: set[str] = set()
    for entry in liftable:
        inside.update(_ids(entry.candidate))
    near = [edge for edge in edges if edge.source in inside or edge.target in inside]
    calls = [(edge.source, edge.target) for edge in near if edge.relation is Relation.CALLS]
    if rules.links_counted:
        calls = []
    tests = [(edge.source, edge.target) for edge in near if edge.relation is Relation.TESTS]
    called_from = [(target, source) for source, target in calls]
    tested_from = [(target, source) for source, target in tests]
    if rules.links_counted:
        tested_from = []
    ends = set(chain.from_iterable([*calls, *tests]))
    edited: dict[str, Sequence[tuple[int, int]]] = {}
    commits: dict[str, CommitFacts] = {}
    for changed in turn.changed or ():
        if changed.lines:
            edited[changed.path] = changed.lines
        if changed.commit is not None:
            commits[changed.path] = changed.commit
    return BoostContext(
        turn=turn,
        settings=rules.settings,
        thresholds=rules.thresholds,
        now=rules.now,
        known=_scores_at(ranked, ends),
        calls=_grouped(calls),
        callers=_grouped(called_from),
        tests=_grouped(tests),
        tested_by=_grouped(tested_from),
        degrees=degrees,
        ages_days=_telling_ages(ranked, turn, rules.now),
        edited=edited,
        commits=commits,
    )


def _boosts_of(
    ranked: Ranked, around: BoostContext, boosters: Sequence[Booster]
) -> tuple[Boost, ...]:
    lifts: list[Boost] = []
    for booster in boosters:
        lift = booster(ranked.candidate, around)
        if lift:
            lifts.append(lift)
    cap = around.settings.cap
    boosts = _capped(lifts, cap)
    threshold = around.thresholds.of(ranked.candidate)
    # What boosts lift over the threshold must pass without recency, too: otherwise a memory
    # would be kept only because its file was touched.
    if ranked.score < threshold <= _lifted(ranked.score, boosts):
        lasting = _capped([lift for lift in lifts if lift.name not in ORDERING], cap)
        if _lifted(ranked.score, lasting) < threshold:
            return lasting
    return boosts


def _lifted(score: float, boosts: Iterable[Boost]) -> float:
    lifted = score + sum(lift.amount for lift in boosts)
    return round(min(1.0, lifted), 9)


def _telling_ages(ranked: Sequence[Ranked], turn: Turn, now: float) -> dict[str, float]:
    """Return the age in days of each file whose change says something.

    Git's dates count where git is asked, otherwise those of the file system. After a clone, a
    first commit or a new layout most of the repository shares one day: only files changed after
    that day are recent.
    """
    if turn.changed is None:
        ages = _ages_of_files(ranked, now)
    else:
        ages = {changed.path: changed.age_days for changed in reversed(turn.changed)}
    days = {path: int(age) for path, age in ages.items()}
    for changed in turn.changed or ():
        if changed.lines:
            days[changed.path] = -1  # an edit is later than any commit
    in_files = Counter(map(path_of, map(candidate_of, ranked)))  # a file has many memories
    memories_of_day = Counter[int]()
    for path in in_files.keys() & days.keys():
        memories_of_day[days[path]] += in_files[path]
    half = (len(ranked) - in_files[""]) / 2
    shared_days = [day for day, count in memories_of_day.items() if count > half]
    if not shared_days:
        return ages
    return {path: age for path, age in ages.items() if days[path] < min(shared_days)}


def _ages_of_files(ranked: Sequence[Ranked], now: float) -> dict[str, float]:
    """Return the age in days of each file by its latest time in the file system."""
    latest: dict[str, float] = {}
    for entry in ranked:
        path = entry.candidate.path
        written_at = entry.candidate.updated_at
        if path and written_at > latest.get(path, 0.0):
            latest[path] = written_at
    return {path: max(0.0, now - written_at) / DAY_S for path, written_at in latest.items()}


def _scores_at(
    judged: Sequence[Ranked], ends: AbstractSet[str]
) -> dict[str, tuple[Candidate, float]]:
    scores: dict[str, tuple[Candidate, float]] = {}
    # Often nothing that can be lifted calls or tests anything: then no memory is looked at.
    if not ends:
        return scores
    for entry in judged:
        candidate = entry.candidate
        if candidate.id in ends:
            scores[candidate.id] = (candidate, entry.score)
        for duplicate in candidate.duplicates:
            if duplicate in ends:
                scores[duplicate] = (candidate, entry.score)
    return scores


def dependency(candidate: Candidate, around: BoostContext) -> Boost | None:
    """Boost callees of a passing candidate, and callers at a weight of their own; hubs give and
    take little."""
    ways = (
        (around.callers, around.settings.dependency, "called by"),
        (around.calls, around.settings.dependent, "calls"),
    )
    by_strength: list[tuple[float, str, Boost]] = []
    for links, amount, verb in ways:
        for own_id, other_id in _neighbours(candidate, links):
            neighbour, raw = around.known.get(other_id, (candidate, 0.0))
            if neighbour is candidate or raw < around.thresholds.of(neighbour):
                continue
            degree = max(around.degrees.get(own_id, 1), around.degrees.get(other_id, 1), 1)
            damped = amount * min(1.0, around.settings.hub_degree / degree)
            because = f"{verb} {_candidate_name(neighbour)}, which scores above the threshold"
            by_strength.append((-damped, neighbour.id, Boost("dependency", damped, because)))
    if not by_strength:
        return None
    _, _, best = min(by_strength, key=lambda lift: lift[:2])
    return _boost(best.name, best.amount, best.because)


def test_link(candidate: Candidate, around: BoostContext) -> Boost | None:
    """Boost the subject of a passing test, and tests of what is being edited."""
    for _, test_id in _neighbours(candidate, around.tested_by):
        test, raw = around.known.get(test_id, (candidate, 0.0))
        if test is not candidate and raw >= around.thresholds.of(test):
            because = f"tested by {_candidate_name(test)}, which scores above the threshold"
            return _boost("test_link", around.settings.test_link, because)
    for _, subject_id in _neighbours(candidate, around.tests):
        subject, _raw = around.known.get(subject_id, (candidate, 0.0))
        if subject is not candidate and _is_edited(subject, around):
            return _boost(
                "test_link",
                around.settings.test_link,
                f"tests {_candidate_name(subject)}, which is being edited",
            )
    return None


def recency(candidate: Candidate, around: BoostContext) -> Boost | None:
    """Boost recent changes; halves every `recency_half_life_days`.

    Whole days count, so a repeated turn is the same.
    """
    age = around.ages_days.get(candidate.path)
    if not candidate.path and candidate.updated_at > 0:
        age = max(0.0, around.now - candidate.updated_at) / DAY_S
    if age is None:
        return None
    amount = around.settings.recency * 0.5 ** (
        int(age) / around.settings.recency_half_life_days
    )
    when = "today" if age < 1 else f"{age:.0f} days ago"
    return _boost("recency", amount, f"last modified {when}")


def locality(candidate: Candidate, around: BoostContext) -> Boost | None:
    """Boost the current file, and at half weight its folder."""
    current = around.turn.file
    if not (current and candidate.path):
        return None
    if candidate.path == current:
        return _boost("locality", around.settings.locality, f"in the current file, {current}")
    if folder_of(candidate.path) == folder_of(current):
        return _boost(
            "locality",
            around.settings.locality / 2,
            f"in the folder of the current file, {current}",
        )
    return None


BOOSTERS: tuple[Booster, ...] = (dependency, test_link, recency, locality)


def _ids(candidate: Candidate) -> tuple[str, ...]:
    return (candidate.id, *candidate.duplicates)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def _neighbours(
    candidate: Candidate, links: Mapping[str, Sequence[str]]
) -> list[tuple[str, str]]:
    """Pairs of (own id, other id), in an order that no permutation of the input changes."""
    pairs: set[tuple[str, str]] = set()
    for own_id in _ids(candidate):
        pairs.update((own_id, other_id) for other_id in links.get(own_id, ()))
    return sorted(pairs)


def _is_edited(subject: Candidate, around: BoostContext) -> bool:
    """Whether the user works on it: it is at the current line, or an uncommitted edit touches
    it."""
    if subject.kind is Kind.TEST or not subject.path:
        return False
    turn = around.turn
    is_whole_file = subject.start_line == 0
    if subject.path == turn.file:
        if turn.line == 0 or is_whole_file:
            return True
        if subject.start_line <= turn.line <= subject.end_line:
            return True
    for first, last in around.edited.get(subject.path, ()):
        overlaps = first <= subject.end_line and last >= subject.start_line
        if is_whole_file or overlaps:
            return True
    return False


def _boost(name: str, amount: float, because: str) -> Boost | None:
    if amount >= LEAST_BOOST:
        return Boost(name, amount, because)
    return None


def _capped(boosts: Sequence[Boost], cap: float) -> tuple[Boost, ...]:
    """Sort largest first and cut the one that passes the cap to what is left, so that the amounts
    shown add up."""
    room, kept = cap, []
    for lift in sorted(boosts, key=lambda lift: (-lift.amount, lift.name)):
        amount = round(min(lift.amount, room), 9)
        if amount < LEAST_BOOST:
            continue
        room -= amount
        kept.append(Boost(lift.name, amount, f"{lift.because}{_cut_note(lift, amount, cap)}"))
    return tuple(kept)


def _cut_note(lift: Boost, amount: float, cap: float) -> str:
    """Say what was cut off; empty where amounts read the same before and after, as a user sees
    them."""
    before = f"{lift.amount:+.2f}"
    if before == f"{amount:+.2f}":
        return ""
    return f" (cut from {before}: boosts add at most {cap:.3g} together)"


def _candidate_name(candidate: Candidate) -> str:
    if candidate.entity:
        return f"{candidate.path}::{candidate.entity}"
    return candidate.path or candidate.id


def load_boosters(settings: Settings) -> tuple[Booster, ...]:
    """Return ours and those that `plugins.enabled` names.

    Raises UsageError for one that cannot be loaded.
    """
    boosters = list(BOOSTERS)
    for name, booster in enabled_plugins("boosters", settings).items():
        boosters.append(_guarded(name, booster))
    return tuple(boosters)


def _guarded(name: str, booster: Booster) -> Booster:
    def guarded(candidate: Candidate, around: BoostContext) -> Boost | None:
        with plugin_errors(name, setting=ENABLED_SETTING):
            return booster(candidate, around)

    return guarded
