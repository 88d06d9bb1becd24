"""Link stated memories to what they name: `references` edges from decisions, failures, exchanges
and so on.

Names in a text (a path, `path::entity`, an identifier in backticks, a memory id) are stored as
mentions without a file, so the index links them again when a name appears or disappears. A trigger
deletes edges and mentions with the memory. These edges boost no score. The user's own memories name
no repository's code. Trade-off: only an unambiguous name is linked.
"""

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence

from xscore.platform.hashing import file_id
from xscore.records.indexing import Mention
from xscore.records.memory import Kind, Memory, Relation
from xscore.store.index_rows import owe_stated_links
from xscore.store.link_rows import EntityRow, entity_rows, insert_mentions, state_edges
from xscore.store.memory_queries import stored_ids
from xscore.store.memory_rows import IN_JSON_LIST, select_memories
from xscore.store.worktrees import HERE

MOST_NAMES = 50
"""Most names linked for one memory."""
_FEW = 60
"""Most name parts that are searched for one by one; for more, all rows are read."""
_PART = r"[\w@%+.-]+"
_ENTITY = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_QUALIFIED = re.compile(
    rf"(?<![\w/.:@%+-])(?:\./)?((?:{_PART}/)*{_PART}\.\w{{1,10}})::({_ENTITY})"
)
_PATH = re.compile(
    rf"(?<![\w/.:@%+-])(?:\./)?((?:{_PART}/)+{_PART}\.\w{{1,10}}"
    r"|[\w-]+\.(?:pyi?|[mc]?[jt]sx?|go|rs|java|toml|ya?ml|json|md|rst|txt|sh|sql|html|css|c|h|cpp|rb))\b(?!/|::)"
)
_TICKED = re.compile(rf"`({_ENTITY})(?:\(\))?`")
_MEMORY = re.compile(r"\bm_[0-9a-f]{20}\b")


def link_mentions(connection: sqlite3.Connection, memory_ids: Iterable[str]) -> int:
    """Link these memories to exactly the files and entities they name; return the number of edges.

    Call it inside the transaction that wrote them; indexed memories are skipped.
    """
    ids = json.dumps(list(dict.fromkeys(memory_ids)))
    memories = select_memories(connection, f"id {IN_JSON_LIST} AND source <> 'index'", (ids,))
    sources: list[str] = []
    mentions: list[Mention] = []
    for memory in memories:
        connection.execute("DELETE FROM mention WHERE source = ?", (memory.id,))
        sources.append(memory.id)
        mentions += _mentions_in(memory)
    insert_mentions(connection, mentions)
    # In the other worktrees the same names may mean other files.
    owe_stated_links(connection, sorted({mention.source for mention in mentions}))
    return _replace_references(connection, sources, mentions)


def relink_mentions(
    connection: sqlite3.Connection, names: Iterable[str] | None, stated: Iterable[str] = ()
) -> int:
    """Link again all memories that mention any of these names, and these memories; names None: all.

    The index calls it.
    """
    query = "SELECT DISTINCT source FROM mention"
    parameters = list[str]()
    if names is not None:
        query = (
            f"{query} WHERE name {IN_JSON_LIST} UNION SELECT source FROM mention WHERE source"
            f" {IN_JSON_LIST}"
        )
        parameters = [json.dumps(sorted(names)), json.dumps(sorted(stated))]
    sources = [row[0] for row in connection.execute(query, parameters).fetchall()]
    rows = connection.execute(
        f"SELECT source, relation, name, hint FROM mention WHERE source {IN_JSON_LIST}",
        (json.dumps(sources),),
    ).fetchall()
    mentions = [Mention(source, Relation(relation), *rest) for source, relation, *rest in rows]
    return _replace_references(connection, sources, mentions)


def _mentions_in(memory: Memory) -> list[Mention]:
    """Return what a memory names, each once, in text order."""
    details = memory.details
    text = "\n".join((memory.title, memory.text, *map(str, details.links)))
    hints = list(dict.fromkeys((*details.paths, *_hints(text))))
    mentions: list[Mention] = []
    for hint in hints[:MOST_NAMES]:
        mentions.append(Mention(memory.id, Relation.REFERENCES, _parts(hint)[-1], hint))
    return mentions


