"""A store of schema 3, as it was before reports: opened by today's code, and salvaged by it where it is damaged."""

import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from xscore.costs.ledger import stage_usage_of, total_spent
from xscore.extensions.recovery.salvage import salvage_store
from xscore.platform import database
from xscore.platform.hashing import judgment_checksum, turn_checksum
from xscore.records import Stage

MIGRATIONS = Path(database.__file__).parent / "migrations"
NOON = 1_794_916_800.0
"""2026-11-17, 12:00 UTC."""
DAY_S = 86_400
NONSENSE = ("nonsense", "NaN", "-0.5", "", "1e400", "9223372036.9", "0x1f", "Infinity")
"""Texts that a damaged or doctored row may hold where dollars were."""
RECEIPT: dict[str, Any] = {
    "judge": {"provider": "openai", "model": "gpt-6-luna", "host": "api.openai.com", "is_model": True},
    "threshold": 0.7,
    "coverage": {"candidates": 812, "judged": 40, "cached": 770, "carried": 0, "unjudged": 2},
    "unjudged": {"by_cause": {"timeout": 2}, "sample": []},
    "selected": [{"id": "m_1"}, {"id": "m_2"}, {"id": "m_3"}],
    "latency_s": {
        "index": 0.1,
        "pool": 0.2,
        "cache": 0.05,
        "judge": 3.5,
        "select": 0.01,
        "primary": 0.0,
        "total": 4.25,
    },
    "usage": {"judge": {"calls": 2}},
}
RECEIPTS: dict[str, Any] = {
    "t_whole": RECEIPT,
    "t_lexical": {**RECEIPT, "judge": {"provider": "lexical", "model": "", "is_model": False}},
    "t_untimed": {name: value for name, value in RECEIPT.items() if name not in ("latency_s", "unjudged")},
    "t_uncovered": {name: value for name, value in RECEIPT.items() if name != "coverage"},
    "t_headless": {name: value for name, value in RECEIPT.items() if name not in ("judge", "threshold")},
    "t_odd": {**RECEIPT, "unjudged": {"by_cause": "many"}, "selected": 3},
    "t_list": [1, 2],
}
DOLLARS = ("0.00071", "0.000000000001", "0.1", "0.2", "12.345678901234", "0")
CALLS = [*DOLLARS, None, *NONSENSE]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store by the migrations of schema 3 alone, and fill it as its code did."""
    place = tmp_path / "old" / "memory.db"
    place.parent.mkdir()
    with closing(sqlite3.connect(place)) as old:
        old.create_function("turn_seal", 3, turn_checksum, deterministic=True)
        old.create_function("judgment_seal", -1, judgment_checksum, deterministic=True)
        for script in sorted(MIGRATIONS.glob("000[123]_*.sql")):
            old.executescript(script.read_text("utf-8"))
        old.executescript(f"PRAGMA application_id = {database.APPLICATION_ID}; PRAGMA user_version = 3")
        _fill(old)
        old.commit()
    return place


def _fill(old: sqlite3.Connection) -> None:
    for number, (turn, receipt) in enumerate(RECEIPTS.items()):
        old.execute(
            "INSERT INTO turn (id, thread, turn_key, task, started_at, state) VALUES (?, 's', 'k', 'task', ?, 'done')",
            (turn, NOON + number),
        )
        old.execute("INSERT INTO receipt VALUES (?, 1, ?)", (turn, json.dumps(receipt)))
    for number, usd in enumerate(CALLS):
        turn = "t_whole" if usd in DOLLARS else "t_odd"
        began = NOON + (DAY_S if usd == "0.2" else 0)
        old.execute(
            "INSERT INTO call VALUES (?, ?, 'judge', 'openai', 'api.openai.com', 'gpt-6-luna', ?, 1.5, 'ok', 20,"
            " 17203, 15872, 100, 241, 7, ?, 0)",
            (f"c_{number:02d}", turn, began, usd),
        )
    old.execute("INSERT INTO spending VALUES ('t_whole', '12.646388901235'), ('t_odd', 'nonsense')")
    old.execute(
        "INSERT INTO reservation VALUES ('r_1', 't_whole', 1, ?, '0.03'), ('r_2', 't_odd', 1, ?, 'x')", (NOON, 0)
    )


def rows(store: sqlite3.Connection, sql: str) -> dict[Any, Any]:
    """Return key and value."""
    return dict(store.execute(sql).fetchall())


def whole() -> int:
    """Add the dollars of the sound calls, in picodollars."""
    return int(sum(map(Decimal, DOLLARS)) * 10**12)


def test_dollars_come_over_to_the_last_digit(path: Path) -> None:
    """Each call's text becomes the same picodollars, and so do bills; their sum is the sum of the texts."""
    with closing(database.connect(path)) as store:
        assert store.execute("PRAGMA user_version").fetchone()[0] >= 4
        costs = [row[0] for row in store.execute("SELECT cost FROM call ORDER BY id").fetchall()]
        assert costs[: len(DOLLARS)] == [int(Decimal(usd) * 10**12) for usd in DOLLARS]
        found = stage_usage_of(store, "t_whole", Stage.JUDGE)
        assert found.cost_usd == Decimal("12.646388901235") == Decimal(whole()) / 10**12
        assert (found.calls, found.usage.input_tokens, found.usage.reasoning_tokens) == (6, 6 * 17_203, 6 * 7)


