"""Consolidation does not erase exported and imported memories for their age."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.exchange.filled import export_lines
from tests.statements import facts, say
from xscore.extensions.exchange.memory_lines import import_lines
from xscore.extensions.exchange.snapshots import import_snapshot, snapshot_lines, take_snapshot
from xscore.extensions.learning.consolidate import consolidate
from xscore.platform.paths import find_root
from xscore.records.memory import Kind, MemorySource
from xscore.settings import MemorySettings
from xscore.store.lookup import MemoryFilter, memory_by_id
from xscore.store.store import Store

DAY = 86_400.0
NOW = 2_000 * DAY
SAID = NOW - 400 * DAY


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores of one user; the first has a convention of 400 days ago."""
    for name in "ab":
        (tmp_path / name).mkdir()
    with (
        Store.open(find_root(tmp_path / "a"), user_data_dir=tmp_path / "user", clock=lambda: NOW) as one,
        Store.open(find_root(tmp_path / "b"), user_data_dir=tmp_path / "user", clock=lambda: NOW) as other,
    ):
        say(one, "we sort imports by hand", kind=Kind.CONVENTION, now=SAID)
        yield one, other


@pytest.mark.parametrize("way", ["lines", "snapshot"])
def test_what_was_said_long_ago_survives_the_way_to_another_store(stores: tuple[Store, Store], way: str) -> None:
    """L03: imported today counts as seen today: consolidation erases nothing of it until it is unseen for long."""
    one, other = stores
    ((identifier, said),) = ((memory.id, memory) for memory in facts(one))
    if way == "lines":
        import_lines(other, "\n".join(export_lines(one, MemoryFilter())).encode())
    else:
        text = "".join(snapshot_lines(take_snapshot(one), secret=one.secret))
        import_snapshot(other, text.encode(), now=NOW)
    consolidate(other, MemorySettings(), now=NOW + DAY)
    kept = memory_by_id(other, identifier)
    assert (kept.source, kept.text, kept.updated_at) == (MemorySource.IMPORT, said.text, SAID)
    consolidate(other, MemorySettings(), now=NOW + 800 * DAY)
    assert identifier not in {memory.id for memory in facts(other)}
