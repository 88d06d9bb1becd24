"""Cache statistics, also for a damaged store."""

from pathlib import Path
from sqlite3 import Connection

from tests.cache.test_prune import NOW, asked, job, judged, remembered
from tests.store.conftest import function
from xscore.cache import judgment_store
from xscore.cache.stats import CacheStats, HitRate, cache_stats
from xscore.platform import database
from xscore.platform.clock import DAY_S
from xscore.store.opening import connect_store


def figures(
    connection: Connection, turn: str, candidates: int, cached: int, *, is_model: int = 1
) -> None:
    """Store the figures of a turn."""
    connection.execute(
        "INSERT INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached,"
        " carried, unjudged, unjudged_by_cause, kept, threshold, scores, index_s, pool_s, cache_s,"
        " judge_s, select_s, primary_s, total_s) VALUES (?, 'ask', 'openai:m', ?, ?, 0, ?, 0, 0,"
        " '{}', 0, 0.7, '[]', 0, 0, 0, 0, 0, 0, 0)",
        (turn, is_model, candidates, cached),
    )


def look(connection: Connection, path: Path, judge: str | None = "j1") -> CacheStats:
    """Compute the statistics now."""
    return cache_stats(connection, path, judge=judge, now=NOW)


def test_it_tells_what_can_be_used(connection: Connection, path: Path) -> None:
    """Judgments by judge, of removed contents and in quarantine; bytes add up to pages."""
    memories = remembered(connection, 3)
    judged(connection, "a", [*memories, function("gone")])
    judged(connection, "b", memories)
    judged(connection, "a", memories[:1], "j2")
    asked(connection, "a", NOW - DAY_S)
    figures(connection, "t_aj1", 4, 0)
    with database.transaction(connection):
        judgment_store.keep_untrusted(connection, ("a", "j3", 0), [("0" * 32, 0.5)])
    stats = look(connection, path)
    assert (stats.judgments, stats.turns, stats.reasons) == (8, 3, 8)
    assert (stats.unreachable, stats.quarantined) == (1, 1)
    assert [
        (
            judge_stats.judge,
            judge_stats.name,
            judge_stats.is_configured,
            judge_stats.turns,
            judge_stats.judgments,
            judge_stats.used_at,
        )
        for judge_stats in stats.judges
    ] == [
        ("j1", "openai:m", True, 2, 7, NOW - DAY_S),
        ("j2", "", False, 1, 1, None),
    ]
    assert stats.of_other_judges == 1 and stats.unreadable == ()
    assert stats.parts is not None and stats.parts["judgments"] >= 4_096
    assert stats.bytes >= path.stat().st_size


def test_hit_rates_by_stretch(connection: Connection, path: Path) -> None:
    """Model turns are counted by the time they were asked; jobs are counted separately."""
    for turn, days, candidates, cached in (
        ("a", 1, 10, 9),
        ("b", 20, 10, 0),
        ("c", 100, 20, 20),
    ):
        asked(connection, turn, NOW - days * DAY_S)
        figures(connection, f"t_{turn}j1", candidates, cached)
    asked(connection, "lexical", NOW)
    figures(connection, "t_lexicalj1", 99, 0, is_model=0)
    job(connection, "q")
    rates = {(rate.of, rate.days): rate for rate in look(connection, path).hit_rates}
    assert rates["turns", 7] == HitRate(of="turns", days=7, asked=1, candidates=10, hits=9)
    assert (rates["turns", 30].candidates, rates["turns", 30].hits) == (20, 9)
    assert (rates["turns", None].candidates, rates["turns", None].hits) == (40, 29)
    assert (rates["jobs", None].asked, rates["jobs", None].candidates) == (1, 1)
    assert rates["jobs", 7].asked == 0


def test_a_damaged_page_costs_its_part_alone(connection: Connection, path: Path) -> None:
    """Parts stored elsewhere are reported, and unreadable parts are named."""
    judged(connection, "a", remembered(connection, 2))
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'reason'"
    ).fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4_096)
        file.write(b"\xff" * 4_096)
    reopened = connect_store(path)
    stats = look(reopened, path)
    assert "reasons" in stats.unreadable and stats.judgments == 2
    reopened.close()
