"""Storms of 429 from a real loopback server: everybody is served, and no call is wasted on a closed door."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import Fault, OpenAIServer
from xscore.providers.attempts import Retrying
from xscore.providers.limits import Limited
from xscore.providers.provider import Provider
from xscore.records.calls import Completion, Request, Traffic
from xscore.scorer.fanout import StopSignal, fan_out, workers_for


def from_call(first: int, *, lasts_s: float) -> Callable[[dict[str, Any]], bool]:
    """Strike for so long, from the moment that call number `first` arrives."""
    arrived, began = 0, 0.0

    def strikes(body: dict[str, Any]) -> bool:
        nonlocal arrived, began
        arrived += 1
        if arrived == first:
            began = time.monotonic()
        return arrived >= first and time.monotonic() < began + lasts_s

    return strikes


async def serve_all(
    provider: Provider, requests: Sequence[Request], *, concurrency: int
) -> tuple[list[Completion], Traffic]:
    """Send all through the wrappers of a turn; return the completions."""
    limited = Limited(provider, concurrency=concurrency)
    whole = Retrying(limited, attempts=1)

    async def settle(request: Request) -> tuple[Sequence[Completion], Sequence[Request]]:
        return (await whole.complete(request),), ()

    workers = workers_for(concurrency)
    batches = fan_out(iter(requests), settle, workers=workers, stop=StopSignal(), unsent=lambda _: ())
    return [completion async for batch in batches for completion in batch], limited.traffic()


STORMS = {
    "at the start": ((1, 0.5),),
    "in the middle": ((60, 0.5),),
    "at the end": ((140, 0.5),),
    "twice": ((40, 0.3), (110, 0.3)),
}


@pytest.mark.verify
@pytest.mark.parametrize("retry_after_s", [None, 0.15], ids=["without Retry-After", "with Retry-After"])
@pytest.mark.parametrize("storm", STORMS)
async def test_a_storm_costs_at_most_three_tenths_more_calls(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, storm: str, retry_after_s: float | None
) -> None:
    """All 150 are answered in one attempt each, with at most 1.3 times as many calls, 429s included."""
    server.latency_s = 0.02
    for first, lasts_s in STORMS[storm]:
        strikes = from_call(first, lasts_s=lasts_s)
        server.misbehave(Fault.RATE_LIMITED, times=10_000, when=strikes, retry_after_s=retry_after_s)
    async with connected(server.url) as provider:
        served, traffic = await serve_all(provider, [judging(task=str(at)) for at in range(150)], concurrency=16)
    assert len(served) == 150
    assert server.counts.refused_requests > 0
    assert server.counts.requests <= 1.3 * 150
    assert [step.because for step in traffic.concurrency].count("rate_limited") >= len(STORMS[storm])


async def test_a_server_that_limits_requests_a_minute_is_not_stormed(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """What the host states of its limit is kept from the first reply on: nothing is refused."""
    server.rpm = 3_000
    async with connected(server.url) as provider:
        started = time.monotonic()
        served, traffic = await serve_all(provider, [judging(task=str(at)) for at in range(200)], concurrency=64)
        took_s = time.monotonic() - started
    assert len(served) == 200
    assert traffic.limits.requests_per_minute == 3_000
    assert server.counts.refused_requests == 0
    assert took_s >= 0.9 * (200 - 150) / 50
