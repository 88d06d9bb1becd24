"""Pruning: what no memory can reach, old turns, other judges, what is beyond the cap; never work in
progress."""

import os
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.store.conftest import function, put
from xscore.cache import judgment_store
from xscore.cache.judgment_store import insert_judgments
from xscore.cache.prune import PruneOptions, PruneResult, preview_prune, prune_judgments
from xscore.cache.stats import cache_stats
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.platform.processes import process_identity
from xscore.records.judgment import Judgment
from xscore.records.memory import Memory
from xscore.store import memory_writer

NOW = 1_000_000_000.0
DAY = 86_400.0
PARTS = [
    Judgment(f"{number:x}" * 32, 0.5, "", f"w_{str(number) * 16}{rung}")
    for number, rung in ((1, ""), (2, "/a.0"))
]


def remembered(connection: Connection, count: int) -> list[Memory]:
    """Add functions to the store."""
    memories = [function(f"f{number}") for number in range(count)]
    put(connection, *memories)
    return memories


def judged(
    connection: Connection, turn_key: str, memories: Iterable[Memory], judge: str = "j1"
) -> None:
    """Store judgments of memories for a turn."""
    with database.transaction(connection):
        insert_judgments(
            connection,
            [Judgment(memory.content_hash, 0.5, "why") for memory in memories],
            (turn_key, judge, 0),
        )


def asked(
    connection: Connection, turn_key: str, at: float, *, judge: str = "j1", state: str = "done"
) -> None:
    """Record that a turn asked for these judgments."""
    connection.execute(
        "INSERT INTO turn (id, thread, turn_key, judge, task, context, started_at, state)"
        " VALUES (?, '', ?, ?, '', json_object('process', ?), ?, ?)",
        (f"t_{turn_key}{judge}", turn_key, judge, process_identity(), at, state),
    )


def left(connection: Connection) -> set[tuple[str, str]]:
    """Return the remaining judgments as turn key and judge key."""
    return set(
        connection.execute(
            "SELECT DISTINCT turn_key, judge FROM query JOIN judgment ON query_id = id"
        ).fetchall()
    )


def enter(connection: Connection, table: str, **values: object) -> None:
    """Insert a row; required columns that do not matter are 0."""
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    row = {
        name: 0 for _, name, _, needed, default, _ in columns if needed and default is None
    } | values
    connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
        tuple(row.values()),
    )


def job(connection: Connection, turn_key: str, *, ended_at: float | None = None) -> None:
    """Insert a job with one question."""
    name, job_fields = (
        f"b_{turn_key}",
        {"created_at": 5.0, "ended_at": ended_at, "candidates": 1},
    )
    enter(
        connection,
        "job",
        id=name,
        command="submit",
        judge_spec="openai:m",
        judge="j1",
        plan="{}",
        **job_fields,
    )
    enter(connection, "job_question", job=name, name="one", context="{}", turn_key=turn_key)


def test_old_turns_go_and_those_of_unknown_age_stay(connection: Connection) -> None:
    """Age is counted from the last time a turn was asked; an imported turn has no age until it is
    asked."""
    memories = remembered(connection, 3)
    for turn_key, at in (("old", NOW - 91 * DAY), ("new", NOW - DAY), ("imported", None)):
        judged(connection, turn_key, memories)
        if at is not None:
            asked(connection, turn_key, at)
    asked(connection, "old", NOW - 90 * DAY, judge="j2")
    sweep = PruneOptions(unused_since=NOW - 90 * DAY)
    swept = PruneResult(0, 0, 0, unused=3)
    assert preview_prune(connection, sweep, now=NOW) == swept
    assert prune_judgments(connection, sweep, now=NOW) == swept
    assert left(connection) == {("new", "j1"), ("imported", "j1")}


