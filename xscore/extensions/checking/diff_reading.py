"""Read a unified diff of git or `diff -u`, without trusting its author.

A hunk is read by the counts in its head, so that a line of its text cannot pass for a file's head.
Names that lead out of the root contribute nothing; the text of files that exist to hold secrets is
dropped. Work is bounded: files and lines are counted, and long lines are cut. Trade-off: what
lies beyond these bounds is not looked at, since a change of that size says nothing about one file.
"""

import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from xscore.extensions.checking.records import Change, ChangeStatus, FileChange, LineSpan
from xscore.platform.files import leads_out
from xscore.platform.paths import portable_name
from xscore.store.redaction import is_safe_name, is_secret_file

MOST_FILES = 2_000
MOST_LINES = 40_000
"""Changed lines that are kept of a whole diff."""
MOST_SPANS = 1_000
"""Changed places of one file."""
LONGEST_LINE = 400
MAX_PATCH_CHARS = 100_000
"""Longest diff that a model may be shown; it is cut again."""
_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_GIT_HEAD = "diff --git "
_PREFIX = re.compile(r"(?:[abciow12]/)")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_CONTROL = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f"}
_CONTROL[b"r"] = b"\r"
_NOWHERE = "/dev/null"


def read_diff(text: str, *, base: str = "", messages: tuple[str, ...] = ()) -> Change:
    """Return the change that a diff makes.

    What comes before its first file, as in `git show`, counts as a commit message.
    """
    reader = _DiffReader()
    reader.read(iter(text.split("\n")))
    preamble = "\n".join(reader.preamble)
    if preamble.strip():
        messages = (*messages, preamble)
    files = tuple(reader.files.values())
    return Change(
        files=files,
        base=base,
        messages=messages,
        left_out=reader.left_out,
        patch=text[:MAX_PATCH_CHARS],
    )


class _FileHead:
    """What the lines above the first hunk say about a file."""

    def __init__(self, git_names: str) -> None:
        self.git_names = git_names
        self.old = self.new = ""
        self.is_renamed = self.is_added = self.is_deleted = False

    def note(self, line: str) -> None:
        """Read one line of the head."""
        word, _, rest = line.partition(" ")
        if word == "---":
            self.old = _file_name(rest)
        elif word == "+++":
            self.new = _file_name(rest)
        elif line.startswith(("rename from ", "copy from ")):
            self.old = _unquoted(line.partition(" from ")[2])
            self.is_renamed = line.startswith("rename")
        elif line.startswith(("rename to ", "copy to ")):
            self.new = _unquoted(line.partition(" to ")[2])
        elif line.startswith("new file mode "):
            self.is_added = True
        elif line.startswith("deleted file mode "):
            self.is_deleted = True

    def names(self) -> tuple[str, str]:
        """Return the old and the new name; empty where there is no such file."""
        old = self.old
        new = self.new
        if not (old or new):
            # A change of the mode, a binary or an empty file: only the first line has the name.
            old = new = _common_name(self.git_names)
        old = "" if old == _NOWHERE or self.is_added else old
        new = "" if new == _NOWHERE or self.is_deleted else new
        return old, new


class _FileBody(Struct):
    """What the hunks of a file change."""

    added: list[str] = []
    removed: list[str] = []
    spans: list[LineSpan] = []
    """Changed lines as they are numbered after the change, in their order."""


