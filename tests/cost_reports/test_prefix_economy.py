"""Whether keeping a prefix pays, and the gaps that decide it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.costs.call_history import TURNS_LOOKED_AT, best_cache_ttl_s, expected_hit_share, gaps_between_turns_s
from xscore.providers.catalog import CacheWrite, model_settings
from xscore.store.opening import connect_store

CLAUDE = model_settings("anthropic", "claude-haiku-5-5").cache_writes
GPT = model_settings("openai", "gpt-6-luna").cache_writes
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("gaps_s", "ttl_s"),
    [
        ([], 300),
        ([60.0] * 20, 300),
        ([900.0] * 20, 3_600),
        ([9_000.0] * 20, 0),
        ([60.0] * 5 + [9_000.0] * 15, 300),
        ([60.0] * 2 + [9_000.0] * 18, 0),
        ([60.0] * 5 + [900.0] * 15, 3_600),
    ],
    ids=["nothing seen", "at once", "quarters of an hour", "once a day", "a quarter soon", "a tenth soon", "mixed"],
)
def test_the_time_that_pays(gaps_s: list[float], ttl_s: int) -> None:
    """Short gaps are worth five minutes, medium ones an hour, long ones nothing; a quarter of short gaps is enough."""
    assert best_cache_ttl_s(gaps_s, CLAUDE, read_factor=0.1) == ttl_s


@pytest.mark.parametrize(("write", "from_share"), [(CLAUDE[0], 0.217), (CLAUDE[1], 0.526)], ids=["5m", "1h"])
def test_the_break_even_is_where_the_prices_put_it(write: CacheWrite, from_share: float) -> None:
    """Five minutes pay from a share of 0.217, an hour from 0.526, to the nearest of 2,000 gaps."""
    gaps = 2_000
    for within in range(gaps + 1):
        gaps_s = [1.0] * within + [1e9] * (gaps - within)
        if best_cache_ttl_s(gaps_s, (write,), read_factor=0.1):
            assert expected_hit_share(gaps_s, write.ttl_s) == pytest.approx(from_share, abs=0.001)
            return
    raise AssertionError("it never pays")


@given(st.lists(st.floats(0, 1e6), max_size=40), st.floats(0.01, 0.5))
def test_marks_never_cost_more_than_none(gaps_s: list[float], read_factor: float) -> None:
    """What is chosen is the cheapest of all choices by the expectation that the module states."""

    def price(write: CacheWrite) -> float:
        share = (sum(gap <= write.ttl_s for gap in gaps_s) + 1) / (len(gaps_s) + 2)
        return share * read_factor + (1 - share) * write.price_factor

    prices = {write.ttl_s: price(write) for write in CLAUDE} | {0: 1.0}
    assert prices[best_cache_ttl_s(gaps_s, CLAUDE, read_factor=read_factor)] == min(prices.values())


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A store of its own."""
    opened = connect_store(tmp_path / "memory.db")
    yield opened
    opened.close()


def add_turn(connection: sqlite3.Connection, number: int, at: float, calls: int = 1, **changes: object) -> None:
    """Add a turn and so many judging calls of it."""
    row = {"stage": "judge", "provider": "anthropic", "host": "h", "model": "m", "outcome": "ok"} | changes
    connection.execute(
        "INSERT INTO turn (id, thread, turn_key, task, started_at, state) VALUES (?, '', '', '', ?, 'done')",
        (f"t_{number}", at),
    )
    connection.executemany(
        "INSERT INTO call VALUES (?, ?, ?, ?, ?, ?, ?, 0.5, ?, 20, 1, 0, 0, 0, 1, 0, 0, NULL, NULL, NULL, 0, '', NULL)",
        [
            (
                f"c_{number}_{n}",
                f"t_{number}",
                *(row[k] for k in ("stage", "provider", "host", "model")),
                at,
                row["outcome"],
            )
            for n in range(calls)
        ],
    )


def gaps(connection: sqlite3.Connection, *, now: float = NOW, limit: int = 20) -> tuple[float, ...]:
    """Ask for the gaps of the judge that `add_turn` adds."""
    return gaps_between_turns_s(connection, provider="anthropic", host="h", model="m", now=now, limit=limit)


def test_gaps_are_between_turns_that_sent_something(connection: sqlite3.Connection) -> None:
    """Cached turns, other judges, other stages, failed calls and turns of the future count nothing."""
    assert gaps(connection) == ()
    add_turn(connection, 1, NOW - 1_000)
    add_turn(connection, 2, NOW - 900, calls=0)
    add_turn(connection, 3, NOW - 800, host="elsewhere")
    add_turn(connection, 4, NOW - 700, model="other")
    add_turn(connection, 5, NOW - 650, provider="openai")
    add_turn(connection, 6, NOW - 600, stage="primary")
    add_turn(connection, 7, NOW - 550, outcome="rate_limited")
    add_turn(connection, 8, NOW - 400, calls=3)
    add_turn(connection, 9, NOW - 100)
    add_turn(connection, 10, NOW + 9_000)
    assert gaps(connection) == (100.0, 300.0, 600.0)
    assert gaps(connection, limit=2) == (100.0, 300.0)


def test_a_large_ledger_is_asked_by_its_indexes(connection: sqlite3.Connection) -> None:
    """Among as many calls of another judge, no table of calls is read from end to end."""
    connection.execute("BEGIN")
    for number in range(60):
        add_turn(connection, number, NOW - 60 * 60 + number * 60, calls=5, model="m" if number % 2 else "other")
    connection.execute("COMMIT")
    assert gaps(connection) == (60.0, *[120.0] * 19)
    plan = connection.execute(f"EXPLAIN QUERY PLAN {_query()}", (NOW, TURNS_LOOKED_AT, *"abcd", 20)).fetchall()
    assert all("SCAN call" not in str(row) for row in plan)


def _query() -> str:
    from xscore.costs import call_history

    return call_history._JUDGED_TURNS
