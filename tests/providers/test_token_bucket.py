"""Tokens a minute, on a clock of the test's own."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.conftest import PassingTime
from xscore.providers.token_bucket import BURST_SHARE, TokenBucket

PER_MINUTE = 60_000
BURST = PER_MINUTE * BURST_SHARE


async def _spend(
    amounts: list[int], *, per_minute: int = PER_MINUTE, used: float = 1.0
) -> list[tuple[float, int, int]]:
    """Let all take at once; return (time, index, amount) of each grant."""
    time = PassingTime()
    bucket = TokenBucket(per_minute, clock=time.clock, sleep=time.sleep)
    granted: list[tuple[float, int, int]] = []

    async def take(index: int, amount: int) -> None:
        await bucket.take(amount)
        granted.append((time.now, index, amount))
        bucket.refund(round(amount * (1 - used)))

    await asyncio.gather(*(take(index, amount) for index, amount in enumerate(amounts)))
    return granted


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, int(BURST)), min_size=20, max_size=120))
def test_no_window_of_a_minute_exceeds_the_rate(amounts: list[int]) -> None:
    """In no window of a minute or longer is more than 1.05 times the rate let through."""
    granted = asyncio.run(_spend(amounts * 3))
    for at, (start, _, _) in enumerate(granted):
        spent = 0
        for now, _, amount in granted[at:]:
            spent += amount
            window_s = max(60.0, now - start)
            assert spent <= 1.05 * PER_MINUTE * window_s / 60 + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4 * int(BURST)), min_size=2, max_size=30))
def test_waiters_are_served_in_order(amounts: list[int]) -> None:
    """First come, first served, whatever the sizes: a large request never starves behind small ones."""
    granted = asyncio.run(_spend(amounts))
    assert [index for _, index, _ in granted] == list(range(len(amounts)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4 * int(BURST)), min_size=30, max_size=60))
def test_the_limit_is_used(amounts: list[int]) -> None:
    """Waiters lose no more than a tenth of the rate to the bucket's own waiting."""
    granted = asyncio.run(_spend(amounts))
    took_s = granted[-1][0] - granted[0][0]
    ideal_s = max(0.0, sum(amounts) - BURST) / (PER_MINUTE / 60)
    assert took_s <= 1.1 * ideal_s + 0.1


async def test_a_request_larger_than_the_bucket_leaves_a_debt() -> None:
    """Ten seconds' worth at once is let through, and the next waits until it is paid."""
    granted = await _spend([10_000, 1])
    assert granted[1][0] - granted[0][0] >= 7.0


async def test_a_refund_serves_the_waiters() -> None:
    """What was reserved and not used is there for the next: reserving double costs no time."""
    exact = await _spend([1_000] * 60)
    doubled = await _spend([2_000] * 60, used=0.5)
    exact_s = exact[-1][0] - exact[0][0]
    doubled_s = doubled[-1][0] - doubled[0][0]
    assert doubled_s <= 1.1 * exact_s + 0.2


async def test_a_refund_never_makes_more_than_a_full_bucket() -> None:
    """Idle time and refunds do not add up to a burst."""
    time = PassingTime()
    bucket = TokenBucket(PER_MINUTE, clock=time.clock, sleep=time.sleep)
    bucket.refund(10 * PER_MINUTE)
    time.now += 3_600
    await bucket.take(int(BURST))
    before = time.now
    await bucket.take(1_000)
    assert time.now - before >= 0.99


async def test_a_waiter_that_gives_up_is_forgotten() -> None:
    """A cancelled waiter takes nothing and lets the next one pass."""
    bucket = TokenBucket(600)
    await bucket.take(600)
    waiter = asyncio.create_task(bucket.take(10))
    await asyncio.sleep(0.01)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    bucket.refund(600)
    await asyncio.wait_for(bucket.take(1), 1)
