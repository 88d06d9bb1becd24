"""A repository with a store, and a home for the logs of agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import own_store
from tests.conftest import MakeRepo
from xscore.store.store import Store


@pytest.fixture
def root(make_repo: MakeRepo, own_home: Path) -> Path:
    """A repository with one file."""
    return make_repo({"src/pay.py": "def pay(cents):\n    return cents\n"})


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """The repository's store, as the user's commands open it."""
    with own_store(root) as opened:
        yield opened
