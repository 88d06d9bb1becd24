"""How a ranking by words fills its places: what passed, then code from the near ones.

Words are weak evidence: the memory that is wanted often scores just below the threshold, while
tests and documents repeat its words above it. So nothing that passed is dropped, the tests of
one file take one place, and so do copies of a memory; what is left of `FILL.target_places` goes
to near memories. A model's selection is never composed. Pure. Trade-off: the longer list has
more that is not needed; it is marked, and each memory shows the rule that placed it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from xscore.platform.text import counted
from xscore.records.candidates import Candidate
from xscore.records.judgment import (
    FILL,
    SCORE_TOLERANCE,
    FillRules,
    PlacedBy,
    Ranked,
    Thresholds,
)
from xscore.records.memory import PRODUCT_CODE_KINDS, WITHIN, Kind
from xscore.records.turn import Turn
from xscore.scorer.mentions import find_mentions

CHOICE = 400
"""Most near memories that are looked at."""
COPY_LIKENESS = 0.6
"""Least share of their words that copies in sibling packages have in common."""
SAME_LIKENESS = 0.9
"""Least share of their words that copies anywhere have in common."""
MOST_COPIES_NAMED = 3
MOST_COMPARED = 60
"""Most memories that are compared with their namesakes, the best first."""

_WINDOWED = frozenset({Kind.TEXT, Kind.CONFIG, Kind.DOC, Kind.DOCUMENT})


class TaskAim(Struct, frozen=True):
    """What a task is after, as far as it decides what fills a selection."""

    subjects: frozenset[Kind] = frozenset()
    """The kinds other than code that it is about."""


class Places(Struct):
    """The places of a selection, as they are taken."""

    taken: list[Ranked] = field(default_factory=list)
    behind: dict[str, list[Ranked]] = field(default_factory=dict)
    """Id of a memory with a place -> those that passed and are folded into it."""
    filled: list[Ranked] = field(default_factory=list)
    beyond: list[Ranked] = field(default_factory=list)
    """Memories that passed when all places were taken."""
    words: Mapping[str, AbstractSet[str]] = {}
    """Words of the memories that may be copies, by id."""
    _heads: dict[tuple[str, ...], list[Ranked]] = field(default_factory=dict)
    """What represents a group: the tests of a file, a test or function and its copies. Some of
    one name are no copies of each other."""

    def head_of(self, ranked: Ranked) -> Ranked | None:
        """Return the memory into which this one is folded; None if it needs a place of its
        own."""
        candidate = ranked.candidate
        if candidate.kind is Kind.TEST:
            first_tests = self._heads.get(("tests", candidate.path))
            if first_tests:
                return first_tests[0]
        for key in copy_keys(candidate):
            least = SAME_LIKENESS if key == name_key(candidate) else COPY_LIKENESS
            for head in self._heads.get(key, ()):
                if self._are_alike(candidate, head.candidate, least=least):
                    return head
        return None

    def fold(self, ranked: Ranked, head: Ranked) -> None:
        """Fold a memory into another; after a copied test the rest of its file does too."""
        self.behind.setdefault(head.candidate.id, []).append(ranked)
        if ranked.candidate.kind is Kind.TEST:
            self._heads.setdefault(("tests", ranked.candidate.path), [head])

    def _are_alike(self, candidate: Candidate, head: Candidate, *, least: float) -> bool:
        if candidate.path == head.path:
            return False
        own_words = self.words.get(candidate.id, frozenset())
        head_words = self.words.get(head.id, frozenset())
        shared = own_words & head_words
        either = own_words | head_words
        return len(shared) >= least * max(1, len(either))

    def take(self, ranked: Ranked) -> None:
        """Give a memory a place, and fold its group into it."""
        candidate = ranked.candidate
        self.taken.append(ranked)
        if candidate.kind is Kind.TEST:
            self._heads.setdefault(("tests", candidate.path), [ranked])
        for key in copy_keys(candidate):
            self._heads.setdefault(key, []).append(ranked)


def compose(
    passing: Sequence[Ranked],
    below: Sequence[Ranked],
    *,
    top_k: int,
    thresholds: Thresholds,
    aim: TaskAim,
    words: Mapping[str, AbstractSet[str]] = {},
    rules: FillRules = FILL,
) -> Places:
    """Give places to what passed, best first, and fill up from below.

    passing: best first.
    below: best first.
    words: those of the memories that `namesakes` names, by id.
    """
    places = Places(words=words)
    for ranked in passing:
        head = places.head_of(ranked)
        if head is not None:
            places.fold(ranked, head)
        elif len(places.taken) == top_k:
            places.beyond.append(ranked)
        else:
            places.take(ranked)
    # A fact passes or does not: its score says nothing about code that came near.
    least = rules.share * thresholds.default - SCORE_TOLERANCE
    near = [entry for entry in _without_facts(below) if entry.score >= least]
    _fill(places, near, rules, room=top_k, subjects=aim.subjects)
    return places


def _without_facts(ranked: Sequence[Ranked]) -> list[Ranked]:
    return [entry for entry in ranked if not entry.candidate.is_fact]


def _best_score(*best_first: Sequence[Ranked]) -> float:
    """Return the best score of several lists, each sorted; 0 where all are empty."""
    return max([ranked[0].score for ranked in best_first if ranked], default=0.0)


def _fill(
    places: Places,
    near: Sequence[Ranked],
    rules: FillRules,
    *,
    room: int,
    subjects: AbstractSet[Kind],
) -> None:
    """Fill with code, and with few tests, documents and text unless the task is about them or there
    is not code."""
    other_count = sum(is_other_kind(ranked.candidate, subjects) for ranked in places.taken)
    # What passed of other kinds takes at most its share of the places that are filled up to.
    counted = len(places.taken) - other_count + min(other_count, rules.other_kinds)
    least_of_others = rules.other_kinds_share * _best_score(places.taken, near)
    has_code = any(
        ranked.candidate.kind in PRODUCT_CODE_KINDS for ranked in (*places.taken, *near)
    )
    files = {
        _file_of(ranked.candidate)
        for ranked in places.taken
        if ranked.candidate.kind in _WINDOWED
    }
    for ranked in near:
        candidate = ranked.candidate
        # A commit below the threshold says nothing about where to look.
        if candidate.kind is Kind.COMMIT:
            continue
        if counted >= rules.target_places or len(places.taken) >= room:
            return
        is_other = has_code and is_other_kind(candidate, subjects)
        if is_other and (other_count >= rules.other_kinds or ranked.score < least_of_others):
            continue
        # One window of a file says where to look.
        if candidate.kind in _WINDOWED and _file_of(candidate) in files:
            continue
        if places.head_of(ranked) is not None:
            continue
        places.take(ranked)
        places.filled.append(ranked)
        files.add(_file_of(candidate))
        other_count += is_other
        counted += 1


def _file_of(candidate: Candidate) -> str:
    """Return the path of what a memory is a part of; for a fetched document its title."""
    return candidate.path or candidate.entity.partition(WITHIN)[0]


def is_other_kind(candidate: Candidate, subjects: AbstractSet[Kind]) -> bool:
    """Whether a memory is a test, document, text or exchange, and the task is not about such."""
    return candidate.kind not in PRODUCT_CODE_KINDS and candidate.kind not in subjects


def one_window_a_file(below: Sequence[Ranked], places: Places) -> list[Ranked]:
    """Return what is near and has no place, with one window of each text file."""
    candidates = [ranked.candidate for ranked in places.taken]
    taken_ids = {candidate.id for candidate in candidates}
    windowed = {candidate.path for candidate in candidates if candidate.kind is Kind.TEXT}
    rest: list[Ranked] = []
    for ranked in below:
        candidate = ranked.candidate
        if candidate.id in taken_ids:
            continue
        if candidate.kind is Kind.TEXT:
            if candidate.path in windowed:
                continue
            if candidate.path:
                windowed.add(candidate.path)
        rest.append(ranked)
    return rest


_SUBJECT_WORDS = {
    Kind.TEST: "test tests testing tested pytest unittest jest vitest mocha conftest spec specs",
    Kind.DOC: (
        "doc docs document documents documentation documented readme changelog guide tutorial"
    ),
    Kind.CONFIG: "config configs configuration configure toml yaml ini ci workflow",
}


_DOC_ENDINGS = (".md", ".rst", ".txt", ".adoc", ".mdx")
_CONFIG_ENDINGS = (".toml", ".yml", ".yaml", ".json", ".ini", ".cfg")


def aim_of(turn: Turn, *, about_tests: bool) -> TaskAim:
    """Return what a task is after. about_tests: its first line is about tests.

    Kinds by its first line, its type, or a file that it names: further lines of a message often add
    that there is a test, and an entry in the changelog.
    """
    subjects = {Kind(kind) for kind in turn.scope.kinds if kind in set(Kind)}
    first_line, _, _ = turn.task.strip().partition("\n")
    words = {word.strip(".,;:!?()`'\"").lower() for word in first_line.split()}
    for kind, names in _SUBJECT_WORDS.items():
        if not words.isdisjoint(names.split()):
            subjects.add(kind)
    if about_tests:
        subjects.add(Kind.TEST)
    for path in (*find_mentions(turn.task).files, turn.file):
        lowered = path.lower()
        if lowered.endswith(_DOC_ENDINGS):
            subjects |= {Kind.DOC, Kind.TEXT}
        elif lowered.endswith(_CONFIG_ENDINGS):
            subjects |= {Kind.CONFIG, Kind.TEXT}
    return TaskAim(frozenset(subjects))


def copy_keys(candidate: Candidate) -> list[tuple[str, ...]]:
    """Return the keys that a memory shares with its copies: in sibling packages its path without
    one folder, anywhere its name."""
    if not candidate.entity:
        return []
    *folders, file = candidate.path.split("/")
    name = (candidate.kind, file.partition(".")[0], candidate.entity)
    keys = [(*name, *folders[:at], "*", *folders[at + 1 :]) for at in range(len(folders))]
    return [*keys, name_key(candidate)]


def name_key(candidate: Candidate) -> tuple[str, ...]:
    """Return the key that a memory shares with its copies anywhere."""
    return (candidate.kind, candidate.entity)


def namesakes(ranked: Sequence[Ranked]) -> list[str]:
    """Return the ids of memories that may be copies of each other; their words tell. ranked: best
    first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for entry in ranked[:MOST_COMPARED]:
        for key in copy_keys(entry.candidate):
            groups.setdefault(key, []).append(entry.candidate.id)
    namesake_ids: set[str] = set()
    for ids in groups.values():
        if len(ids) > 1:
            namesake_ids.update(ids)
    return sorted(namesake_ids)


