"""The number of calls in flight, and how a storm of 429s changes it, in an event loop with instant
waits."""

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from msgspec import Struct, field

from tests.providers.virtual_time import now, run
from xscore.platform.errors import (
    ConnectionFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    Unreachable,
)
from xscore.providers.concurrency import (
    FIRST_CALLS,
    GIVE_UP_AFTER_S,
    LONGEST_BACKOFF_S,
    MIN_LIMIT,
    MOST_SILENT_PROBES,
    NEVER_RETRY_S,
    STORM_REFUSALS,
    STORM_SHARE,
    AdaptiveConcurrency,
)

LATENCY_S = 1.0


class Host(Struct):
    """Answers after a second, or with an error given by `trouble` for the time since the start."""

    trouble: Callable[[float], ProviderError | None] = lambda _: None
    started: float = field(default_factory=now)
    sent_s: list[float] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0

    async def serve(self) -> None:
        """Serve one call."""
        arrived_s = now() - self.started
        self.sent_s.append(arrived_s)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            error = self.trouble(arrived_s)
            await asyncio.sleep(LATENCY_S if error is None else 0.1)
            if error is not None:
                raise error
        finally:
            self.in_flight -= 1


async def call(gate: AdaptiveConcurrency, host: Host) -> None:
    """Make one call until it is answered; raise what the gate raises."""
    while True:
        ticket = await gate.enter()
        try:
            await host.serve()
        except RateLimited as error:
            gate.refused(ticket, error)
        except ConnectionFailed as error:
            gate.unanswered(ticket, error)
        except ProviderError:
            gate.leave(ticket)
        else:
            gate.answered(ticket)
            return


def limited(
    *windows: tuple[float, float], retry_after_s: float | None = None
) -> Callable[[float], RateLimited | None]:
    """Return 429 within these times."""

    def trouble(at_s: float) -> RateLimited | None:
        is_storm = any(start <= at_s < end for start, end in windows)
        return (
            RateLimited("storm", hint="wait", retry_after_s=retry_after_s) if is_storm else None
        )

    return trouble


async def calls(
    gate: AdaptiveConcurrency, host: Host, count: int
) -> list[BaseException | None]:
    """Make N calls at once."""
    return await asyncio.gather(
        *(call(gate, host) for _ in range(count)), return_exceptions=True
    )


class CallsOutcome(Struct):
    """What came of calls made at once at a host with this trouble."""

    host: Host
    ended: list[BaseException | None]
    took_s: float


def story_of(
    count: int,
    gate: AdaptiveConcurrency,
    trouble: Callable[[float], ProviderError | None] = lambda _: None,
) -> CallsOutcome:
    """Make N calls at once, and tell."""

    async def story() -> CallsOutcome:
        host = Host(trouble)
        ended = await calls(gate, host, count)
        return CallsOutcome(host, ended, now() - host.started)

    return run(story())


def history_of(gate: AdaptiveConcurrency) -> list[tuple[int, str]]:
    """Return the limits and their causes."""
    return [(step.limit, step.because) for step in gate.history]


def test_slow_start_doubles_to_the_ceiling() -> None:
    """From 16 the limit doubles with each window of answers, up to the ceiling."""
    assert AdaptiveConcurrency(100, start=64).limit == 64
    assert AdaptiveConcurrency(8, start=64).limit == 8
    assert AdaptiveConcurrency(100, start=3).limit == 16
    gate = AdaptiveConcurrency(100)
    assert story_of(500, gate).host.peak == 100
    assert history_of(gate) == [
        (16, "start"),
        (32, "doubled"),
        (64, "doubled"),
        (100, "doubled"),
    ]
    assert [round(step.at_s) for step in gate.history] == [0, 1, 2, 3]


def test_a_limit_that_is_not_reached_does_not_grow() -> None:
    """Answers to a few calls in flight do not show that the host can take many."""

    async def story() -> AdaptiveConcurrency:
        gate, host = AdaptiveConcurrency(64), Host()
        for _ in range(20):
            await calls(gate, host, 5)
        return gate

    assert history_of(run(story())) == [(16, "start")]


def test_an_episode_shrinks_once_and_growth_is_gentle_then() -> None:
    """However many calls meet the 429, the limit drops to four fifths once, and recovers in small
    steps."""
    gate = AdaptiveConcurrency(64, jitter=lambda: 0.0)
    host = story_of(2_000, gate, limited((4.5, 5.6), retry_after_s=1.0)).host
    assert [limit for limit, _ in history_of(gate)] == [16, 32, 64, 51, 51, 64]
    assert [because for _, because in history_of(gate)][3:] == [
        "rate_limited",
        "recovered",
        "grew",
    ]
    assert len(host.sent_s) <= 2_000 + 64 + STORM_SHARE * 64


def test_a_host_that_sheds_a_few_calls_is_used_to_the_full() -> None:
    """One call in twenty is refused, whatever the load: the limit reaches the ceiling and stays
    there."""
    gate, chance = AdaptiveConcurrency(64), random.Random(1)
    story = story_of(
        4_000,
        gate,
        lambda _: RateLimited("shed", hint="wait") if chance.random() < 0.05 else None,
    )
    assert gate.limit == 64
    assert story.took_s <= 1.3 * 4_000 / 64 * LATENCY_S


