"""So much a minute, in an event loop whose waits take no time; its peer aiolimiter runs on the same arrivals."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiolimiter import AsyncLimiter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cpu_time import assert_costs
from tests.providers.time_lapse import now, run
from xscore.providers.rate_limits import BURST_SHARE, TokenBucket

PER_MINUTE = 60_000
PER_SECOND = PER_MINUTE / 60
BURST = int(PER_MINUTE * BURST_SHARE)

Take = Callable[[int], Awaitable[None]]
Arrival = tuple[float, int]
"""Seconds since the one before; tokens."""
Grant = tuple[float, int, int]
"""Time, index of the arrival, tokens."""

arrivals = st.lists(st.tuples(st.floats(0, 3), st.integers(1, BURST)), min_size=20, max_size=120)


async def _spend(take: Take, come: list[Arrival]) -> list[Grant]:
    """Let each take when it comes; return the grants in order."""
    granted: list[Grant] = []

    async def one(index: int, amount: int) -> None:
        await take(amount)
        granted.append((now(), index, amount))

    async with asyncio.TaskGroup() as group:
        for index, (after_s, amount) in enumerate(come):
            await asyncio.sleep(after_s)
            group.create_task(one(index, amount))
    return granted


def _at_once(amounts: list[int]) -> list[Grant]:
    async def spend() -> list[Grant]:
        return await _spend(TokenBucket(PER_MINUTE).take, [(0.0, amount) for amount in amounts])

    return run(spend())


@settings(max_examples=60, deadline=None)
@given(arrivals)
def test_no_window_exceeds_the_rate(come: list[Arrival]) -> None:
    """In any window of w seconds at most 1.05 times the rate is let through, beside the declared burst."""

    async def spend() -> list[Grant]:
        return await _spend(TokenBucket(PER_MINUTE).take, come)

    granted = run(spend())
    assert len(granted) == len(come)
    for at, (start, _, _) in enumerate(granted):
        spent = 0
        for moment, _, amount in granted[at:]:
            spent += amount
            assert spent <= 1.05 * PER_SECOND * (moment - start) + BURST + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, BURST), min_size=20, max_size=80), st.floats(0.1, 1.0), st.floats(0, 5))
def test_refunds_give_back_no_more_than_was_on_loan(amounts: list[int], share: float, lag_s: float) -> None:
    """What is used in any window stays within rate and burst, beside what was taken and not yet refunded before it."""

    async def spend() -> list[tuple[float, int, int]]:
        bucket = TokenBucket(PER_MINUTE)
        granted: list[Grant] = []

        async def one(amount: int) -> None:
            await bucket.take(amount)
            actual = int(amount * share)
            granted.append((now(), actual, amount - actual))
            await asyncio.sleep(lag_s)
            bucket.refund(amount - actual)

        await asyncio.gather(*map(one, amounts))
        return granted

    granted = run(spend())
    for at, (start, _, _) in enumerate(granted):
        on_loan = sum(lent for moment, _, lent in granted[:at] if moment + lag_s >= start)
        used = 0
        for moment, actual, _ in granted[at:]:
            used += actual
            assert used <= 1.05 * PER_SECOND * (moment - start) + BURST + on_loan + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4 * BURST), min_size=2, max_size=30))
def test_waiters_are_served_in_order(amounts: list[int]) -> None:
    """First come, first served, whatever the sizes."""
    granted = _at_once(amounts)
    assert [index for _, index, _ in granted] == list(range(len(amounts)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(100, 2 * BURST), min_size=100, max_size=200))
def test_the_limit_is_used(amounts: list[int]) -> None:
    """Under steady demand of mixed sizes at least 98 % of the set rate is let through."""
    granted = _at_once(amounts)
    took_s = granted[-1][0] - granted[0][0]
    assert sum(amounts) - BURST >= 0.98 * PER_SECOND * took_s


async def _wait_of_the_large(take: Take) -> float:
    """Send small requests at 1.2 times the rate for two minutes, a large one among the first; return what it waited."""
    small = PER_SECOND / 10
    waited = -1.0

    async def large() -> None:
        nonlocal waited
        came = now()
        await take(BURST)
        waited = now() - came

    async with asyncio.TaskGroup() as group:
        for number in range(1_440):
            group.create_task(_one(take, int(small)))
            if number == 100:
                group.create_task(large())
            await asyncio.sleep(0.1 / 1.2)
    return waited


async def _one(take: Take, amount: int) -> None:
    await take(amount)


def test_a_large_request_waits_its_turn_and_no_longer() -> None:
    """Among small ones a large request waits for those before it and its own size; aiolimiter lets it starve."""

    async def ours() -> float:
        return await _wait_of_the_large(TokenBucket(PER_MINUTE).take)

    async def theirs() -> float:
        return await _wait_of_the_large(AsyncLimiter(BURST, BURST / PER_SECOND).acquire)

    its_turn_s = 101 * 0.1 + BURST / PER_SECOND
    assert run(ours()) <= its_turn_s
    assert run(theirs()) > 100  # until the last of the small ones has passed


def test_a_request_larger_than_the_bucket_leaves_a_debt() -> None:
    """Ten seconds' worth at once is let through, and the next waits until it is paid."""
    granted = _at_once([10_000, 1])
    assert granted[1][0] - granted[0][0] == pytest.approx(7.001)


