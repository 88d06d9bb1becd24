"""A judgment whose row changed by itself is damage, whatever it changed into."""

from sqlite3 import Connection

import pytest

from tests.cache.conftest import JUDGE, judgments
from xscore.cache.judgments import Judgments, find_or_add_query, known_judgments
from xscore.cache.keys import judge_key
from xscore.platform.errors import StoreDamaged
from xscore.records import Judgment


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE judgment SET score = 0.75 WHERE content_id = 3",
        "UPDATE judgment SET prior = 0.75 WHERE content_id = 3",
        "UPDATE judgment SET position = 1 WHERE content_id = 3",
        "UPDATE judgment SET pack = 'p_1' WHERE content_id = 3",
        "UPDATE judgment SET checksum = checksum + 1 WHERE content_id = 3",
        "UPDATE judgment SET content_id = 9 WHERE content_id = 3",
        "UPDATE content SET hash = 'ee' WHERE id = 3",
        "UPDATE judgment SET position = 'x' WHERE content_id = 3",
        "UPDATE judgment SET pack = x'00' WHERE content_id = 3",
    ],
)
def test_a_changed_judgment_does_not_fit_its_checksum(connection: Connection, change: str) -> None:
    """Score, prior, place or content changed into another valid value: damage, never another judgment."""
    Judgments(connection).write("turn", JUDGE, judgments(0, 5))
    connection.execute("INSERT INTO content (id, hash) VALUES (9, 'ff')")
    assert len(Judgments(connection).known("turn", JUDGE)) == 5
    connection.execute(change)
    with pytest.raises(StoreDamaged, match="store is damaged") as caught:
        Judgments(connection).known("turn", JUDGE)
    assert "`xscore store rebuild`" in caught.value.hint


def test_a_judgment_does_not_pass_for_another_turns(connection: Connection) -> None:
    """A row filed under another turn, or a turn whose number slipped, is damage."""
    cache = Judgments(connection)
    cache.write("turn", JUDGE, judgments(0, 5))
    cache.write("turn 2", JUDGE, judgments(5, 6))
    connection.execute("UPDATE query SET turn_key = CASE turn_key WHEN 'turn' THEN 'x' ELSE 'turn' END")
    with pytest.raises(StoreDamaged):
        cache.known("turn", JUDGE)


def test_some_judgments_are_read_as_carefully_as_all(connection: Connection) -> None:
    """Looking a few contents up gives those that are judged, and checks them."""
    Judgments(connection).write("turn", JUDGE, judgments(0, 5))
    names = ("turn", judge_key(JUDGE), 0)
    query = find_or_add_query(connection, names)
    asked = [one.content_hash for one in judgments(4, 7)]
    assert known_judgments(connection, names, query, asked) == {asked[0]: judgments(4, 5)[0]}
    connection.execute("UPDATE judgment SET score = 0.9")
    with pytest.raises(StoreDamaged):
        known_judgments(connection, names, query, asked)


def test_zero_has_one_checksum(connection: Connection) -> None:
    """Minus zero, which the store keeps as zero, comes back as a score and not as damage."""
    Judgments(connection).write("turn", JUDGE, [Judgment("aa", -0.0, prior=-0.0)])
    assert Judgments(connection).known("turn", JUDGE)["aa"].score == 0.0
