"""How many calls are in flight, in an event loop whose waits take no time."""

import asyncio

import pytest

from tests.providers.gate_host import Host, calls, history_of, limited
from tests.providers.time_lapse import run
from xscore.platform.errors import Overloaded, RateLimited
from xscore.providers.concurrency import MAX_HISTORY, START_LIMIT, STORM_REFUSALS, AdaptiveConcurrency
from xscore.records import ConcurrencyStep


def test_slow_start_doubles_to_the_ceiling() -> None:
    """From 16 the limit doubles with each window of answers, and stops at the ceiling."""

    async def story() -> tuple[AdaptiveConcurrency, Host]:
        gate, host = AdaptiveConcurrency(100), Host()
        await calls(gate, host, 500)
        return gate, host

    gate, host = run(story())
    assert history_of(gate) == [(16, "start"), (32, "doubled"), (64, "doubled"), (100, "doubled")]
    assert [round(step.at_s) for step in gate.history] == [0, 1, 2, 3]
    assert host.peak == 100


@pytest.mark.parametrize("ceiling", [1, 4, START_LIMIT])
def test_a_low_ceiling_holds_from_the_start(ceiling: int) -> None:
    """No more than the ceiling is ever in flight."""

    async def story() -> tuple[AdaptiveConcurrency, Host]:
        gate, host = AdaptiveConcurrency(ceiling), Host()
        await calls(gate, host, 40)
        return gate, host

    gate, host = run(story())
    assert host.peak == ceiling
    assert history_of(gate) == [(ceiling, "start")]


def test_a_cold_start_reaches_the_steady_rate_within_five_latencies() -> None:
    """At 64 in flight, 90 % of the steady rate from the third latency on."""

    async def story() -> Host:
        gate, host = AdaptiveConcurrency(64), Host()
        await calls(gate, host, 600)
        return host

    sent = run(story()).sent_s
    for second in range(3, 8):
        assert sum(second <= at < second + 1 for at in sent) >= 0.9 * 64


def test_a_limit_that_is_not_reached_does_not_grow() -> None:
    """Answers to a few calls in flight do not show that the host bears many."""

    async def story() -> AdaptiveConcurrency:
        gate, host = AdaptiveConcurrency(64), Host()
        for _ in range(20):
            await calls(gate, host, 5)
        return gate

    assert history_of(run(story())) == [(16, "start")]


def test_an_episode_shrinks_once_and_growth_is_gentle_then() -> None:
    """However many calls under way meet the 429, the limit goes to four fifths once, and comes back in small steps."""

    async def story() -> tuple[AdaptiveConcurrency, Host]:
        gate, host = AdaptiveConcurrency(64, jitter=lambda: 0.0), Host(limited((4.5, 5.6), retry_after_s=1.0))
        await calls(gate, host, 2_000)
        return gate, host

    gate, host = run(story())
    assert [limit for limit, _ in history_of(gate)] == [16, 32, 64, 51, 51, 64]
    assert [because for _, because in history_of(gate)][3:] == ["rate_limited", "recovered", "grew"]
    assert len(host.sent_s) <= 2_000 + 64 + 1


def test_5xx_shrinks_nothing() -> None:
    """An overloaded host is not one that limits us."""

    async def story() -> AdaptiveConcurrency:
        host = Host(lambda at_s: Overloaded("busy") if 2 < at_s < 2.2 else None)
        gate = AdaptiveConcurrency(64)
        await calls(gate, host, 300)
        return gate

    assert history_of(run(story())) == [(16, "start"), (32, "doubled"), (64, "doubled")]


def test_first_come_first_served() -> None:
    """Places are given in the order of arrival; who gives up is passed over and keeps no place."""

    async def story() -> tuple[list[int], int]:
        gate, served = AdaptiveConcurrency(1), []

        async def one(number: int) -> None:
            ticket = await gate.enter()
            served.append(number)
            await asyncio.sleep(0.01)
            gate.answered(ticket)

        tasks = [asyncio.create_task(one(number)) for number in range(8)]
        await asyncio.sleep(0.025)
        tasks[4].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return served, gate.in_flight

    assert run(story()) == ([0, 1, 2, 3, 5, 6, 7], 0)


def test_the_history_is_short() -> None:
    """A thousand episodes leave a hundred steps, the latest."""

    async def story() -> tuple[ConcurrencyStep, ...]:
        gate = AdaptiveConcurrency(4)
        for _ in range(1_000):
            for _ in range(STORM_REFUSALS):
                gate.refused(await gate.enter(), RateLimited("no", hint=""))
            gate.answered(await gate.enter())
        return gate.history

    history = run(story())
    assert len(history) == MAX_HISTORY
    assert history[-1].because == "recovered"
