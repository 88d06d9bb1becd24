"""What a person cites, read and checked: `path:10-40`, `path:10`, `path` or `path::entity`, with the lines' hash.

A citation stays inside the repository, follows no link, and never names a file of secrets. It is not written here
(`memory.evidence`). Trade-off: an entity is looked up in the index, so one that was written a moment ago is known only
after the next index run; that is said, not guessed around.
"""

import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from xscore.errors import UsageError
from xscore.files import Refused, read_bytes
from xscore.hashing import file_digest
from xscore.memory import spans
from xscore.memory.secrets.redact import is_secret_file, may_be_named, redact
from xscore.paths import STORE_DIR, Root, native, portable
from xscore.records import Citation

FORMS = "Cite as path, path:LINE, path:FIRST-LAST or path::entity."
_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")
_REASONS = {"too_large": f"is larger than {spans.MAX_BYTES // 1_000_000} MB", "not_a_file": "is no regular file"}
_PLACES_SHOWN = 5


def cite(root: Root, cited: str, *, connection: sqlite3.Connection | None = None, base: Path | None = None) -> Citation:
    """Read what is cited and hash its lines as they stand now.

    connection: of the store that knows the entities; None: entities cannot be cited. base: a folder inside the root
    from which a relative path is looked for first. Raises UsageError.
    """
    lines = _LINES.fullmatch(cited)
    if _exists(root, cited, base):
        return _cited(root, _located(root, cited, base), spans.WHOLE)
    if lines is not None:
        first = int(lines["first"])
        path, span = _located(root, lines["path"], base), (first, int(lines["last"] or first))
        if span == spans.WHOLE:
            raise UsageError(f"{cited} names no line", hint="Lines count from 1; both ends belong.")
        return _cited(root, path, span)
    given, colons, entity = cited.partition("::")
    if colons and given and entity:
        return _cited_entity(root, _located(root, given, base), entity, connection)
    return _cited(root, _located(root, cited, base), spans.WHOLE)


def _cited(root: Root, path: str, span: spans.Lines) -> Citation:
    text = spans.Text(_read(root, path))
    if span != spans.WHOLE and not 1 <= span[0] <= span[1] <= len(text.lines):
        raise UsageError(
            f"{path} has no lines {span[0]}-{span[1]}: it has {len(text.lines)}",
            hint="Lines count from 1; both ends belong.",
        )
    return Citation(path, *span, text.hash(span))


def _cited_entity(root: Root, path: str, entity: str, connection: sqlite3.Connection | None) -> Citation:
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


def _located(root: Root, given: str, base: Path | None) -> str:
    """Name a path relative to the root, as the index writes it, and refuse what may not be cited."""
    names = _names(root, given, base)
    if not names:
        raise UsageError(f"{redact(given).text} is not inside {root.path}", hint="Cite a file of the repository.")
    name = next((name for name in names if os.path.lexists(root.path / name)), names[-1])
    path = portable(name)
    if path.partition("/")[0] in (".git", STORE_DIR):
        raise UsageError(f"{path} is no source of the repository", hint="Cite a file that people write.")
    if is_secret_file(path) or not may_be_named(path):
        raise UsageError(f"{redact(path).text} is a file of secrets", hint="Cite the code that uses it.")
    return path


def _names(root: Root, given: str, base: Path | None) -> list[str]:
    """What a path may mean inside the root, likeliest first: from the base, from the root, as listings write it."""
    if "\0" in given:
        return []
    folders = [folder for folder in (base, root.path) if folder is not None]
    tried = [os.path.normpath(folder / form) for form in dict.fromkeys((given, native(given))) for folder in folders]
    inside = [_inside(name, root) for name in tried]
    return [name for name in dict.fromkeys(inside) if name]


def _inside(name: str, root: Root) -> str:
    given = Path(name)
    for known in (given, given.parent.resolve() / given.name):
        relative = os.path.relpath(known, root.path)
        if relative != "." and relative.partition("/")[0] != "..":
            return relative
    return ""


def _exists(root: Root, given: str, base: Path | None) -> bool:
    return any(os.path.lexists(root.path / name) for name in _names(root, given, base))


def _read(root: Root, path: str) -> bytes:
    top = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        data = read_bytes(top, native(path), max_bytes=spans.MAX_BYTES)
        spans.Text(data)
    except (Refused, OSError, ValueError) as error:
        what = _reason(error)
        raise UsageError(f"{path} cannot be cited: it {what}", hint=FORMS) from error
    finally:
        os.close(top)
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, Refused):
        return _REASONS.get(str(error), str(error))
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, PermissionError):
        return "may not be read"
    return "is a link, or lies behind one" if isinstance(error, OSError) else "is no text"
