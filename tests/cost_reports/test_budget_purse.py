"""Dollars set aside for some calls at once, and shared with other processes."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.cost_reports.conftest import budget_of
from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import Caps, spent_in_period
from xscore.costs.reservation import turn_budget
from xscore.platform.errors import BudgetExhausted
from xscore.platform.money import dollars_of_picodollars

SPENDING = """
import asyncio, decimal, pathlib, sys
from xscore.cache.group_commit import GroupCommit
from xscore.costs.reservation import turn_budget
from xscore.costs.caps import Caps
from xscore.platform.errors import BudgetExhausted

async def main():
    sent = 0
    async with GroupCommit(pathlib.Path(sys.argv[1])) as commits:
        budget = turn_budget(commits, turn_id="t", caps=Caps(turn=decimal.Decimal("1.00")))
        async def work():
            nonlocal sent
            while True:
                try:
                    reservation = await budget.reserve(decimal.Decimal("0.01"))
                except BudgetExhausted:
                    return
                sent += 1
                await asyncio.sleep(0.001)
                await budget.settle(reservation, decimal.Decimal("0.009"))
        await asyncio.gather(*(work() for _ in range(64)))
    print(sent)

asyncio.run(main())
"""


async def test_far_from_the_cap_some_calls_worth_is_set_aside_at_once(path: Path, reader: Connection) -> None:
    """Most calls need no word with the store; what is set aside covers all in flight, and nothing is left of it."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        reservations = [await budget.reserve(Decimal("0.001")) for _ in range(40)]
        assert commits.commits <= 3
        (held,) = reader.execute("SELECT amount FROM reservation").fetchall()
        assert Decimal("0.040") <= dollars_of_picodollars(held[0]) <= Decimal("0.060")
        for reservation in reservations:
            await budget.settle(reservation, Decimal("0.0004"))
        await commits.caught_up()
        assert not reader.execute("SELECT * FROM reservation").fetchall()
    assert spent_in_period(reader, "t") == Decimal("0.0160")


async def test_what_was_taken_back_is_not_lent(path: Path, reader: Connection) -> None:
    """A process that was taken for dead sets aside anew before its next call, within what others have left."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        first, second = await budget.reserve(Decimal("0.01")), await budget.reserve(Decimal("0.01"))
        reader.execute("DELETE FROM reservation")
        reader.execute("INSERT INTO spending VALUES ('t', 970000000000)")
        await budget.settle(first, Decimal("0.01"))
        await commits.caught_up()
        third = await budget.reserve(Decimal("0.02"))
        await budget.settle(second, Decimal("0.01"))
        await budget.settle(third, Decimal("0.00"))
        with pytest.raises(BudgetExhausted, match=r"\$0\.01 of the"):
            await budget.reserve(Decimal("0.02"))
    assert spent_in_period(reader, "t") == Decimal("0.99")
    assert not reader.execute("SELECT * FROM reservation").fetchall()


async def test_a_purse_is_renewed_long_before_its_lease_ends(path: Path, reader: Connection) -> None:
    """A call is lent only what stays set aside for longer than the call may take."""
    now = [1000.0]
    async with GroupCommit(path) as commits:
        budget = turn_budget(commits, turn_id="t", caps=Caps(turn=Decimal(1)), clock=lambda: now[0], lease_s=100)
        first = await budget.reserve(Decimal("0.001"))
        now[0] += 60
        second = await budget.reserve(Decimal("0.001"))
        leases = [row[0] for row in reader.execute("SELECT leased_until FROM reservation ORDER BY 1")]
        assert leases == [1100.0, 1160.0]
        await budget.settle(first, Decimal("0.001"))
        await budget.settle(second, Decimal("0.001"))
    assert not reader.execute("SELECT * FROM reservation").fetchall()


@pytest.mark.verify
def test_two_processes_share_one_cap(path: Path, reader: Connection) -> None:
    """Two processes of 64 tasks each, working on one turn, together stay within its cap."""
    running = [
        subprocess.Popen([sys.executable, "-c", SPENDING, str(path)], stdout=-1, stderr=-1, text=True) for _ in range(2)
    ]
    done = [process.communicate(timeout=60) for process in running]
    assert all(process.returncode == 0 for process in running), done
    sent = sum(int(out) for out, _ in done)
    assert spent_in_period(reader, "t") == sent * Decimal("0.009") <= 1
    assert spent_in_period(reader, "t") > Decimal("0.2")
