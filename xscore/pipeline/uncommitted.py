"""Complete a turn with what the moment shows: the current file and the uncommitted change.

It says which lines the change touches and which files changed lately, and decides nothing about
what is judged. Everything that may leave the machine is redacted here, before it becomes part of a
key or a prompt; long texts are cut afterwards. The change is shown to the answering model, so only
files that the index admits are in it: not what is excluded by a glob, by its class or by its
content, and no file of secrets. A deleted file is judged by its name alone. Trade-off: new files
that git does not track yet are not part of the change.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.pipeline.noted_change import (
    NotedChange,
    committed_state,
    note_change,
    noted_change,
    store_version,
)
from xscore.pipeline.recent_files import changes_before_head, with_edits
from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, is_there, opened_folder, read_file_under
from xscore.platform.git import WorkingDiff, working_diff
from xscore.platform.near_names import did_you_mean, nearest_names
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.platform.text import encodable_text
from xscore.records.turn import ChangedFile, Scope, Turn
from xscore.store.index_rows import file_languages
from xscore.store.personal_data import redact_said
from xscore.store.redaction import is_safe_name, is_secret_file, redact

if TYPE_CHECKING:
    from xscore.settings import IndexSettings

MAX_TASK_CHARS = 100_000
MAX_FILE_CHARS = 60_000
MAX_CONTEXT_CHARS = 4_000
"""Longest line of the context."""
MAX_DIFF_CHARS = 20_000
SCREENED_FACTOR = 4
"""How many times the shown length is scanned for secrets."""
_SECTION = r"(?m)^(?=diff --git )"
_NAMES = r'(?m)^(?:(?:---|\+\+\+) "?(?:[ab]/)?|(?:rename|copy) (?:from|to) "?)(.+?)"?\t?$'
"""Matches names in the head of a section. One that git quotes stays escaped, with a backslash,
so it is not the name of a file."""
_HUNK = r"@@ -\d+(?:,\d+)? \+(\d+)"


class UncommittedWork(Struct, frozen=True):
    """The state of the working tree."""

    diff: str = ""
    """Diff of admitted files, redacted and cut."""
    changed: tuple[ChangedFile, ...] | None = None
    """Changed files; None: git is not asked here."""


def uncommitted_work(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    settings: "IndexSettings",
    *,
    now: float,
    is_unchanged: bool = False,
    needs_diff: bool = True,
) -> UncommittedWork:
    """Ask git for the change since HEAD and for the files of recent commits.

    now: Unix seconds.
    is_unchanged: an index run has just found every file as it was (`IndexReport.is_unchanged`), so
        git is not asked again whether any has changed.
    needs_diff: False: the diff is not shown, so it may be missing.
    """
    if not (settings.git and root.is_git):
        return UncommittedWork()
    noted = noted_change(connection, committed_state(root)) if is_unchanged else None
    diff = ""
    if noted is not None and not (noted.has_text and needs_diff):
        lines = noted.lines
    else:
        diff = _admitted_diff(connection, root, settings)
        lines = edited_lines(diff)
    changed = with_edits(changes_before_head(connection, root, now), lines)
    return UncommittedWork(shown_diff(diff) if needs_diff else "", changed)


def _admitted_diff(
    connection: sqlite3.Connection, root: RepositoryRoot, settings: "IndexSettings"
) -> str:
    """Return the change of the files that are indexed, and of deleted ones that would be; note
    where it is."""
    # Looked at before git is asked: what changes meanwhile is seen at the next turn.
    state, version = committed_state(root), store_version(connection)
    change = working_diff(root.path)
    diff = _admitted_sections(connection, root, settings, change)
    # HEAD may have moved while git compared.
    if change.is_known and committed_state(root) == state:
        noted = NotedChange(state, bool(diff), edited_lines(diff))
        note_change(connection, noted, version=version)
    return diff


def _admitted_sections(
    connection: sqlite3.Connection,
    root: RepositoryRoot,
    settings: "IndexSettings",
    change: WorkingDiff,
) -> str:
    if not change.patch:
        return ""
    # Only with a change that is not committed.
    from xscore.indexer.admission import AdmissionRules

    indexed = file_languages(connection)
    rules = AdmissionRules(settings)
    changed = {portable_name(name): is_gone for name, is_gone in change.changed.items()}

    def is_admitted(path: str) -> bool:
        if path in indexed:
            return path in changed
        # Only git says that a file is deleted: its text then comes from HEAD. A path that is merely
        # not there may be one that git read elsewhere. `git rm --cached` leaves a file that the
        # index refuses for its text.
        is_gone = changed.get(path, False) and not os.path.lexists(
            root.path / native_name(path)
        )
        return is_gone and not rules.refusal_by_path(path)

    return sections_among(change.patch, is_admitted)


def _redacted_line(name: str, value: str, *, allow_pii: bool) -> tuple[str, str]:
    """Redact name and value as one line, since a name such as `password` says that its value is a
    secret."""
    words = encodable_text(f"{name}: {value}").split()
    screened = " ".join(words)[: SCREENED_FACTOR * MAX_CONTEXT_CHARS]
    line = redact_said(screened, allow_pii=allow_pii).text[:MAX_CONTEXT_CHARS]
    name, _, value = line.partition(": ")
    return name, value


def shown_diff(diff: str) -> str:
    """Redact a diff and cut it; more than is shown is screened, so that the cut hides no half of a
    secret."""
    return redact(diff[: SCREENED_FACTOR * MAX_DIFF_CHARS]).text[:MAX_DIFF_CHARS]


def sections_among(diff: str, is_admitted: Callable[[str], bool]) -> str:
    """Keep the files of a unified diff whose names, old and new, are all admitted; a part without a
    name is dropped."""
    admitted: list[str] = []
    for section in re.split(_SECTION, diff):
        names = _names(section)
        if names and all(map(is_admitted, names)):
            admitted.append(section)
    return "".join(admitted)


def _names(section: str) -> list[str]:
    head = section.partition("\n@@")[0]
    return [portable_name(name) for name in re.findall(_NAMES, head) if name != "/dev/null"]


def edited_lines(diff: str) -> Mapping[str, list[tuple[int, int]]]:
    """Return the changed lines of each file of a unified diff, as they are numbered after the
    change.

    Lines that were only removed count as an edit of the two lines around them.
    """
    spans_by_file: dict[str, list[tuple[int, int]]] = {}
    if not diff:
        return spans_by_file
    for section in re.split(_SECTION, diff):
        names = _names(section)
        head, *hunks = re.split(r"^(?=@@ )", section, flags=re.MULTILINE)
        is_deleted = "\n+++ /dev/null" in head
        if not (names and hunks) or is_deleted:
            continue
        spans: list[tuple[int, int]] = []
        for hunk in hunks:
            spans += _edits_of(hunk.split("\n"))
        spans_by_file[names[-1]] = spans
    return spans_by_file


def _edits_of(hunk: Iterable[str]) -> list[tuple[int, int]]:
    header, *lines = hunk
    begins = re.match(_HUNK, header)
    if begins is None:
        return []
    at = int(begins[1])
    spans = list[tuple[int, int]]()
    for line in lines:
        if line.startswith("+"):
            spans.append((at, at))
        elif line.startswith("-"):
            spans.append((at - 1, at))
        if not line.startswith(("-", "\\")):
            at += 1
    return _joined(spans)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def complete_turn(
    turn: Turn,
    root: RepositoryRoot,
    *,
    work: UncommittedWork,
    allow_pii: bool = False,
    indexed: Callable[[], Iterable[str]] = tuple,
    places: Callable[[str], Iterable[tuple[str, str]]] = lambda _task: (),
) -> Turn:
    """Fill in the turn's missing fields. Raises UsageError for an empty or huge task, or a file
    outside the root.

    work: what the turn does not bring itself.
    allow_pii: leave e-mail addresses and the like in what the user asks and pastes.
    indexed: the paths among which an error finds those nearest to a file that is not there.
    places: the names in a task that mean a folder, and that folder.
    """
    task = _usable_task(turn.task)
    file = ""
    if turn.file:
        path = _path_in_root(turn.file, root, indexed)
        file = path if is_safe_name(path) else ""
    scope = turn.scope
    if scope.within:
        scope = _scope_in_root(scope, root, indexed, task=task)
    recent = dict.fromkeys(_path_in_root(path, root, indexed) for path in turn.recent)
    # Each once: a turn that is continued has them already.
    named = dict.fromkeys((*turn.about, *places(task)))
    about = [_redacted_line(name, value, allow_pii=allow_pii) for name, value in named]
    return replace(
        turn,
        task=redact_said(task, allow_pii=allow_pii).text,
        errors=_shown_errors(turn.errors, allow_pii=allow_pii),
        about=tuple(about),
        file=file,
        scope=scope,
        file_text=_file_text(file, root) if file else "",
        recent=tuple(filter(is_safe_name, recent)),
        diff=_own_diff(turn.diff) if turn.diff else work.diff,
        changed=work.changed if turn.changed is None else turn.changed,
    )


def _shown_errors(errors: str, *, allow_pii: bool) -> str:
    """Redact error output and keep its end, where the cause is."""
    screened = errors[-SCREENED_FACTOR * MAX_TASK_CHARS :]
    redacted = redact_said(screened, prose=False, allow_pii=allow_pii).text
    return redacted[-MAX_TASK_CHARS:].strip()


def _own_diff(diff: str) -> str:
    """Return the change that a turn brings itself, without files of secrets."""
    if "diff --git " in diff:
        diff = sections_among(diff, lambda path: not is_secret_file(path))
    return shown_diff(diff)


def _usable_task(text: str) -> str:
    """Return the task without space around it. Raises UsageError for an empty or huge one."""
    task = encodable_text(text).strip()
    if not task:
        raise UsageError(
            "the task is empty",
            hint='Write what you want to do, e.g. xscore ask "why does login fail twice?"',
        )
    if len(task) > MAX_TASK_CHARS:
        raise UsageError(
            f"the task has {len(task):,} characters; at most {MAX_TASK_CHARS:,} are accepted",
            hint="Put logs and traces into --errors, which keeps their end.",
        )
    return task


def _scope_in_root(
    scope: Scope, root: RepositoryRoot, indexed: Callable[[], Iterable[str]], *, task: str
) -> Scope:
    """Name what the scope lies within relative to the root.

    Raises UsageError for a path that is not there.
    """

    def files_and_folders() -> list[str]:
        files = list(indexed())
        folders: set[str] = set()
        for file in files:
            folders.update(f"{folder}/" for folder in PurePath(file).parents[:-1])
        return [*files, *folders]

    try:
        paths = [_path_in_root(path, root, files_and_folders) for path in scope.within]
        return replace(scope, within=tuple(paths))
    except UsageError as error:
        if " " in task:
            raise  # the task was quoted, so this is a path and no further word of it
        raise UsageError(
            error.message,
            hint=f"{error.hint} Put the question in quotes if it has several words.",
        ) from error


def _path_in_root(path: str, root: RepositoryRoot, indexed: Callable[[], Iterable[str]]) -> str:
    """Return a path relative to the root; it may be given so, absolute, or relative to the working
    folder."""
    as_given = Path(path)
    tried = [Path.cwd() / as_given, root.path / as_given]
    if as_given.is_absolute():
        tried = [as_given]
    real_root = root.path.resolve()
    for candidate in tried:
        real = Path(os.path.realpath(candidate))  # `resolve` raises for a loop of links
        if real.is_relative_to(real_root) and is_there(real):
            return portable_name(str(real.relative_to(real_root)))
    hint = did_you_mean(nearest_names(path, indexed()), "Give a path inside the repository.")
    if any(is_there(candidate) for candidate in tried):
        raise UsageError(f"{path} is outside {root.path}", hint=hint)
    raise UsageError(f"there is no `{path}` in {root.path}", hint=hint)


def _file_text(file: str, root: RepositoryRoot) -> str:
    """Read the current file for the answering model.

    Empty for a folder, a file of secrets or of git, and one that cannot be read.
    """
    if is_secret_file(file):
        return ""
    max_bytes = SCREENED_FACTOR * MAX_FILE_CHARS
    try:
        with opened_folder(root.path) as top:
            data = read_file_under(top, native_name(file), max_bytes=max_bytes, start_only=True)
    except (FileRefused, OSError):
        return ""
    text = redact(data.decode("utf-8", "replace")).text
    if len(text) <= MAX_FILE_CHARS:
        return text
    return text[:MAX_FILE_CHARS] + "\n… (file goes on)"
