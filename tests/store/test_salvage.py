"""What is salvaged from a damaged store whose pages are swapped."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cache.conftest import NAMES, write_judgments
from xscore.cache.judgments import read_judgments
from xscore.extensions.recovery.salvage import salvage_store
from xscore.records.judgment import Judgment
from xscore.store.opening import connect_store

DOUBLED = """
    CREATE TABLE twice (id INTEGER PRIMARY KEY, turn_key TEXT, judge TEXT, sample INTEGER);
    INSERT INTO twice SELECT id, turn_key, judge, sample FROM query;
    INSERT INTO twice SELECT id + 1, turn_key, judge, sample FROM query;
    INSERT INTO judgment SELECT query_id + 1, content_id, score, prior, pack, position, checksum FROM judgment;
    DROP TABLE query;
    ALTER TABLE twice RENAME TO query;
"""


def test_rows_that_a_damaged_table_holds_twice_come_over_once(tmp_path: Path) -> None:
    """A page copied over another repeats its rows: they are kept and counted once, and nothing is refused."""
    damaged = tmp_path / "damaged" / "memory.db"
    with closing(connect_store(damaged)) as connection:
        write_judgments(connection, [Judgment("a", 0.9, "why"), Judgment("b", 0.1)])
    with closing(sqlite3.connect(damaged)) as plain:
        plain.executescript("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON;" + DOUBLED)
    with closing(connect_store(tmp_path / "new" / "memory.db")) as target:
        found = salvage_store(damaged, target)
        known = read_judgments(target, NAMES)
    assert {content: judgment.score for content, judgment in known.items()} == {"a": 0.9, "b": 0.1}
    assert (found.kept["judgments"], found.kept["tasks"]) == (2, 1)
