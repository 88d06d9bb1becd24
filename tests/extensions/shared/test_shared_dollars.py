"""A tenant's daily dollars: never beyond the cap over all processes, and dead processes return
theirs."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import Struct

from tests.extensions.shared.conftest import NewLink, Relay
from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import Caps
from xscore.costs.reservation import Budget, turn_budget
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.limits import SharedBudget
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import BudgetExhausted
from xscore.settings.model import SharedSettings

NOON = 1_795_348_800.0
"""2026-11-22 12:00 UTC."""
DAY = "2026-11-22"


class Clock(Struct):
    """A wall clock that can jump."""

    now: float = NOON

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
async def own_budget(tmp_path: Path) -> AsyncIterator[Budget]:
    """A store without caps."""
    async with GroupCommit(tmp_path / "memory.db") as commits:
        yield turn_budget(commits, turn_id="t", caps=Caps(), clock=Clock())


async def left(server: SharedServer, cap: str, *, day: str = DAY) -> Decimal:
    """Return what the cap leaves."""
    return await server.reserve(
        "look", day, Decimal(0), Decimal(0), cap_usd=Decimal(cap), lease_s=1
    )


async def test_four_processes_never_pass_the_cap(
    own_budget: Budget, shared: SharedSettings, server: SharedServer
) -> None:
    """All of it can be spent and not a call more, with far fewer round trips than calls."""
    counted = [Relay(server_factory(shared)()) for _ in range(4)]
    bound, actual = Decimal("0.01"), Decimal("0.004")
    spent: list[Decimal] = []

    async def process(server: Relay) -> None:
        link = server.link()
        dollars = SharedBudget(own_budget, link, cap_usd=Decimal(1), clock=Clock())

        async def worker() -> None:
            while True:
                try:
                    name = await dollars.reserve(bound)
                except BudgetExhausted as error:
                    assert "shared.max_usd_day" in error.hint
                    return
                await asyncio.sleep(0)
                spent.append(actual)
                await dollars.settle(name, actual)

        await asyncio.gather(*(worker() for _ in range(8)))
        await dollars.aclose()
        await link.aclose()

    await asyncio.gather(*map(process, counted))
    assert Decimal(1) - 4 * bound <= sum(spent) <= Decimal(1)
    assert await left(server, "1") == Decimal(1) - sum(spent)
    assert sum(relay.asked.count("reserve") for relay in counted) < len(spent)


async def test_a_call_that_does_not_tell_stays_charged_at_its_bound(
    own_budget: Budget, link_to: NewLink, server: SharedServer
) -> None:
    """An unknown cost counts in full; an overestimate is returned, and an underestimate is
    added."""
    dollars = SharedBudget(own_budget, link_to(), cap_usd=Decimal(1), clock=Clock())
    for actual in (None, Decimal("0.05"), Decimal("0.15")):
        await dollars.settle(await dollars.reserve(Decimal("0.1")), actual)
    await dollars.aclose()
    assert await left(server, "1") == Decimal("0.7")


async def test_what_a_killed_process_held_is_free_after_its_lease(
    own_budget: Budget, link_to: NewLink, server: SharedServer
) -> None:
    """Reported spending stays."""
    dead = SharedBudget(own_budget, link_to(), cap_usd=Decimal(1), clock=Clock(), lease_s=2.0)
    await dead.settle(await dead.reserve(Decimal("0.1")), Decimal("0.1"))
    await dead.reserve(Decimal("0.8"))  # it is never settled: as after a SIGKILL
    async with asyncio.timeout(20):
        while await left(server, "1") < Decimal("0.9"):  # noqa: ASYNC110  a lease has no event
            await asyncio.sleep(0.05)
    assert await left(server, "1") == Decimal("0.9")


async def test_each_day_has_its_own(
    own_budget: Budget, link_to: NewLink, server: SharedServer
) -> None:
    """A call is charged to the day of its reservation; at midnight the whole cap is available."""
    clock = Clock()
    dollars = SharedBudget(own_budget, link_to(), cap_usd=Decimal(1), clock=clock)
    late = await dollars.reserve(Decimal("0.9"))
    clock.now += 86_400
    early = await dollars.reserve(Decimal("0.9"))
    await dollars.settle(late, Decimal("0.9"))
    await dollars.settle(early, Decimal("0.3"))
    await dollars.aclose()
    assert await left(server, "1") == Decimal("0.1")
    assert await left(server, "1", day="2026-11-23") == Decimal("0.7")
