"""What pruning keeps: parts of memories not yet judged as a whole, and everything that cannot be attributed yet."""

from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.cache.test_sweep import NOW, judged, remembered
from tests.store.conftest import function
from xscore.cache.judgment_store import insert_judgments
from xscore.cache.prune import PruneOptions, PruneResult, preview_prune, prune_judgments
from xscore.cache.stats import cache_stats
from xscore.platform import database
from xscore.platform.errors import UsageError
from xscore.records.judgment import Judgment
from xscore.store import memory_writer

PARTS = [
    Judgment(f"{number:x}" * 32, 0.5, "", f"w_{str(number) * 16}{rung}") for number, rung in ((1, ""), (2, "/a.0"))
]


def test_what_was_imported_before_the_index_stays(connection: Connection, path: Path) -> None:
    """Pruning before the first index is refused and removes nothing; no judgment counts as unreachable."""
    judged(connection, "a", [function("f"), function("g")])
    for sweep in (preview_prune, prune_judgments):
        with pytest.raises(UsageError) as refused:
            sweep(connection, PruneOptions(), now=NOW)
        assert "xscore index" in refused.value.hint
    found = cache_stats(connection, path, judge=None, now=NOW)
    assert (found.judgments, found.unreachable, found.is_indexed) == (2, 0, False)


def test_parts_stay_until_their_memory_is_judged(connection: Connection, path: Path) -> None:
    """Leftover parts can be pruned; they are counted apart from edited memories, before and after."""
    large = function("large", text="def large():\n" + "    total = total + 1\n" * 500)
    with database.transaction(connection):
        memory_writer.put_memories(connection, [large])
        insert_judgments(connection, PARTS, ("a", "j1", 0))
    judged(connection, "a", [*remembered(connection, 1), function("gone")])
    found = cache_stats(connection, path, judge=None, now=NOW)
    assert (found.unreachable, found.parts_needed, found.parts_spare) == (1, 2, 0)
    assert prune_judgments(connection, now=NOW) == PruneResult(unreachable=1, over_cap=0, contents=1)
    judged(connection, "a", [large])
    found = cache_stats(connection, path, judge=None, now=NOW)
    assert (found.unreachable, found.parts_needed, found.parts_spare) == (0, 0, 2)
    gone = PruneResult(unreachable=0, over_cap=0, contents=2, parts=2)
    assert (preview_prune(connection, PruneOptions(), now=NOW).parts, prune_judgments(connection, now=NOW)) == (2, gone)
    assert gone.judgments == 2 and not gone.reachable