def words_of(text: str) -> frozenset[str]:
    """Return the words by which copies are compared."""
    return frozenset(re.findall(r"\w+", text))


def with_group(ranked: Ranked, behind: Sequence[Ranked]) -> Ranked:
    """Say in a memory's reason what is folded into it: `and 4 more tests in
    t/unit/test_schedules.py`."""
    if not behind:
        return ranked
    path = ranked.candidate.path
    tests = 0
    copies = dict[str, None]()
    for member in behind:
        if member.candidate.path != path:
            copies[member.candidate.path] = None
        elif member.candidate.kind is Kind.TEST:
            tests += 1
    remarks: list[str] = []
    if tests:
        remarks.append(f"and {counted(tests, 'more test')} in {path}")
    if copies:
        named = list(copies)[:MOST_COPIES_NAMED]
        remark = f"the same in {', '.join(named)}"
        if len(copies) > len(named):
            remark += f" and {counted(len(copies) - len(named), 'more file')}"
        remarks.append(remark)
    if ranked.judgment.reason:
        remarks.append(ranked.judgment.reason)
    return ranked._replace(judgment=ranked.judgment._replace(reason="; ".join(remarks)))


def placed_by(places: Places) -> dict[str, PlacedBy]:
    """Return the rule of each memory that has a place or is folded."""
    rules = {entry.candidate.id: PlacedBy.THRESHOLD for entry in places.taken}
    rules |= {entry.candidate.id: PlacedBy.FILLED for entry in places.filled}
    for group in places.behind.values():
        rules |= {entry.candidate.id: PlacedBy.FOLDED for entry in group}
    return rules


def with_groups(entries: Sequence[Ranked], places: Places) -> tuple[Ranked, ...]:
    """Return what is kept, each with those folded into it, in the same order."""
    kept: list[Ranked] = []
    for entry in entries:
        kept.append(with_group(entry, places.behind.get(entry.candidate.id, ())))
    return tuple(kept)


def words_of_namesakes(
    ranked: Sequence[Ranked], texts: Callable[[Sequence[str]], Mapping[str, str]] | None
) -> Mapping[str, AbstractSet[str]]:
    """Return the words of what may be copies of each other, by id; texts: reads the texts of
    memories by id; None if nothing is taken for a copy."""
    if texts is None:
        return {}
    namesake_ids = namesakes(ranked)
    if not namesake_ids:
        return {}
    return {id_: words_of(text) for id_, text in texts(namesake_ids).items()}
