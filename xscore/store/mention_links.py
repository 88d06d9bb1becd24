"""Links of what was remembered to what it names: `references` edges from decisions, failures, exchanges and their like.

What a text names (a path, `path::entity`, an identifier in backticks, a memory id) is kept as mentions without a file,
so that its edges come back with the code they point to: the index ties anew whatever mentions a name that came or went.
Edges and mentions go with the memory, by a trigger. They are no calls, so no score is boosted by them. It works on a
repository's store; the user's own memories name no repository's code. Trade-off: only what one entity alone is called
is linked; two of the same name are two candidates for a guess, and none is made.
"""

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct, field

from xscore.platform.hashing import file_id
from xscore.records import Kind, Memory, Mention, Relation
from xscore.store import index_rows, memory_rows

MOST_NAMES = 50
"""Names that one memory may be linked by."""
_FEW = 60
"""Parts of names that are looked for one by one; for more, everything is read."""
_PART = r"[\w@%+.-]+"
_ENTITY = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_QUALIFIED = re.compile(rf"(?<![\w/.:])(?:\./)?((?:{_PART}/)*{_PART}\.\w{{1,10}})::({_ENTITY})")
_PATH = re.compile(
    rf"(?<![\w/.:@-])(?:\./)?((?:{_PART}/)+{_PART}\.\w{{1,10}}"
    r"|[\w-]+\.(?:pyi?|[mc]?[jt]sx?|go|rs|java|toml|ya?ml|json|md|rst|txt|sh|sql|html|css|c|h|cpp|rb))\b(?!/|::)"
)
_TICKED = re.compile(rf"`({_ENTITY})(?:\(\))?`")
_MEMORY = re.compile(r"\bm_[0-9a-f]{20}\b")
_FILE, _NAMED, _INSIDE, _KNOWN = "path", "entity", "inside", "memory"


class _Known(Struct):
    """What mentions can point to."""

    files: dict[str, list[str]] = field(default_factory=dict)
    """Name of a file -> paths."""
    entities: dict[str, list[index_rows.EntityRow]] = field(default_factory=dict)
    """Last part of an entity's name -> entities."""
    memories: set[str] = field(default_factory=set)
    """Ids that are named and exist."""


def link_mentions(connection: sqlite3.Connection, memory_ids: Iterable[str]) -> int:
    """Tie these memories to the files and entities that they name; return how many edges they have now.

    Call it inside the transaction that put them, for memories that do not come from the index. What they named before
    and name no more is untied.
    """
    ids = list(dict.fromkeys(memory_ids))
    found = memory_rows.select_memories(
        connection, f"id {memory_rows.IN_JSON_LIST} AND source <> 'index'", (json.dumps(ids),)
    )
    connection.executemany("DELETE FROM mention WHERE path = '' AND source = ?", [(memory.id,) for memory in found])
    mentions = [mention for memory in found for mention in mentions_in(memory)]
    connection.executemany(
        "INSERT OR IGNORE INTO mention (path, source, relation, name, hint) VALUES ('', ?, ?, ?, ?)",
        [(one.source, one.relation, one.name, one.hint) for one in mentions],
    )
    return _tie(connection, [memory.id for memory in found], mentions)


def relink_mentions(connection: sqlite3.Connection, names: Iterable[str] | None) -> int:
    """Tie anew what mentions any of these names of files or entities; None: everything. For the index's own linking."""
    query, given = "SELECT DISTINCT source FROM mention WHERE path = ''", ()
    if names is None:
        sources = [row[0] for row in connection.execute(query, given).fetchall()]
    else:
        asked = (json.dumps(sorted(names)),)
        sources = [
            row[0] for row in connection.execute(f"{query} AND name {memory_rows.IN_JSON_LIST}", asked).fetchall()
        ]
    mentions = connection.execute(
        f"SELECT source, relation, name, hint FROM mention WHERE path = '' AND source {memory_rows.IN_JSON_LIST}",
        (json.dumps(sources),),
    )
    return _tie(connection, sources, [Mention(one, Relation(how), *rest) for one, how, *rest in mentions.fetchall()])


def mentions_in(memory: Memory) -> list[Mention]:
    """Return what a memory names, each once, in the order of the text."""
    said = memory.particulars
    text = "\n".join((memory.title, memory.text, *map(str, said.links)))
    hints = dict.fromkeys((*(f"{_FILE}:{path}" for path in said.paths), *_hints(text)))
    return [Mention(memory.id, Relation.REFERENCES, _last(hint), hint) for hint in list(hints)[:MOST_NAMES]]


def _hints(text: str) -> Iterator[str]:
    dotted = " ".join([word for word in text.split() if "." in word])  # no path is without a dot, or holds a blank
    for path, entity in _QUALIFIED.findall(dotted):
        yield f"{_INSIDE}:{path}::{entity}"
    for path in _PATH.findall(_QUALIFIED.sub(" ", dotted)):
        yield f"{_FILE}:{path}"
    for entity in _TICKED.findall(text):
        yield f"{_NAMED}:{entity}"
    for known in _MEMORY.findall(text) if "m_" in text else ():
        yield f"{_KNOWN}:{known}"


