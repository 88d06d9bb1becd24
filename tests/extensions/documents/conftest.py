"""A repository with a document next to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from xscore.extensions.documents.fetching import DocumentFetcher
from xscore.settings import DocumentSettings
from xscore.store.store import Store


class Moment:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Return the time, in Unix seconds."""
        return self.now


@pytest.fixture
def moment() -> Moment:
    """The clock of `shelf`."""
    return Moment()


@pytest.fixture
def shelf(tmp_path: Path, user_dir: Path, moment: Moment) -> Iterator[Store]:
    """An empty store in a folder of its own."""
    from xscore.platform.paths import find_root

    folder = tmp_path / "shelf"
    folder.mkdir()
    with Store.open(find_root(folder), user_data_dir=user_dir, clock=moment) as store:
        yield store


@pytest.fixture
def fetcher(shelf: Store, monkeypatch: pytest.MonkeyPatch) -> DocumentFetcher:
    """What fetches into it from its folder."""
    monkeypatch.chdir(shelf.root.path)
    return DocumentFetcher(shelf, DocumentSettings())
