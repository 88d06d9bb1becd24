"""Pruning judgments that no memory can reach."""

from sqlite3 import Connection

from tests.cache.conftest import JUDGE, NAMES, judgments, write_judgments
from tests.store.conftest import function
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key
from xscore.cache.prune import PruneOptions, PruneResult, prune_judgments
from xscore.platform import database
from xscore.records.judgment import Judgment
from xscore.store import memory_writer


def test_only_unreachable_judgments_go(connection: Connection) -> None:
    """Judgments of current memories stay; those of edited or removed memories are deleted with their reasons."""
    memory = function()
    with database.transaction(connection):
        memory_writer.put_memories(connection, [memory])
    write_judgments(connection, [Judgment(memory.content_hash, 0.9, "kept"), Judgment("gone", 0.5, "old")])
    assert prune_judgments(connection) == PruneResult(unreachable=1, over_cap=0, contents=1)
    assert read_judgments(connection, NAMES).keys() == {memory.content_hash}
    assert connection.execute("SELECT text FROM reason").fetchall() == [("kept",)]
    assert prune_judgments(connection) == PruneResult(0, 0, 0)


def test_over_the_cap_the_turns_longest_unused_go_first(connection: Connection) -> None:
    """Whole turns are deleted, least recently used first, until the cap is met."""
    memories = [function(f"f{number}") for number in range(10)]
    with database.transaction(connection):
        memory_writer.put_memories(connection, memories)
    for turn in ("old", "older", "fresh"):
        write_judgments(
            connection, [Judgment(memory.content_hash, 0.5) for memory in memories], (turn, judge_key(JUDGE), 0)
        )
    used = {"old": 20.0, "older": 10.0, "fresh": 30.0}
    for turn, at in used.items():
        connection.execute(
            "INSERT INTO turn (id, thread, turn_key, judge, task, started_at, state)"
            " SELECT ?, '', turn_key, judge, '', ?, 'done' FROM query WHERE turn_key = ?",
            (turn, at, turn),
        )
    assert prune_judgments(connection, PruneOptions(max_judgments=15)).over_cap == 20
    assert {turn: len(read_judgments(connection, (turn, judge_key(JUDGE), 0))) for turn in used} == {
        "old": 0,
        "older": 0,
        "fresh": 10,
    }


def test_an_indexed_repository_may_be_empty(connection: Connection) -> None:
    """An indexed repository whose last memory was removed is pruned of all its judgments."""
    connection.execute("INSERT INTO meta VALUES ('index_profile', 'x')")
    write_judgments(connection, judgments(0, 5))
    assert prune_judgments(connection) == PruneResult(unreachable=5, contents=5)
