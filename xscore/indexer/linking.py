"""Link what changed: find the files that a change may affect, resolve their mentions and store the edges.

After a large change all definitions and mentions are read at once; after a small one only those that its mentions lead
to, so that an edit costs the same in a large repository. Trade-off: the list of files is read whole in both cases.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from xscore.indexer.links import NameIndex
from xscore.platform.database import transaction
from xscore.store import index_rows, link_rows
from xscore.store.file_rows import file_names
from xscore.store.memory_rows import last_name, module_names
from xscore.store.mention_links import relink_mentions

_Rows = defaultdict[str, list[link_rows.EntityRow]]


def link_changes(connection: sqlite3.Connection) -> None:
    """Resolve the mentions of every file that a change may affect.

    Reads and writes under one lock: a second run may not change entities in between.
    """
    with transaction(connection):
        due = index_rows.links_due(connection)
        paths = None if due.everything else due.paths | _affected(connection, due.names)
        languages = index_rows.file_languages(connection)
        known = _all_names(connection, languages) if paths is None else _looked_up_names(connection, languages)
        stated = languages.keys() if paths is None else paths & languages.keys()
        edges = [(path, edge) for path in sorted(stated) for edge in known.edges_of(path)]
        if paths is None:
            link_rows.replace_all_edges(connection, edges)
            index_rows.write_meta(connection, index_rows.TOTALS, "")
        else:
            change = link_rows.replace_edges(connection, paths, edges)
            index_rows.change_totals(connection, index_rows.TotalChanges(edges=change))
        relink_mentions(connection, None if due.everything else due.names)
        index_rows.note_linked(connection)


def _affected(connection: sqlite3.Connection, names: set[str]) -> set[str]:
    """Return the files whose mentions may lead elsewhere: they mention a name, or one that reaches it.

    Names reach others as aliases of imports, by files that export all of another, and by classes with that base.
    """
    paths, known, new = set[str](), set(names), set(names)
    while new:
        found = link_rows.paths_mentioning(connection, new)
        reached = {name for path in found for name in _reaching(connection, path, new)}
        paths |= found
        new = reached - known
        known |= new
    return paths


def _reaching(connection: sqlite3.Connection, path: str, names: set[str]) -> Iterator[str]:
    mentions = link_rows.file_mentions(connection, path)
    for name, hint in mentions.imports:
        if name in names or module_names(hint) & names:
            yield from file_names(path) if name == "*" else filter(None, (hint.partition("#")[2],))
    heirs = {source for source, given in mentions.bases.items() if any(name in names for _, name, _ in given)}
    if heirs:
        yield from (last_name(row.entity) for row in link_rows.entities_in(connection, path) if row.id in heirs)


def _all_names(connection: sqlite3.Connection, languages: Mapping[str, str]) -> NameIndex:
    """Read all definitions and mentions at once."""
    mentions, in_file, named = link_rows.mentions_of(connection, None), _Rows(list), _Rows(list)
    for row in link_rows.entity_rows(connection):
        in_file[row.path].append(row)
        named[last_name(row.entity)].append(row)
    nothing = link_rows.DecodedMentions()
    return NameIndex(languages, lambda path: mentions.get(path, nothing), in_file.__getitem__, named.__getitem__)


def _looked_up_names(connection: sqlite3.Connection, languages: Mapping[str, str]) -> NameIndex:
    """Read the definitions and mentions that are asked for."""
    return NameIndex(
        languages,
        lambda path: link_rows.mentions_of(connection, (path,))[path],
        partial(link_rows.entities_in, connection),
        partial(link_rows.entities_named, connection),
    )
