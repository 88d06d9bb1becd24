"""What git says of the moment: the uncommitted change, the lines it touches, and which files changed lately.

The change is shown to the answering model, so only files that the index admits are in it: not what is excluded by a
glob, by its class or by its content, and no file of secrets. A deleted file is judged by its name alone. Trade-off:
new files that git does not track yet are no part of the change.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.indexer.discovery import AdmissionRules
from xscore.platform.git import recent_commits, working_diff
from xscore.platform.paths import RepositoryRoot, native_name, portable_name
from xscore.records.turn import ChangedFile
from xscore.store.index_rows import file_languages
from xscore.store.redaction import redact

if TYPE_CHECKING:
    from xscore.settings import IndexSettings

MAX_DIFF_CHARS = 20_000
SCREENED_FACTOR = 4
"""Scan this many times the shown length for secrets."""
MAX_RECENT_DAYS = 30.0
SECONDS_PER_DAY = 86_400.0
_SECTION = re.compile(r"^(?=diff --git )", re.MULTILINE)
_NAMES = re.compile(r'^(?:---|\+\+\+|rename from|rename to|copy from|copy to) "?(?:[ab]/)?(.+?)"?\t?$', re.MULTILINE)
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")


class UncommittedWork(Struct, frozen=True):
    """The state of the working tree."""

    diff: str = ""
    """Of admitted files, redacted and cut to what a prompt shows."""
    changed: tuple[ChangedFile, ...] | None = None
    """None: git is not asked here."""


def uncommitted_work(
    connection: sqlite3.Connection, root: RepositoryRoot, settings: "IndexSettings", *, now: float
) -> UncommittedWork:
    """Ask git for the change since HEAD and for the files of recent commits. now: Unix seconds."""
    if not (settings.git and root.is_git):
        return UncommittedWork()
    known, rules = file_languages(connection), AdmissionRules(settings)

    def is_admitted(path: str) -> bool:
        is_deleted = not (root.path / native_name(path)).exists()
        return path in known or (is_deleted and not rules.refusal_by_path(path))

    diff = sections_among(working_diff(root.path), is_admitted)
    ages = {portable_name(path): max(0.0, now - at) / SECONDS_PER_DAY for at, path in recent_commits(root.path)}
    lines = edited_lines(diff)
    edited = [ChangedFile(path, 0.0, tuple(spans)) for path, spans in lines.items()]
    recent = [ChangedFile(path, days) for path, days in ages.items() if days <= MAX_RECENT_DAYS and path not in lines]
    return UncommittedWork(shown_diff(diff), (*edited, *recent))


def changes_until(
    root: RepositoryRoot, settings: "IndexSettings", edited: Iterable[ChangedFile], moment: float
) -> tuple[ChangedFile, ...] | None:
    """Return what had changed when a past turn was asked: what was uncommitted then, and the commits until then.

    moment: Unix seconds.
    """
    if not (settings.git and root.is_git):
        return None
    found = {one.path: one for one in edited}
    for at, path in recent_commits(root.path):
        days, name = (moment - at) / SECONDS_PER_DAY, portable_name(path)
        if 0 <= days <= MAX_RECENT_DAYS:
            found.setdefault(name, ChangedFile(name, days))
    return tuple(found.values())


def shown_diff(diff: str) -> str:
    """Redact a diff and cut it; more than is shown is screened, so that the cut hides no half of a secret."""
    return redact(diff[: SCREENED_FACTOR * MAX_DIFF_CHARS]).text[:MAX_DIFF_CHARS]


def sections_among(diff: str, is_admitted: Callable[[str], bool]) -> str:
    """Keep the files of a unified diff whose names, old and new, are all admitted; a part without a name is dropped."""
    return "".join(part for part in _SECTION.split(diff) if (names := _names(part)) and all(map(is_admitted, names)))


def _names(section: str) -> list[str]:
    head = section.partition("\n@@")[0]
    return [portable_name(name) for name in _NAMES.findall(head) if name != "/dev/null"]


def edited_lines(diff: str) -> Mapping[str, list[tuple[int, int]]]:
    """Return the changed lines of each file of a unified diff, as they are numbered after the change.

    Lines that were only removed count as an edit of the two lines around them.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for section in _SECTION.split(diff):
        names, (_, *hunks) = _names(section), re.split(r"^(?=@@ )", section, flags=re.MULTILINE)
        if names and hunks and "\n+++ /dev/null" not in section.partition("\n@@")[0]:
            found[names[-1]] = [span for hunk in hunks for span in _edits_of(hunk.split("\n"))]
    return found


def _edits_of(hunk: Iterable[str]) -> list[tuple[int, int]]:
    header, *lines = hunk
    begins = _HUNK.match(header)
    if begins is None:
        return []
    at, spans = int(begins[1]), list[tuple[int, int]]()
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
