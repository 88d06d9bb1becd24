"""What a user cites, as a citation: `path:10-40`, `path:10`, `path` or `path::entity`.

A citation keeps the hash of its lines as they are now, never the lines. Trade-off: an entity
can be cited only while the index has its file as it is now.
"""

import os
import re
import sqlite3
from pathlib import Path

from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, leads_out, opened_folder, read_file_under
from xscore.platform.hashing import file_digest
from xscore.platform.paths import STORE_DIR, RepositoryRoot, native_name, portable_name
from xscore.records.memory import Citation
from xscore.store.cited_lines import MAX_CITED_BYTES, WHOLE_FILE, FileLines, LineSpan
from xscore.store.memory_queries import entity_spans
from xscore.store.redaction import is_safe_name, is_secret_file, redact

_LINES = r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?"
_FORMS_HINT = "Cite as path, path:LINE, path:FIRST-LAST or path::entity."
_LINES_HINT = "Lines count from 1; both ends are included."
_REFUSED = {
    "too_large": f"is larger than {MAX_CITED_BYTES // 1_000_000} MB",
    "not_a_file": "is not a regular file",
    "FileNotFoundError": "is not there",
    "PermissionError": "may not be read",
    "ValueError": "is not valid text",
}
"""Why a file cannot be cited, by the message or the type of the error."""
_SHOWN = 5


def parse_citation(
    root: RepositoryRoot,
    cited: str,
    *,
    connection: sqlite3.Connection | None = None,
    base: Path | None = None,
) -> Citation:
    """Parse a citation and hash its lines as they are now.

    connection: that of the store that knows the entities; None: entities cannot be cited.
    base: a folder inside the root where a relative path is looked up first.
    Raises UsageError.
    """
    place = cited
    span = WHOLE_FILE
    entity = ""
    name = _name_inside(root, cited, base)
    if not (name and os.path.lexists(root.path / name)):
        if lines := re.fullmatch(_LINES, cited):
            place = lines["path"]
            first = int(lines["first"])
            span = (first, int(lines["last"] or first))
            if span == WHOLE_FILE:
                raise UsageError(f"{cited} names no line", hint=_LINES_HINT)
        elif re.fullmatch(".+::.+", cited):
            place, _, entity = cited.partition("::")
    path = _checked_path(root, place, base)
    data, text = _read(root, path)
    if entity:
        span = _entity_span(connection, path, entity, file_digest(data))
    if span != WHOLE_FILE and not 1 <= span[0] <= span[1] <= len(text.lines):
        raise UsageError(
            f"{path} has no lines {span[0]}-{span[1]}: it has {len(text.lines)}",
            hint=_LINES_HINT,
        )
    return Citation(path, *span, text.hash(span))


def _entity_span(
    connection: sqlite3.Connection | None, path: str, entity: str, file_hash: str
) -> LineSpan:
    if connection is None:
        raise UsageError(
            f"{path}::{entity} cannot be looked up without a store",
            hint="Name its lines: path:10-40.",
        )
    indexed = connection.execute(
        "SELECT file_hash FROM file WHERE path = ? AND excluded = ''", (path,)
    ).fetchone()
    if indexed != (file_hash,):
        state = "is not in the index" if indexed is None else "has changed since it was indexed"
        raise UsageError(
            f"{path} {state}",
            hint="Run `xscore index`, or name the lines: path:10-40.",
        )
    spans = entity_spans(connection, path)
    places = [(span.start_line, span.end_line) for span in spans if span.entity == entity]
    if len(places) == 1:
        return places[0]
    names = dict.fromkeys(span.entity for span in spans[:_SHOWN])
    hint = f"Entities in that file: {', '.join(names)}."
    if places:
        hint = (
            "Name its lines:"
            f" {', '.join(f'{path}:{first}-{last}' for first, last in places[:_SHOWN])}."
        )
    raise UsageError(f"{path}::{entity} names {len(places) or 'no'} entities", hint=hint)


def _checked_path(root: RepositoryRoot, place: str, base: Path | None) -> str:
    """Return the path as the index writes it, or refuse a file that may not be cited."""
    name = _name_inside(root, place, base)
    if not name:
        raise UsageError(
            f"{redact(place).text} is not inside {root.path}",
            hint="Cite a file of the repository.",
        )
    path = portable_name(name)
    if path.partition("/")[0] == STORE_DIR or leads_out(path):
        raise UsageError(
            f"{path} is not a source file of the repository",
            hint="Cite a file that people write.",
        )
    if is_secret_file(path) or not is_safe_name(path):
        raise UsageError(
            f"{redact(path).text} is a file of secrets", hint="Cite the code that uses it."
        )
    return path


def _name_inside(root: RepositoryRoot, place: str, base: Path | None) -> str:
    """Resolve a path, plain or escaped, against base and root: the first that exists, otherwise
    the last inside."""
    name = ""
    folders = [folder for folder in (base, root.path) if folder is not None]
    for form in dict.fromkeys(() if "\0" in place else (place, native_name(place))):
        for folder in folders:
            name = _inside(os.path.normpath(folder / form), root) or name
            if name and os.path.lexists(root.path / name):
                return name
    return name


def _inside(name: str, root: RepositoryRoot) -> str:
    path = Path(name)
    for candidate in (path, path.parent.resolve() / path.name):
        relative = os.path.relpath(candidate, root.path)
        if relative != "." and relative.partition("/")[0] != "..":
            return relative
    return ""


def _read(root: RepositoryRoot, path: str) -> tuple[bytes, FileLines]:
    with opened_folder(root.path) as top:
        try:
            data = read_file_under(top, native_name(path), max_bytes=MAX_CITED_BYTES)
            return data, FileLines(data)
        except (FileRefused, OSError, ValueError) as error:
            reason = _REFUSED.get(str(error)) or _REFUSED.get(
                type(error).__name__, "is a link, or lies behind one"
            )
            raise UsageError(
                f"{path} cannot be cited: it {reason}", hint=_FORMS_HINT
            ) from error
