"""Spans of a file's lines and their identity: what counts as the same lines, and where they stand now. Pure.

Line ends, blanks at the ends of lines, a byte order mark and the last line's end do not count: editors and git change
them by themselves. All else does, indentation too, which is meaning in some languages. Lines are bytes and are never
decoded (UTF-16 aside, which has no lines of bytes), so text of any other encoding can be cited. Trade-off: code that
was only laid out anew counts as changed; to know better one would have to parse it.

What a person cites, read and checked: `path:10-40`, `path:10`, `path` or `path::entity`, with the lines' hash.

A citation stays inside the repository, follows no link, and never names a file of secrets. It is not written here
(`memory.evidence`). Trade-off: an entity is looked up in the index, so one that was written a moment ago is known only
after the next index run; that is said, not guessed around.
"""

import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, read_file_under
from xscore.platform.hashing import file_digest
from xscore.platform.paths import STORE_DIR, RepositoryRoot, native_name, portable_name
from xscore.records import Citation
from xscore.store.redaction import is_safe_name, is_secret_file, redact

MAX_CITED_BYTES = 10_000_000
"""Larger files are not read for a citation."""
_FIRST = 8
"""Hex characters of the hash that stand for the first line alone."""
_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 8_192

LineSpan = tuple[int, int]
"""First and last line, 1-based, inclusive; (0, 0): the whole file."""
WHOLE_FILE: LineSpan = (0, 0)


class FileLines:
    """A file's lines, numbered as editors and the index number them."""

    def __init__(self, data: bytes) -> None:
        """Split a file's bytes. Raises ValueError for what is no text."""
        self.lines = _split_lines(data)
        self._starts: dict[str, list[int]] = {}

    def hash(self, span: LineSpan) -> str:
        """Identify the lines of a span: 8 characters of its first line, by which it is found again, and 24 of all."""
        chosen = self.lines if span == WHOLE_FILE else self.lines[span[0] - 1 : span[1]]
        return _first_line_hash(chosen[0] if chosen else b"") + file_digest(b"\n".join(chosen))[_FIRST:]

    def find(self, span: LineSpan, wanted: str) -> LineSpan | None:
        """Return where the span stands now: where it stood, else the one other place that holds the same lines.

        None: it is gone, was changed, or stands in several places of which none is the old one.
        """
        if self._has(span) and self.hash(span) == wanted:
            return span
        if span == WHOLE_FILE:
            return None
        length = span[1] - span[0]
        there = [(start, start + length) for start in self._starting(wanted[:_FIRST])]
        found = [place for place in there if self._has(place) and self.hash(place) == wanted]
        return found[0] if len(found) == 1 else None

    def _has(self, span: LineSpan) -> bool:
        return span[1] <= len(self.lines)

    def _starting(self, first: str) -> list[int]:
        """Lines whose hash begins a span's."""
        if not self._starts:
            for number, line in enumerate(self.lines, 1):
                self._starts.setdefault(_first_line_hash(line), []).append(number)
        return self._starts.get(first, [])


def _split_lines(data: bytes) -> list[bytes]:
    if data.startswith(_UTF16_MARKS):
        data = data.decode("utf-16").encode("utf-8")
    elif b"\0" in data[:_HEAD_BYTES]:
        raise ValueError("it is no text")
    data = data.removeprefix(_UTF8_MARK).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = [line.rstrip(b" \t") for line in data.split(b"\n")]
    if lines[-1] == b"":
        lines.pop()
    return lines


def _first_line_hash(line: bytes) -> str:
    return file_digest(line)[:_FIRST]


CITATION_FORMS = "Cite as path, path:LINE, path:FIRST-LAST or path::entity."
_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")
_REASONS = {"too_large": f"is larger than {MAX_CITED_BYTES // 1_000_000} MB", "not_a_file": "is no regular file"}
_PLACES_SHOWN = 5


def parse_citation(
    root: RepositoryRoot, cited: str, *, connection: sqlite3.Connection | None = None, base: Path | None = None
) -> Citation:
    """Read what is cited and hash its lines as they stand now.

    connection: of the store that knows the entities; None: entities cannot be cited. base: a folder inside the root
    from which a relative path is looked for first. Raises UsageError.
    """
    lines = _LINES.fullmatch(cited)
    if _exists(root, cited, base):
        return _cited(root, _located(root, cited, base), WHOLE_FILE)
    if lines is not None:
        first = int(lines["first"])
        path, span = _located(root, lines["path"], base), (first, int(lines["last"] or first))
        if span == WHOLE_FILE:
            raise UsageError(f"{cited} names no line", hint="Lines count from 1; both ends belong.")
        return _cited(root, path, span)
    given, colons, entity = cited.partition("::")
    if colons and given and entity:
        return _cited_entity(root, _located(root, given, base), entity, connection)
    return _cited(root, _located(root, cited, base), WHOLE_FILE)