def test_a_refund_serves_the_waiters() -> None:
    """What was reserved and not used is there for the next: reserving double costs no time."""

    async def spend(reserved: int) -> float:
        bucket, started = TokenBucket(PER_MINUTE), now()

        async def one() -> None:
            await bucket.take(reserved)
            bucket.refund(reserved - 1_000)

        await asyncio.gather(*(one() for _ in range(60)))
        return now() - started

    assert run(spend(2_000)) <= 1.1 * run(spend(1_000))


def test_a_refund_never_makes_more_than_a_full_bucket() -> None:
    """Idle time and refunds do not add up to a burst."""

    async def spend() -> float:
        bucket = TokenBucket(PER_MINUTE)
        bucket.refund(10 * PER_MINUTE)
        await asyncio.sleep(3_600)
        await bucket.take(BURST)
        before = now()
        await bucket.take(1_000)
        return now() - before

    assert run(spend()) == pytest.approx(1.0)


def test_another_rate_keeps_the_level_and_the_waiters() -> None:
    """A waiter goes on at the rate that was learned while it waited, from where it stood."""

    async def spend() -> float:
        bucket, started = TokenBucket(PER_MINUTE), now()
        await bucket.take(BURST)
        waiter = asyncio.create_task(bucket.take(2_000))
        await asyncio.sleep(1)
        bucket.rate(PER_MINUTE // 2)
        await waiter
        return now() - started

    assert run(spend()) == pytest.approx(1 + 500 / (PER_SECOND / 2))  # 1,000 were there; half a bucket is 1,500


def test_what_was_overdrawn_is_paid_first() -> None:
    """A limit that is learned late counts what was spent before."""

    async def spend() -> float:
        bucket, started = TokenBucket(PER_MINUTE, overdrawn=BURST + 4_000), now()
        await bucket.take(1_000)
        return now() - started

    assert run(spend()) == pytest.approx(5.0)


async def test_a_waiter_that_gives_up_is_forgotten() -> None:
    """A cancelled waiter takes nothing and lets the next one pass, also when it was served in the same moment."""
    bucket = TokenBucket(600)
    await bucket.take(600)
    waiter = asyncio.create_task(bucket.take(10))
    await asyncio.sleep(0.01)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    late = asyncio.create_task(bucket.take(10))
    await asyncio.sleep(0.01)
    bucket.refund(580)
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    await asyncio.wait_for(bucket.take(10), 30)


def test_waiting_costs_little() -> None:
    """10,000 takes that mostly wait cost a few times the CPU of as many bare waits on the loop."""

    async def bare(bell: asyncio.Event) -> None:
        await bell.wait()

    async def rung() -> None:
        bell = asyncio.Event()
        asyncio.get_running_loop().call_later(1, bell.set)
        await asyncio.gather(*(bare(bell) for _ in range(10_000)))

    async def taken() -> None:
        bucket = TokenBucket(PER_MINUTE)
        await asyncio.gather(*(_one(bucket.take, 100) for _ in range(10_000)))

    assert_costs(lambda: run(taken()), than=lambda: run(rung()), at_most=12)