def test_nonsense_is_unpriced_and_stops_nothing(path: Path) -> None:
    """What was no amount is NULL, as an unpriced call is: neither $0 nor a store that does not open."""
    with closing(database.connect(path)) as store:
        unpriced = store.execute("SELECT count(*) FROM call WHERE cost IS NULL").fetchone()[0]
        assert unpriced == 1 + len(NONSENSE)
        assert stage_usage_of(store, "t_odd", Stage.JUDGE).cost_usd is None
        assert total_spent(store) is None
        assert rows(store, "SELECT id, amount FROM reservation") == {"r_1": 30_000_000_000, "r_2": 0}
        assert rows(store, "SELECT id, life FROM reservation") == {"r_1": "", "r_2": ""}
        assert rows(store, "SELECT id, cost_by_batch FROM call WHERE cost_by_batch IS NOT NULL") == {}


def test_bills_are_there_by_turn_day_and_repository(path: Path) -> None:
    """Caps of a day and of the repository know what was spent before they existed."""
    with closing(database.connect(path)) as store:
        fifth = 200_000_000_000
        assert rows(store, "SELECT span, spent FROM spending") == {
            "t_whole": whole(),
            "t_odd": 0,
            "2026-11-17": whole() - fifth,
            "2026-11-18": fifth,
            "repository": whole(),
        }


@pytest.mark.parametrize("is_salvaged", [False, True])
def test_more_dollars_than_a_column_holds_are_as_much_as_it_holds(
    path: Path, tmp_path: Path, is_salvaged: bool
) -> None:
    """A store in which calls claim millions opens, and is mended, with caps that are full."""
    with closing(sqlite3.connect(path)) as old:
        old.execute("DELETE FROM call")
        for number in range(150):
            old.execute(
                "INSERT INTO call VALUES (?, 't_whole', 'judge', 'o', 'h', 'm', ?, 1, 'ok', 1, 1, 0, 0, 1, 0, ?, 0)",
                (f"c_{number}", NOON + (DAY_S if number > 91 else 0), "100000"),
            )
        old.commit()
    with closing(database.connect(tmp_path / "new" / "memory.db" if is_salvaged else path)) as store:
        if is_salvaged:
            salvage_store(path, store)
        spans = rows(store, "SELECT span, spent FROM spending WHERE span NOT LIKE 't%'")
    assert spans == {"2026-11-17": 92 * 10**17, "2026-11-18": 58 * 10**17, "repository": 2**63 - 1}


def test_figures_of_past_turns_are_taken_from_their_receipts(path: Path) -> None:
    """Every receipt that tells enough has its figures; what it does not tell is not known, and nothing stops."""
    with closing(database.connect(path)) as store:
        kept = store.execute("SELECT * FROM turn_figures")
        names = [column[0] for column in kept.description]
        found = {row[0]: dict(zip(names, row, strict=True)) for row in kept.fetchall()}
    assert set(found) == {"t_whole", "t_lexical", "t_untimed"}
    one = found["t_whole"]
    assert (one["judge"], one["is_model"], one["command"]) == ("openai:gpt-6-luna", 1, "")
    assert [one[name] for name in ("candidates", "judged", "cached", "carried", "unjudged", "kept")] == [
        812,
        40,
        770,
        0,
        2,
        3,
    ]
    assert (json.loads(one["unjudged_by_cause"]), one["scores"], one["near"]) == ({"timeout": 2}, "[]", None)
    assert (one["judge_s"], one["total_s"], one["expected_calls"]) == (3.5, 4.25, None)
    assert found["t_lexical"]["judge"] == "lexical"
    assert (found["t_untimed"]["total_s"], found["t_untimed"]["unjudged_by_cause"]) == (0, "{}")


def test_a_damaged_store_of_schema_three_keeps_its_calls_and_bills(path: Path, tmp_path: Path) -> None:
    """A rebuild reads the old columns: the same dollars, bills and figures; only what makes no sense is left behind."""
    with closing(database.connect(tmp_path / "new" / "memory.db")) as target:
        found = salvage_store(path, target)
        assert (found.kept["calls"], found.kept["turns"], found.kept["receipts"]) == (len(CALLS), 7, 7)
        assert (found.kept["bills"], found.not_believed, found.places) == (1, 1, 0)
        assert stage_usage_of(target, "t_whole", Stage.JUDGE).cost_usd == Decimal("12.646388901235")
        assert stage_usage_of(target, "t_odd", Stage.JUDGE).cost_usd is None
        spans = rows(target, "SELECT span, spent FROM spending")
        assert (spans["t_whole"], spans["repository"], spans["2026-11-18"]) == (whole(), whole(), 200_000_000_000)
        assert set(rows(target, "SELECT turn_id, kept FROM turn_figures")) == {"t_whole", "t_lexical", "t_untimed"}


def test_a_bill_that_was_lost_is_made_up_from_the_calls(path: Path, tmp_path: Path) -> None:
    """Where a day's or the repository's bill cannot be read, the calls tell what the caps must know."""
    database.connect(path).close()
    with closing(sqlite3.connect(path)) as damaged:
        damaged.execute("UPDATE spending SET spent = 'lost' WHERE span = 'repository'")
        damaged.execute("DELETE FROM spending WHERE span = '2026-11-18'")
        damaged.execute("UPDATE call SET cost = ? WHERE id = 'c_05'", (2**62,))
        damaged.commit()
    with closing(database.connect(tmp_path / "new" / "memory.db")) as target:
        found = salvage_store(path, target)
        assert found.not_believed == 2  # the bill and the call that nobody was ever charged
        spans = rows(target, "SELECT span, spent FROM spending")
        assert (spans["repository"], spans["2026-11-18"]) == (whole(), 200_000_000_000)
