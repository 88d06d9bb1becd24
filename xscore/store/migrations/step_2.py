"""From schema 1 to 2: any of the shapes that schema 1 had becomes the one that is written down as 2.

Schema 1 changed five times without a number, so tables are compared, not assumed. What was stated is kept with its
citations, occurrences, names and edges; rows of the index go, since the next index run reads every file again.
Judgments keep the integers of their contents. Trade-off: the vectors of a paid embedder go with the indexed memories.
"""

import sqlite3

from xscore.platform.migration import NO_ROWS
from xscore.platform.table_changes import TableChange, create_others, reshape, table_columns
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
    number IN (SELECT source FROM edge_row WHERE file = 0 UNION SELECT target FROM edge_row WHERE file = 0)
"""
_INDEX_FACTS = (
    *("index_profile", "links_due", "index_totals", "index_files_left", "index_kept_out"),
    *("index_without_grammar", "index_parsing", "index_slow"),
)
"""Keys of `meta` that speak of the index."""
_ENDS_OF_STATED_EDGES = """
    INSERT INTO edge_end (id) SELECT source FROM edge WHERE path = '' UNION SELECT target FROM edge WHERE path = ''
"""
_STATED_EDGES = """
    INSERT INTO edge_row (source, target, relation, weight)
    SELECT one.number, other.number, relation, weight FROM edge
    JOIN edge_end AS one ON one.id = source JOIN edge_end AS other ON other.id = target WHERE path = ''
"""
_HINTS = {"entity:": "::", "inside:": "", "path:": "", "memory:": ""}
"""How the first shapes began the hint of a name in a statement -> how it begins now."""
_SHOWN = """
    SELECT content_hash AS hash FROM memory
    UNION ALL SELECT text_hash FROM memory WHERE text_hash <> content_hash
"""
"""The hash of each content that a memory shows, once for each memory."""


def run(connection: sqlite3.Connection) -> None:
    """Bring every table to schema 2."""
    script = script_of(2)
    has_edge_table = not table_columns(connection, "edge_row")
    mentions_of_files = "path" in table_columns(connection, "mention")
    (files,) = connection.execute("SELECT count(*) FROM file WHERE excluded = ''").fetchone()
    reshape(
        connection,
        script,
        {
            **{table: TableChange(rows) for table, rows in KEPT_ROWS.items()},
            "edge_end": TableChange(_USED_ENDS),
            "mention": TableChange("path = ''" if mentions_of_files else "true"),
            # No version of the readers: the next import reads these files again, and knows what it has.
            "session_file": TableChange(values={"readers": "0", "since": "0.0"}),
        },
    )
    if has_edge_table:
        connection.execute(_ENDS_OF_STATED_EDGES)
        connection.execute(_STATED_EDGES)
        connection.execute("DROP TABLE edge")
    _forget_indexed_memories(connection)
    if files:  # until all are indexed again, nobody may take the judgments of their memories for useless
        connection.execute("INSERT INTO meta (key, value) VALUES ('index_files_left', ?)", (str(files),))
    _add_terms(connection)
    create_others(connection, script)


def _forget_indexed_memories(connection: sqlite3.Connection) -> None:
    """Remove what refers to memories that are gone, count contents again, and let the index begin anew."""
    for table in ("evidence", "occurrence", "vec"):
        connection.execute(f"DELETE FROM {table} WHERE memory_id NOT IN (SELECT id FROM memory)")
    connection.execute("DELETE FROM vec WHERE embedder GLOB 'terms-*'")  # now a column of `memory`
    connection.execute("DELETE FROM mention WHERE source NOT IN (SELECT id FROM memory)")
    for before, after in _HINTS.items():
        connection.execute(
            "UPDATE OR REPLACE mention SET hint = ? || substr(hint, ?) WHERE hint GLOB ?",
            (after, len(before) + 1, f"{before}*"),
        )
    connection.execute("UPDATE content SET memories = 0 WHERE memories <> 0")
    shown = connection.execute(f"SELECT count(*), hash FROM ({_SHOWN}) GROUP BY hash").fetchall()
    connection.executemany("UPDATE content SET memories = ? WHERE hash = ?", shown)
    connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _INDEX_FACTS])


def _add_terms(connection: sqlite3.Connection) -> None:
    """Write the term vectors of stated memories, which the first shapes kept elsewhere."""
    rows = connection.execute("SELECT id, text, path, entity, title FROM memory WHERE terms = x''").fetchall()
    vectors = [
        (term_vector(text, path=path, entity=entity, title=title), id_) for id_, text, path, entity, title in rows
    ]
    connection.executemany("UPDATE memory SET terms = ? WHERE id = ?", vectors)
