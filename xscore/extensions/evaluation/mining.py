"""Make cases of a repository's own history: the message of a commit asks, what it changed answers.

A commit counts whose message says something and whose change is of one to five functions,
methods or classes in at most five source files, none of them removed or moved. Gold is each of
these whose tokens differ, comments and docstrings aside, as it was before the commit; a class
is its own rows without its methods. Everything else is counted by the reason it was left out.
The same history gives the same cases. Trade-off: what a commit should have changed and did not
is not gold.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from xscore.extensions.evaluation.cases import EvalCase
from xscore.extensions.evaluation.changed_entities import (
    ChangedEntities,
    FileVersion,
    changed_entities,
    outline_versions,
)
from xscore.extensions.evaluation.history import (
    CommittedFile,
    HistoryCommit,
    list_commits,
    read_contents,
)
from xscore.extensions.evaluation.leaks import FILE, SYMBOL, without_leaks
from xscore.indexer.admission import AdmissionRules
from xscore.indexer.languages import FileShape, is_test_path, language_of
from xscore.platform.files import FileRefused
from xscore.platform.git import is_shallow
from xscore.records.memory import Kind
from xscore.settings import IndexSettings
from xscore.store.redaction import redact
from xscore.store.term_vectors import STOPWORDS

MAX_COMMITS = 20_000
"""Most commits looked at, newest first."""
MAX_SOURCE_FILES = 5
MAX_GOLD = 5
MIN_WORDS = 8
MIN_CONTENT_WORDS = 5
MAX_TEST_FILES = 8
"""Most test files of a commit that are split into tests; if there are more, only their paths
are kept."""
_COMMITS_A_ROUND = 40
_DECLARATIONS = (".pyi", ".d.ts", ".d.mts", ".d.cts")
"""Files that repeat what others define."""


class NoCaseReason(StrEnum):
    """Why a commit is not a case, in the order in which it is asked."""

    NO_PARENT = "no parent here (the first commit, or the end of a shallow clone)"
    SUBJECT = "merges, releases, reverts, documents, tests, tooling, dependencies, refactoring"
    SHORT = "message says too little"
    NO_SOURCE = "no source file modified"
    MANY_FILES = "too many source files"
    MOVED = "a source file removed or moved"
    UNREADABLE = "a file that cannot be read (not in this clone, too large, generated)"
    NO_ENTITY = "no function, method or class changed"
    ONLY_CLASSES = "only classes changed"
    MANY_ENTITIES = "too many functions changed"
    SHORT_TASK = "message says too little without the names it gives away"


class Mined(Struct, frozen=True, kw_only=True):
    """The cases, and what became of the other commits."""

    cases: tuple[EvalCase, ...]
    commits: int
    """Number of commits looked at."""
    left_out: Mapping[str, int]
    """Number of commits left out, by reason (`NoCaseReason`)."""
    is_shallow: bool


class _Candidate(Struct, frozen=True):
    commit: HistoryCommit
    sources: tuple[CommittedFile, ...]
    tests: tuple[CommittedFile, ...]


def mine_cases(
    root: Path,
    settings: IndexSettings,
    *,
    limit: int,
    since: float | None = None,
    progress: Callable[[int, int], None] = lambda _looked_at, _cases: None,
) -> Mined:
    """Return at most `limit` cases, of the newest commits first.

    since: Unix seconds; None: from the beginning.
    progress: called with the commits looked at and the cases found.
    """
    history = list_commits(root, limit=MAX_COMMITS, since=since)
    cases: list[EvalCase] = []
    left_out: Counter[str] = Counter()
    looked_at = 0
    for outcome in _outcomes(root, settings, history):
        looked_at += 1
        if isinstance(outcome, NoCaseReason):
            left_out[outcome] += 1
        else:
            cases.append(outcome)
        progress(looked_at, len(cases))
        if len(cases) == limit:
            break
    return Mined(
        cases=tuple(cases),
        commits=looked_at,
        left_out={str(reason): left_out[reason] for reason in NoCaseReason if left_out[reason]},
        is_shallow=is_shallow(root),
    )


def _outcomes(
    root: Path, settings: IndexSettings, history: Sequence[HistoryCommit]
) -> Iterator[EvalCase | NoCaseReason]:
    """Yield what becomes of each commit, in their order; contents are read for many at once."""
    rules = AdmissionRules(settings)
    waiting: list[_Candidate | NoCaseReason] = []
    candidates: list[_Candidate] = []
    for commit in history:
        screened = _screen(commit, rules)
        waiting.append(screened)
        if isinstance(screened, _Candidate):
            candidates.append(screened)
        if len(candidates) == _COMMITS_A_ROUND:
            yield from _decided(root, settings, rules, waiting)
            waiting, candidates = [], []
    yield from _decided(root, settings, rules, waiting)


def _decided(
    root: Path,
    settings: IndexSettings,
    rules: AdmissionRules,
    waiting: "Sequence[_Candidate | NoCaseReason]",
) -> Iterator[EvalCase | NoCaseReason]:
    candidates = [screened for screened in waiting if isinstance(screened, _Candidate)]
    changes = _changes_of(root, settings, rules, candidates)
    for screened in waiting:
        if isinstance(screened, NoCaseReason):
            yield screened
        else:
            _, changed = next(changes)
            yield NoCaseReason.UNREADABLE if changed is None else _case(screened, changed)


_SKIPPED_TYPES = (
    "build chore ci deps docs doc lint refactor refactoring release style test tests"
)
_SUBJECT_TYPE = re.compile(rf"(?i)(?:{_SKIPPED_TYPES.replace(' ', '|')})(?:\([^)]*\))?!?:")
_SUBJECT = re.compile(
    r"""(?ix)
    ^(?:merge|revert|release|bump|prepare|version|v?\d+\.\d+|start(?:ing)?\ version|back\ to\ dev
      |update\ changelog|changelog|docs?\b|documentation|readme|typos?\b|tests?\b|ci\b|lint
      |refactor|rename|reformat|format(?:ting)?\b|whitespace|chore|cleanup|clean\ up|upgrade
      |add(?:ed)?\ (?:some\ |more\ |missing\ )?(?:tests?|docs?|documentation|type\ hints|typing)\b
      |(?:fix|fixed|fixes|update|updated|improve)\ (?:a\ |the\ |some\ )?
        (?:docs?|documentation|readme|tests?|typos?|changelog|comments?|lint|linting|ci|formatting)\b
      |\[?pre-commit|dependabot)
    | \b(?:typos?|flake8|pylint|ruff|mypy|pyright|eslint|prettier|isort|clippy|rustfmt|gofmt|pep8
      |type\ (?:hints?|annotations?)|pre-commit|dependabot|changelog)\b
    """
)


def _screen(commit: HistoryCommit, rules: AdmissionRules) -> "_Candidate | NoCaseReason":
    """Decide by the message and the names of the files whether a commit is worth a look."""
    if not commit.parent:
        return NoCaseReason.NO_PARENT
    if _SUBJECT.search(commit.subject) or _SUBJECT_TYPE.match(commit.subject):
        return NoCaseReason.SUBJECT
    if not _says_enough(commit.message):
        return NoCaseReason.SHORT
    sources, tests = _source_files(commit, rules)
    return _reason_of_files(sources) or _Candidate(commit, tuple(sources), tuple(tests))


def _reason_of_files(sources: Sequence[CommittedFile]) -> NoCaseReason | None:
    """Return why a change of these files is not a case; None if it may be one."""
    statuses = {change.status for change in sources}
    if statuses - {"M", "A"}:
        return NoCaseReason.MOVED
    if "M" not in statuses:
        return NoCaseReason.NO_SOURCE
    if len(sources) > MAX_SOURCE_FILES:
        return NoCaseReason.MANY_FILES
    return None


def _source_files(
    commit: HistoryCommit, rules: AdmissionRules
) -> tuple[list[CommittedFile], list[CommittedFile]]:
    """Return the files of code that a commit touched: those of the product, and tests."""
    sources: list[CommittedFile] = []
    tests: list[CommittedFile] = []
    for change in commit.files:
        language = language_of(change.path)
        is_code = language.shape is FileShape.CODE and not change.path.endswith(_DECLARATIONS)
        if not is_code or not change.is_regular:
            continue
        if is_test_path(change.path, language):
            tests.append(change)
        elif not rules.refusal_by_path(change.path):
            sources.append(change)
    return sources, tests


def _changes_of(
    root: Path,
    settings: IndexSettings,
    rules: AdmissionRules,
    candidates: Sequence[_Candidate],
) -> Iterator[tuple[_Candidate, ChangedEntities | None]]:
    """Yield what each commit changed; None where a source file cannot be read."""
    changes: list[CommittedFile] = []
    for candidate in candidates:
        changes += candidate.sources
        if len(candidate.tests) <= MAX_TEST_FILES:
            changes += candidate.tests
    ids = [identifier for change in changes for identifier in (change.old, change.new)]
    contents = read_contents(root, ids, max_bytes=settings.max_file_bytes)
    versions: dict[tuple[str, str], FileVersion] = {}
    for change in changes:
        for identifier in (change.old, change.new):
            text = _text(rules, contents.get(identifier), change.path)
            if text is not None:
                versions[change.path, identifier] = FileVersion(change.path, identifier, text)
    outlines = outline_versions(versions.values(), window_lines=settings.window_lines)
    for candidate in candidates:
        yield candidate, changed_entities(candidate.sources, candidate.tests, outlines)


def _text(rules: AdmissionRules, data: bytes | None, path: str) -> str | None:
    if data is None:
        return None
    try:
        return rules.text_of(data, path)
    except FileRefused:
        return None


def _case(candidate: _Candidate, changed: ChangedEntities) -> EvalCase | NoCaseReason:
    """Return the case of a commit that changed these."""
    commit = candidate.commit
    if not changed.gold:
        return NoCaseReason.NO_ENTITY
    if len(changed.gold) > MAX_GOLD:
        return NoCaseReason.MANY_ENTITIES
    if not changed.kinds & {Kind.FUNCTION, Kind.METHOD}:
        return NoCaseReason.ONLY_CLASSES
    names = [place.name for place in changed.gold] + list(changed.new_names)
    paths = [change.path for change in commit.files]
    # First: a secret is often known by the name before it, which may be one that is taken out.
    message = redact(commit.message, prose=True).text
    task = redact(without_leaks(message, symbols=names, paths=paths), prose=True).text
    if not _says_enough(task):
        return NoCaseReason.SHORT_TASK
    languages = Counter(language_of(place.path).name for place in changed.gold)
    return EvalCase(
        id=commit.id[:12],
        task=task,
        gold=changed.gold,
        tests=changed.tests,
        commit=commit.id,
        parent=commit.parent,
        date=commit.date,
        language=max(sorted(languages), key=languages.__getitem__),
        kind=_kind_of_change(commit.subject),
    )


def _says_enough(message: str) -> bool:
    """Whether a message has enough words, and enough of them with a meaning."""
    plain = message.replace(SYMBOL, " ").replace(FILE, " ")
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", plain)
    content = {word.lower() for word in words if len(word) > 2} - STOPWORDS
    return len(words) >= MIN_WORDS and len(content) >= MIN_CONTENT_WORDS


_FIXES = re.compile(
    r"(?i)^(?:bug)?fix|\b(?:fix(?:e[sd])?|bugs?|regression|crash(?:es)?|errors?|wrong|incorrect"
    r"|don't|does not|properly|correct(?:ly)?|prevent|avoid|ensure)\b"
)
_ADDS = re.compile(
    r"(?i)^feat|\b(?:adds?|added|adding|support|allow|implement(?:ed)?|new|enable)\b"
)


def _kind_of_change(subject: str) -> str:
    if _FIXES.search(subject):
        return "fix"
    return "feature" if _ADDS.search(subject) else "change"
