"""Artifacts: files that were made once, by their fingerprint and path."""

from pathlib import Path

import pytest

from tests.extensions.learning.conftest import NOW
from xscore.platform.errors import UsageError
from xscore.records.memory import Kind, MemoryStatus
from xscore.records.statement import Statement
from xscore.store.citing import parse_citation
from xscore.store.evidence import refresh_evidence
from xscore.store.remembering import remember
from xscore.store.store import Store

IMAGE = b"\x89PNG\r\n\x1a\n\x00\x00 logo"


def add(store: Store, text: str, path: str) -> str:
    """Remember an artifact; return its id."""
    statement = Statement(text=text, kind=Kind.ARTIFACT, aliases=("our logo",))
    return remember(
        store, statement, citations=[parse_citation(store.root, path)], now=NOW
    ).memory.id


def status(store: Store, id_: str) -> MemoryStatus:
    """Return its status as it is now."""
    refresh_evidence(store.connection, store.root, now=NOW)
    (memory,) = store.memories([id_]).values()
    return memory.status


def test_an_image_is_kept_by_its_fingerprint(store: Store) -> None:
    """B05: it names its file, is stale when that changes or goes, and active when it is back."""
    place = Path(store.root.path, "logo.png")
    place.write_bytes(IMAGE)
    id_ = add(store, "The logo, in blue", "logo.png")
    (memory,) = store.memories([id_]).values()
    assert (memory.key, memory.details.links) == ("logo.png", ("logo.png",))
    assert "File: logo.png" in memory.text
    assert status(store, id_) is MemoryStatus.ACTIVE
    place.write_bytes(IMAGE + b"!")
    assert status(store, id_) is MemoryStatus.STALE
    place.write_bytes(IMAGE)
    assert status(store, id_) is MemoryStatus.ACTIVE
    place.unlink()
    assert status(store, id_) is MemoryStatus.STALE


def test_a_file_has_one_artifact(store: Store) -> None:
    """Said again of the same file, the later statement holds."""
    Path(store.root.path, "logo.png").write_bytes(IMAGE)
    first, second = (add(store, text, "logo.png") for text in ("The logo", "The logo, larger"))
    assert status(store, first) is MemoryStatus.SUPERSEDED
    assert status(store, second) is MemoryStatus.ACTIVE


def test_an_artifact_names_its_file(store: Store) -> None:
    """Without a file there is nothing to offer again."""
    with pytest.raises(UsageError) as refused:
        remember(store, Statement(text="The logo", kind=Kind.ARTIFACT), now=NOW)
    assert "--cite" in refused.value.hint
