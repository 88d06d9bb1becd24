"""Hand-made ledgers: turns, figures and calls as a store would hold them."""

import json
from sqlite3 import Connection

from xscore.cost_reports.records import CostReport, ReportQuery
from xscore.cost_reports.report import RepositoryLedger, build_report

CALL = f"INSERT INTO call VALUES ({', '.join('?' * 21)}, '', NULL)"
DAY = 1_760_054_400.0
"""2025-10-10, midnight UTC."""
ADOLLAR = 10**12


def add_turn(
    connection: Connection, name: str, at: float, state: str = "done", task: str = "Mend it."
) -> None:
    """Insert a turn without figures, as a running or killed one."""
    connection.execute(
        "INSERT INTO turn (id, thread, turn_key, task, started_at, state) VALUES (?, 's', ?, ?,"
        " ?, ?)",
        (name, name, task, at, state),
    )


def add_figures(connection: Connection, name: str, **changes: object) -> None:
    """Insert the figures of a model's turn: 40 candidates, 30 judged, 8 cached, 2 unjudged, 5
    kept."""
    values: dict[str, object] = {
        "turn_id": name,
        "command": "ask",
        "judge": "openai:small",
        "is_model": 1,
        "candidates": 40,
        "judged": 30,
        "cached": 8,
        "carried": 0,
        "unjudged": 2,
        "unjudged_by_cause": '{"budget": 2}',
        "kept": 5,
        "near": 3,
        "threshold": 0.7,
        "scores": json.dumps([38] + [0] * 19),
        "primary_s": 0.0,
        "total_s": 1.0,
        **{f"{stage}_s": 0.1 for stage in ("index", "pool", "cache", "judge", "select")},
        **changes,
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(
        f"INSERT INTO turn_figures ({names}) VALUES ({marks})", tuple(values.values())
    )


def add_judged_turn(connection: Connection, name: str, at: float, **figures: object) -> None:
    """Insert a finished turn with its figures (`add_figures`)."""
    add_turn(connection, name, at)
    add_figures(connection, name, **figures)


def add_call(
    connection: Connection, name: str, turn: str, at: object = DAY, **changes: object
) -> None:
    """Insert an answered judging call of a dollar: 1,000 tokens in, 400 of them cached, 100 out,
    half a second."""
    values: dict[str, object] = {
        "id": name,
        "turn_id": turn,
        "stage": "judge",
        "provider": "openai",
        "host": "h",
        "model": "small",
        "started_at": at,
        "duration_s": 0.5,
        "outcome": "ok",
        "candidates": 10,
        "input": 1_000,
        "cached": 400,
        "write": 0,
        "write_1h": 0,
        "output": 100,
        "reasoning": 20,
        "cost": ADOLLAR,
        "plain": 2 * ADOLLAR,
        "packless": 3 * ADOLLAR,
        "batch": ADOLLAR // 2,
        "estimated": 0,
        **changes,
    }
    connection.execute(CALL, tuple(values.values()))


NOW = DAY + 10 * 86_400


def reported(connection: Connection, **query: object) -> CostReport:
    """Report over one ledger."""
    return build_report([RepositoryLedger("/shop", connection)], ReportQuery(**query), now=NOW)  # type: ignore[arg-type]  # fields of the record, by name