def _cited(root: RepositoryRoot, path: str, span: LineSpan) -> Citation:
    text = FileLines(_read(root, path))
    if span != WHOLE_FILE and not 1 <= span[0] <= span[1] <= len(text.lines):
        raise UsageError(
            f"{path} has no lines {span[0]}-{span[1]}: it has {len(text.lines)}",
            hint="Lines count from 1; both ends belong.",
        )
    return Citation(path, *span, text.hash(span))


def _cited_entity(root: RepositoryRoot, path: str, entity: str, connection: sqlite3.Connection | None) -> Citation:
    if connection is None:
        raise UsageError(f"{path}::{entity} cannot be looked up without a store", hint="Name its lines: path:10-40.")
    if _indexed_hash(connection, path) != file_digest(_read(root, path)):
        raise UsageError(
            f"{path} is not in the index as it stands now", hint="Run `xscore index`, or name the lines: path:10-40."
        )
    places = connection.execute(
        "SELECT start_line, end_line FROM memory WHERE path = ? AND entity = ? AND source = 'index' AND start_line > 0"
        " ORDER BY start_line, end_line",
        (path, entity),
    ).fetchall()
    if len(places) != 1:
        raise UsageError(
            f"{path}::{entity} names {len(places) or 'no'} entities", hint=_which(connection, path, places)
        )
    return _cited(root, path, places[0])


def _which(connection: sqlite3.Connection, path: str, places: Sequence[tuple[int, int]]) -> str:
    if places:
        return f"Name its lines: {', '.join(f'{path}:{first}-{last}' for first, last in places[:_PLACES_SHOWN])}."
    rows = connection.execute(
        "SELECT DISTINCT entity FROM memory WHERE path = ? AND source = 'index' ORDER BY start_line LIMIT ?",
        (path, _PLACES_SHOWN),
    ).fetchall()
    return f"Some of that file: {', '.join(row[0] for row in rows)}." if rows else "Name its lines: path:10-40."


def _indexed_hash(connection: sqlite3.Connection, path: str) -> str:
    row = connection.execute("SELECT file_hash FROM file WHERE path = ? AND excluded = ''", (path,)).fetchone()
    return str(row[0]) if row else ""


def _located(root: RepositoryRoot, given: str, base: Path | None) -> str:
    """Name a path relative to the root, as the index writes it, and refuse what may not be cited."""
    names = _names(root, given, base)
    if not names:
        raise UsageError(f"{redact(given).text} is not inside {root.path}", hint="Cite a file of the repository.")
    name = next((name for name in names if os.path.lexists(root.path / name)), names[-1])
    path = portable_name(name)
    if path.partition("/")[0] in (".git", STORE_DIR):
        raise UsageError(f"{path} is no source of the repository", hint="Cite a file that people write.")
    if is_secret_file(path) or not is_safe_name(path):
        raise UsageError(f"{redact(path).text} is a file of secrets", hint="Cite the code that uses it.")
    return path


def _names(root: RepositoryRoot, given: str, base: Path | None) -> list[str]:
    """What a path may mean inside the root, likeliest first: from the base, from the root, as listings write it."""
    if "\0" in given:
        return []
    folders = [folder for folder in (base, root.path) if folder is not None]
    tried = [
        os.path.normpath(folder / form) for form in dict.fromkeys((given, native_name(given))) for folder in folders
    ]
    inside = [_inside(name, root) for name in tried]
    return [name for name in dict.fromkeys(inside) if name]


def _inside(name: str, root: RepositoryRoot) -> str:
    given = Path(name)
    for known in (given, given.parent.resolve() / given.name):
        relative = os.path.relpath(known, root.path)
        if relative != "." and relative.partition("/")[0] != "..":
            return relative
    return ""


def _exists(root: RepositoryRoot, given: str, base: Path | None) -> bool:
    return any(os.path.lexists(root.path / name) for name in _names(root, given, base))


def _read(root: RepositoryRoot, path: str) -> bytes:
    top = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        data = read_file_under(top, native_name(path), max_bytes=MAX_CITED_BYTES)
        FileLines(data)
    except (FileRefused, OSError, ValueError) as error:
        what = _reason(error)
        raise UsageError(f"{path} cannot be cited: it {what}", hint=CITATION_FORMS) from error
    finally:
        os.close(top)
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, FileRefused):
        return _REASONS.get(str(error), str(error))
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, PermissionError):
        return "may not be read"
    return "is a link, or lies behind one" if isinstance(error, OSError) else "is no text"
