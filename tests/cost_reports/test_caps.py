"""Daily and repository caps in addition to the turn's."""

import asyncio
from decimal import Decimal
from pathlib import Path
from sqlite3 import Connection

import pytest

from tests.cost_reports.conftest import alive
from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import REPOSITORY_PERIOD, Caps, cap_status, spent_in_period
from xscore.costs.reservation import Budget, turn_budget
from xscore.platform.clock import DAY_S, day_of
from xscore.platform.errors import BudgetExhausted, StoreDamaged
from xscore.platform.money import dollars_of_picodollars

NOON = 1_795_348_800.0
"""2026-11-22 12:00 UTC."""
TODAY, TOMORROW, YESTERDAY = "2026-11-22", "2026-11-23", "2026-11-21"
DAILY = Caps(turn=Decimal(1), day=Decimal("1.50"))


class Clock:
    """A clock set by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at noon."""
    return Clock()


def turn(commits: GroupCommit, name: str, caps: Caps, clock: Clock) -> Budget:
    """Make the budget of a turn."""
    return turn_budget(commits, turn_id=name, caps=caps, clock=clock)


async def spend(budget: Budget, usd: str) -> None:
    """Reserve an amount and charge it."""
    await budget.settle(await budget.reserve(Decimal(usd)), Decimal(usd))


