"""A database for a turn's dollars, and a second look at it."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest

from xscore import database
from xscore.cache.group_commit import GroupCommit
from xscore.cost_reports.budget import TurnBudget


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the place of a database."""
    return tmp_path / "memory.db"


@pytest.fixture
def reader(path: Path) -> Iterator[Connection]:
    """Open a second connection to it."""
    opened = database.connect(path)
    yield opened
    opened.close()


def budget_of(commits: GroupCommit, cap: str | None = "1.00", **more: float) -> TurnBudget:
    """Make the budget of turn `t`."""
    clock = (lambda: more["now"]) if "now" in more else (lambda: 1000.0)
    return TurnBudget(commits, turn_id="t", cap=None if cap is None else Decimal(cap), clock=clock)