def _last(hint: str) -> str:
    """The name by which the index notes that a file or an entity came or went."""
    kind, _, rest = hint.partition(":")
    if kind == _FILE:
        return rest.rpartition("/")[2]
    return rest.rpartition("::")[2].rpartition(".")[2]


def _tie(connection: sqlite3.Connection, sources: Sequence[str], mentions: Sequence[Mention]) -> int:
    """Put the edges of these mentions in the place of those that the sources had."""
    connection.executemany(
        "DELETE FROM edge WHERE source = ? AND relation = 'references' AND path = ''", [(source,) for source in sources]
    )
    if not mentions:
        return 0
    known = _known(connection, {part for one in mentions for part in _parts(one.hint)})
    asked = json.dumps([one.name for one in mentions if one.hint.startswith(f"{_KNOWN}:")])
    known.memories = {
        row[0] for row in connection.execute(f"SELECT id FROM memory WHERE id {memory_rows.IN_JSON_LIST}", (asked,))
    }
    edges = {(one.source, target) for one in mentions for target in _targets(one.hint, known)}
    connection.executemany(
        "INSERT INTO edge (source, target, relation, path) VALUES (?, ?, 'references', '') ON CONFLICT DO NOTHING",
        sorted((source, target) for source, target in edges if source != target),
    )
    return len(edges)


def _parts(hint: str) -> list[str]:
    """Return the last parts of the names of files and entities that a mention may point to."""
    kind, _, rest = hint.partition(":")
    place, _, entity = rest.rpartition("::")
    if kind == _KNOWN:
        return []
    if kind == _FILE:
        return [rest.rpartition("/")[2]]
    return [entity.rpartition(".")[2], *([place.rpartition("/")[2]] if place else [])]


def _known(connection: sqlite3.Connection, parts: Collection[str]) -> _Known:
    """Read what has a name with one of these parts; of many, everything at once."""
    known, few = _Known(), sorted(parts) if len(parts) <= _FEW else []
    if few:
        files, entities = _files_with(connection, few), _entities_with(connection, few)
    else:
        files, entities = list(index_rows.file_languages(connection)), index_rows.entity_rows(connection)
    for path in files:
        known.files.setdefault(path.rpartition("/")[2], []).append(path)
    for row in entities:
        known.entities.setdefault(row.plain.rpartition(".")[2], []).append(row)
    return known


def _files_with(connection: sqlite3.Connection, parts: Sequence[str]) -> list[str]:
    holds = " OR ".join(["instr(path, ?)"] * len(parts))
    rows_ = connection.execute(f"SELECT path FROM file WHERE excluded = '' AND ({holds})", parts)
    return [path for (path,) in rows_.fetchall()]


def _entities_with(connection: sqlite3.Connection, parts: Sequence[str]) -> list[index_rows.EntityRow]:
    """Found in the index of names alone, which is a tenth of the table; in the order of `index_rows.definitions`."""
    holds = " OR ".join(["instr(entity, ?)"] * len(parts))
    among = f"rowid IN (SELECT rowid FROM memory WHERE {holds})"
    found = connection.execute(
        f"SELECT id, path, entity, kind, language FROM memory WHERE layer = 'graph' AND {among}"
        " ORDER BY status, kind, rowid",
        parts,
    )
    return [
        index_rows.EntityRow(id_, path, entity, Kind(kind), language)
        for id_, path, entity, kind, language in found.fetchall()
    ]


def _targets(hint: str, known: _Known) -> list[str]:
    kind, _, rest = hint.partition(":")
    if kind == _KNOWN:
        return [rest] if rest in known.memories else []
    if kind == _FILE:
        return [file_id(path) for path in _one_file(rest, known)]
    if kind == _INSIDE:
        place, _, entity = rest.partition("::")
        paths = _one_file(place, known)
        return _one_entity(entity, known, path=paths[0]) if paths else []
    return _one_entity(rest, known)


def _one_file(place: str, known: _Known) -> list[str]:
    """The file so called, else the only one whose path ends so."""
    bearers = known.files.get(place.rpartition("/")[2], [])
    if place in bearers:
        return [place]
    ending = [path for path in bearers if path.endswith("/" + place)]
    return ending if len(ending) == 1 else []


def _one_entity(name: str, known: _Known, *, path: str = "") -> list[str]:
    """The only entity whose name is or ends so; a test only where nothing else is."""
    bearers = [row for row in known.entities.get(name.rpartition(".")[2], []) if not path or row.path == path]
    found = [row for row in bearers if f".{row.plain}".endswith(f".{name}")]
    found = [row for row in found if row.kind is not Kind.TEST] or found
    exact = [row for row in found if row.plain == name]
    found = exact if "." in name and exact else found
    return [found[-1].id] if len({(row.path, row.plain) for row in found}) == 1 else []