async def test_two_turns_one_after_the_other_share_the_day(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """The second turn has what the first left of the day, though its own cap allows more."""
    async with GroupCommit(path) as commits:
        await spend(turn(commits, "t1", DAILY, clock), "1.00")
        second = turn(commits, "t2", DAILY, clock)
        await spend(second, "0.50")
        with pytest.raises(
            BudgetExhausted, match=rf"\$0[\d.]* of the day's \$1\.50 \({TODAY}, UTC\) is left"
        ) as caught:
            await second.reserve(Decimal("0.01"))
    assert "budget.max_usd_day" in caught.value.hint and "xscore continue" in caught.value.hint
    assert spent_in_period(reader, TODAY) == Decimal("1.5")
    assert spent_in_period(reader, REPOSITORY_PERIOD) == Decimal("1.5")
    assert spent_in_period(reader, "t1") == Decimal(1)
    assert spent_in_period(reader, "t2") == Decimal("0.5")


async def test_the_next_day_has_room_again(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """Midnight UTC resets the day's cap, within a turn and between turns; the repository's
    continues."""
    caps = Caps(day=Decimal(1), repository=Decimal("1.80"))
    async with GroupCommit(path) as commits:
        budget = turn(commits, "t", caps, clock)
        await spend(budget, "1.00")
        with pytest.raises(BudgetExhausted, match="the day's"):
            await budget.reserve(Decimal("0.50"))
        clock.now += DAY_S / 2
        await spend(budget, "0.50")
        with pytest.raises(
            BudgetExhausted, match=r"\$0\.3\d* of the repository's \$1\.80 is left"
        ) as caught:
            await budget.reserve(Decimal("0.50"))
    assert "budget.max_usd_repository" in caught.value.hint
    assert [spent_in_period(reader, span) for span in (TODAY, TOMORROW, REPOSITORY_PERIOD)] == [
        1,
        Decimal("0.5"),
        Decimal("1.5"),
    ]


async def test_a_call_over_midnight_counts_on_the_day_it_was_reserved(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """A call started before midnight is charged to its day and reserves nothing of the next."""
    async with GroupCommit(path) as commits:
        budget = turn(commits, "t", Caps(day=Decimal(1)), clock)
        late = await budget.reserve(Decimal("0.90"))
        clock.now += DAY_S / 2
        early = await budget.reserve(Decimal("0.90"))
        days = dict(reader.execute("SELECT day, amount FROM reservation").fetchall())
        assert {day: dollars_of_picodollars(amount) for day, amount in days.items()} == {
            TODAY: Decimal("0.9"),
            TOMORROW: Decimal("0.9"),
        }
        await budget.settle(late, Decimal("0.80"))
        await budget.settle(early, Decimal("0.70"))
    assert spent_in_period(reader, TODAY) == Decimal("0.8")
    assert spent_in_period(reader, TOMORROW) == Decimal("0.7")
    assert not reader.execute("SELECT * FROM reservation").fetchall()


async def test_a_clock_set_back_opens_nothing(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """If the clock goes back a day, earlier spending still counts, and no reservation crosses
    days."""
    async with GroupCommit(path) as commits:
        budget = turn(commits, "t", Caps(day=Decimal(1), repository=Decimal(3)), clock)
        await spend(budget, "0.90")
        for day in (1, -2, 1):
            clock.now += day * DAY_S
            held = await budget.reserve(Decimal("0.05"))
            await budget.settle(held, Decimal("0.05"))
        with pytest.raises(BudgetExhausted, match=r"\$0\.05 of the day's"):
            await budget.reserve(Decimal("0.10"))
    assert [spent_in_period(reader, day) for day in (YESTERDAY, TODAY, TOMORROW)] == [
        Decimal("0.05"),
        Decimal("0.95"),
        Decimal("0.05"),
    ]
    assert spent_in_period(reader, REPOSITORY_PERIOD) == Decimal("1.05")
    assert not reader.execute("SELECT * FROM reservation").fetchall()


async def test_what_was_spent_without_a_cap_counts_under_a_later_one(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """A cap set in the afternoon includes the morning's cost; without a cap nothing is reserved."""
    async with GroupCommit(path) as commits:
        free = turn(commits, "t1", Caps(), clock)
        held = await free.reserve(Decimal("0.90"))
        assert not reader.execute("SELECT * FROM reservation").fetchall()
        await free.settle(held, Decimal("0.70"))
        untold = await free.reserve(Decimal("0.10"))
        await free.settle(untold, None)
        await commits.caught_up()
        with pytest.raises(BudgetExhausted, match=r"\$0\.20* of the repository's"):
            await turn(commits, "t2", Caps(repository=Decimal(1)), clock).reserve(
                Decimal("0.21")
            )
    assert spent_in_period(reader, TODAY) == Decimal("0.8")


async def test_the_dead_hold_nothing_of_the_day(
    path: Path, reader: Connection, clock: Clock, dead: str
) -> None:
    """What a killed process reserved for another turn returns to the day and the repository."""
    rows = [
        ("dead", "t0", TODAY, dead, NOON + 99, 9 * 10**11),
        ("alive", "t1", TODAY, alive(), NOON + 99, 10**11),
    ]
    reader.executemany("INSERT INTO reservation VALUES (?, ?, ?, ?, ?, ?)", rows)
    caps = Caps(day=Decimal(1), repository=Decimal(1))
    assert [cap.left_usd for cap in cap_status(reader, caps, now=NOON)] == [Decimal("0.9")] * 2
    async with GroupCommit(path) as commits:
        budget = turn(commits, "t2", caps, clock)
        with pytest.raises(BudgetExhausted):
            await budget.reserve(Decimal("0.91"))
        assert await budget.reserve(Decimal("0.90"))
    assert not reader.execute("SELECT * FROM reservation WHERE id = 'dead'").fetchall()


@pytest.mark.parametrize(
    "place",
    ["{pid} 1 {boot} another-host pid:[1]", "{pid} 1 0f0f0f0f {host} pid:[4026532999]", ""],
    ids=["another machine", "another container", "a store from before"],
)
async def test_who_runs_elsewhere_holds_what_it_set_aside(
    path: Path, reader: Connection, clock: Clock, dead: str, place: str
) -> None:
    """A process in another container is invisible: only its lease counts, not whether its id is
    free here."""
    pid, _, boot, where = dead.split(" ", 3)
    elsewhere = place.format(pid=pid, boot=boot, host=where.split()[0])
    reader.execute(
        "INSERT INTO reservation VALUES ('r', 't0', ?, ?, ?, ?)",
        (TODAY, elsewhere, NOON + 99, 9 * 10**11),
    )
    caps = Caps(day=Decimal(1))
    assert [cap.left_usd for cap in cap_status(reader, caps, now=NOON)] == [Decimal("0.1")]
    async with GroupCommit(path) as commits:
        with pytest.raises(BudgetExhausted):
            await turn(commits, "t1", caps, clock).reserve(Decimal("0.11"))
        clock.now += 100
        assert await turn(commits, "t2", caps, clock).reserve(Decimal("0.90"))
    assert not reader.execute("SELECT * FROM reservation WHERE id = 'r'").fetchall()


def test_a_clock_set_forth_frees_nothing_of_the_living(reader: Connection) -> None:
    """With a clock two hours ahead every lease looks expired while its holder's calls are in
    flight."""
    row = ("r", "t0", TODAY, alive(), NOON, 3 * 10**11)
    reader.execute("INSERT INTO reservation VALUES (?, ?, ?, ?, ?, ?)", row)
    caps = Caps(day=Decimal(1), repository=Decimal(1))
    assert [cap.left_usd for cap in cap_status(reader, caps, now=NOON + 7_200)] == [
        Decimal("0.7")
    ] * 2


async def test_a_damaged_span_stops_only_where_it_is_capped(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """If a repository's recorded cost is invalid, nothing is spent under a cap; without a cap work
    continues."""
    reader.execute("INSERT INTO spending VALUES (?, 'abc')", (REPOSITORY_PERIOD,))
    async with GroupCommit(path) as commits:
        await spend(turn(commits, "t1", Caps(turn=Decimal(1)), clock), "0.50")
        await commits.caught_up()
    assert spent_in_period(reader, "t1") == Decimal("0.5")
    with pytest.raises(StoreDamaged, match="is invalid"):
        async with GroupCommit(path) as commits:
            await turn(commits, "t2", Caps(repository=Decimal(1)), clock).reserve(
                Decimal("0.01")
            )


@pytest.mark.verify
async def test_many_turns_at_once_never_pass_the_day(
    path: Path, reader: Connection, clock: Clock
) -> None:
    """At every moment charged plus in flight is at most the day's cap, with 8 turns of 8 tasks over
    two midnights."""
    spent: dict[str, Decimal] = {}
    worst = Decimal(0)
    caps = Caps(turn=Decimal("0.80"), day=Decimal(1), repository=Decimal("2.60"))
    async with GroupCommit(path) as commits:
        budgets = [turn(commits, f"t{number}", caps, clock) for number in range(8)]

        async def work(number: int) -> None:
            nonlocal worst
            bound, price = Decimal("0.013"), Decimal("0.001") * (5 + number % 8)
            while True:
                try:
                    held = await budgets[number % 8].reserve(bound)
                except BudgetExhausted:
                    return
                day = day_of(clock.now)
                spent[day] = spent.get(day, Decimal(0)) + bound
                worst = max(worst, spent[day])
                await asyncio.sleep(0)
                spent[day] += price - bound
                await budgets[number % 8].settle(held, price)

        for _ in range(3):
            await asyncio.gather(*(work(number) for number in range(64)))
            clock.now += DAY_S
    assert Decimal("0.9") < worst <= 1
    assert spent_in_period(reader, REPOSITORY_PERIOD) == sum(spent.values()) <= Decimal("2.60")
    assert spent_in_period(reader, REPOSITORY_PERIOD) > Decimal("2.5")
    assert not reader.execute("SELECT * FROM reservation").fetchall()
