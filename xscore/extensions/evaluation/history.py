"""The commits of a repository as git tells them: message, date, and the files that each changed.

One call reads the list, one more the contents that are asked for; nothing is checked out, and
nothing is fetched. Merges are left out. Trade-off: for a rename git tells a file removed and a
file added.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from xscore.platform.files import leads_out
from xscore.platform.git import run_git
from xscore.platform.git_log import LogEntry, read_log

HISTORY_TIMEOUT_S = 120
MAX_MESSAGE_CHARS = 20_000
"""Longest message read; the rest of a longer one is dropped."""
_HEAD_FIELDS = 5
"""Number of fields before a path: two modes, two ids and the status."""
_BLOBS_A_CALL = 500


class CommittedFile(Struct, frozen=True):
    """A file that a commit changed."""

    path: str
    status: str
    """`A` added, `D` deleted, `M` modified, `T` changed its type."""
    old: str
    """Id of the content before the commit; zeros: there was none."""
    new: str
    is_regular: bool
    """Whether it is a plain file before and after, not a link or submodule."""


class HistoryCommit(Struct, frozen=True):
    """A commit that is not a merge."""

    id: str
    parent: str
    """Id of the parent; empty: the first commit, or the last that a shallow clone has."""
    at: int
    """Unix seconds."""
    message: str
    files: tuple[CommittedFile, ...]

    @property
    def date(self) -> str:
        """The day, in UTC; empty if it is outside the calendar."""
        try:
            return datetime.fromtimestamp(self.at, UTC).date().isoformat()
        except (OverflowError, ValueError, OSError):
            return ""

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0]


def list_commits(root: Path, *, limit: int, since: float | None = None) -> list[HistoryCommit]:
    """Return the newest commits of HEAD, newest first; none without git or without a commit.

    since: Unix seconds; None: from the beginning.
    """
    options = [
        f"-n{limit}",
        "--no-merges",
        "--no-renames",
        "--raw",
        "--no-abbrev",
        "--relative",
    ]
    options += ["--no-ext-diff", "--no-textconv"]
    if since is not None:
        options.append(f"--max-age={int(since)}")
    entries = read_log(root, *options, revisions=("HEAD",), timeout_s=HISTORY_TIMEOUT_S) or []
    return [_commit(entry) for entry in entries]


def read_contents(root: Path, ids: Iterable[str], *, max_bytes: int) -> Mapping[str, bytes]:
    """Return contents by id. What is larger, missing or not a file's content is left out."""
    contents: dict[str, bytes] = {}
    unique = list(dict.fromkeys(ids))
    for first in range(0, len(unique), _BLOBS_A_CALL):
        small = _small_blobs(root, unique[first : first + _BLOBS_A_CALL], max_bytes)
        contents.update(_parse_batch(_ask(root, "--batch", small)))
    return contents


def _small_blobs(root: Path, ids: Iterable[str], max_bytes: int) -> list[str]:
    """Return those that git has, that are contents of files, and that are not larger."""
    small: list[str] = []
    for line in _ask(root, "--batch-check", ids).decode("ascii", "replace").splitlines():
        identifier, _, rest = line.partition(" ")
        if rest.startswith("blob ") and int(rest[5:]) <= max_bytes:
            small.append(identifier)
    return small


def _ask(root: Path, mode: str, ids: Iterable[str]) -> bytes:
    lines = "".join(f"{identifier}\n" for identifier in ids)
    if not lines:
        return b""
    printed = run_git(root, "cat-file", mode, stdin=lines, timeout_s=HISTORY_TIMEOUT_S)
    return (printed or "").encode("utf-8", "surrogateescape")


def _parse_batch(printed: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield id and content of what `cat-file --batch` printed."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        identifier, *kind = printed[at:end].decode("ascii", "replace").split(" ")
        at = end + 1
        if len(kind) == 2:
            size = int(kind[1])
            yield identifier, printed[at : at + size]
            at += size + 1


def _commit(entry: LogEntry) -> HistoryCommit:
    return HistoryCommit(
        id=entry.hash,
        parent=entry.parents[0] if entry.parents else "",
        at=entry.at or 0,
        message=_cut(entry.message).encode("utf-8", "replace").decode("utf-8"),
        files=tuple(_changes(entry.file_fields)),
    )


def _cut(message: str) -> str:
    """Return the beginning of a message without the word that the cut goes through: it may be a
    secret, and half a secret is not recognized."""
    if len(message) <= MAX_MESSAGE_CHARS:
        return message
    return re.sub(r"\S+\Z", "", message[:MAX_MESSAGE_CHARS])


def _changes(file_fields: Iterable[str]) -> Iterator[CommittedFile]:
    """Yield the files of a commit: `:modes ids STATUS`, then the path."""
    fields = iter(file_fields)
    for head in fields:
        values = head.removeprefix(":").split(" ")
        path = next(fields, "")
        if len(values) != _HEAD_FIELDS:
            continue
        old_mode, new_mode, old, new, status = values
        if path and not leads_out(path):
            modes = {old_mode, new_mode} - {"000000"}
            is_regular = all(mode.startswith("100") for mode in modes)
            yield CommittedFile(path, status[:1], old, new, is_regular)
