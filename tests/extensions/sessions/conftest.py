"""A repository with a store, and a home for the test's session files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.extensions.sessions.session_writers import Import, Past, Texts, words_of
from xscore.extensions.sessions.exchange_writer import SessionImportReport
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.platform.paths import find_root
from xscore.records.memory import Memory
from xscore.store.store import Store

NOW = 4_000_000_000.0
"""Later than every time in the synthetic files, and than the clock by which they are written."""


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository with a file that exchanges mention."""
    return make_repo({"src/reader.py": "def read_lines(text):\n    return text.splitlines()\n"})


@pytest.fixture
def store(root: Path, own_home: Path) -> Iterator[Store]:
    """The repository's store."""
    with Store.open(find_root(root), user_data_dir=own_home / "data") as opened:
        yield opened


@pytest.fixture
def run(store: Store, own_home: Path) -> Import:
    """Import the sessions in the home."""

    def importing(**options: object) -> SessionImportReport:
        environ = options.pop("environ", {})
        assert isinstance(environ, dict)
        places = AgentFolders(own_home, environ, store.root.path)
        return import_sessions(store, places, **{"now": NOW, **options})  # type: ignore[arg-type]  # each test passes valid arguments

    return importing


@pytest.fixture
def past(store: Store) -> Past:
    """Return the stored exchanges, oldest first."""

    def exchanges() -> list[Memory]:
        from xscore.store import memory_rows

        memories = memory_rows.select_memories(
            store.connection, "kind = 'exchange' AND source = 'import'", ()
        )
        return sorted(memories, key=lambda memory: (memory.created_at, memory.text))

    return exchanges


@pytest.fixture
def texts(past: Past) -> Texts:
    """Return the texts of the stored exchanges, each on one line."""
    return lambda: [words_of(memory.text) for memory in past()]
