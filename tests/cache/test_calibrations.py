"""Calibrations in the store: kept under the identity of the judge, and ignored where invalid."""

import json
from sqlite3 import Connection

import pytest
from msgspec.structs import replace

from xscore.cache.calibrations import (
    delete_calibrations,
    read_calibration,
    read_calibrations,
    write_calibration,
)
from xscore.records.calibration import Calibration, ScoreMap
from xscore.records.judgment import JudgeIdentity, Thresholds

JUDGE = JudgeIdentity("openai", "h", "m", "", "judge-1", "memory_first", True)
MEASURED = Calibration(
    asked="openai:m",
    identity=JUDGE,
    answered_as=("m-2026",),
    made_at=5.0,
    cases=120,
    positives=150,
    repositories=1,
    wished_recall=0.9,
    most=15,
    words_weight=0.25,
    cuts={"default": 0.63, "doc": 0.61},
    maps={"default": ScoreMap((0.1, 0.9), (0.0, 0.5))},
    recall=0.86,
    recall_low=0.79,
    recall_high=0.92,
    kept=4.5,
    error=0.01,
)


def test_it_belongs_to_one_judge(connection: Connection) -> None:
    """Any other identity has none; the newest replaces the older."""
    write_calibration(connection, MEASURED)
    assert read_calibration(connection, JUDGE) == MEASURED
    assert read_calibration(connection, replace(JUDGE, model="other")) is None
    write_calibration(connection, replace(MEASURED, recall=0.5))
    (kept,) = read_calibrations(connection)
    assert kept.recall == 0.5
    delete_calibrations(connection, JUDGE)
    assert read_calibrations(connection) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"recall": 7.0},
        {"words_weight": -1.0},
        {"cuts": {"doc": 0.5}},
        {"cuts": {"default": 1.5}},
        {"maps": {"default": {"scores": [0.9, 0.1], "shares": [0.0, 0.5]}}},
        {"identity": {"provider": "x"}},
        {"made_at": "yesterday"},
    ],
)
def test_an_invalid_one_is_no_calibration(
    connection: Connection, damage: dict[str, object]
) -> None:
    """The judge has the usual cut instead."""
    write_calibration(connection, MEASURED)
    (body,) = connection.execute("SELECT body FROM calibration").fetchone()
    version, fields = json.loads(body)
    text = json.dumps([version, {**fields, **damage}])
    connection.execute("UPDATE calibration SET body = ?", (text,))
    assert read_calibration(connection, JUDGE) is None and read_calibrations(connection) == []


def test_one_under_another_name_is_ignored(connection: Connection) -> None:
    """A row that was moved to another judge says nothing about that one."""
    write_calibration(connection, MEASURED)
    connection.execute("UPDATE calibration SET judge = 'another'")
    assert read_calibrations(connection) == []


def test_it_says_what_the_cut_stands_for() -> None:
    """In one line, for status and explain."""
    assert (
        MEASURED.in_words()
        == "0.63 ≈ recall 0.86 (0.79–0.92) on 120 past commits, doc cut at 0.61"
    )
    assert MEASURED.share("doc", 0.5) == pytest.approx(0.25)
    usual = Thresholds(0.7, {"doc": 0.5, "test": 0.8})
    assert MEASURED.thresholds(usual) == Thresholds(0.7, {"doc": 0.61, "test": 0.8})
