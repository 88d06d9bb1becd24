"""Judgments, clustered by turn."""

import math
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
    """X28: score, pack, position and prior are found by content hash; the reason is read on request."""
    write_judgments(connection, [Judgment("aa", 0.92, "it writes the rows", "p_1", 3, 0.25), Judgment("bb", 0.0)])
    assert read_judgments(connection, NAMES) == {
        "aa": Judgment("aa", 0.92, "", "p_1", 3, 0.25),
        "bb": Judgment("bb", 0.0),
    }
    assert read_reasons(connection, NAMES, ["aa", "bb", "cc"]) == {"aa": "it writes the rows"}


def test_turns_judges_and_samples_do_not_mix(connection: Connection) -> None:
    """A judgment is valid for one turn, one judge and one sample."""
    write_judgments(connection, judgments(0, 3))
    other = msgspec.structs.replace(JUDGE, model="other")
    assert (
        read_judgments(connection, ("turn 2", judge_key(JUDGE), 0))
        == read_judgments(connection, ("turn", judge_key(other), 0))
        == read_judgments(connection, ("turn", judge_key(JUDGE), 1))
        == {}
    )
    assert read_reasons(connection, ("turn 2", judge_key(JUDGE), 0), ["aa"]) == {}
    write_judgments(connection, judgments(2, 5, score=1.0), ("turn", judge_key(other), 0))
    assert len(read_judgments(connection, NAMES)) == len(read_judgments(connection, ("turn", judge_key(other), 0))) == 3


def test_the_first_judgment_stands(connection: Connection) -> None:
    """A committed judgment is never changed; judging again adds no row."""
    write_judgments(connection, [Judgment("aa", 0.2, "first")])
    write_judgments(connection, [Judgment("aa", 0.9, "second")])
    assert read_judgments(connection, NAMES)["aa"].score == 0.2
    assert read_reasons(connection, NAMES, ["aa"]) == {"aa": "first"}


@settings(deadline=None, max_examples=40)
@given(st.dictionaries(st.text("0123456789abcdef", min_size=1), scores, max_size=30))
def test_scores_come_back_exactly(found: dict[str, float]) -> None:
    """Every score in 0..1 is stored and read back bit for bit."""
    with TemporaryDirectory() as place:
        connection = connect_store(Path(place) / "memory.db")
        write_judgments(connection, [Judgment(digest, score) for digest, score in found.items()])
        assert {digest: one.score for digest, one in read_judgments(connection, NAMES).items()} == found
        connection.close()


@pytest.mark.parametrize("planted", [7.0, -1.0, math.inf])
def test_an_impossible_score_is_damage(connection: Connection, planted: float) -> None:
    """An invalid score written around the checks is reported as damage, never as a score."""
    write_judgments(connection, judgments(0, 3))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("UPDATE judgment SET score = ? WHERE content_id = 2", (planted,))
    with pytest.raises(StoreDamaged):
        read_judgments(connection, NAMES)


def test_damaged_pages_give_no_score_that_was_not_judged(connection: Connection, path: Path) -> None:
    """Whichever page is overwritten with garbage, reading raises StoreDamaged or returns only true scores."""
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
        found = read_judgments(connection, NAMES)
        connection.close()
    except StoreDamaged:
        return "damaged"
    true = {judgment.content_hash for judgment in judgments(0, 2000)}
    return "true" if all(one.score == 0.25 and digest in true for digest, one in found.items()) else "false"


def test_a_turn_that_cannot_be_found_again_is_damage(connection: Connection) -> None:
    """If the turn index is torn, judgments are refused instead of being filed under the wrong turn."""
    connection.execute("CREATE TRIGGER torn BEFORE INSERT ON query BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(StoreDamaged, match="the index of turns"):
        write_judgments(connection, [Judgment("aa", 0.5)])
