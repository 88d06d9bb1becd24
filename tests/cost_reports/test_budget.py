"""The cap of a turn."""

import asyncio
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.cost_reports.conftest import budget_of
from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import Caps, spent_in_period
from xscore.costs.reservation import turn_budget
from xscore.platform.errors import BudgetExhausted, StoreDamaged
from xscore.platform.money import dollars_of_picodollars
from xscore.platform.processes import process_identity


async def test_what_would_pass_the_cap_is_refused_before_it_is_sent(path: Path) -> None:
    """Reservations add up to exactly the cap; the refusal says what is left."""
    async with GroupCommit(path) as commits:
        for _ in range(9):
            await budget_of(commits).reserve(Decimal("0.11"))
        with pytest.raises(BudgetExhausted, match=r"may cost \$0\.02, and only \$0\.01"):
            await budget_of(commits).reserve(Decimal("0.02"))
        await budget_of(commits).reserve(Decimal("0.01"))
        with pytest.raises(BudgetExhausted):
            await budget_of(commits).reserve(Decimal("0.0000000001"))


async def test_near_the_cap_a_call_waits_for_those_in_flight(path: Path) -> None:
    """Waiting calls use what calls in flight leave over; a refusal comes when nothing more can be
    released."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        first = await budget.reserve(Decimal("0.9"))
        waiting = [asyncio.create_task(budget.reserve(Decimal("0.5"))) for _ in range(2)]
        await asyncio.sleep(0.02)
        assert not any(task.done() for task in waiting)
        await budget.settle(first, Decimal("0.1"))
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await budget.settle(done.pop().result(), Decimal("0.5"))
        with pytest.raises(BudgetExhausted):
            await pending.pop()


async def test_settling_gives_back_what_was_not_used(path: Path, reader: Connection) -> None:
    """A finished call is charged exactly its price."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        for _ in range(3):
            await budget.settle(await budget.reserve(Decimal("0.8")), Decimal("0.1"))
        await budget.reserve(Decimal("0.7"))
        with pytest.raises(BudgetExhausted):
            await budget_of(commits).reserve(Decimal("0.01"))
    assert spent_in_period(reader, "t") == Decimal("0.3")


async def test_a_charge_beyond_the_bound_is_counted_once(
    path: Path, reader: Connection
) -> None:
    """An overrun leaves the rest of the cap, to the cent, to the others; a call that does not tell
    stays charged."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        waiting = await budget.reserve(Decimal("0.1"))
        await budget.settle(await budget.reserve(Decimal("0.1")), Decimal("0.5"))
        await budget.settle(await budget.reserve(Decimal("0.4")), None)
        with pytest.raises(BudgetExhausted, match=r"\$0 of the turn's"):
            await budget_of(commits).reserve(Decimal("0.01"))
        await budget.settle(waiting, None)
    assert spent_in_period(reader, "t") == 1
    assert not reader.execute("SELECT 1 FROM reservation").fetchall()


async def test_no_cap_and_no_price(path: Path, reader: Connection) -> None:
    """Without a cap nothing is refused; an unpriced call counts as zero, as loopback does, and a
    cap of 0 allows it."""
    async with GroupCommit(path) as commits:
        free = turn_budget(commits, turn_id="free", caps=Caps())
        await free.settle(await free.reserve(Decimal(10**6)), Decimal(10**6))
        strict = budget_of(commits, "0")
        await strict.settle(await strict.reserve(None), None)
        await strict.settle(await strict.reserve(Decimal(0)), Decimal(0))
        with pytest.raises(BudgetExhausted):
            await strict.reserve(Decimal("0.01"))
    assert spent_in_period(reader, "t") == 0


async def test_a_lease_taken_back_is_still_charged_when_it_settles(
    path: Path, reader: Connection
) -> None:
    """A slow call whose reservation another process reclaimed is still charged."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        reservation = await budget.reserve(Decimal("0.5"))
        await commits.submit(
            lambda connection: connection.execute("DELETE FROM reservation").rowcount
        )
        await budget.settle(reservation, Decimal("0.4"))
    assert spent_in_period(reader, "t") == Decimal("0.4")


@pytest.mark.parametrize("amount", ["abc", -5])
@pytest.mark.parametrize(
    "entry",
    ["spending VALUES ('t', ?)", "reservation VALUES ('a', 't', '', '{process}', 2000.0, ?)"],
)
async def test_an_amount_that_makes_no_sense_is_damage(
    path: Path, reader: Connection, entry: str, amount: object
) -> None:
    """If the store cannot say what a turn has cost or reserved, nothing more is spent."""
    reader.execute(f"INSERT INTO {entry.format(process=process_identity())}", (amount,))
    with pytest.raises(StoreDamaged, match="is invalid"):
        async with GroupCommit(path) as commits:
            await budget_of(commits).reserve(Decimal("0.01"))


async def test_a_cancelled_reservation_is_given_back(path: Path, reader: Connection) -> None:
    """Ctrl-C while waiting for a reservation leaves none behind."""
    async with GroupCommit(path) as commits:
        waiting = asyncio.create_task(budget_of(commits).reserve(Decimal("0.5")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert not reader.execute("SELECT * FROM reservation").fetchall()
    assert spent_in_period(reader, "t") == 0


async def test_sixty_four_in_flight_never_pass_the_cap(path: Path) -> None:
    """At every moment charged plus reserved is at most the cap, with 64 tasks reserving and
    settling."""
    outstanding, worst, sent = Decimal(0), Decimal(0), 0
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)

        async def work(number: int) -> None:
            nonlocal outstanding, worst, sent
            bound, price = Decimal("0.013"), Decimal("0.001") * (number % 13)
            while sent < 2000:
                try:
                    reservation = await budget.reserve(bound)
                except BudgetExhausted:
                    return
                sent += 1
                outstanding += bound
                worst = max(worst, outstanding)
                await asyncio.sleep(0)
                outstanding += price - bound
                await budget.settle(reservation, price)

        await asyncio.gather(*(work(number) for number in range(64)))
    assert Decimal("0.9") < worst <= Decimal("1.00")


async def test_far_from_the_cap_some_calls_worth_is_set_aside_at_once(
    path: Path, reader: Connection
) -> None:
    """Most calls need no database access; the reservation covers all calls in flight and is fully
    returned."""
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
    """A process wrongly presumed dead makes a new reservation before its next call, within the
    remaining budget."""
    async with GroupCommit(path) as commits:
        budget = budget_of(commits)
        first, second = (
            await budget.reserve(Decimal("0.01")),
            await budget.reserve(Decimal("0.01")),
        )
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


async def test_a_reservation_is_renewed_long_before_its_lease_ends(
    path: Path, reader: Connection
) -> None:
    """A call borrows only from a reservation that outlasts the call."""
    now = [1000.0]
    async with GroupCommit(path) as commits:
        budget = turn_budget(
            commits, turn_id="t", caps=Caps(turn=Decimal(1)), clock=lambda: now[0], lease_s=100
        )
        first = await budget.reserve(Decimal("0.001"))
        now[0] += 60
        second = await budget.reserve(Decimal("0.001"))
        leases = [
            row[0] for row in reader.execute("SELECT leased_until FROM reservation ORDER BY 1")
        ]
        assert leases == [1100.0, 1160.0]
        await budget.settle(first, Decimal("0.001"))
        await budget.settle(second, Decimal("0.001"))
    assert not reader.execute("SELECT * FROM reservation").fetchall()
