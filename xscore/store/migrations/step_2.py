"""From schema 1 to 2, in which the worktrees of a repository share a store, and each has an index
in it.

Schema 1 changed five times without a number, so tables are compared, not assumed. What was stated
is kept with its citations, occurrences, names and edges, and so are the vectors of paid embedders;
rows of the index go, since the next index run reads every file again. Judgments keep the integers
of their contents. Packs become those of the main worktree. Trade-off: a linked worktree whose store
was migrated first packs its memories again.
"""

import sqlite3

from xscore.platform.migration import NO_ROWS
from xscore.platform.table_changes import (
    TableChange,
    copy_common_columns,
    create_others,
    rename_table,
    reshape,
    table_columns,
)
from xscore.store.migrations.schema_texts import script_of
from xscore.store.term_vectors import term_vector

KEPT_ROWS = {
    "file": NO_ROWS,
    "file_body": NO_ROWS,
    "file_mention": NO_ROWS,
    "mentioned_name": NO_ROWS,
    "memory": "source <> 'index'",
    "edge_row": "file = 0",
    "edge": "path = ''",
}
"""Of schema 1; `edge` was a table in its first shapes."""
_USED_ENDS = """
    number IN (SELECT source FROM edge_row WHERE file = 0 UNION SELECT target FROM edge_row
      WHERE file = 0)
"""
_INDEX_FACTS = (
    *("index_profile", "links_due", "index_totals", "index_files_left", "index_kept_out"),
    *("index_without_grammar", "index_parsing", "index_slow"),
)
"""Keys of `meta` that speak of the index."""
_ENDS_OF_STATED_EDGES = """
    INSERT INTO edge_end (id) SELECT source FROM edge WHERE path = '' UNION SELECT target FROM edge
      WHERE path = ''
"""
_STATED_EDGES = """
    INSERT INTO edge_row (source, target, relation, weight, worktree)
    SELECT one.number, other.number, relation, weight, 0 FROM edge
    JOIN edge_end AS one ON one.id = source JOIN edge_end AS other ON other.id = target
      WHERE path = ''
"""
_MAIN_WORKTREE = "1"
_PAID_VECTORS = """
    INSERT OR IGNORE INTO vec (text_hash, embedder, data)
    SELECT text_hash, embedder, data FROM former_vec JOIN memory ON memory.id = memory_id
    WHERE embedder NOT GLOB 'terms-*'
"""
"""In its first shapes the table held the vectors of words as well, which are a column of memories
now."""
_GONE_TABLES = ("memory", "file", "file_body", "file_mention", "edge", "former_vec")
_HINTS = {"entity:": "::", "inside:": "", "path:": "", "memory:": ""}
"""How the first shapes began the hint of a name in a statement -> how it begins now."""
_SHOWN = """
    SELECT content_hash AS hash FROM memory_row
    UNION ALL SELECT text_hash FROM memory_row WHERE text_hash <> content_hash
"""
"""The hash of each content that a memory shows, once for each memory."""


def run(connection: sqlite3.Connection) -> None:
    """Bring every table to schema 2."""
    script = script_of(2)
    has_edge_table = not table_columns(connection, "edge_row")
    mentions_of_files = "path" in table_columns(connection, "mention")
    (files,) = connection.execute("SELECT count(*) FROM file WHERE excluded = ''").fetchone()
    rename_table(connection, "vec", "former_vec")  # its rows get another key
    reshape(
        connection,
        script,
        {
            "mentioned_name": TableChange(NO_ROWS),
            "edge_row": TableChange(KEPT_ROWS["edge_row"], {"worktree": "0"}),
            "edge_end": TableChange(_USED_ENDS),
            "mention": TableChange("path = ''" if mentions_of_files else "true"),
            "pack_slot": TableChange(values={"worktree": _MAIN_WORKTREE}),
            # No version of the readers: the next import reads these files again, and knows what it
            # has.
            "session_file": TableChange(values={"readers": "0", "since": "0.0"}),
        },
    )
    connection.execute(f"INSERT INTO worktree (number, name) VALUES ({_MAIN_WORKTREE}, '')")
    copy_common_columns(connection, "memory", "memory_row", TableChange(KEPT_ROWS["memory"]))
    connection.execute(_PAID_VECTORS)
    if has_edge_table:
        connection.execute(_ENDS_OF_STATED_EDGES)
        connection.execute(_STATED_EDGES)
    for table in _GONE_TABLES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    _forget_indexed_memories(connection)
    # Until all are indexed again, the judgments of their memories must not count as useless.
    if files:
        note_files_left = (
            "INSERT INTO worktree_meta (worktree, key, value) VALUES (?, 'index_files_left', ?)"
        )
        connection.execute(note_files_left, (_MAIN_WORKTREE, str(files)))
    _add_terms(connection)
    create_others(connection, script)


def _forget_indexed_memories(connection: sqlite3.Connection) -> None:
    """Remove what refers to memories that are gone, count contents again, and restart the index."""
    for table in ("evidence", "occurrence"):
        connection.execute(
            f"DELETE FROM {table} WHERE memory_id NOT IN (SELECT id FROM memory_row)"
        )
    connection.execute("DELETE FROM mention WHERE source NOT IN (SELECT id FROM memory_row)")
    for before, after in _HINTS.items():
        connection.execute(
            "UPDATE OR REPLACE mention SET hint = ? || substr(hint, ?) WHERE hint GLOB ?",
            (after, len(before) + 1, f"{before}*"),
        )
    connection.execute("UPDATE content SET memories = 0 WHERE memories <> 0")
    shown = connection.execute(
        f"SELECT count(*), hash FROM ({_SHOWN}) GROUP BY hash"
    ).fetchall()
    connection.executemany("UPDATE content SET memories = ? WHERE hash = ?", shown)
    connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _INDEX_FACTS])


def _add_terms(connection: sqlite3.Connection) -> None:
    """Write the term vectors of stated memories, which the first shapes kept elsewhere."""
    rows = connection.execute(
        "SELECT id, text, path, entity, title FROM memory_row WHERE terms = x''"
    ).fetchall()
    vectors = [
        (term_vector(text, path=path, entity=entity, title=title), id_)
        for id_, text, path, entity, title in rows
    ]
    connection.executemany("UPDATE memory_row SET terms = ? WHERE id = ?", vectors)
