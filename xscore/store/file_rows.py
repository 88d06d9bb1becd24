"""Everything that a worktree has of a file: a version of it (`file_versions`) and edges, replaced
together.

Callers wrap every write in one transaction. Pending links are stored (`index_rows.links_due`)
together with the files that cause them, so a killed process leaves a consistent store. Trade-off:
all memories of a changed file are rewritten, changed or not; ids and use counts survive.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple

from xscore.platform.hashing import file_id
from xscore.platform.paths import folder_of
from xscore.records.indexing import FileStamp
from xscore.records.memory import BLOCK_NAME
from xscore.store import file_versions, index_rows, link_rows
from xscore.store.encoded_files import EncodedFile
from xscore.store.file_versions import FileContent, StoredMemory
from xscore.store.index_rows import IndexChanges, LinksDue
from xscore.store.worktrees import HERE
from xscore.store.written_rows import last_name

MANY_PATHS = 1_000
"""Number of changed files above which everything is linked again."""


def replace_files(
    connection: sqlite3.Connection,
    indexed: Sequence[EncodedFile],
    removed: Sequence[str],
    *,
    adopted: Mapping[FileStamp, int] | None = None,
    rules: Callable[[EncodedFile], str] = lambda _file: "",
) -> IndexChanges:
    """Replace all that this worktree has of these files, and delete the removed files.

    adopted: stamp -> the version that it has now.
    rules: a file -> a digest of the rules by which it was parsed.
    """
    run = _Replacing(connection, index_rows.links_due(connection))
    for path in removed:
        run.remove_file(path)
    for file in indexed:
        run.replace_file(file, rules(file))
    for stamp, version in (adopted or {}).items():
        run.adopt_file(stamp, version)
    due = run.due
    if due.everything or len(due.paths) > MANY_PATHS:
        due = LinksDue(everything=True)
    index_rows.owe_links(connection, due)
    index_rows.drop_noted_change(connection)
    change_totals(connection, run.totals)
    return run.changes


class TotalChanges(Struct):
    """What to add to the totals."""

    by_kind: Counter[str] = field(default_factory=Counter)
    by_language: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)


def change_totals(connection: sqlite3.Connection, changes: TotalChanges) -> None:
    """Keep the cached totals right, so that an edit counts no table. Raises StoreDamaged."""
    if not index_rows.read_index_meta(connection, index_rows.TOTALS):
        return
    totals: list[dict[str, int]] = []
    for kept, change in zip(index_rows.index_totals(connection), astuple(changes), strict=True):
        counts: dict[str, int] = {}
        for name in sorted({*kept, *change}):
            count = kept.get(name, 0) + change.get(name, 0)
            if count:
                counts[name] = count
        totals.append(counts)
    index_rows.write_index_meta(
        connection, index_rows.TOTALS, msgspec.json.encode(totals).decode()
    )


class _Replacing(Struct):
    """One call of `replace_files`."""

    connection: sqlite3.Connection
    due: LinksDue
    changes: IndexChanges = field(default_factory=IndexChanges)
    totals: TotalChanges = field(default_factory=TotalChanges)

    def replace_file(self, file: EncodedFile, rules: str) -> None:
        """Replace everything of a file by what parsing it gave."""
        path = file.stamp.path
        listed = file_versions.listed_version(self.connection, path)
        # Compared before it is written: a version that no other worktree lists is overwritten.
        before = self.content(path, listed)
        self.note_changes(file.stamp, before, file_versions.encoded_content(file))
        number = file_versions.put_version(self.connection, file, rules=rules, listed=listed)
        self.list_instead(file.stamp, number, listed)

    def adopt_file(self, stamp: FileStamp, number: int) -> None:
        """Replace everything of a file by a version that another worktree has."""
        listed = file_versions.listed_version(self.connection, stamp.path)
        before = self.content(stamp.path, listed)
        after = self.content(stamp.path, number)
        self.note_changes(stamp, before, after)
        self.list_instead(stamp, number, listed)

    def list_instead(self, stamp: FileStamp, number: int, listed: int) -> None:
        """List a version in the place of the one before."""
        index_rows.write_stamps(self.connection, [stamp])
        file_versions.list_version(self.connection, stamp.path, number)
        if number != listed:
            file_versions.drop_if_unlisted(self.connection, listed)

    def content(self, path: str, version: int) -> FileContent:
        """Return what a version says."""
        return file_versions.version_content(self.connection, path, version)

    def note_changes(self, stamp: FileStamp, before: FileContent, after: FileContent) -> None:
        """Note what replacing one content of a file by another changes for this worktree."""
        path = stamp.path
        due = self.due
        is_new = (
            self.connection.execute(
                "SELECT 1 FROM file WHERE path = ? AND excluded = ''", (path,)
            ).fetchone()
            is None
        )
        self.note_memories(before.memories, after.memories)
        due.names.update(self.changed_mentions(path, before, after))
        due.everything |= is_new and _is_crate_root(path)
        if is_new and _makes_package(path):
            due.names.update(self.names_in_folder_of(path))
        if is_new or _default_export(before.memories) != _default_export(after.memories):
            due.names.update(file_names(path))
        due.paths.add(path)
        rewired = set(before.mentions.imports) ^ set(after.mentions.imports)
        # A file that begins or ceases to only pass on others is another step for its importers.
        if _defines_nothing(before.memories) != _defines_nothing(after.memories):
            rewired |= {*before.mentions.imports, *after.mentions.imports}
        if rewired:
            due.rewired.setdefault(path, set()).update(rewired)
        self.totals.edges.subtract(link_rows.delete_edges(self.connection, path))

    def note_memories(
        self, old_memories: Mapping[str, StoredMemory], new_memories: Mapping[str, StoredMemory]
    ) -> None:
        """Count the memories that came, changed and went, and note whose name is to be linked."""
        due = self.due
        changes = self.changes
        gone = [id_ for id_ in old_memories if id_ not in new_memories]
        self.remove_ends(gone)
        self.count(old_memories.values(), new_memories.values())
        changes.removed += len(gone)
        due.names.update(last_name(old_memories[id_].entity) for id_ in gone)
        for id_, memory in new_memories.items():
            earlier = old_memories.get(id_)
            changes.added += earlier is None
            changes.changed += earlier is not None and earlier.text_hash != memory.text_hash
            # Others that call it by its name may mean it now.
            if earlier is None or earlier.overrides != memory.overrides:
                due.names.add(last_name(memory.entity))

    def changed_mentions(
        self, path: str, content_before: FileContent, content_after: FileContent
    ) -> set[str]:
        """Return the names through which others may reach something else than before: imports, and
        heirs of bases."""
        before = content_before.mentions
        after = content_after.mentions
        changed = set(before.imports) ^ set(after.imports)
        self.due.everything |= _names_module(changed)
        names: set[str] = set()
        for name, hint in changed:
            names.update((name, hint.partition("#")[2]))
        names |= {name for _, name in _defined(before.defines) ^ _defined(after.defines)}
        if "*" in names:
            names |= file_names(path)
        heirs: set[str] = set()
        for id_ in {*before.bases, *after.bases}:
            if before.bases.get(id_) != after.bases.get(id_):
                heirs.add(id_)
        for id_ in {*before.types, *after.types}:
            members = _changed_members(before.types.get(id_, {}), after.types.get(id_, {}))
            names |= {member.removesuffix("()") for member in members}
            if members:
                heirs.add(id_)
        for id_ in heirs:
            if id_ in content_after.memories:
                names.add(last_name(content_after.memories[id_].entity))
        return names - {""}

    def remove_file(self, path: str) -> None:
        """Delete everything of a file."""
        listed = file_versions.listed_version(self.connection, path)
        memories, before = self.content(path, listed)
        self.remove_ends(list(memories))
        self.count(memories.values(), ())
        self.changes.removed += len(memories)
        self.due.names.update(last_name(memory.entity) for memory in memories.values())
        self.due.names.update(file_names(path))
        self.due.names.update(name for _, name in _defined(before.defines))
        self.due.everything |= _names_module(before.imports) or _is_crate_root(path)
        self.totals.edges.subtract(link_rows.delete_edges(self.connection, path))
        self.remove_ends([file_id(path)])
        self.connection.execute(
            f"DELETE FROM file_row WHERE worktree = {HERE} AND path = ?", (path,)
        )
        file_versions.drop_if_unlisted(self.connection, listed)
        link_rows.drop_end_of_file(self.connection, path)
        if _makes_package(path):
            self.due.names.update(self.names_in_folder_of(path))
        self.due.paths.discard(path)
        self.due.rewired.setdefault(path, set())

    def names_in_folder_of(self, path: str) -> set[str]:
        """Return the names of the files in the same folder, whose full names its package
        changes."""
        folder = folder_of(path)
        query = f"SELECT path FROM file_row WHERE worktree = {HERE} AND path > ? AND path < ?"
        rows = self.connection.execute(query, (f"{folder}/", f"{folder}0")).fetchall()
        names: set[str] = set()
        for (neighbour,) in rows:
            names |= file_names(neighbour)
        return names

    def remove_ends(self, ids: Sequence[str]) -> None:
        """Delete the edges of this worktree from and to these memories or files."""
        for id_ in ids:
            self.totals.edges.subtract(link_rows.delete_edges_of_end(self.connection, id_))

    def count(self, before: Iterable[StoredMemory], after: Iterable[StoredMemory]) -> None:
        """Count what came and went."""
        for sign, memories in ((-1, before), (1, after)):
            for memory in memories:
                self.totals.by_kind[memory.kind] += sign
                self.totals.by_language[memory.language] += sign


def _changed_members(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {member for member in {*before, *after} if before.get(member) != after.get(member)}


def _defined(defines: Mapping[str, Iterable[str]]) -> set[tuple[str, str]]:
    defined: set[tuple[str, str]] = set()
    for id_, names in defines.items():
        defined.update((id_, name) for name in names)
    return defined


def _default_export(memories: Mapping[str, StoredMemory]) -> set[str]:
    """Return what `import alias from` this file may mean: what is named so, or the only top-level
    entity."""
    tops: set[str] = set()
    named: set[str] = set()
    for id_, memory in memories.items():
        if "." not in memory.entity and not memory.entity.startswith(BLOCK_NAME):
            tops.add(id_)
        if last_name(memory.entity) in ("default", "exports"):
            named.add(id_)
    if len(tops) == 1:
        return named | tops
    return named


def _defines_nothing(memories: Mapping[str, StoredMemory]) -> bool:
    """Whether a file only passes on what others define."""
    return all(memory.entity.startswith(BLOCK_NAME) for memory in memories.values())


def _names_module(imports: Iterable[tuple[str, str]]) -> bool:
    """Whether a `go.mod` or `Cargo.toml` names its module here, which decides what every import of
    it means."""
    return any(hint.startswith("module:") for _, hint in imports)


def _is_crate_root(path: str) -> bool:
    """Whether imports may mean this file by the name of its Rust crate, which its path does not
    say."""
    return f"/{path}".endswith(("/src/lib.rs", "/src/main.rs"))


def _makes_package(path: str) -> bool:
    """Whether the file makes its folder a package of Python."""
    return path.endswith(("/__init__.py", "/__init__.pyi"))


def file_names(path: str) -> set[str]:
    """Return the names others may use for a file: its name, its stems, and its folder (for an index
    file)."""
    *folders, name = path.split("/")
    return {name, name.partition(".")[0], name.rpartition(".")[0], *folders[-1:]} - {""}
