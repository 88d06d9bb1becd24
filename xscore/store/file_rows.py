"""Everything that the index stores of a file: its memories, their body, mentions and edges, replaced together.

Callers wrap every write in one transaction. Pending links are stored (`index_rows.links_due`) together with the files
that cause them, so a killed process leaves a consistent store. Trade-off: all memories of a changed file are written
again, changed or not; ids and use counts survive (`upsert_rows`).
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.hashing import file_id
from xscore.records.memory import BLOCK_NAME
from xscore.store import index_rows, link_rows
from xscore.store.encoded_files import EncodedFile, decode_mentions
from xscore.store.index_rows import IndexChanges, LinksDue
from xscore.store.memory_writer import delete_outdated_vectors
from xscore.store.written_rows import ROW_COLUMNS, last_name, upsert_rows

MANY_PATHS = 1_000
"""With more changed files than this, everything is linked again."""


def replace_files(
    connection: sqlite3.Connection, indexed: Sequence[EncodedFile], removed: Sequence[str]
) -> IndexChanges:
    """Replace all memories and mentions of these files, and delete the removed files."""
    run = _Replacing(connection, index_rows.links_due(connection))
    for path in removed:
        run.remove_file(path)
    for file in indexed:
        run.replace_file(file)
    due = run.due
    if due.everything or len(due.paths) > MANY_PATHS:
        due = LinksDue(everything=True)
    index_rows.owe_links(connection, due)
    change_totals(connection, run.totals)
    return run.changes


class TotalChanges(Struct):
    """What to add to the totals."""

    by_kind: Counter[str] = field(default_factory=Counter)
    by_language: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)


def change_totals(connection: sqlite3.Connection, changes: TotalChanges) -> None:
    """Keep the cached totals right, so that an edit counts no table. Raises StoreDamaged."""
    if not index_rows.read_meta(connection, index_rows.TOTALS):
        return
    totals = []
    for kept, change in zip(index_rows.index_totals(connection), astuple(changes), strict=True):
        counts = {name: kept.get(name, 0) + change.get(name, 0) for name in sorted({*kept, *change})}
        totals.append({name: count for name, count in counts.items() if count})
    index_rows.write_meta(connection, index_rows.TOTALS, msgspec.json.encode(totals).decode())


class _StoredMemory(NamedTuple):
    """The columns of a memory that tell what a change of it affects."""

    entity: str
    text_hash: str
    kind: str
    language: str
    overrides: int


class _Replacing(Struct):
    """One call of `replace_files`."""

    connection: sqlite3.Connection
    due: LinksDue
    changes: IndexChanges = field(default_factory=IndexChanges)
    totals: TotalChanges = field(default_factory=TotalChanges)

    def replace_file(self, file: EncodedFile) -> None:
        """Replace everything of a file."""
        path, due, changes = file.stamp.path, self.due, self.changes
        known = self.known(path)
        stamp = self.connection.execute("SELECT 1 FROM file WHERE path = ? AND excluded = ''", (path,)).fetchone()
        new = {row[_ID]: _StoredMemory(*(row[at] for at in _STORED_COLUMNS)) for row in file.rows}
        gone = [id_ for id_ in known if id_ not in new]
        self.remove_memories(gone)
        if known:
            delete_outdated_vectors(self.connection, [(id_, one.text_hash) for id_, one in new.items()])
        upsert_rows(self.connection, file.rows)
        self.connection.execute(_PUT_BODY, (path, file.body))
        self.count(known.values(), new.values())
        changes.removed += len(gone)
        due.names.update(last_name(known[id_].entity) for id_ in gone)
        for id_, one in new.items():
            before = known.get(id_)
            changes.added += before is None
            changes.changed += before is not None and before.text_hash != one.text_hash
            if before is None or before.overrides != one.overrides:  # others that call it by its name may mean it now
                due.names.add(last_name(one.entity))
        due.names.update(self.changed_mentions(file))
        due.everything |= stamp is None and _is_crate_root(path)
        if stamp is None or _default_export(known) != _default_export(new):
            due.names.update(file_names(path))
        due.paths.add(path)
        self.totals.edges.subtract(link_rows.delete_edges(self.connection, path))
        link_rows.put_mentions(self.connection, path, file.mentions, file.names)
        index_rows.write_stamps(self.connection, [file.stamp])

    def changed_mentions(self, file: EncodedFile) -> set[str]:
        """Return the names through which others may reach something else than before: imports, and heirs of bases."""
        before = link_rows.file_mentions(self.connection, file.stamp.path)
        after = decode_mentions(file.mentions)
        changed = set(before.imports) ^ set(after.imports)
        self.due.everything |= _names_module(changed)
        names = {word for name, hint in changed for word in (name, hint.partition("#")[2]) if word}
        names |= {name for _, name in _defined(before.defines) ^ _defined(after.defines)}
        if "*" in names:
            names |= file_names(file.stamp.path)
        heirs = {id_ for id_ in {*before.bases, *after.bases} if before.bases.get(id_) != after.bases.get(id_)}
        return names | {last_name(row[_ENTITY]) for row in file.rows if row[_ID] in heirs}

    def remove_file(self, path: str) -> None:
        """Delete everything of a file."""
        known = self.known(path)
        self.remove_memories(list(known))
        self.count(known.values(), ())
        self.changes.removed += len(known)
        self.due.names.update(last_name(one.entity) for one in known.values())
        self.due.names.update(file_names(path))
        before = link_rows.file_mentions(self.connection, path)
        self.due.names.update(name for _, name in _defined(before.defines))
        self.due.everything |= _names_module(before.imports) or _is_crate_root(path)
        link_rows.remove_mentions(self.connection, path)
        self.totals.edges.subtract(link_rows.delete_edges(self.connection, path))
        self.totals.edges.subtract(link_rows.delete_end(self.connection, file_id(path)))
        for table in ("file_body", "file"):
            self.connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
        self.due.paths.discard(path)

    def known(self, path: str) -> dict[str, _StoredMemory]:
        """Return the memories of a file by id."""
        rows = self.connection.execute(
            "SELECT id, entity, text_hash, kind, language, overrides FROM memory WHERE path = ? AND source = 'index'",
            (path,),
        )
        return {id_: _StoredMemory(*row) for id_, *row in rows}

    def remove_memories(self, ids: Sequence[str]) -> None:
        """Delete memories with their edges."""
        for id_ in ids:
            self.totals.edges.subtract(link_rows.delete_end(self.connection, id_))
        self.connection.executemany("DELETE FROM memory WHERE id = ?", [(id_,) for id_ in ids])

    def count(self, before: Iterable[_StoredMemory], after: Iterable[_StoredMemory]) -> None:
        """Count what came and went."""
        for sign, memories in ((-1, before), (1, after)):
            for one in memories:
                self.totals.by_kind[one.kind] += sign
                self.totals.by_language[one.language] += sign


_ID, _ENTITY = ROW_COLUMNS.index("id"), ROW_COLUMNS.index("entity")
_STORED_COLUMNS = tuple(map(ROW_COLUMNS.index, _StoredMemory._fields))
_PUT_BODY = """
    INSERT INTO file_body (path, memories) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET memories = excluded.memories
