"""Offline lists in a report: jobs, replayed hit rate, batch savings, and figures that stay
unaffected."""

from decimal import Decimal
from sqlite3 import Connection

import pytest

from tests.cost_reports.conftest import reader
from tests.cost_reports.ledger_rows import ADOLLAR, DAY, add_call, add_judged_turn, reported

__all__ = ["reader"]


def add_job(
    connection: Connection, name: str, command: str, *, at: float = DAY, cached: object = 40
) -> None:
    """Insert a job of two questions and 100 candidates."""
    connection.execute(
        "INSERT INTO job (id, created_at, command, questions, judge_spec, judge, plan, candidates,"
        " cached, checksum) VALUES (?, ?, ?, 'd', 'openai:small', 'k', '{}', 100, ?, 0)",
        (name, at, command, cached),
    )
    connection.executemany(
        "INSERT INTO job_question VALUES (?, ?, 'q', '{}', 'key', 0)",
        [(name, number) for number in range(2)],
    )


@pytest.fixture
def ledger(reader: Connection) -> Connection:
    """A turn, a job by batch at half the price, and a rescoring by live calls."""
    add_judged_turn(reader, "t_1", DAY)
    add_call(reader, "live", "t_1")
    add_job(reader, "b_1", "submit")
    add_job(reader, "b_2", "rescore", at=DAY + 10, cached=100)
    for name in ("x", "y"):
        add_call(reader, name, "b_1")
    reader.execute(
        "UPDATE call SET batch = 'xs_1', cost = ?, cost_live = ?, duration_s = 0.0"
        " WHERE turn_id = 'b_1'",
        (ADOLLAR // 2, ADOLLAR),
    )
    add_call(reader, "z", "b_2")
    return reader


def test_jobs_are_added_up(ledger: Connection) -> None:
    """Questions, candidates, cache hits, dollars and batch savings."""
    offline = reported(ledger).offline
    assert offline.jobs == 2
    assert offline.questions == 4
    assert offline.candidates == 200
    assert offline.cached == 140
    assert (offline.hit_rate, offline.batch_calls, offline.unpriced) == (0.7, 2, 0)
    assert (offline.cost_usd, offline.saved_by_batch_usd) == (Decimal(2), Decimal(1))


def test_their_calls_stand_under_their_commands(ledger: Connection) -> None:
    """By command they are batch and rescore, not turns; all their money is in the total."""
    report = reported(ledger, by="command")
    assert {group.name: group.spent.attempts for group in report.groups} == {
        "ask": 1,
        "batch": 2,
        "rescore": 1,
    }
    assert [group.turns for group in report.groups if group.name != "ask"] == [0, 0]
    assert report.spent.cost_usd == Decimal(3)


def test_answers_of_batches_are_no_samples_of_latency(ledger: Connection) -> None:
    """Only live calls are timed, those of jobs included."""
    (timing,) = [
        measured
        for measured in reported(ledger).timings
        if (measured.of, measured.stage) == ("call", "judge")
    ]
    assert timing.count == 2 and timing.p50_s > 0


def test_a_job_belongs_to_the_period_it_was_planned_in(ledger: Connection) -> None:
    """The period is half-open, as for turns; or one job by id."""
    assert reported(ledger, until=DAY + 10).offline.jobs == 1
    assert reported(ledger, since=DAY + 10).offline.questions == 2
    assert reported(ledger, turn_id="b_2").offline.cached == 100


def test_a_row_that_makes_no_sense_is_left_out_and_counted(ledger: Connection) -> None:
    """More hits than candidates, or text: the row is in no figure, and a warning says so."""
    add_job(ledger, "b_3", "run", cached=101)
    add_job(ledger, "b_4", "run", cached="many")
    report = reported(ledger)
    assert report.offline.jobs == 2 and report.left_out == 2
    assert any("2 rows of jobs" in warning for warning in report.warnings)
