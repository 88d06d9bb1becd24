"""Past turns, one line each, from the store alone."""

import pytest

from tests.cost_reports.ledger_rows import add_figures
from tests.store.recorded_turns import begin, record_turn
from xscore.cost_reports.call_table import CallTable
from xscore.cost_reports.records import ReportQuery
from xscore.costs.ledger import calls_of_turn
from xscore.platform import money
from xscore.platform.errors import NothingMatched, StoreDamaged, UsageError
from xscore.platform.processes import process_identity
from xscore.records.reports import AnswerState, ListedTurn
from xscore.records.turn import Turn
from xscore.store.store import Store
from xscore.store.turn_history import TurnFilter, find_turn_id, load_listed_turn
from xscore.store.turn_history import list_turns as looked_up

INSERT = (
    "INSERT INTO call (id, turn_id, stage, provider, host, model, started_at, duration_s, outcome,"
    " candidates, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,"
    " reasoning_tokens, cost, estimated) VALUES (?, ?, ?, 'openai', 'h', 'm', ?, 0.5, ?, 3, 10, 4,"
    " 0, 2, 1, ?, ?)"
)


def listed(store: Store, turn_filter: TurnFilter, *, now: float) -> list[ListedTurn]:
    """Return the turns of a list with nothing left out."""
    lookup = looked_up(store.connection, turn_filter, now=now)
    assert (lookup.damaged_turns, lookup.damaged_calls) == (0, 0)
    return lookup.turns


def test_a_running_turn_is_told_from_one_whose_process_is_gone(store: Store) -> None:
    """The state comes from the process that started it; an ended turn forgets its process."""
    running, gone = Turn(task="here", thread="s_1"), Turn(task="gone", thread="s_1")
    begin(store, running, "a", now=2.0, process=process_identity())
    begin(store, gone, "b", now=1.0, process="999999999 1 b nowhere")
    record_turn(store, "done", now=0.0)
    listed_turns = listed(store, TurnFilter(), now=50_000.0)
    assert [(turn.task, turn.state) for turn in listed_turns] == [
        ("here", "running"),
        ("gone", "unfinished"),
        ("done", "done"),
    ]
    kept = store.connection.execute("SELECT context FROM turn WHERE task = 'done'").fetchone()[
        0
    ]
    assert '"process":""' in kept


def test_dollars_are_the_sum_of_all_calls_or_unpriced(store: Store) -> None:
    """Attempts of every stage are counted exactly; one unpriced call leaves the sum unpriced."""
    priced, unpriced = (
        record_turn(store, "priced", now=1.0),
        record_turn(store, "unpriced", now=2.0),
    )
    rows: list[tuple[object, ...]] = [
        ("1", priced, "judge", 1.0, "ok", 1, 0),
        ("2", priced, "primary", 2.0, "timeout", 10**12, 1),
    ]
    rows += [
        ("3", unpriced, "judge", 1.0, "ok", None, 0),
        ("4", unpriced, "judge", 2.0, "ok", 5, 0),
    ]
    store.connection.executemany(INSERT, rows)
    second, first = listed(store, TurnFilter(), now=3.0)
    assert f"{first.spent.cost_usd}" == "1.000000000001"
    assert (first.spent.calls, first.spent.attempts, first.spent.estimated) == (1, 2, True)
    assert (first.spent.usage.input_tokens, first.spent.usage.cached_input_tokens) == (20, 8)
    assert second.spent.cost_usd is None and not second.spent.estimated
    assert [call.stage for call in calls_of_turn(store.connection, priced)] == [
        "judge",
        "primary",
    ]
    assert load_listed_turn(store.connection, priced, now=3.0) == first


def test_the_newest_are_found_by_an_index(store: Store) -> None:
    """No table is read whole, and calls are found by their turn."""
    sent: list[str] = []
    record_turn(store, "one")
    store.connection.set_trace_callback(sent.append)
    listed(store, TurnFilter(), now=1.0)
    store.connection.set_trace_callback(None)
    steps = [
        row[3]
        for sql in sent
        for row in store.connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
    ]
    assert any("turn USING INDEX turn_by_time" in step for step in steps)
    assert not [
        step
        for step in steps
        if step.startswith("SCAN") and "json_each" not in step and "VIRTUAL" not in step
    ]


def test_a_turn_is_named_by_the_beginning_of_its_id(store: Store) -> None:
    """By a unique prefix, the full id or `latest`; unknown and ambiguous ones are refused."""
    with pytest.raises(NothingMatched, match="no turn yet"):
        find_turn_id(store.connection, "latest")
    first, second = record_turn(store, "one", now=1.0), record_turn(store, "two", now=2.0)
    assert find_turn_id(store.connection, first) == first
    assert find_turn_id(store.connection, second[:14]) == second
    assert find_turn_id(store.connection, "latest") == second
    for wrong in ("", "t_~", "%"):
        with pytest.raises(NothingMatched, match="no turn"):
            find_turn_id(store.connection, wrong)
    with pytest.raises(UsageError, match="several turns"):
        find_turn_id(store.connection, "t_")


