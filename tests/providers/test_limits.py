"""Limits around a scripted provider: slots, requests, tokens and dollars are taken before a
call."""

import asyncio
from decimal import Decimal

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.providers.virtual_time import now, run
from tests.servers import OpenAIServer
from xscore.platform.errors import BudgetExhausted, NotSent, ProviderError
from xscore.providers.attempts import Retrying
from xscore.providers.limits import Limited
from xscore.providers.prices import cost_upper_bound
from xscore.providers.rate_limits import LocalRates
from xscore.providers.scripted import PlannedError, Script, ScriptedProvider
from xscore.records.calls import Completion, Usage


class RecordedBudget:
    """A budget in memory that records reservations and settlements."""

    def __init__(self, cap: str) -> None:
        self.left = Decimal(cap)
        self.reserved: list[Decimal | None] = []
        self.settled: list[Decimal | None] = []

    async def reserve(self, usd: Decimal | None) -> str:
        """Reserve the amount or refuse."""
        if (usd or 0) > self.left:
            raise BudgetExhausted("the purse is empty")
        self.left -= usd or 0
        self.reserved.append(usd)
        return str(len(self.reserved) - 1)

    async def settle(self, reservation_name: str, actual: Decimal | None) -> None:
        """Release what was not spent."""
        self.left += (self.reserved[int(reservation_name)] or 0) - (actual or 0)
        self.settled.append(actual)


def dollar_a_token(provider: str, model: str, host: str, usage: Usage) -> Decimal:
    """Price every token at a dollar."""
    return Decimal(usage.input_tokens + usage.output_tokens)


def _failing(kind: str) -> ScriptedProvider:
    return ScriptedProvider(Script(errors=(PlannedError(at=1, kind=kind),)))


async def test_calls_in_flight_stay_within_the_limit(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """X05: the peak in flight equals the limit."""
    server.may_reply = lambda counts: counts.peak_in_flight >= 3
    async with connected(server.url) as provider:
        limited = Limited(provider, concurrency=3)
        await asyncio.gather(*(limited.complete(judging()) for _ in range(12)))
    assert server.counts.peak_in_flight == 3


def test_tokens_are_reserved_at_the_bound_and_refunded(judging: MakeRequest) -> None:
    """The upper bound is taken before the call; what it did not use is returned."""
    request = judging()
    reserved = request.reserved_input_tokens + request.max_output_tokens

    async def second_after(provider: ScriptedProvider) -> float:
        limited = Limited(provider, rates=LocalRates(tpm=6_000))
        await asyncio.gather(limited.complete(request), return_exceptions=True)
        before = now()
        await limited.complete(request)
        return now() - before

    kept_s = run(second_after(_failing("timeout")))
    assert kept_s == pytest.approx(reserved / 100, abs=0.1)
    assert run(second_after(ScriptedProvider())) < kept_s


async def test_the_budget_is_asked_before_anything_is_sent(judging: MakeRequest) -> None:
    """A call whose upper bound exceeds the cap is not sent."""
    provider = ScriptedProvider()
    limited = Limited(provider, budget=RecordedBudget("10"), price_of=dollar_a_token)
    with pytest.raises(BudgetExhausted):
        await limited.complete(judging())
    assert provider.requests == []


async def test_the_actual_price_replaces_the_bound(judging: MakeRequest) -> None:
    """The bound is reserved, the actual cost settled, the difference released."""
    purse = RecordedBudget("10000")
    completion = await Limited(
        ScriptedProvider(), budget=purse, price_of=dollar_a_token
    ).complete(judging())
    actual = dollar_a_token("", "", "", completion.usage)
    assert purse.reserved == [
        cost_upper_bound("scripted", "-", judging(), price_of=dollar_a_token)
    ]
    assert purse.settled == [actual]
    assert purse.left == 10_000 - actual


@pytest.mark.parametrize(
    ("kind", "is_charged"),
    [
        ("timeout", True),
        ("unreadable_response", True),
        ("connection", True),
        ("rate_limited", False),
        ("quota", False),
    ],
)
async def test_what_may_have_been_charged_stays_charged(
    judging: MakeRequest, kind: str, is_charged: bool
) -> None:
    """A timed-out call stays charged in full; a rejected one costs nothing."""
    purse = RecordedBudget("10000")
    with pytest.raises(ProviderError):
        await Limited(_failing(kind), budget=purse, price_of=dollar_a_token).complete(judging())
    assert purse.settled == [purse.reserved[0] if is_charged else 0]


async def test_an_abandoned_call_stays_charged(judging: MakeRequest) -> None:
    """A call cancelled in flight is settled at its bound: the host may charge for it."""
    purse = RecordedBudget("10000")
    slow = Limited(
        ScriptedProvider(Script(latency_s=30)), budget=purse, price_of=dollar_a_token
    )
    call = asyncio.create_task(slow.complete(judging()))
    await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert purse.settled == purse.reserved


async def test_what_waits_is_not_sent_after_a_halt(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """Calls in flight continue, queued calls fail as unsent, and so does every later one."""
    is_halted = False
    server.may_reply = lambda _: is_halted
    async with connected(server.url) as provider:
        limited = Limited(provider, concurrency=3)
        calls = [asyncio.create_task(limited.complete(judging())) for _ in range(12)]
        while server.counts.in_flight < 3:  # noqa: ASYNC110  the server counts in a thread of its own
            await asyncio.sleep(0.01)
        limited.halt()
        is_halted = True
        ends = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(NotSent):
            await limited.complete(judging())
    assert [isinstance(end, Completion) for end in ends] == [True] * 3 + [False] * 9
    assert all(isinstance(end, NotSent) for end in ends[3:])
    assert server.counts.requests == 3


@pytest.mark.parametrize("holds", ["rate", "backoff"])
async def test_a_halt_wakes_whoever_waits_long(
    server: OpenAIServer, judging: MakeRequest, holds: str
) -> None:
    """Neither a limit of one request a minute nor a Retry-After of an hour delays a stopped run."""
    provider = ScriptedProvider(
        Script(errors=(PlannedError(at=1, kind="rate_limited", retry_after_s=100.0),))
    )
    limited = Limited(
        provider if holds == "backoff" else ScriptedProvider(),
        rates=LocalRates(rpm=1 if holds == "rate" else None),
    )
    retrying = Retrying(limited, attempts=3, sleep=limited.sleep)
    calls = [
        asyncio.create_task(retrying.complete(judging()))
        for _ in range(1 if holds == "backoff" else 3)
    ]
    await asyncio.sleep(0.05)
    limited.halt()
    limited.halt()  # two judges that share the line each say so
    async with asyncio.timeout(30):
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(ends[-1], NotSent)
    assert not any(task.cancelling() for task in calls)
