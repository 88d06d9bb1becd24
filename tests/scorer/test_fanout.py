"""Workers on one iterator."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pytest

from xscore.records.judgment import UnjudgedCause
from xscore.scorer.fanout import StopSignal, fan_out

Settle = Callable[[int], Awaitable[tuple[Sequence[str], Sequence[int]]]]


def unsent(unit: int) -> Sequence[str]:
    """The result of a unit that was not started."""
    return (f"unsent {unit}",)


async def gather(
    units: Iterator[int], settle: Settle, *, workers: int = 4, stop: StopSignal | None = None
) -> list[str]:
    """Collect all results."""
    results: list[str] = []
    async for batch in fan_out(
        units, settle, workers=workers, stop=stop or StopSignal(), unsent=unsent
    ):
        results.extend(batch)
    return results


async def test_no_more_in_flight_than_workers() -> None:
    """X05: calls run in parallel, exactly up to the limit."""
    flying = peak = 0

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        nonlocal flying, peak
        flying += 1
        peak = max(peak, flying)
        await asyncio.sleep(0.001)
        flying -= 1
        return (str(unit),), ()

    results = await gather(iter(range(50)), settle, workers=8)
    assert sorted(results, key=int) == [str(unit) for unit in range(50)]
    assert peak == 8


async def test_more_work_goes_first_and_to_idle_workers() -> None:
    """A unit's follow-ups are shared among all workers, even after the iterator has ended."""
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
    """Calls in flight settle; every other unit is returned as unsent."""
    stop, begun = StopSignal(), []

    async def settle(unit: int) -> tuple[Sequence[str], Sequence[int]]:
        begun.append(unit)
        await asyncio.sleep(0.01)
        stop.set(UnjudgedCause.INTERRUPTED)
        return (f"settled {unit}",), (100 + unit,)

    results = await gather(iter(range(20)), settle, workers=3, stop=stop)
    assert begun == [0, 1, 2]
    assert sorted(results) == sorted(
        [f"settled {unit}" for unit in range(3)]
        + [f"unsent {unit}" for unit in (*range(3, 20), 100, 101, 102)]
    )


def test_the_first_cause_of_a_stop_holds() -> None:
    """A used-up budget is not relabelled by the interrupt that follows."""
    stop = StopSignal()
    stop.set(UnjudgedCause.BUDGET, "cap")
    stop.set(UnjudgedCause.INTERRUPTED)
    assert (stop.cause, stop.detail) == (UnjudgedCause.BUDGET, "cap")


async def test_an_error_is_raised_after_what_came_before_it() -> None:
    """An unwritable store ends the run; other workers are cancelled."""
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

    results: list[str] = []
    with pytest.raises(OSError, match="disk full"):
        async for batch in fan_out(
            iter(range(9)), settle, workers=3, stop=StopSignal(), unsent=unsent
        ):
            results.extend(batch)
    assert results == ["0"]
    assert sorted(cancelled) == [2, 3]
