"""The limits in force: the user's, the host's, whichever is lower, learned while calls run."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import Struct

from tests.providers.conftest import Connected, MakeRequest
from tests.providers.time_lapse import now, run
from tests.servers import OpenAIServer
from xscore.providers.limits import Limited
from xscore.providers.provider import OnText
from xscore.providers.rate_limits import LocalRates, RateShare, used_share
from xscore.records import Completion, Finish, RateLimits, Request, Usage

SILENT = RateLimits()


class Host(Struct):
    """Answers after a second with this usage, stating these limits."""

    usage: Usage
    limits: RateLimits = SILENT
    name: str = "scripted"
    host: str = "-"

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Answer."""
        await asyncio.sleep(1)
        return Completion(text="{}", finish=Finish.STOP, usage=self.usage, model="m", limits=self.limits)

    async def aclose(self) -> None:
        """Nothing to close."""


def minutes_for(count: int, limited: Callable[[], Limited], request: Request) -> float:
    """Return how long so many calls take."""

    async def story() -> float:
        one, started = limited(), now()
        await asyncio.gather(*(one.complete(request) for _ in range(count)))
        return (now() - started) / 60

    return run(story())


@pytest.mark.parametrize(
    ("own", "stated", "in_force"),
    [
        (None, None, None),
        (10_000, None, 10_000),
        (None, 5_000, 5_000),
        (10_000, 5_000, 5_000),
        (4_000, 5_000, 4_000),
    ],
)
def test_the_lower_limit_is_in_force(own: int | None, stated: int | None, in_force: int | None) -> None:
    """The user's setting or the host's statement, whichever is lower; none where nobody says any."""
    rates = LocalRates(rpm=own, tpm=own)
    rates.learn(RateLimits(stated, stated, stated, stated))
    assert rates.in_force == RateLimits(in_force, in_force, stated, stated)
    assert rates.stated == RateLimits(stated, stated, stated, stated)


def test_what_a_host_said_holds_while_it_is_silent() -> None:
    """A reply without headers takes nothing back; a new statement replaces the old, and nonsense is none."""
    rates = LocalRates(remembered=RateLimits(tokens_per_minute=9_000))
    rates.learn(RateLimits(requests_per_minute=100))
    rates.learn(SILENT)
    rates.learn(RateLimits(requests_per_minute=200, tokens_per_minute=0))
    assert rates.stated == RateLimits(200, 9_000)


def test_a_cached_prefix_does_not_count_as_input_where_input_counts_apart() -> None:
    """Of 1,000 input tokens 900 came from the prefix cache: 100 count as input, all of them in the sum."""
    usage = Usage(input_tokens=1_000, cached_input_tokens=900, cache_write_tokens=60, output_tokens=50)
    assert used_share(usage) == RateShare(requests=1, tokens=1_050, input_tokens=100, output_tokens=50)


def test_a_limit_learned_from_a_reply_holds_from_then_on(judging: MakeRequest) -> None:
    """60 calls at 20 a minute, stated by the first reply, take three minutes, the first burst included."""
    host = Host(Usage(), RateLimits(requests_per_minute=20))
    assert minutes_for(60, lambda: Limited(host), judging()) == pytest.approx(3, abs=0.1)


def test_a_remembered_limit_holds_from_the_first_call(judging: MakeRequest) -> None:
    """What the host stated in an earlier run spares it the first burst."""
    remembered = RateLimits(requests_per_minute=20)
    assert minutes_for(21, lambda: Limited(Host(Usage()), initial=remembered), judging()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [("tokens_per_minute", 1_000 + 100), ("input_tokens_per_minute", 1_000 - 400), ("output_tokens_per_minute", 100)],
)
def test_tokens_are_limited_by_what_was_used(judging: MakeRequest, kind: str, tokens: int) -> None:
    """Each kind of limit binds at its own count of tokens; reservations are given back."""
    host = Host(
        Usage(input_tokens=1_000, cached_input_tokens=400, output_tokens=100), RateLimits(**{kind: 10 * tokens})
    )
    request = judging(reserved_input_tokens=1_500, max_output_tokens=300)
    assert minutes_for(40, lambda: Limited(host), request) == pytest.approx(4, rel=0.15)


def test_a_limit_that_is_raised_serves_the_waiters_sooner(judging: MakeRequest) -> None:
    """A bucket is re-rated while calls wait in it."""
    host = Host(Usage(), RateLimits(requests_per_minute=20))

    async def story() -> float:
        limited, started = Limited(host), now()
        calls = [asyncio.create_task(limited.complete(judging())) for _ in range(60)]
        await asyncio.sleep(60)
        host.limits = RateLimits(requests_per_minute=2_000)
        await asyncio.gather(*calls)
        return now() - started

    assert run(story()) < 70


def test_a_large_call_is_not_passed_by_small_ones(judging: MakeRequest) -> None:
    """Calls are sent in the order in which they came, whatever they reserve."""
    sent: list[int] = []

    class Noting(Host):
        async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
            sent.append(request.candidates)
            return await super().complete(request, on_text)

    async def story() -> None:
        limited = Limited(Noting(Usage(input_tokens=100)), tpm=6_000, concurrency=4)
        sizes = [100, 100, 5_000, 100, 100, 100]
        requests = [judging(reserved_input_tokens=size, candidates=at) for at, size in enumerate(sizes)]
        await asyncio.gather(*map(limited.complete, requests))

    run(story())
    assert sent == list(range(6))


def test_who_gives_up_in_line_has_taken_nothing(judging: MakeRequest) -> None:
    """A call cancelled while it waits gives back its tokens and its place."""

    async def story() -> float:
        limited = Limited(Host(Usage(input_tokens=100)), tpm=6_000, concurrency=1)
        running = asyncio.create_task(limited.complete(judging(reserved_input_tokens=100, max_output_tokens=1)))
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
    """The headers of the first reply are in the traffic that the receipt tells, with the calls in flight."""
    server.headers = {"x-ratelimit-limit-requests": "5000", "x-ratelimit-limit-tokens": "800000"}
    async with connected(server.url) as provider:
        limited = Limited(provider, concurrency=8)
        await limited.complete(judging())
    assert limited.traffic().limits == RateLimits(5_000, 800_000)
    assert [(step.limit, step.because) for step in limited.traffic().concurrency] == [(8, "start")]


def test_a_limit_below_a_single_call_is_not_believed() -> None:
    """A host that states one token a minute means something else: the user's own limit, or none, holds."""
    rates = LocalRates(tpm=50_000, remembered=RateLimits(500, 1, 20, 200_000))
    assert rates.in_force == RateLimits(500, 50_000, None, 200_000)