def test_a_host_that_takes_no_more_at_once_is_kept_busy() -> None:
    """It refuses what is above 50 in flight: about as many are tried, and few in vain."""
    gate = AdaptiveConcurrency()

    async def story() -> CallsOutcome:
        host = Host()
        host.trouble = lambda _: (
            RateLimited("busy", hint="wait") if host.in_flight > 50 else None
        )
        ended = await calls(gate, host, 4_000)
        return CallsOutcome(host, ended, now() - host.started)

    outcome = run(story())
    assert outcome.took_s <= 1.5 * 4_000 / 50 * LATENCY_S
    assert 40 <= gate.limit <= 60
    assert len(outcome.host.sent_s) <= 1.15 * 4_000


def test_5xx_shrinks_nothing() -> None:
    """An overloaded host is not a rate limit."""
    gate = AdaptiveConcurrency(64)
    story_of(300, gate, lambda at_s: Overloaded("busy") if 2 < at_s < 2.2 else None)
    assert history_of(gate) == [(16, "start"), (32, "doubled"), (64, "doubled")]


@pytest.mark.parametrize("retry_after_s", [None, 0.0, 0.4, 3.0])
def test_a_storm_costs_what_was_in_flight_and_probes(retry_after_s: float | None) -> None:
    """During the storm one call at a time is sent, never before its time."""
    gate = AdaptiveConcurrency(16)
    host = story_of(200, gate, limited((3.5, 13.5), retry_after_s=retry_after_s)).host
    probes = [at for at in host.sent_s if 4.2 <= at < 13.5]
    waits = [later - earlier for earlier, later in pairwise(probes)]
    assert len(host.sent_s) <= 1.3 * 200
    assert all(wait >= max(0.1, retry_after_s or 0.0) for wait in waits)
    assert [because for _, because in history_of(gate)].count("rate_limited") == 1


def dead(from_s: float, to_s: float = float("inf")) -> Callable[[float], Unreachable | None]:
    """Refuse connections within this time."""
    return lambda at_s: Unreachable("no route", hint="look") if from_s <= at_s < to_s else None


def test_a_host_that_answered_minutes_ago_is_not_asked_whether_it_is_there() -> None:
    """The earlier limit is used at once; if the host has died since, each of these calls makes one
    attempt."""
    assert story_of(60, AdaptiveConcurrency(64, start=40)).host.sent_s[39] < LATENCY_S
    died = story_of(60, AdaptiveConcurrency(64, start=40), dead(0.0))
    assert len(died.host.sent_s) == 40 + MOST_SILENT_PROBES


def test_a_dead_host_costs_a_handful_of_attempts() -> None:
    """Two hundred calls to a dead host: a few at once, then one at a time, then all fail with the
    reason."""
    story = story_of(200, AdaptiveConcurrency(64, host="h"), dead(0.0))
    assert len(story.host.sent_s) <= 2 * FIRST_CALLS + MOST_SILENT_PROBES
    assert all(
        isinstance(error, Unreachable) and error.retry_after_s == NEVER_RETRY_S
        for error in story.ended
    )
    assert "could not be reached" in str(story.ended[0]) and "no route" in str(story.ended[0])


@pytest.mark.parametrize("lasts_s", [2.0, 60.0])
def test_a_host_that_dies_in_the_middle_is_waited_for_a_moment(lasts_s: float) -> None:
    """Calls in flight fail, then one call at a time tests the host; after a short outage every call
    succeeds."""
    story = story_of(200, AdaptiveConcurrency(16), dead(3.5, 3.5 + lasts_s))
    failed = sum(3.5 <= at < 3.5 + lasts_s for at in story.host.sent_s)
    assert failed <= 16 + STORM_REFUSALS + MOST_SILENT_PROBES
    assert (story.ended == [None] * 200) is (lasts_s < 10)


def test_only_the_probes_answer_opens() -> None:
    """An answer from before the storm changes nothing; after the probe's answer the full limit
    applies."""

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
        gate.answered(next(task.result() for task in waiting if task.done()))
        await asyncio.sleep(0)
        opened = sum(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return closed, probing, opened

    assert run(story()) == (0, 1, 4)  # the probe is back, and the limit of 3 goes out


def test_a_host_that_answers_between_its_429s_keeps_a_few_calls() -> None:
    """With every tenth call refused, the limit settles at what the host can take."""

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
    """A single refused call waits alone; the others continue, slightly fewer at a time."""

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


def test_probes_that_fail_otherwise_do_not_keep_the_gate_shut() -> None:
    """A host that changes from 429 to 5xx gets one probe, then the calls themselves test it."""
    storm, gate = limited((0, 0.4)), AdaptiveConcurrency(16, jitter=lambda: 0.0)
    story = story_of(
        40, gate, lambda at_s: storm(at_s) or (Overloaded("down") if at_s < 5 else None)
    )
    assert len([at for at in story.host.sent_s if 0.4 < at < 2]) > 16


def test_a_host_that_refuses_for_long_is_given_up() -> None:
    """After the documented patience every call gets the error, which says that waiting does not
    help."""
    story = story_of(50, AdaptiveConcurrency(16), limited((0, 1e9)))
    assert all(
        isinstance(error, RateLimited) and error.retry_after_s == NEVER_RETRY_S
        for error in story.ended
    )
    assert GIVE_UP_AFTER_S <= story.took_s <= GIVE_UP_AFTER_S + 2 * LONGEST_BACKOFF_S
    assert len(story.host.sent_s) <= 16 + 20


def test_a_host_that_asks_for_an_hour_is_given_up_at_once() -> None:
    """A daily limit ends the run at once."""
    story = story_of(50, AdaptiveConcurrency(16), limited((0, 1e9), retry_after_s=3_600))
    assert all(isinstance(error, RateLimited) for error in story.ended)
    assert story.took_s < 1
