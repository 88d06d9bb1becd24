"""Read many commits with one git command: message, author, date, files; and where their hunks are.

`read_log` is the one reader of logs; who needs more of the files than their names reads the fields
that git prints of them. Fields end with NUL, which neither a message nor a name can contain, so no
text of a commit can pass for another one. It decides nothing of what a commit says. Trade-off: the
output is read whole up to `MOST_BYTES`; commits beyond it are as if they were not asked for.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from xscore.platform.files import leads_out
from xscore.platform.git import TIMEOUT_S, run_git
from xscore.platform.text import readable_text

MOST_BYTES = 64_000_000
"""Most bytes read of one log: 10,000 usual commits take 3 MB."""
MOST_PATCH_BYTES = 4_000_000
"""Most bytes of the patches that are searched for hunk heads."""
PATCH_S = 0.5
"""Seconds that reading patches may take."""
MOST_FILES = 40
"""Most files kept of a commit."""
MOST_MESSAGE_CHARS = 40_000
"""Longest message: what is longer is cut before anything looks at it."""

_FIELDS = ("%H", "%P", "%ct", "%an", "%ae", "%B")
_FORMAT = f"--format={'%x00'.join(('', *_FIELDS, ''))}"
_PATCH_FORMAT = "--format=%x00%H%x00"
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SECONDS = re.compile(r"-?\d{1,18}", re.ASCII)
"""Matches the seconds of a date; no real one has more digits."""
_HUNK_HEAD = re.compile(r"^@@ [^@\n]{1,80} @@ (.{1,200})", re.MULTILINE)
"""Matches `@@ -3,2 +3,4 @@ def total(order):`, with what git takes for the head of the function
around it."""
_CUT_HEAD_BYTES = 76
"""Length of a head from which on git probably cut it: git keeps 80 bytes and no half
character."""


class LogEntry(Struct, frozen=True, kw_only=True):
    """A commit as git prints it, byte for byte."""

    hash: str
    parents: tuple[str, ...]
    at: int | None
    """When it was committed, in Unix seconds, which may be negative; None if it is no real
    date."""
    author: str
    email: str
    message: str
    file_fields: tuple[str, ...]
    """Fields of a file that the options have git print; a merge has none."""

    @property
    def committed_at(self) -> float:
        """When it was committed, in Unix seconds; 0 where that is no date since 1970."""
        return max(0.0, float(self.at or 0))


class LoggedCommit(Struct, frozen=True, kw_only=True):
    """A commit with the names of its files, readable."""

    hash: str
    parents: int
    at: float
    """When it was committed, in Unix seconds."""
    author: str
    email: str
    message: str
    files: tuple[str, ...] = ()
    """The first files that it changed, as git writes paths; a merge has none."""
    file_count: int = 0


class TouchedFile(NamedTuple):
    """A file, and the newest commit that touched it."""

    path: str
    """Path as git writes it."""
    commit: LogEntry


class PastCommit(NamedTuple):
    """When a commit was made, and the files that it touched under the names that they have now."""

    committed_at: int
    """Unix seconds."""
    files: tuple[str, ...]


def read_log(
    root: Path,
    *options: str,
    revisions: Sequence[str],
    paths: Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> list[LogEntry] | None:
    """Return the commits that these revisions reach, newest first; None if git fails.

    options: of `git log`: how many, and what of their files.
    revisions: full hashes, names of ours, or `^` and one for what is left out.
    """
    command = ("log", "-z", "--encoding=UTF-8", "--no-color", _FORMAT, *options)
    after = ("--ignore-missing", "--end-of-options", *revisions, "--", *paths)
    printed = run_git(root, *command, *after, timeout_s=timeout_s, most_bytes=MOST_BYTES)
    if printed is None:
        return None
    return _parsed(printed)


def _parsed(printed: str) -> list[LogEntry]:
    """Return the commits of a log whose fields end with NUL; what was cut off at its end is left
    out."""
    fields = printed.split("\0")
    entries: list[LogEntry] = []
    place = 1
    while place + len(_FIELDS) < len(fields):
        hash_, parents, at, author, email, message = fields[place : place + len(_FIELDS)]
        if not _HASH.fullmatch(hash_):
            break
        # An empty field ends the list of files; where there is none, it takes its place.
        place += len(_FIELDS) + 1
        file_fields: list[str] = []
        while place < len(fields) and fields[place]:
            file_fields.append(fields[place].removeprefix("\n"))
            place += 1
        place += 1
        entry = LogEntry(
            hash=hash_,
            parents=tuple(parents.split()),
            at=int(at) if _SECONDS.fullmatch(at) else None,
            author=author,
            email=email,
            message=message,
            file_fields=tuple(file_fields),
        )
        entries.append(entry)
    return entries


def read_commits(
    root: Path, revisions: Sequence[str], *, limit: int, timeout_s: float = TIMEOUT_S
) -> list[LoggedCommit] | None:
    """Return the newest commits that these revisions reach, newest first; None if git fails.

    revisions: full hashes, or `^` and one for what is left out.
    """
    # A clone without trees has messages all the same.
    for files in (("--name-only", "--no-renames"), ("--no-patch",)):
        entries = read_log(root, f"-n{limit}", *files, revisions=revisions, timeout_s=timeout_s)
        if entries is not None:
            return [_with_names(entry) for entry in entries]
    return None


def _with_names(entry: LogEntry) -> LoggedCommit:
    inside = [name for name in entry.file_fields if not leads_out(name)]
    return LoggedCommit(
        hash=entry.hash,
        parents=len(entry.parents),
        at=entry.committed_at,
        author=readable_text(entry.author),
        email=entry.email,
        message=readable_text(entry.message[:MOST_MESSAGE_CHARS]),
        files=tuple(map(readable_text, inside[:MOST_FILES])),
        file_count=len(inside),
    )


def recent_commits(
    root: Path, *, commits: int = 30, at: str = "HEAD"
) -> tuple[TouchedFile, ...]:
    """Return the files that the newest commits touched, newest first, each path once.

    at: a commit; the newest is this one.
    """
    form = ("--no-merges", "--relative", "--name-only")
    entries = read_log(root, f"-n{commits}", *form, revisions=(at,)) or []
    newest: dict[str, LogEntry] = {}
    for entry in entries:
        for path in entry.file_fields:
            if not leads_out(path):
                newest.setdefault(path, entry)
    return tuple(TouchedFile(path, entry) for path, entry in newest.items())


def commits_with_files(root: Path, at: str, *, limit: int) -> tuple[PastCommit, ...]:
    """Return the newest commits that `at` contains, newest first, merges left out.

    A file that was renamed is followed back, so that it has one name in all of them.
    """
    form = ("--no-merges", "--relative", "--name-status", "-M", "-l200")
    entries = read_log(root, f"-n{limit}", *form, revisions=(at,), paths=(".",)) or []
    later_name: dict[str, str] = {}
    commits: list[PastCommit] = []
    for entry in entries:
        files = _present_names(iter(entry.file_fields), later_name)
        if entry.at is not None and entry.at >= 0:
            commits.append(PastCommit(entry.at, tuple(files)))
    return tuple(commits)


def _present_names(fields: Iterator[str], later_name: dict[str, str]) -> list[str]:
    """Return the files of a commit by their present names; note what it renamed."""
    files: list[str] = []
    for status in fields:
        name = next(fields, "")
        if status[0] in "RC":
            before = name
            name = next(fields, "")
            if status[0] == "R":
                later_name[before] = later_name.get(name, name)
        if name and not leads_out(name):
            files.append(later_name.get(name, name))
    return files


def hunk_heads(root: Path, hashes: Iterable[str], *, limit: int) -> dict[str, tuple[str, ...]]:
    """Return the heads of the hunks of these commits, each once: hash -> `def total(order):`.

    limit: how many of a commit are kept. Commits beyond the bounds of bytes and time have none.
    """
    # Both name a program of the repository's choice.
    safe = (
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--no-color",
        "--no-walk=unsorted",
    )
    printed = run_git(
        root,
        "log",
        *("--patch", "--unified=0", "--no-merges", "--encoding=UTF-8", _PATCH_FORMAT, *safe),
        *("--ignore-missing", "--end-of-options", *hashes, "--"),
        timeout_s=PATCH_S,
        most_bytes=MOST_PATCH_BYTES,
    )
    heads: dict[str, tuple[str, ...]] = {}
    # A patch may contain NUL only if git takes the file for text; what follows is then no hash.
    fields = (printed or "").split("\0")
    for hash_, patch in zip(fields[1::2], fields[2::2], strict=False):
        if _HASH.fullmatch(hash_):
            lines = map(_whole_words, _HUNK_HEAD.findall(patch))
            heads[hash_] = tuple(dict.fromkeys(line for line in lines if line))[:limit]
    return heads


def _whole_words(head: str) -> str:
    """Return a head without the word that git cut through: it may be a secret, and half a
    secret is not recognized."""
    if len(head.encode("utf-8", "surrogateescape")) >= _CUT_HEAD_BYTES:
        head = re.sub(r"\S+\Z", "", head)
    return readable_text(head).strip()


def is_ancestor(root: Path, earlier: str, later: str) -> bool:
    """Whether a commit is reached from another; False if git does not know one of them."""
    return run_git(root, "merge-base", "--is-ancestor", earlier, later) is not None