@pytest.mark.parametrize("body", ["", "{torn", "\x00", "[" * 3_000])
def test_a_torn_receipt_hides_no_turn(store: Store, body: str) -> None:
    """All turns are listed, including the one with a damaged receipt, without its answer."""
    torn = record_turn(store, "torn", now=1.0)
    record_turn(store, "whole", now=2.0)
    store.connection.execute("UPDATE turn SET answer = ''")
    # Damage asks no rule of the schema.
    store.connection.execute("PRAGMA ignore_check_constraints = ON")
    store.connection.execute("UPDATE receipt SET body = ? WHERE turn_id = ?", (body, torn))
    listed_turns = listed(store, TurnFilter(), now=3.0)
    assert [turn.task for turn in listed_turns] == ["whole", "torn"]
    assert listed_turns[1].answer is AnswerState.NONE
    assert load_listed_turn(store.connection, torn, now=3.0) == listed_turns[1]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE turn SET started_at = 'soon'",
        "UPDATE turn SET started_at = -1e18",
        "UPDATE turn SET started_at = 1e18",
        "UPDATE turn SET context = '[]'",
        "UPDATE turn SET state = 'merry'",
        "UPDATE turn SET task = x'66'",
        "UPDATE turn_figures SET judged = judged + 1",
        "UPDATE turn_figures SET kept = -1",
        "UPDATE turn_figures SET threshold = 9e999",
        "UPDATE turn_figures SET total_s = 9e999",
    ],
)
def test_a_damaged_turn_hides_no_other(store: Store, damage: str) -> None:
    """An invalid row is left out and counted; the others are listed as before."""
    torn, intact = record_turn(store, "torn", now=1.0), record_turn(store, "whole", now=2.0)
    # Damage asks no rule of the schema.
    store.connection.execute("PRAGMA ignore_check_constraints = ON")
    store.connection.execute("DELETE FROM turn_figures")
    add_figures(store.connection, torn)
    store.connection.execute(
        f"{damage} WHERE {'turn_id' if 'figures' in damage else 'id'} = ?", (torn,)
    )
    lookup = looked_up(store.connection, TurnFilter(), now=3.0)
    assert [turn.id for turn in lookup.turns] == [intact]
    assert (lookup.damaged_turns, lookup.damaged_calls) == (1, 0)
    with pytest.raises(StoreDamaged, match="a turn is invalid"):
        load_listed_turn(store.connection, torn, now=3.0)


@pytest.mark.parametrize(
    "damage",
    [
        "input_tokens = 'many'",
        "output_tokens = 0.5",
        "cost = -1",
        f"cost = {2**62}",
        "duration_s = -1",
        "started_at = 'soon'",
    ],
)
def test_a_damaged_call_is_in_no_sum(store: Store, damage: str) -> None:
    """Its turn is listed with its other calls, and the invalid call is counted as left out."""
    turn = record_turn(store, "one")
    for name in ("1", "2"):
        store.connection.execute(INSERT, (name, turn, "judge", 1.0, "ok", 7, 0))
    store.connection.execute(f"UPDATE call SET {damage} WHERE id = '2'")
    lookup = looked_up(store.connection, TurnFilter(), now=1.0)
    assert [(turn.spent.attempts, turn.spent.cost_usd) for turn in lookup.turns] == [
        (1, money.dollars_of_picodollars(7))
    ]
    assert (lookup.damaged_turns, lookup.damaged_calls) == (0, 1)
    with CallTable() as calls:
        left_out = calls.add_ledger(store.connection, (), repo="", query=ReportQuery(), jobs={})
    assert left_out == 1, "a report leaves out the same"


def test_bytes_that_are_no_text_hide_no_turn(store: Store) -> None:
    """A task that is not UTF-8 is shown with replacement marks."""
    record_turn(store, "one")
    store.connection.execute("UPDATE turn SET task = CAST(x'66ff' AS TEXT)")
    assert [turn.task for turn in listed(store, TurnFilter(), now=1.0)] == ["f\ufffd"]


@pytest.mark.parametrize(
    "damage",
    ["duration_s = 9e999", "started_at = 'soon'", "candidates = -1", "stage = 'merry'"],
)
def test_a_call_that_makes_no_sense_is_damage(store: Store, damage: str) -> None:
    """Every attempt of a turn is listed, or damage is named."""
    turn = record_turn(store, "one")
    store.connection.execute(INSERT, ("1", turn, "judge", 1.0, "ok", 7, 0))
    store.connection.execute(f"UPDATE call SET {damage}")
    with pytest.raises(StoreDamaged, match="a call is invalid"):
        calls_of_turn(store.connection, turn)
