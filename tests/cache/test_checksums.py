"""A judgment row that was altered outside xscore is detected as damage."""

from sqlite3 import Connection

import pytest

from tests.cache.conftest import JUDGE, NAMES, judgments, write_judgments
from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key
from xscore.platform.errors import StoreDamaged
from xscore.records.judgment import Judgment


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
    """A score, prior, place or content altered to another valid value is damage, never another judgment."""
    write_judgments(connection, judgments(0, 5))
    connection.execute("INSERT INTO content (id, hash) VALUES (9, 'ff')")
    assert len(read_judgments(connection, NAMES)) == 5
    connection.execute(change)
    with pytest.raises(StoreDamaged, match="store is damaged") as caught:
        read_judgments(connection, NAMES)
    assert "`xscore store rebuild`" in caught.value.hint


def test_a_judgment_does_not_pass_for_another_turns(connection: Connection) -> None:
    """A row moved to another turn, or a turn whose number changed, is damage."""
    write_judgments(connection, judgments(0, 5))
    write_judgments(connection, judgments(5, 6), ("turn 2", judge_key(JUDGE), 0))
    connection.execute("UPDATE query SET turn_key = CASE turn_key WHEN 'turn' THEN 'x' ELSE 'turn' END")
    with pytest.raises(StoreDamaged):
        read_judgments(connection, NAMES)


def test_zero_has_one_checksum(connection: Connection) -> None:
    """Minus zero, which the store keeps as zero, comes back as a score and not as damage."""
    write_judgments(connection, [Judgment("aa", -0.0, prior=-0.0)])
    assert read_judgments(connection, NAMES)["aa"].score == 0.0
