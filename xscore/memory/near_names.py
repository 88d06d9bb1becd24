"""Names of files and entities that come near one that nothing bears: the same name elsewhere, a part of it, a slip.

It is asked only where a name was wrong, so it may look at every name. Slips are found by `difflib`: a library that
compares faster would save a fraction of a second of an error message. Trade-off: of a path only the last part is
compared, since that is where names differ from each other.
"""

import sqlite3
from collections.abc import Callable, Iterable
from difflib import get_close_matches

NEAR_SHOWN = 3
_LIKENESS = 0.7
"""Least likeness of two names, of 1: one slip in a name of four letters passes, two do not."""
_ESCAPES = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def near_paths(connection: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """Return files that are called alike, the likeliest first."""
    base = _base(path)
    for part in (part for part in (base, base.partition(".")[0]) if part):
        rows = connection.execute(
            "SELECT path FROM file WHERE excluded = '' AND path LIKE ? ESCAPE '\\' ORDER BY length(path), path LIMIT ?",
            (f"%{like(part)}%", NEAR_SHOWN),
        ).fetchall()
        if rows:
            return tuple(row[0] for row in rows)
    paths = connection.execute("SELECT path FROM file WHERE excluded = '' ORDER BY length(path), path").fetchall()
    return _closest(base, (row[0] for row in paths), _base)


def near_entities(connection: sqlite3.Connection, path: str, entity: str) -> tuple[str, ...]:
    """Return entities of this name elsewhere, else of a name alike, in files that are called alike if there are."""
    last = _last(entity)
    rows = connection.execute(
        "SELECT DISTINCT path || '::' || entity FROM memory WHERE layer = 'graph' AND source = 'index'"
        " AND (entity LIKE ? ESCAPE '\\' OR entity LIKE ? ESCAPE '\\') ORDER BY path <> ?, 1 LIMIT ?",
        (like(last), f"%.{like(last)}", path, NEAR_SHOWN),
    ).fetchall()
    if rows:
        return tuple(row[0] for row in rows)
    known = connection.execute(
        "SELECT DISTINCT path, entity FROM memory WHERE layer = 'graph' AND source = 'index'"
        " AND length(entity) >= ? ORDER BY path, start_line, id",
        (len(last) // 2,),
    ).fetchall()
    named = {f"{place}::{called}": place for place, called in known}
    files = {path, *near_paths(connection, path)}
    here = [name for name, place in named.items() if place in files]
    return _closest(last, here, _last) or _closest(last, named, _last)


def like(text: str) -> str:
    """Return a text as a pattern of SQL that stands for itself."""
    return text.translate(_ESCAPES)


def _closest(wanted: str, names: Iterable[str], part: Callable[[str], str]) -> tuple[str, ...]:
    """Return the names whose part comes nearest; of equal ones those that come first."""
    bearing: dict[str, list[str]] = {}
    for name in names:
        bearing.setdefault(part(name), []).append(name)
    near = get_close_matches(wanted, bearing, n=NEAR_SHOWN, cutoff=_LIKENESS)
    return tuple(name for each in near for name in bearing[each])[:NEAR_SHOWN]


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _last(entity: str) -> str:
    return entity.rpartition("::")[2].rpartition(".")[2]
