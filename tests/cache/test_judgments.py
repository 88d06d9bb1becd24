"""Judgments, clustered by turn; a row that was altered outside xscore is damage."""

from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cache.conftest import JUDGE, NAMES, judgments, write_judgments
from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import judge_key
from xscore.platform.errors import StoreDamaged
from xscore.records.judgment import Judgment
from xscore.store.opening import connect_store

scores = st.floats(0, 1)


def test_what_was_judged_is_known(connection: Connection) -> None:
    """X28: score, pack, position and prior are found by content hash; the reason is read on
    request."""
    write_judgments(
        connection,
        [Judgment("aa", 0.92, "it writes the rows", "p_1", 3, 0.25), Judgment("bb", 0.0)],
    )
    assert read_judgments(connection, NAMES) == {
        "aa": Judgment("aa", 0.92, "", "p_1", 3, 0.25),
        "bb": Judgment("bb", 0.0),
    }
    assert read_reasons(connection, NAMES, ["aa", "bb", "cc"]) == {"aa": "it writes the rows"}


def test_turns_judges_and_samples_do_not_mix(connection: Connection) -> None:
    """A judgment is valid for one turn, one judge and one sample."""
    write_judgments(connection, judgments(0, 3))
    other_judge = msgspec.structs.replace(JUDGE, model="other")
    assert read_judgments(connection, ("turn 2", judge_key(JUDGE), 0)) == {}
    assert read_judgments(connection, ("turn", judge_key(other_judge), 0)) == {}
    assert read_judgments(connection, ("turn", judge_key(JUDGE), 1)) == {}
    assert read_reasons(connection, ("turn 2", judge_key(JUDGE), 0), ["aa"]) == {}
    write_judgments(connection, judgments(2, 5, score=1.0), ("turn", judge_key(other_judge), 0))
    assert len(read_judgments(connection, NAMES)) == 3
    assert len(read_judgments(connection, ("turn", judge_key(other_judge), 0))) == 3


def test_the_first_judgment_stands(connection: Connection) -> None:
    """A committed judgment is never changed; judging again adds no row."""
    write_judgments(connection, [Judgment("aa", 0.2, "first")])
    write_judgments(connection, [Judgment("aa", 0.9, "second")])
    assert read_judgments(connection, NAMES)["aa"].score == 0.2
    assert read_reasons(connection, NAMES, ["aa"]) == {"aa": "first"}


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text("0123456789abcdef", min_size=1), scores, max_size=30))
def test_scores_come_back_exactly(score_by_hash: dict[str, float]) -> None:
    """Every score in 0..1 is stored and read back bit for bit."""
    with TemporaryDirectory() as place:
        connection = connect_store(Path(place) / "memory.db")
        write_judgments(
            connection, [Judgment(digest, score) for digest, score in score_by_hash.items()]
        )
        assert {
            digest: judgment.score
            for digest, judgment in read_judgments(connection, NAMES).items()
        } == score_by_hash
        connection.close()


def test_damaged_pages_give_no_score_that_was_not_judged(
    connection: Connection, path: Path
) -> None:
    """Whichever page is overwritten with garbage, reading raises StoreDamaged or returns only true
    scores."""
    write_judgments(connection, judgments(0, 2000, score=0.25))
    connection.close()
    sound = path.read_bytes()
    pages = len(sound) // 4096
    outcomes = set()
    for page in range(0, pages, max(1, pages // 25)):
        path.write_bytes(sound[: page * 4096] + b"\xa7" * 4096 + sound[(page + 1) * 4096 :])
        for side in ("-wal", "-shm"):
            path.with_name(path.name + side).unlink(missing_ok=True)
        outcomes.add(_read(path))
    assert "damaged" in outcomes
    assert outcomes <= {"damaged", "true"}


def _read(path: Path) -> str:
    try:
        connection = connect_store(path)
        stored = read_judgments(connection, NAMES)
        connection.close()
    except StoreDamaged:
        return "damaged"
    true = {judgment.content_hash for judgment in judgments(0, 2000)}
    return (
        "true"
        if all(
            stored_judgment.score == 0.25 and digest in true
            for digest, stored_judgment in stored.items()
        )
        else "false"
    )


def test_a_turn_that_cannot_be_found_again_is_damage(connection: Connection) -> None:
    """If the turn index is torn, judgments are refused instead of being filed under the wrong
    turn."""
    connection.execute(
        "CREATE TRIGGER torn BEFORE INSERT ON query BEGIN SELECT RAISE(IGNORE); END"
    )
    with pytest.raises(StoreDamaged, match="index of turns"):
        write_judgments(connection, [Judgment("aa", 0.5)])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE judgment SET score = 0.75 WHERE content_id = 3",
        "UPDATE judgment SET score = 9e999 WHERE content_id = 3",
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
def test_a_changed_judgment_does_not_fit_its_checksum(
    connection: Connection, change: str
) -> None:
    """A score, prior, place or content altered to another valid value is damage, never another
    judgment."""
    write_judgments(connection, judgments(0, 5))
    connection.execute("INSERT INTO content (id, hash) VALUES (9, 'ff')")
    assert len(read_judgments(connection, NAMES)) == 5
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(change)
    with pytest.raises(StoreDamaged, match="store is damaged") as caught:
        read_judgments(connection, NAMES)
    assert "`xscore store rebuild`" in caught.value.hint


def test_a_judgment_does_not_pass_for_another_turns(connection: Connection) -> None:
    """A row moved to another turn, or a turn whose number changed, is damage."""
    write_judgments(connection, judgments(0, 5))
    write_judgments(connection, judgments(5, 6), ("turn 2", judge_key(JUDGE), 0))
    connection.execute(
        "UPDATE query SET turn_key = CASE turn_key WHEN 'turn' THEN 'x' ELSE 'turn' END"
    )
    with pytest.raises(StoreDamaged):
        read_judgments(connection, NAMES)


def test_zero_has_one_checksum(connection: Connection) -> None:
    """Minus zero, which the store keeps as zero, comes back as a score and not as damage."""
    write_judgments(connection, [Judgment("aa", -0.0, prior=-0.0)])
    assert read_judgments(connection, NAMES)["aa"].score == 0.0
