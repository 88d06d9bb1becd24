"""Per-minute rates: the user's limit or the host's, learned while calls run, in an event loop with
instant waits."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.providers.conftest import Connected, MakeRequest
from tests.providers.virtual_time import now, run
from tests.servers import OpenAIServer
from xscore.providers.limits import Limited
from xscore.providers.provider import OnText
from xscore.providers.rate_limits import BURST_S, LocalRates, RateShare, TokenBucket, used_share
from xscore.records.calls import Completion, Finish, RateLimits, Request, Usage

PER_MINUTE = 60_000
PER_SECOND = PER_MINUTE / 60
BURST = int(PER_MINUTE / 60 * BURST_S)

Arrival = tuple[float, int]
"""Seconds since the previous one; tokens."""
Grant = tuple[float, int, int]
"""Time, index of the arrival, tokens."""

arrivals = st.lists(
    st.tuples(st.floats(0, 3), st.integers(1, BURST)), min_size=20, max_size=120
)


async def _spend(come: list[Arrival]) -> list[Grant]:
    """Let each arrival spend in order; return the grants."""
    granted: list[Grant] = []
    bucket, front = TokenBucket(PER_MINUTE), asyncio.Lock()

    async def one(index: int, amount: int) -> None:
        async with front:
            await bucket.take(amount)
            granted.append((now(), index, amount))

    async with asyncio.TaskGroup() as group:
        for index, (after_s, amount) in enumerate(come):
            await asyncio.sleep(after_s)
            group.create_task(one(index, amount))
    return granted


def _at_once(amounts: list[int]) -> list[Grant]:
    return run(_spend([(0.0, amount) for amount in amounts]))


@settings(max_examples=40, deadline=None)
@given(arrivals)
def test_no_window_exceeds_the_rate(come: list[Arrival]) -> None:
    """In any window of w seconds at most 1.05 times the rate is admitted, plus the declared
    burst."""
    granted = run(_spend(come))
    assert len(granted) == len(come)
    for at, (start, _, _) in enumerate(granted):
        spent = 0
        for moment, _, amount in granted[at:]:
            spent += amount
            assert spent <= 1.05 * PER_SECOND * (moment - start) + BURST + 1


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, BURST), min_size=20, max_size=80),
    st.floats(0.1, 1.0),
    st.floats(0, 5),
)
def test_refunds_give_back_no_more_than_was_on_loan(
    amounts: list[int], share: float, lag_s: float
) -> None:
    """Use in any window stays within rate and burst, plus what was taken earlier and not yet
    refunded."""

    async def spend() -> list[tuple[float, int, int]]:
        bucket, front = TokenBucket(PER_MINUTE), asyncio.Lock()
        granted: list[Grant] = []

        async def one(amount: int) -> None:
            async with front:
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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(100, 2 * BURST), min_size=100, max_size=200))
def test_the_limit_is_used(amounts: list[int]) -> None:
    """Under steady demand of mixed sizes at least 98 % of the set rate is admitted."""
    granted = _at_once(amounts)
    took_s = granted[-1][0] - granted[0][0]
    assert sum(amounts) - BURST >= 0.98 * PER_SECOND * took_s


def test_a_request_larger_than_the_bucket_leaves_a_debt() -> None:
    """Ten seconds' worth at once is admitted, and the next waits until it is paid off."""
    granted = _at_once([10_000, 1])
    assert granted[1][0] - granted[0][0] == pytest.approx(7.001)