class _DiffReader:
    """A diff that is being read."""

    def __init__(self) -> None:
        self.files: dict[str, FileChange] = {}
        self.preamble: list[str] = []
        self.left_out = 0
        self.lines_left = MOST_LINES

    def read(self, lines: Iterator[str]) -> None:
        """Read to the end."""
        head: _FileHead | None = None
        body = _FileBody()
        for line in lines:
            is_git_head = line.startswith(_GIT_HEAD)
            # `diff -u` has no line of its own before the two names.
            is_plain_head = line.startswith("--- ") and (head is None or bool(head.new))
            if is_git_head or is_plain_head:
                self._keep(head, body)
                head = _FileHead(line.removeprefix(_GIT_HEAD) if is_git_head else "")
                body = _FileBody()
            hunk = _HUNK.match(line)
            if head is None:
                self.preamble.append(line[:LONGEST_LINE])
            elif hunk is None:
                head.note(line)
            else:
                self._read_hunk(lines, hunk, body)
        self._keep(head, body)

    def _read_hunk(self, lines: Iterator[str], hunk: re.Match[str], body: _FileBody) -> None:
        """Read the lines that the head of a hunk counts; a count that is left out is 1."""
        old_left = int(hunk[1] or 1)
        at = int(hunk[2])
        new_left = int(hunk[3] or 1)
        while old_left > 0 or new_left > 0:
            line = next(lines, None)
            if line is None:
                return
            mark = line[:1]
            if mark == "+":
                body.spans.append((at, at))
                self._keep_line(body.added, line)
                at = at + 1
                new_left = new_left - 1
            elif mark == "-":
                # Removed lines count as a change of the two lines around them.
                body.spans.append((max(at - 1, 1), at))
                self._keep_line(body.removed, line)
                old_left -= 1
            elif mark != "\\":
                at = at + 1
                old_left = old_left - 1
                new_left = new_left - 1

    def _keep_line(self, kept: list[str], line: str) -> None:
        if self.lines_left > 0:
            kept.append(line[1 : LONGEST_LINE + 1])
            self.lines_left -= 1

    def _keep(self, head: _FileHead | None, body: _FileBody) -> None:
        """Keep a file that was read to its end. head: None: it is what comes before the first."""
        if head is None:
            return
        if not (head.git_names or (head.old and head.new)):
            return  # a line of prose that begins as the head of a file does
        old, new = head.names()
        path = new or old
        if not path or len(self.files) >= MOST_FILES or not all(map(_is_usable, (path, old))):
            self.left_out += 1
            return
        if is_secret_file(path) or is_secret_file(old):
            body = _FileBody()
        before = portable_name(old) if head.is_renamed and old != new else ""
        status = ChangeStatus.RENAMED if before else ChangeStatus.MODIFIED
        if not old:
            status = ChangeStatus.ADDED
        elif not new:
            status = ChangeStatus.DELETED
        name = portable_name(path)
        self.files[name] = FileChange(
            path=name,
            status=status,
            before=before,
            added=tuple(body.added),
            removed=tuple(body.removed),
            spans=tuple(islice(_joined(body.spans), MOST_SPANS)),
        )


def _is_usable(name: str) -> bool:
    """Whether a name, which may be empty, stays in the root and holds no secret."""
    return not leads_out(name) and "\n" not in name and is_safe_name(name)


def _file_name(rest: str) -> str:
    """Return the name after `---` or `+++`, without the prefix and the time that may follow."""
    if rest.startswith('"'):
        name = _unquoted(rest)
    else:
        name = rest.partition("\t")[0].rstrip("\r")
    if name == _NOWHERE:
        return name
    return _without_prefix(name)


def _without_prefix(name: str) -> str:
    prefix = _PREFIX.match(name)
    if prefix:
        return name[prefix.end() :]
    return name


def _common_name(names: str) -> str:
    """Return the name in `a/NAME b/NAME`; empty if the two differ."""
    if names.startswith('"'):
        return _without_prefix(_unquoted(names))
    middle = len(names) // 2
    first = _without_prefix(names[:middle])
    second = _without_prefix(names[middle + 1 :])
    return first if first == second else ""


def _unquoted(name: str) -> str:
    """Undo the quotes that git puts around a name with odd characters."""
    name = name.rstrip("\r")
    if not name.startswith('"'):
        return name
    body = re.match(r'"((?:[^"\\]|\\.)*)"', name)
    if body is None:
        return ""
    data = body[1].encode("utf-8", "surrogatepass")
    return _ESCAPE.sub(_unescaped, data).decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if len(escape) == 3:
        return bytes([int(escape, 8) & 0xFF])
    return _CONTROL.get(escape, escape)


def _joined(spans: list[LineSpan]) -> Iterator[LineSpan]:
    """Join spans that touch."""
    first = 0
    last = -1
    for start, end in spans:
        if last >= 0 and start <= last + 1:
            last = max(last, end)
            continue
        if last >= 0:
            yield first, last
        first, last = start, end
    if last >= 0:
        yield first, last
