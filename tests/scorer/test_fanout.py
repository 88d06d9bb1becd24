"""Workers on one iterator."""

import asyncio
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from tests.cpu_time import assert_costs
from tests.providers.time_lapse import now, run
from xscore.records import UnjudgedCause
from xscore.scorer.fanout import StopSignal, fan_out, workers_for


def unsent(unit: int) -> Sequence[str]:
    """The result of a unit that was not begun."""
    return (f"unsent {unit}",)


async def gather(
    units: Iterator[int], settle: object, *, workers: int = 4, stop: StopSignal | None = None
) -> list[str]:
    """All results."""
    found: list[str] = []
    async for batch in fan_out(units, settle, workers=workers, stop=stop or StopSignal(), unsent=unsent):  # type: ignore[arg-type]
        found.extend(batch)
    return found


async def test_no_more_in_flight_than_workers() -> None:
    """X05: calls run in parallel, up to the limit and no further."""
    flying = peak = 0

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        nonlocal flying, peak
        flying += 1
        peak = max(peak, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return (str(unit),), ()

    found = await gather(iter(range(50)), settle, workers=8)
    assert sorted(found, key=int) == [str(unit) for unit in range(50)]
    assert peak == 8


async def test_more_work_goes_first_and_to_idle_workers() -> None:
    """What a unit calls for is shared among all workers, even after the iterator has ended."""
    flying = peak = 0

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        nonlocal flying, peak
        if unit == 0:
            await asyncio.sleep(0.01)
            return ("0",), range(1, 9)
        flying += 1
        peak = max(peak, flying)
        await asyncio.sleep(0.01)
        flying -= 1
        return (str(unit),), ()

    assert len(await gather(iter([0]), settle, workers=4)) == 9
    assert peak == 4


async def test_a_stop_begins_nothing_more_and_accounts_for_the_rest() -> None:
    """What is in flight settles; every other unit is given back as unsent."""
    stop, begun = StopSignal(), []

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        begun.append(unit)
        await asyncio.sleep(0.01)
        stop.set(UnjudgedCause.INTERRUPTED)
        return (f"settled {unit}",), (100 + unit,)

    found = await gather(iter(range(20)), settle, workers=3, stop=stop)
    assert begun == [0, 1, 2]
    assert sorted(found) == sorted(
        [f"settled {unit}" for unit in range(3)] + [f"unsent {unit}" for unit in (*range(3, 20), 100, 101, 102)]
    )


def test_the_first_cause_of_a_stop_holds() -> None:
    """A budget that ran out is not renamed by the interrupt that follows."""
    stop = StopSignal()
    stop.set(UnjudgedCause.BUDGET, "cap")
    stop.set(UnjudgedCause.INTERRUPTED)
    assert (stop.cause, stop.detail) == (UnjudgedCause.BUDGET, "cap")


async def test_an_error_is_raised_after_what_came_before_it() -> None:
    """A store that cannot be written ends the run; other workers are cancelled."""
    cancelled = []

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        if unit == 1:
            await asyncio.sleep(0.01)
            raise OSError("disk full")
        try:
            await asyncio.sleep(0 if unit == 0 else 60)
        except asyncio.CancelledError:
            cancelled.append(unit)
            raise
        return (str(unit),), ()

    found: list[str] = []
    with pytest.raises(OSError, match="disk full"):
        async for batch in fan_out(iter(range(9)), settle, workers=3, stop=StopSignal(), unsent=unsent):
            found.extend(batch)
    assert found == ["0"]
    assert sorted(cancelled) == [2, 3]


async def test_leaving_early_cancels_the_workers() -> None:
    """A consumer that stops listening leaves no task behind."""

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        await asyncio.sleep(0 if unit == 0 else 60)
        return (str(unit),), ()

    batches = fan_out(iter(range(9)), settle, workers=3, stop=StopSignal(), unsent=unsent)
    assert await anext(batches) == ("0",)
    await batches.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_hundred_thousand_units_cost_little() -> None:
    """100,000 no-op calls: CPU within a few times a bare loop of as many event loop turns, and a few MB."""

    async def settle(unit: int) -> tuple[Sequence[int], Sequence[int]]:
        await asyncio.sleep(0)
        return (unit,), ()

    async def turns() -> None:
        for _ in range(100_000):
            await asyncio.sleep(0)

    async def units(many: int) -> None:
        found = [
            unit async for unit in fan_out(iter(range(many)), settle, workers=64, stop=StopSignal(), unsent=unsent)
        ]
        assert len(found) == many

    assert_costs(lambda: asyncio.run(units(100_000)), than=lambda: asyncio.run(turns()), at_most=6)
    tracemalloc.start()
    asyncio.run(units(10_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("in_flight", [1, 4, 32, 64])
def test_units_in_backoff_do_not_idle_the_line(in_flight: int) -> None:
    """With a fifth of the units waiting as long as a call outside the limit, the calls in flight stay at the limit."""

    async def story(workers: int) -> float:
        slots, started = asyncio.Semaphore(in_flight), now()

        async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
            async with slots:
                await asyncio.sleep(1.0 + unit % 7 / 10)
            await asyncio.sleep(1.3 if unit % 5 == 0 else 0)
            return (str(unit),), ()

        await gather(iter(range(in_flight * 70)), settle, workers=workers)
        return now() - started

    ideal_s = 70 * 1.3
    assert run(story(workers_for(in_flight))) <= 1.03 * ideal_s
    assert run(story(in_flight)) >= 1.12 * ideal_s