def test_a_judge_is_swept_by_name_or_key(connection: Connection) -> None:
    """Other judges keep their judgments."""
    memories = remembered(connection, 2)
    for judge in ("aaaaaaaa11", "aaaaaaaa22", "bb33"):
        judged(connection, "turn", memories, judge)
    assert (
        prune_judgments(connection, PruneOptions(judges=["aaaaaaaa"]), now=NOW).of_judges == 4
    )
    asked(connection, "turn", NOW, judge="bb33")
    connection.execute(
        "INSERT INTO turn_figures (turn_id, command, judge, is_model, candidates, judged, cached,"
        " carried, unjudged, unjudged_by_cause, kept, threshold, scores, index_s, pool_s, cache_s,"
        " judge_s, select_s, primary_s, total_s) VALUES ('t_turnbb33', 'ask', 'openai:m', 1, 2, 2,"
        " 0, 0, 0, '{}', 0, 0.7, '[]', 0, 0, 0, 0, 0, 0, 0)"
    )
    assert (
        prune_judgments(connection, PruneOptions(judges=["openai:m"]), now=NOW).of_judges == 2
    )
    assert left(connection) == set()


@pytest.mark.parametrize(
    ("judge", "error"),
    [
        ("", UsageError),
        ("a", UsageError),
        ("aaaaaaa", UsageError),
        ("openai:n", NothingMatched),
    ],
)
def test_a_slip_of_the_hand_names_no_judge(
    connection: Connection, judge: str, error: type[Exception]
) -> None:
    """A key prefix under eight characters is refused as ambiguous, an unknown one is reported;
    nothing is deleted."""
    judged(connection, "turn", remembered(connection, 1), "aaaaaaaa11")
    with pytest.raises(error):
        prune_judgments(connection, PruneOptions(judges=[judge]), now=NOW)
    assert left(connection) == {("turn", "aaaaaaaa11")}


def test_what_begins_during_the_sweep_stays(connection: Connection) -> None:
    """A turn asked again after the pruning was planned keeps its judgments."""
    memories = remembered(connection, 2)
    for turn_key in ("first", "second"):
        judged(connection, turn_key, memories)
    asked(connection, "second", NOW)
    connection.execute(
        "CREATE TRIGGER another_process AFTER DELETE ON judgment BEGIN UPDATE turn SET state ="
        " 'running'; END"
    )
    done = prune_judgments(connection, PruneOptions(max_judgments=0), now=NOW)
    assert (done.over_cap, done.needed_now) == (2, 2)
    assert left(connection) == {("second", "j1")}


def test_what_is_under_way_stays(connection: Connection) -> None:
    """Neither age, cap nor judge deletes a judgment that a running turn or an open job needs."""
    memories = remembered(connection, 2)
    for turn_key in ("running", "job", "ended", "idle"):
        judged(connection, turn_key, [*memories, function("gone")])
    asked(connection, "running", NOW - 100 * DAY, state="running")
    job(connection, "job")
    job(connection, "ended", ended_at=6.0)
    sweep = PruneOptions(max_judgments=0, unused_since=NOW, judges=["openai:m"])
    foreseen = preview_prune(connection, sweep, now=NOW)
    assert foreseen == prune_judgments(connection, sweep, now=NOW)
    assert (foreseen.needed_now, foreseen.of_judges, foreseen.unreachable) == (6, 4, 2)
    assert left(connection) == {("running", "j1"), ("job", "j1")}


def test_a_turn_whose_process_is_gone_is_not_under_way(connection: Connection) -> None:
    """A killed turn does not keep judgments for ever."""
    judged(connection, "killed", remembered(connection, 1))
    asked(connection, "killed", NOW - DAY, state="running")
    gone = process_identity().replace(str(os.getpid()), "4194304", 1)
    connection.execute("UPDATE turn SET context = json_object('process', ?)", (gone,))
    assert prune_judgments(connection, PruneOptions(max_judgments=0), now=NOW).over_cap == 1


