"""An encrypted store for tests: made in this process, its key in a file, inspected byte by byte."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.statements import say
from xscore.extensions.privacy import encryption
from xscore.platform.encrypted_sqlite import open_encrypted
from xscore.platform.paths import find_root
from xscore.store.store import Store

PLANTED = "the heron nests behind the third boiler"
HEADER = b"SQLite format 3\0"


def open_store(root: Path, user_dir: Path) -> Store:
    """Open the store of this folder."""
    return Store.open(find_root(root), user_data_dir=user_dir)


def make_plain_store(root: Path, user_dir: Path, *, memories: int = 5) -> Path:
    """Make a store with planted words; return its database."""
    root.mkdir(exist_ok=True)
    with open_store(root, user_dir) as store:
        for number in range(memories):
            say(store, f"{PLANTED}, said {number}", now=10.0)
        return store.path


def make_encrypted_store(root: Path, user_dir: Path, *, memories: int = 5) -> Path:
    """Make the same, encrypted."""
    path = make_plain_store(root, user_dir, memories=memories)
    encryption.encrypt_store(path, user_data_dir=user_dir)
    return path


def files_containing(folder: Path, words: str = "heron") -> list[str]:
    """Return the files below a folder that contain these words."""
    return sorted(
        file.name
        for file in folder.rglob("*")
        if file.is_file() and words.encode() in file.read_bytes()
    )


def contents(connection: sqlite3.Connection) -> dict[str, object]:
    """Return every row of every table, the schema, and the header's values."""
    schema = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2"
    ).fetchall()
    tables = [name for kind, name, *_ in schema if kind == "table"]
    rows_by_table: dict[str, object] = {"schema": schema}
    for table in tables:
        rows_by_table[table] = sorted(
            map(repr, connection.execute(f'SELECT * FROM "{table}"').fetchall())
        )
    for fact in ("user_version", "application_id"):
        rows_by_table[fact] = connection.execute(f"PRAGMA {fact}").fetchall()
    return rows_by_table


def contents_of(path: Path, key: bytes) -> dict[str, object]:
    """Return the same of a file, encrypted or not."""
    with closing(open_encrypted(path, key)) as connection:
        return contents(connection)
