"""Link what changed in the index: resolve the mentions of every file that a change may affect.

After a large change all definitions and mentions are read at once; after a small one only those
that its mentions lead to, so that an edit costs the same in a large repository. A file is affected
if it mentions a name that came or went, or if what it may reach (`reach`) did. Trade-off: the list
of files is read whole in both cases.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from xscore.indexer.languages import language_named
from xscore.indexer.reach import FIXTURES, REEXPORT_STEPS
from xscore.indexer.receiver_types import ReceiverIndex
from xscore.indexer.script_packages import MODULE, importable_name
from xscore.platform.database import transaction
from xscore.platform.hashing import file_id
from xscore.records.memory import Edge, Relation
from xscore.store import index_rows, link_rows
from xscore.store.encoded_files import FileMentions
from xscore.store.file_rows import TotalChanges, change_totals, file_names
from xscore.store.index_rows import LinksDue
from xscore.store.mention_links import relink_mentions
from xscore.store.written_rows import chain_names, last_name, module_names

_Rows = defaultdict[str, list[link_rows.EntityRow]]
PathEdge = tuple[str, Edge]
"""An edge with the file that states it."""


def link_changes(connection: sqlite3.Connection) -> None:
    """Resolve the mentions of every file that a change may affect.

    Reads and writes under one lock: a second run may not change entities in between.
    """
    with transaction(connection):
        due = index_rows.links_due(connection)
        if due.everything:
            _link_all(connection)
        else:
            _link_affected(connection, due)
        everything_stated = due.everything or due.all_stated
        relink_mentions(connection, None if everything_stated else due.names, due.stated)
        index_rows.note_linked(connection)


def _link_all(connection: sqlite3.Connection) -> None:
    languages = index_rows.file_languages(connection)
    index = _all_names(connection, languages)
    link_rows.replace_all_edges(connection, _edges(index, languages))
    index_rows.write_index_meta(connection, index_rows.TOTALS, "")


def _link_affected(connection: sqlite3.Connection, due: LinksDue) -> None:
    languages = index_rows.file_languages(connection)
    index = _looked_up_names(connection, languages)
    paths = due.paths | _affected(connection, due.names)
    linked = paths & languages.keys()
    edges = _edges(index, linked)
    # What they import is known only now, and so is who sees through them more or less than before.
    rewired = _rewired(connection, index, due, edges, linked=linked)
    seeing = _seeing(connection, index, rewired, languages)
    seeing = (seeing & languages.keys()) - paths
    edges += _edges(index, seeing)
    change = link_rows.replace_edges(connection, paths | seeing, edges)
    change_totals(connection, TotalChanges(edges=change))


def _edges(index: ReceiverIndex, paths: Iterable[str]) -> list[PathEdge]:
    edges: list[PathEdge] = []
    for path in sorted(paths):
        edges += [(path, edge) for edge in index.edges_of(path)]
    return edges


Rewired = dict[str, set[str] | None]
"""Path of a file whose imports lead elsewhere -> the files that it began or ceased to import; None:
not known."""


def _rewired(
    connection: sqlite3.Connection,
    index: ReceiverIndex,
    due: LinksDue,
    edges: Iterable[PathEdge],
    *,
    linked: set[str],
) -> Rewired:
    """Return the files whose imports lead elsewhere than before.

    linked: those linked again.
    edges: what they have.
    """
    imported: dict[str, set[str]] = defaultdict(set)
    for path, edge in edges:
        if edge.relation is Relation.IMPORTS:
            imported[path].add(edge.target)
    rewired: Rewired = {}
    for path, mentions in due.rewired.items():
        rewired[path] = None
        if path in linked:
            rewired[path] = {index.file_imported(*mention, path) for mention in mentions}
    for path in linked - due.paths:
        before = link_rows.imported_files(connection, path)
        changed = {end.removeprefix(file_id("")) for end in before ^ imported[path]}
        if changed:
            rewired[path] = changed | (rewired.get(path) or set())
    # Edges of a changed file, and those to a removed one, are gone already: their names tell.
    for path in linked:
        if path in due.paths or index.defines_nothing(path):
            imports = link_rows.file_mentions(connection, path).imports
            if any(module_names(hint) & due.names for _, hint in imports):
                rewired[path] = None
    return rewired


def _seeing(
    connection: sqlite3.Connection,
    index: ReceiverIndex,
    rewired: Rewired,
    paths: Collection[str],
) -> set[str]:
    """Return the files that may reach others than before through these, and mention a name of
    those."""
    seeing: set[str] = set()
    for path, changed in rewired.items():
        near = _importers(connection, index, {path})
        if path not in paths or index.defines_nothing(path):  # it is not a step itself
            near |= _importers(connection, index, near)
        if f"/{path}".endswith(f"/{FIXTURES}"):
            folder = path.removesuffix(FIXTURES)
            near |= {test for test in paths if test.startswith(folder)}
        if changed is not None and near:
            names = index.names_reached({file for file in changed if file in paths})
            near &= link_rows.paths_mentioning(connection, names)
        seeing |= near
    return seeing


def _importers(
    connection: sqlite3.Connection, index: ReceiverIndex, paths: set[str]
) -> set[str]:
    """Return what imports these files, also through files that define nothing."""
    importers: set[str] = set()
    waiting = paths
    for _ in range(REEXPORT_STEPS + 1):
        waiting = link_rows.files_importing(connection, waiting) - importers
        importers |= waiting
        waiting = {path for path in waiting if index.defines_nothing(path)}
        if not waiting:
            break
    return importers


def _affected(connection: sqlite3.Connection, names: set[str]) -> set[str]:
    """Return the files whose mentions may lead elsewhere: they mention a name, or one that reaches
    it.

    Names reach others as aliases of imports, by files that export all of another, by classes with
    that base, and by functions, members and variables with that type.
    """
    paths = set[str]()
    seen = set(names)
    new = set(names)
    while new:
        mentioning = link_rows.paths_mentioning(connection, new)
        reached: set[str] = set()
        for path in mentioning:
            reached.update(_reaching(connection, path, new))
        paths |= mentioning
        new = reached - seen
        seen |= new
    return paths


def _reaching(connection: sqlite3.Connection, path: str, names: set[str]) -> Iterator[str]:
    """Yield the names under which others may mean one of these through this file."""
    mentions = link_rows.file_mentions(connection, path)
    for name, hint in mentions.imports:
        yield from _reexported_names(name, hint, path, names)
    heirs: set[str] = set()
    for source, bases in mentions.bases.items():
        if any(name in names for _, name, _ in bases):
            heirs.add(source)
    for source, members in mentions.types.items():
        reaching = [member for member, chain in members.items() if chain_names(chain) & names]
        yield from (member.removesuffix("()") for member in reaching if member)
        if reaching:
            heirs.add(source)
    rows = link_rows.entities_in(connection, path) if heirs else ()
    yield from (last_name(row.entity) for row in rows if row.id in heirs)


def _reexported_names(name: str, hint: str, path: str, names: set[str]) -> Iterable[str]:
    """Return the names under which a file passes on what an import of it names."""
    if hint.startswith(MODULE):
        alias = importable_name(hint) if name in names else ""
    elif name not in names and not module_names(hint) & names:
        alias = ""
    elif name == "*":
        return file_names(path)
    else:
        alias = hint.partition("#")[2]
    return (alias,) if alias else ()


def _all_names(connection: sqlite3.Connection, languages: Mapping[str, str]) -> ReceiverIndex:
    """Read all definitions and mentions at once."""
    mentions = link_rows.all_mentions(connection)
    in_file = _Rows(list)
    named = _Rows(list)
    for row in link_rows.entity_rows(connection):
        in_file[row.path].append(row)
        named[last_name(row.entity)].append(row)
    nothing = FileMentions()
    return _index_of(languages)(
        languages,
        lambda path: mentions.get(path, nothing),
        in_file.__getitem__,
        named.__getitem__,
    )


def _looked_up_names(
    connection: sqlite3.Connection, languages: Mapping[str, str]
) -> ReceiverIndex:
    """Read the definitions and mentions that are asked for."""
    return _index_of(languages)(
        languages,
        partial(link_rows.file_mentions, connection),
        partial(link_rows.entities_in, connection),
        partial(link_rows.entities_named, connection),
    )


def _index_of(languages: Mapping[str, str]) -> type[ReceiverIndex]:
    """Return the index that resolves what files of these languages mention."""
    names = set(languages.values())
    if any(name == "ruby" or language_named(name).has_extension_methods for name in names):
        from xscore.indexer.ruby_names import RubyNameIndex  # few repositories have such files

        return RubyNameIndex
    return ReceiverIndex
