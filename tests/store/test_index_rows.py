"""The index's rows."""

import sqlite3

import pytest

from tests.store.conftest import function
from xscore.platform.database import transaction
from xscore.platform.errors import StoreDamaged
from xscore.records.indexing import FileStamp, Mention
from xscore.records.memory import Edge, Kind, Layer, Memory, MemorySource, Relation
from xscore.store import file_rows, index_rows, link_rows, memory_writer
from xscore.store.encoded_files import EncodedFile, encode_file


def file(path: str, *memories: Memory, mentions: tuple[Mention, ...] = ()) -> EncodedFile:
    """An indexed file."""
    return encode_file(FileStamp(path, 1, 2, "h", "python"), memories, mentions)


def replace(
    connection: sqlite3.Connection, *files: EncodedFile, removed: tuple[str, ...] = ()
) -> index_rows.IndexChanges:
    """Replace files in a transaction."""
    with transaction(connection):
        return file_rows.replace_files(connection, files, removed)


def test_replacing_a_file_counts_what_it_did(connection: sqlite3.Connection) -> None:
    """Added, changed and removed memories are counted separately; equal ones do not count."""
    first = replace(connection, file("a.py", function("f"), function("g"), function("h")))
    second = replace(
        connection, file("a.py", function("f"), function("g", text="y"), function("i"))
    )
    assert first == index_rows.IndexChanges(added=3)
    assert second == index_rows.IndexChanges(added=1, changed=1, removed=1)


def test_no_statement_is_prepared_for_one_file_alone(connection: sqlite3.Connection) -> None:
    """SQLite compiles as many statements for fifty files as for ten: with the triggers, one takes
    as long as writing a file."""
    compiled: list[int] = []

    def note(action: int, *_: object) -> int:
        compiled.append(action)
        return sqlite3.SQLITE_OK

    def files(count: int, folder: str) -> list[EncodedFile]:
        return [file(f"{folder}/{n}.py", function(f"f{n}")) for n in range(count)]

    counts: list[int] = []
    connection.set_authorizer(note)
    for count, folder in ((10, "a"), (10, "b"), (50, "c")):
        compiled.clear()
        replace(connection, *files(count, folder), file(f"{folder}/empty.py"))
        counts.append(len(compiled))
    connection.set_authorizer(None)
    # The first time all of them are compiled.
    assert counts[0] > 0
    assert counts[1] == counts[2]


def test_memories_of_other_sources_at_a_path_are_left_alone(
    connection: sqlite3.Connection,
) -> None:
    """The index replaces its own memories; a decision that names a file stays."""
    decision = function(
        "d", layer=Layer.PROJECT, kind=Kind.DECISION, source=MemorySource.EXPLICIT
    )
    with transaction(connection):
        memory_writer.put_memories(connection, [decision])
    replace(connection, file("a.py", function("f")))
    replace(connection, removed=("a.py",))
    assert connection.execute("SELECT kind FROM memory").fetchall() == [("decision",)]


def test_what_is_due_adds_up_until_linked(connection: sqlite3.Connection) -> None:
    """Changed paths and names accumulate over transactions, survive a stop, and only linking clears
    them."""
    replace(connection, file("a.py", function("f")))
    replace(connection, file("pkg/b.py", function("C.g", path="pkg/b.py")))
    due = index_rows.links_due(connection)
    assert due.paths == {"a.py", "pkg/b.py"}
    assert {"f", "g"} <= due.names
    with transaction(connection):
        link_rows.replace_edges(
            connection, due.paths, [("a.py", Edge("m_1", "m_2", Relation.CALLS))]
        )
        index_rows.note_linked(connection)
    assert not index_rows.links_due(connection)


def test_an_edit_that_defines_nothing_new_makes_no_name_due(
    connection: sqlite3.Connection,
) -> None:
    """Editing a body leaves other files' edges unchanged."""
    replace(connection, file("a.py", function("f")))
    with transaction(connection):
        index_rows.note_linked(connection)
    replace(connection, file("a.py", function("f", text="other")))
    assert index_rows.links_due(connection) == index_rows.LinksDue(paths={"a.py"})


def test_many_changed_files_are_linked_as_a_whole(connection: sqlite3.Connection) -> None:
    """Past a thousand changed files one word replaces the list."""
    replace(connection, *(file(f"{n}.py") for n in range(file_rows.MANY_PATHS + 1)))
    assert index_rows.links_due(connection) == index_rows.LinksDue(everything=True)
    replace(connection, file("x.py"))
    assert index_rows.links_due(connection).everything


def test_removing_a_file_removes_edges_to_it(connection: sqlite3.Connection) -> None:
    """No edge outlives the memory or file at either end."""
    f, g = function("f"), function("g", path="b.py")
    replace(connection, file("a.py", f), file("b.py", g))
    with transaction(connection):
        edges = [
            ("b.py", Edge(g.id, f.id, Relation.CALLS)),
            ("b.py", Edge("f_b.py", "f_a.py", Relation.IMPORTS)),
        ]
        link_rows.replace_edges(connection, {"b.py"}, edges)
    replace(connection, removed=("a.py",))
    assert connection.execute("SELECT count(*) FROM edge").fetchone() == (0,)


def test_stamps_and_exclusions(connection: sqlite3.Connection) -> None:
    """Stamps round-trip; distrusting them keeps the files but trusts no stamp."""
    replace(connection, file("a.py"))
    with transaction(connection):
        index_rows.write_stamps(connection, [FileStamp("x.bin", 3, 4, "k", "", "binary")])
    assert index_rows.file_stamps(connection) == {
        "a.py": FileStamp("a.py", 1, 2, "h", "python"),
        "x.bin": FileStamp("x.bin", 3, 4, "k", "", "binary"),
    }
    assert index_rows.file_languages(connection) == {"a.py": "python"}
    with transaction(connection):
        index_rows.invalidate_stamps(connection)
    assert {(s.size, s.file_hash) for s in index_rows.file_stamps(connection).values()} == {
        (-1, "")
    }


@pytest.mark.parametrize("torn", ['{"paths": [', "[]", "5"])
def test_a_list_that_makes_no_sense_is_damage(
    connection: sqlite3.Connection, torn: str
) -> None:
    """The list of files to link is valid, or damage."""
    index_rows.write_index_meta(connection, "links_due", torn)
    with pytest.raises(StoreDamaged, match="is invalid"):
        index_rows.links_due(connection)
