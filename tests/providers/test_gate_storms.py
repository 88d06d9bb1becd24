"""Storms of 429 at the gate: it closes, probes, opens, or gives up; in an event loop whose waits take no time."""

import asyncio
from itertools import pairwise

import pytest

from tests.providers.gate_host import Host, calls, history_of, limited
from tests.providers.time_lapse import now, run
from xscore.platform.errors import Overloaded, RateLimited
from xscore.providers.concurrency import (
    GIVE_UP_AFTER_S,
    LONGEST_BACKOFF_S,
    MIN_LIMIT,
    NEVER_RETRY_S,
    STORM_REFUSALS,
    AdaptiveConcurrency,
)


@pytest.mark.parametrize("retry_after_s", [None, 0.0, 0.4, 3.0])
def test_a_storm_costs_what_was_in_flight_and_probes(retry_after_s: float | None) -> None:
    """While the storm lasts one call at a time goes out, never before its time."""

    async def story() -> tuple[AdaptiveConcurrency, Host]:
        gate, host = AdaptiveConcurrency(16), Host(limited((3.5, 13.5), retry_after_s=retry_after_s))
        await calls(gate, host, 200)
        return gate, host

    gate, host = run(story())
    probes = [at for at in host.sent_s if 4.2 <= at < 13.5]
    waits = [later - earlier for earlier, later in pairwise(probes)]
    assert len(host.sent_s) <= 1.3 * 200
    assert all(wait >= max(0.1, retry_after_s or 0.0) for wait in waits)
    assert [because for _, because in history_of(gate)].count("rate_limited") == 1


def test_only_the_probes_answer_opens() -> None:
    """An answer to a call from before the storm opens nothing; after the probe's answer the whole limit may go."""

    async def story() -> tuple[int, int, int]:
        gate = AdaptiveConcurrency(4, jitter=lambda: 0.0)
        tickets = [await gate.enter() for _ in range(4)]
        for ticket in tickets[:STORM_REFUSALS]:
            gate.refused(ticket, RateLimited("no", hint="", retry_after_s=2.0))
        waiting = [asyncio.create_task(gate.enter()) for _ in range(5)]
        await asyncio.sleep(0.1)
        gate.answered(tickets[STORM_REFUSALS])
        await asyncio.sleep(1.8)
        closed = sum(task.done() for task in waiting)
        await asyncio.sleep(0.2)
        probing = sum(task.done() for task in waiting)
        gate.answered(waiting[0].result())
        await asyncio.sleep(0)
        opened = sum(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return closed, probing, opened

    assert run(story()) == (0, 1, 4)  # the probe is back, and the limit of 3 goes out


def test_429s_slower_than_the_backoff_leave_nobody_waiting() -> None:
    """A wave that is refused bit by bit, while the gate has opened halfway already, is served all the same."""

    async def story() -> tuple[int, int]:
        gate = AdaptiveConcurrency(16, jitter=lambda: 0.0)
        tickets = [await gate.enter() for _ in range(16)]
        waiting = [asyncio.create_task(gate.enter()) for _ in range(20)]
        await asyncio.sleep(0)
        for ticket in tickets[:STORM_REFUSALS]:
            gate.refused(ticket, RateLimited("no", hint=""))
        await asyncio.sleep(1.5)
        for ticket in tickets[STORM_REFUSALS:]:
            gate.refused(ticket, RateLimited("no", hint=""))
        await asyncio.sleep(60)
        probing = sum(task.done() for task in waiting)
        gate.answered(next(task for task in waiting if task.done()).result())
        await asyncio.sleep(0)
        return probing, sum(task.done() for task in waiting)

    assert run(story()) == (1, 13)  # the probe, and then four fifths of 16


def test_a_host_that_answers_between_its_429s_keeps_a_few_calls() -> None:
    """Every tenth call refused: the limit stays where a host that answers nine in ten can bear it."""

    async def story() -> AdaptiveConcurrency:
        gate = AdaptiveConcurrency(64)
        for number in range(2_000):
            ticket = await gate.enter()
            if number % 10:
                gate.answered(ticket)
            else:
                gate.refused(ticket, RateLimited("no", hint="", retry_after_s=20.0))
        return gate

    assert run(story()).limit >= MIN_LIMIT


def test_a_429_among_answers_closes_nothing() -> None:
    """A call refused alone waits by itself; the others go on, a few less at a time."""

    async def story() -> tuple[int, list[tuple[int, str]]]:
        gate = AdaptiveConcurrency(10)
        tickets = [await gate.enter() for _ in range(10)]
        for refused, answered in zip(tickets[:5], tickets[5:], strict=True):
            gate.refused(refused, RateLimited("no", hint="", retry_after_s=60.0))
            gate.answered(answered)
        going_on = [asyncio.create_task(gate.enter()) for _ in range(20)]
        await asyncio.sleep(0)
        return sum(task.done() for task in going_on), history_of(gate)

    assert run(story()) == (8, [(10, "start"), (8, "rate_limited")])


def test_a_storm_that_comes_back_at_once_costs_one_more_window() -> None:
    """When the opened gate is stormed again, no more is lost than what was in flight each time."""

    async def story() -> Host:
        host = Host(limited((3.5, 4.0), (5.7, 6.5)))
        await calls(AdaptiveConcurrency(64, jitter=lambda: 0.0), host, 400)
        return host

    host = run(story())
    assert len(host.sent_s) <= 400 + 64 + 51 + 4


def test_probes_that_fail_otherwise_do_not_keep_the_gate_shut() -> None:
    """A host that turns from 429 to 5xx gets three probes, then the calls themselves find out."""

    async def story() -> list[float]:
        storm = limited((0, 0.4))
        host = Host(lambda at_s: storm(at_s) or (Overloaded("down") if at_s < 5 else None))
        await calls(AdaptiveConcurrency(16, jitter=lambda: 0.0), host, 40)
        return host.sent_s

    sent = run(story())
    assert len([at for at in sent if 0.5 < at < 0.85]) == 3


def test_a_host_that_refuses_for_long_is_given_up() -> None:
    """After the documented patience everybody gets the error, which says that no wait will do."""

    async def story() -> tuple[list[BaseException | None], float, int]:
        host = Host(limited((0, 1e9)))
        outcomes = await calls(AdaptiveConcurrency(16), host, 50)
        return outcomes, now() - host.started, len(host.sent_s)

    outcomes, took_s, sent = run(story())
    assert all(isinstance(outcome, RateLimited) and outcome.retry_after_s == NEVER_RETRY_S for outcome in outcomes)
    assert GIVE_UP_AFTER_S <= took_s <= GIVE_UP_AFTER_S + 2 * LONGEST_BACKOFF_S
    assert sent <= 16 + 20


def test_a_host_that_asks_for_an_hour_is_given_up_at_once() -> None:
    """A limit a day ends the run now."""

    async def story() -> tuple[list[BaseException | None], float]:
        host = Host(limited((0, 1e9), retry_after_s=3_600))
        return await calls(AdaptiveConcurrency(16), host, 50), now() - host.started

    outcomes, took_s = run(story())
    assert all(isinstance(outcome, RateLimited) for outcome in outcomes)
    assert took_s < 1
