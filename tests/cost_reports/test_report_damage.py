"""Invalid ledgers: bad rows are left out and reported, good ones are added up."""

import json
from sqlite3 import Connection

import pytest

from tests.cost_reports.ledger_rows import DAY, add_call, add_judged_turn, add_turn, reported


@pytest.mark.parametrize(
    "damage",
    [
        {"cached": 1.5},
        {"write": b"\xff"},
        {"cost": "free"},
        {"cost": -1},
        {"cost": 2**62},
        {"duration_s": float("inf")},
        {"stage": "guess"},
        {"model": b"\xff\xfe"},
    ],
    ids=str,
)
def test_a_damaged_call_is_left_out_and_said(
    reader: Connection, damage: dict[str, object]
) -> None:
    """Text, fractions, negatives, infinities and impossible calls are in no sum."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(reader, "a", "t_1")
    add_call(reader, "b", "t_1", **damage)
    report = reported(reader)
    assert report.spent.attempts == 1
    assert report.spent.cost_usd == 1
    assert report.spent.usage.input_tokens == 1_000
    assert "1 rows of calls" in report.warnings[0]
    assert report.left_out == 1
    assert "xscore store rebuild" in report.warnings[0]


def test_absurd_costs_do_not_overflow(reader: Connection) -> None:
    """However many rows hold a column's maximum, the sums are those of the rest."""
    for number in range(50):
        add_call(reader, f"x_{number}", "t_1", cost=2**63 - 1, input=2**63 - 1)
    add_call(reader, "a", "t_1")
    report = reported(reader)
    assert report.spent.cost_usd == 1
    assert "50 rows of calls" in report.warnings[0]
    assert report.left_out == 50


@pytest.mark.parametrize(
    "damage",
    [
        {"candidates": 41},
        {"judged": -30},
        {"total_s": float("inf")},
        {"threshold": 7.0},
        {"unjudged_by_cause": '{"budget": -2}'},
        {"expected_calls": "two"},
    ],
    ids=str,
)
def test_damaged_figures_are_left_out_and_their_turn_stays(
    reader: Connection, damage: dict[str, object]
) -> None:
    """The turn and its calls count, its figures do not, and the report says so."""
    add_judged_turn(reader, "t_1", DAY, **damage)
    add_call(reader, "a", "t_1")
    report = reported(reader)
    assert report.turns_by_state == {"done": 1}
    assert report.spent.cost_usd == 1
    assert report.coverage.candidates == 0
    assert "1 rows of turns" in report.warnings[0]
    assert report.left_out == 1


def test_a_turn_without_a_moment_is_left_out_and_its_money_stays(reader: Connection) -> None:
    """What a damaged turn cost still counts as paid."""
    add_turn(reader, "t_1", float("inf"))
    add_call(reader, "a", "t_1")
    report = reported(reader)
    assert report.turns == ()
    assert report.spent.cost_usd == 1
    assert "1 rows of turns" in report.warnings[0]
    assert report.left_out == 1


def test_a_clock_that_was_set_back_breaks_nothing(reader: Connection) -> None:
    """A turn dated in the future counts in every figure and is named; calls dated before their turn
    belong to it."""
    for name, at in (("t_a", DAY), ("t_b", DAY + 900 * 86_400), ("t_c", DAY - 50)):
        add_judged_turn(reader, name, at)
        add_call(reader, f"c_{name}", name, DAY - 9_000)
    report = reported(reader)
    assert [line.id for line in report.turns] == ["t_b", "t_a", "t_c"]
    assert report.spent.attempts == 3
    assert "in the future" in report.warnings[0]


def test_a_torn_receipt_is_a_warning(reader: Connection) -> None:
    """The choices of other turns are shown, and the unreadable one is counted."""
    readable = {"selected": [], "near_misses": [], "schema": 1}
    for name, body in (
        ("t_1", readable),
        ("t_2", {"selected": [{"id": 5}], "near_misses": []}),
        ("t_3", []),
    ):
        add_judged_turn(reader, name, DAY)
        reader.execute(
            "INSERT INTO receipt (turn_id, schema, body) VALUES (?, 1, ?)",
            (name, json.dumps(body)),
        )
    report = reported(reader, details=9)
    assert [detail.turn_id for detail in report.details] == ["t_1"]
    assert "receipts that cannot be read" in report.warnings[0]
    assert ": 2." in report.warnings[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"recall": 1.5},
        {"ndcg": -0.1},
        {"cases": -1},
        {"k": "many"},
        {"at": float("inf")},
        {"hit": "no"},
    ],
    ids=str,
)
def test_a_damaged_evaluation_is_left_out_and_said(
    reader: Connection, damage: dict[str, object]
) -> None:
    """Values outside 0..1, negatives, text and missing times: the row is counted, the others
    stay."""
    row: dict[str, object] = dict(
        zip(("id", "at", "questions", "judge"), ("v_1", DAY, "q", "openai:small"), strict=True)
    )
    row |= dict.fromkeys(("recall", "precision", "hit", "reciprocal_rank", "ndcg"), 1.0)
    row |= dict.fromkeys(("cases", "k", "candidates", "unjudged"), 5)
    reader.execute("PRAGMA ignore_check_constraints = ON")
    for values in (row, {**row, "id": "v_2", **damage}):
        marks = ", ".join("?" * len(values))
        reader.execute(
            f"INSERT INTO evaluation ({', '.join(values)}) VALUES ({marks})",
            tuple(values.values()),
        )
    report = reported(reader)
    assert [evaluation.id for evaluation in report.evaluations] == ["v_1"]
    assert "1 rows of evaluations" in report.warnings[0]
    assert report.left_out == 1