def test_another_rate_keeps_the_level_and_the_waiters() -> None:
    """A waiter continues at the rate learned meanwhile, from its current position."""

    async def spend() -> float:
        bucket, started = TokenBucket(PER_MINUTE), now()
        await bucket.take(BURST)
        waiter = asyncio.create_task(bucket.take(2_000))
        await asyncio.sleep(1)
        bucket.rate(PER_MINUTE // 2)
        await waiter
        return now() - started

    # 1,000 were there; half a bucket is 1,500.
    assert run(spend()) == pytest.approx(1 + 500 / (PER_SECOND / 2))


def test_what_was_overdrawn_is_paid_first() -> None:
    """A limit learned late counts earlier spending."""

    async def spend() -> float:
        bucket, started = TokenBucket(), now()
        await bucket.take(BURST + 4_000)
        bucket.rate(PER_MINUTE)
        await bucket.take(1_000)
        return now() - started

    assert run(spend()) == pytest.approx(5.0)


SILENT = RateLimits()


class Host(Struct):
    """Answers after a second with this usage and these limits."""

    usage: Usage
    limits: RateLimits = SILENT
    name: str = "scripted"
    host: str = "-"

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer."""
        await asyncio.sleep(1)
        return Completion(
            text="{}", finish=Finish.STOP, usage=self.usage, model="m", limits=self.limits
        )

    async def aclose(self) -> None:
        """Do nothing."""


def minutes_for(count: int, limited: Callable[[], Limited], request: Request) -> float:
    """Return how long N calls take."""

    async def story() -> float:
        provider, started = limited(), now()
        await asyncio.gather(*(provider.complete(request) for _ in range(count)))
        return (now() - started) / 60

    return run(story())


@pytest.mark.parametrize(
    ("set_here", "stated", "in_force"),
    [
        (None, None, None),
        (10_000, None, 10_000),
        (None, 5_000, 5_000),
        (10_000, 5_000, 5_000),
        (4_000, 5_000, 4_000),
    ],
)
def test_the_lower_limit_is_in_force(
    set_here: int | None, stated: int | None, in_force: int | None
) -> None:
    """The user's setting or the host's statement, whichever is lower; none if neither states
    one."""
    rates = LocalRates(rpm=set_here, tpm=set_here)
    rates.learn(RateLimits(stated, stated, stated, stated))
    assert rates.in_force == RateLimits(in_force, in_force, stated, stated)
    assert rates.stated == RateLimits(stated, stated, stated, stated)


def test_what_a_host_said_holds_while_it_is_silent() -> None:
    """A reply without headers keeps the limit; a new statement replaces it, and an invalid one is
    ignored."""
    rates = LocalRates(remembered=RateLimits(tokens_per_minute=9_000))
    rates.learn(RateLimits(requests_per_minute=100))
    rates.learn(SILENT)
    rates.learn(RateLimits(requests_per_minute=200, tokens_per_minute=0))
    assert rates.stated == RateLimits(200, 9_000)


def test_a_cached_prefix_does_not_count_as_input_where_input_counts_apart() -> None:
    """With 900 of 1,000 input tokens from the prefix cache, 100 count as input and all count in the
    total."""
    usage = Usage(
        input_tokens=1_000, cached_input_tokens=900, cache_write_tokens=60, output_tokens=50
    )
    assert used_share(usage) == RateShare(
        requests=1, tokens=1_050, input_tokens=100, output_tokens=50
    )


def test_a_limit_learned_from_a_reply_holds_from_then_on(judging: MakeRequest) -> None:
    """60 calls at 20 a minute, stated by the first reply, take three minutes, first burst
    included."""
    host = Host(Usage(), RateLimits(requests_per_minute=20))
    assert minutes_for(60, lambda: Limited(host), judging()) == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [
        ("tokens_per_minute", 1_000 + 100),
        ("input_tokens_per_minute", 1_000 - 400),
        ("output_tokens_per_minute", 100),
    ],
)
def test_tokens_are_limited_by_what_was_used(
    judging: MakeRequest, kind: str, tokens: int
) -> None:
    """Each kind of limit uses its own token count; reservations are returned."""
    host = Host(
        Usage(input_tokens=1_000, cached_input_tokens=400, output_tokens=100),
        RateLimits(**{kind: 10 * tokens}),
    )
    request = judging(reserved_input_tokens=1_500, max_output_tokens=300)
    assert minutes_for(40, lambda: Limited(host), request) == pytest.approx(4, rel=0.15)


def test_a_large_call_is_not_passed_by_small_ones(judging: MakeRequest) -> None:
    """Calls are sent in order of arrival, whatever they reserve."""
    sent: list[int] = []

    class RecordingHost(Host):
        async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
            sent.append(request.candidates)
            return await super().complete(request, on_text)

    async def story() -> None:
        limited = Limited(
            RecordingHost(Usage(input_tokens=100)), rates=LocalRates(tpm=6_000), concurrency=4
        )
        sizes = [100, 100, 5_000, 100, 100, 100]
        requests = [
            judging(reserved_input_tokens=size, candidates=at) for at, size in enumerate(sizes)
        ]
        await asyncio.gather(*map(limited.complete, requests))

    run(story())
    assert sent == list(range(6))


def test_who_gives_up_in_line_has_taken_nothing(judging: MakeRequest) -> None:
    """A call cancelled while waiting returns its tokens and its place."""

    async def story() -> float:
        limited = Limited(
            Host(Usage(input_tokens=100)), rates=LocalRates(tpm=6_000), concurrency=1
        )
        running = asyncio.create_task(
            limited.complete(judging(reserved_input_tokens=100, max_output_tokens=1))
        )
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(limited.complete(judging(reserved_input_tokens=9_000)))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        before = now()
        await limited.complete(judging(reserved_input_tokens=100, max_output_tokens=1))
        return now() - before

    assert run(story()) == pytest.approx(1, abs=0.1)


async def test_limits_are_read_off_a_real_reply(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """The limits of the first reply are in the receipt's traffic, with the calls in flight."""
    server.headers = {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-limit-tokens": "800000",
    }
    async with connected(server.url) as provider:
        limited = Limited(provider, concurrency=8)
        await limited.complete(judging())
    assert limited.traffic().limits == RateLimits(5_000, 800_000)
    assert [(step.limit, step.because) for step in limited.traffic().concurrency] == [
        (8, "start")
    ]


def test_a_limit_below_a_single_call_is_not_believed() -> None:
    """A host that states one token a minute means something else: the user's limit, or none,
    applies."""
    rates = LocalRates(tpm=50_000, remembered=RateLimits(500, 1, 20, 200_000))
    assert rates.in_force == RateLimits(500, 50_000, None, 200_000)
