"""A store of its own for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xscore.platform.paths import find_root
from xscore.records.memory import Kind, Layer, Memory
from xscore.store import memory_writer
from xscore.store.store import Store

MakeMemory = Callable[..., Memory]


@pytest.fixture
def user_dir(tmp_path: Path) -> Path:
    """Give the folder with the user's secret."""
    return tmp_path / "user"


@pytest.fixture
def store(tmp_path: Path, user_dir: Path) -> Iterator[Store]:
    """Open a new, empty, trusted store."""
    (tmp_path / "project").mkdir()
    with Store.open(find_root(tmp_path / "project"), user_data_dir=user_dir) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path, user_dir: Path) -> Iterator[Store]:
    """Open another, empty store of the same user."""
    (tmp_path / "other").mkdir()
    with Store.open(find_root(tmp_path / "other"), user_data_dir=user_dir, clock=lambda: 1_000.0) as opened:
        yield opened


def function(name: str = "f", *, text: str = "", path: str = "a.py", **more: object) -> Memory:
    """Make a function's memory through the door."""
    values: dict[str, object] = {
        "layer": Layer.GRAPH,
        "kind": Kind.FUNCTION,
        "title": f"def {name}()",
        "text": text or f"def {name}():\n    return 1\n",
        "path": path,
        "entity": name,
        "language": "python",
        "updated_at": 10.0,
    }
    memory, _ = memory_writer.make_memory(**(values | more))  # type: ignore[arg-type]  # any field may be given
    return memory
