"""A database for a turn's dollars, and a second connection to it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest

from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import Caps
from xscore.costs.reservation import Budget, turn_budget
from xscore.platform.processes import process_identity
from xscore.store.opening import connect_store


@pytest.fixture
def reader(path: Path) -> Iterator[Connection]:
    """Open a second connection to it."""
    opened = connect_store(path)
    yield opened
    opened.close()


@pytest.fixture
def dead() -> str:
    """Return the name (`processes.process`) of a process that has ended."""
    program = (
        "from xscore.platform.processes import process_identity; print(process_identity())"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def alive() -> str:
    """Return the name of another live process: the parent of this one."""
    return f"{os.getppid()} {process_identity().partition(' ')[2]}"


def budget_of(commits: GroupCommit, cap: str | None = "1.00", **options: float) -> Budget:
    """Make the budget of turn `t`."""
    clock = (lambda: options["now"]) if "now" in options else (lambda: 1000.0)
    return turn_budget(
        commits, turn_id="t", caps=Caps(turn=None if cap is None else Decimal(cap)), clock=clock
    )