"""


def _defined(defines: Mapping[str, Iterable[str]]) -> set[tuple[str, str]]:
    return {(id_, name) for id_, names in defines.items() for name in names}


def _default_export(memories: Mapping[str, _StoredMemory]) -> set[str]:
    """Return what `import alias from` this file may mean: what is named so, or the only top-level entity."""
    tops = {id_ for id_, one in memories.items() if "." not in one.entity and not one.entity.startswith(BLOCK_NAME)}
    named = {id_ for id_, one in memories.items() if last_name(one.entity) in ("default", "exports")}
    return named | (tops if len(tops) == 1 else set())


def _names_module(imports: Iterable[tuple[str, str]]) -> bool:
    """Whether a `go.mod` or `Cargo.toml` names its module here, which decides what every import of it means."""
    return any(hint.startswith("module:") for _, hint in imports)


def _is_crate_root(path: str) -> bool:
    """Whether imports may mean this file by the name of its Rust crate, which its path does not say."""
    return f"/{path}".endswith(("/src/lib.rs", "/src/main.rs"))


def file_names(path: str) -> set[str]:
    """Return the names others may use for a file: its name, its stems, and its folder (for an index file)."""
    *folders, name = path.split("/")
    return {name, name.partition(".")[0], name.rpartition(".")[0], *folders[-1:]} - {""}
