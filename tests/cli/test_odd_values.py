"""Values of another type than their columns: the store is called damaged, not xscore faulty."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo, store_file
from xscore.platform.odd_values import _odd_columns

FILES = {"cart.py": "def total(items):\n    return sum(items)\n", "README.md": "# Cart\n"}


@pytest.fixture
def root(make_repo: MakeRepo, xscore: Run) -> Path:
    """A repository with an index, a decision and a turn."""
    root = make_repo(FILES)
    assert xscore("memory", "add", "Carts are summed once.", cwd=root).returncode == 0
    assert xscore("context", "sum a cart", "--judge", "lexical", cwd=root).returncode == 0
    return root


@pytest.mark.parametrize(
    ("damage", "arguments", "column"),
    [
        ("UPDATE file_row SET version = x''", ("index",), "file_row.version"),
        ("UPDATE memory_row SET id = x''", ("explain", "cart.py::total"), "memory_row.id"),
    ],
)
def test_an_odd_value_is_damage(
    root: Path, xscore: Run, damage: str, arguments: tuple[str, ...], column: str
) -> None:
    """Exit 6 with the column, and how to mend it; a sound store has none."""
    with closing(sqlite3.connect(store_file(root), isolation_level=None)) as connection:
        assert list(_odd_columns(connection)) == []
        connection.execute(damage)
    (root / "cart.py").write_text("def total(items):\n    return 0\n")
    done = xscore(*arguments, "--json", cwd=root)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (6, "store_damaged")
    assert column in error["message"] and "store rebuild" in error["hint"]