def test_a_preview_removes_nothing_and_foresees_the_sweep(connection: Connection) -> None:
    """Plan and run report the same figures, and a second run finds nothing to do."""
    memories = remembered(connection, 4)
    for turn_key in ("a", "b", "c"):
        judged(connection, turn_key, [*memories, function("x"), function("y")])
    with database.transaction(connection):
        judgment_store.keep_untrusted(connection, ("a", "j2", 0), [("0" * 32, 0.5)])
    for sweep in (PruneOptions(max_judgments=100), PruneOptions(max_judgments=5)):
        before = connection.total_changes
        foreseen = preview_prune(connection, sweep, now=NOW)
        assert connection.total_changes == before
        assert prune_judgments(connection, sweep, now=NOW) == foreseen
    assert left(connection) == {("c", "j1")} and judgment_store.count_untrusted(connection) == 0


def test_only_unreachable_judgments_go(connection: Connection) -> None:
    """Judgments of current memories stay; those of edited or removed memories are deleted with
    their reasons."""
    judged(connection, "a", [*remembered(connection, 1), function("gone")])
    assert prune_judgments(connection) == PruneResult(unreachable=1, over_cap=0, contents=1)
    assert connection.execute("SELECT text FROM reason").fetchall() == [("why",)]
    assert prune_judgments(connection) == PruneResult(0, 0, 0)


def test_over_the_cap_the_turns_longest_unused_go_first(connection: Connection) -> None:
    """Whole turns are deleted, least recently used first, until the cap is met."""
    memories = remembered(connection, 10)
    for turn_key, at in (("old", 20.0), ("older", 10.0), ("fresh", 30.0)):
        judged(connection, turn_key, memories)
        asked(connection, turn_key, at)
    assert prune_judgments(connection, PruneOptions(max_judgments=15), now=NOW).over_cap == 20
    assert left(connection) == {("fresh", "j1")}


def test_an_indexed_repository_may_be_empty(connection: Connection) -> None:
    """An indexed repository whose last memory was removed is pruned of all its judgments."""
    connection.execute("INSERT INTO worktree_meta VALUES (1, 'index_profile', 'x')")
    judged(connection, "a", [function("f"), function("g")])
    assert prune_judgments(connection) == PruneResult(unreachable=2, contents=2)


def test_what_was_imported_before_the_index_stays(connection: Connection, path: Path) -> None:
    """Pruning before the first index is refused and removes nothing; no judgment counts as
    unreachable."""
    judged(connection, "a", [function("f"), function("g")])
    for sweep in (preview_prune, prune_judgments):
        with pytest.raises(UsageError) as refused:
            sweep(connection, PruneOptions(), now=NOW)
        assert "xscore index" in refused.value.hint
    stats = cache_stats(connection, path, judge=None, now=NOW)
    assert (stats.judgments, stats.unreachable, stats.is_indexed) == (2, 0, False)


def test_parts_stay_until_their_memory_is_judged(connection: Connection, path: Path) -> None:
    """Leftover parts can be pruned; they are counted apart from edited memories, before and
    after."""
    large = function("large", text="def large():\n" + "    total = total + 1\n" * 500)
    with database.transaction(connection):
        memory_writer.put_memories(connection, [large])
        insert_judgments(connection, PARTS, ("a", "j1", 0))
    judged(connection, "a", [*remembered(connection, 1), function("gone")])
    stats = cache_stats(connection, path, judge=None, now=NOW)
    assert (stats.unreachable, stats.parts_needed, stats.parts_spare) == (1, 2, 0)
    assert prune_judgments(connection, now=NOW) == PruneResult(
        unreachable=1, over_cap=0, contents=1
    )
    judged(connection, "a", [large])
    stats = cache_stats(connection, path, judge=None, now=NOW)
    assert (stats.unreachable, stats.parts_needed, stats.parts_spare) == (0, 0, 2)
    gone = PruneResult(unreachable=0, over_cap=0, contents=2, parts=2)
    assert preview_prune(connection, PruneOptions(), now=NOW).parts == 2
    assert prune_judgments(connection, now=NOW) == gone
    assert gone.judgments == 2 and not gone.reachable