def _hints(text: str) -> Iterator[str]:
    """Yield `path`, `path::entity`, `::entity` or a memory id for each name in a text."""
    # A path has a dot and no space.
    dotted = " ".join([word for word in text.split() if "." in word])
    for path, entity in _QUALIFIED.findall(dotted):
        yield f"{path}::{entity}"
    yield from _PATH.findall(_QUALIFIED.sub(" ", dotted))
    for entity in _TICKED.findall(text):
        yield f"::{entity}"
    yield from _MEMORY.findall(text) if "m_" in text else ()


def _parts(hint: str) -> list[str]:
    """Return the last parts of the file and entity names, which the index reports when they
    change."""
    path, _, entity = hint.partition("::")
    parts = [path.rpartition("/")[2], entity.rpartition(".")[2]]
    return [part for part in parts if part] or [hint]


_FORGET_REFERENCES = f"""
    DELETE FROM edge_row WHERE source = (SELECT number FROM edge_end WHERE id = ?)
      AND relation = 'references'
    AND file = 0 AND worktree = {HERE}
"""


def _replace_references(
    connection: sqlite3.Connection, sources: Sequence[str], mentions: Sequence[Mention]
) -> int:
    """Replace the edges of the sources by those of these mentions."""
    connection.executemany(_FORGET_REFERENCES, [(source,) for source in sources])
    if not mentions:
        return 0
    parts: set[str] = set()
    for mention in mentions:
        parts.update(_parts(mention.hint))
    named = _NamedThings(connection, parts)
    edges: set[tuple[str, str]] = set()
    for mention in mentions:
        for target in named.targets(mention.hint):
            edges.add((mention.source, target))
    references: list[tuple[str, str, Relation, float]] = []
    for source, target in sorted(edges):
        # A memory that names itself refers to nothing.
        if source != target:
            references.append((source, target, Relation.REFERENCES, 1.0))
    state_edges(connection, references)
    return len(edges)


class _NamedThings:
    """Files, entities and memories whose name has one of these parts."""

    def __init__(self, connection: sqlite3.Connection, parts: Collection[str]) -> None:
        few = sorted(parts) if len(parts) <= _FEW else []
        self._files: dict[str, list[str]] = {}
        self._entities: dict[str, list[EntityRow]] = {}
        for (path,) in connection.execute(
            f"SELECT path FROM file WHERE excluded = ''{_holding('path', few)}", few
        ):
            self._files.setdefault(path.rpartition("/")[2], []).append(path)
        # The index of names is a tenth of the table, so search it first.
        among = (
            f"WHERE rowid IN (SELECT rowid FROM memory_row WHERE 1{_holding('entity', few)})"
            if few
            else ""
        )
        for row in entity_rows(connection, among, *few):
            self._entities.setdefault(row.plain.rpartition(".")[2], []).append(row)
        self._memories = stored_ids(connection, filter(_MEMORY.fullmatch, parts))

    def targets(self, hint: str) -> list[str]:
        """Return the id that a mention points to; empty if unknown or ambiguous."""
        if _MEMORY.fullmatch(hint):
            if hint in self._memories:
                return [hint]
            return []
        place, colons, entity = hint.partition("::")
        paths = self._one_file(place) if place else [""]
        if not colons:
            return list(map(file_id, paths))
        if paths:
            return self._one_entity(entity, paths[0])
        return []

    def _one_file(self, place: str) -> list[str]:
        """Return the file with this path, otherwise the only one whose path ends with it."""
        named = self._files.get(place.rpartition("/")[2], [])
        if place in named:
            return [place]
        ending = [path for path in named if path.endswith("/" + place)]
        if len(ending) == 1:
            return ending
        return []

    def _one_entity(self, name: str, path: str) -> list[str]:
        """Return the only entity whose name is or ends with this; a test only if nothing else
        matches."""
        rows: list[EntityRow] = []
        for row in self._entities.get(name.rpartition(".")[2], []):
            is_in_file = not path or row.path == path
            if is_in_file and f".{row.plain}".endswith(f".{name}"):
                rows.append(row)
        rows = [row for row in rows if row.kind is not Kind.TEST] or rows
        exact = [row for row in rows if row.plain == name]
        if "." in name and exact:
            rows = exact
        is_one = len({(row.path, row.plain) for row in rows}) == 1
        if is_one:
            return [rows[-1].id]
        return []


def _holding(column: str, parts: Sequence[str]) -> str:
    if parts:
        return f" AND ({' OR '.join([f'instr({column}, ?)'] * len(parts))})"
    return ""
