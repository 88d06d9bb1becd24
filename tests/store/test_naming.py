"""What a name refers to, and the nearest names to an unknown one."""

import pytest

from tests.store.conftest import function
from xscore.platform import database
from xscore.records.indexing import FileStamp
from xscore.records.memory import CodeFacts, Kind, Memory
from xscore.store import file_rows
from xscore.store.encoded_files import encode_file
from xscore.store.naming import find_named, near_names, unknown_name
from xscore.store.store import Store


def entity(name: str, path: str, first: int, last: int) -> Memory:
    """Make the memory of an entity at these lines."""
    return function(name, path=path, text=f"# {path}", start_line=first, end_line=last)


def block(name: str, path: str, *defines: str) -> Memory:
    """Make the memory of a block of module-level code."""
    facts = CodeFacts(defines=defines)
    return function(
        name, path=path, text=name, kind=Kind.BLOCK, start_line=80, end_line=80, facts=facts
    )


MEMORIES = (
    entity("Session", "src/requests/sessions.py", 10, 60),
    entity("Session.send", "src/requests/sessions.py", 20, 30),
    entity("resolve_redirects", "src/requests/sessions.py", 70, 90),
    entity("Adapter.send", "src/requests/adapters.py", 5, 9),
    entity("get_auth", "src/requests/auth.py", 1, 4),
    entity("Install > Linux", "README.md", 3, 8),
    entity("Copyright Encode Ltd.", "LICENSE.md", 1, 9),
    block("module:POOL_SIZE", "src/requests/adapters.py", "POOL_SIZE", "retries"),
    block("module:after Adapter.send", "src/requests/adapters.py"),
)


@pytest.fixture
def indexed(store: Store) -> Store:
    """A store with a few files and their entities."""
    by_file: dict[str, tuple[Memory, ...]] = {}
    for memory in MEMORIES:
        by_file[memory.path] = (*by_file.get(memory.path, ()), memory)
    files = [
        encode_file(FileStamp(path, 1, 1, "h", "python"), file_memories)
        for path, file_memories in by_file.items()
    ]
    with database.transaction(store.connection):
        file_rows.replace_files(store.connection, files, ())
    return store


@pytest.mark.parametrize(
    ("name", "places"),
    [
        (MEMORIES[1].id, [1]),
        ("src/requests/sessions.py::Session.send", [1]),
        ("sessions.py::Session.send", [1]),
        ("src/requests/sessions.py:20-30", [1]),
        ("sessions.py:25", [1]),
        ("sessions.py:40", [0]),
        ("sessions.py:55-75", [0, 2]),
        ("src/requests/auth.py", [4]),
        ("Session.send", [1]),
        ("send", [3, 1]),
        ("POOL_SIZE", [7]),
        ("adapters.py::retries", [7]),
        ("auth.py::retries", []),
        ("pool_size", []),
        ("Linux", [5]),
        ("Install > Linux", [5]),
        ("sessions.py:500", []),
        ("nothing", []),
        ("", []),
    ],
)
def test_a_name_stands_for_memories(indexed: Store, name: str, places: list[int]) -> None:
    """An id, a place as `ask` prints it, an entity, a method or a bare name; all matches are
    found."""
    assert find_named(indexed.connection, name) == [MEMORIES[place].id for place in places]


def test_an_entity_stands_for_what_is_inside_it(indexed: Store) -> None:
    """A walk from a class starts at its methods too."""
    memory_ids = find_named(indexed.connection, "sessions.py::Session", inside=True)
    assert memory_ids == [MEMORIES[0].id, MEMORIES[1].id]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("src/requests/atuh.py", "src/requests/auth.py"),
        ("sesions.py:12", "src/requests/sessions.py"),
        ("sessions.py::resolve_redirect", "src/requests/sessions.py::resolve_redirects"),
        ("src/requests/auth.py::get_auths", "src/requests/auth.py::get_auth"),
        ("Sesion.send", "src/requests/sessions.py::Session.send"),
        ("redirects", "src/requests/sessions.py::resolve_redirects"),
        ("GET_AUHT", "src/requests/auth.py::get_auth"),
    ],
)
def test_slips_find_what_was_meant(indexed: Store, name: str, nearest: str) -> None:
    """A06: swapped, missing or extra letters; a shortened name; another case."""
    assert near_names(indexed.connection, name)[0] == nearest
    assert nearest in unknown_name(indexed.connection, name).hint


def test_what_resembles_nothing_gets_no_name(indexed: Store) -> None:
    """A name without similar ones gets a hint about how names are written."""
    assert near_names(indexed.connection, "zzzzzz.rs") == []
    assert "path::entity" in unknown_name(indexed.connection, "zzzzzz.rs").hint
