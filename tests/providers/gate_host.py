"""A host behind a gate, in an event loop whose waits take no time."""

import asyncio
from collections.abc import Callable

from msgspec import Struct, field

from tests.providers.time_lapse import now
from xscore.platform.errors import ProviderError, RateLimited
from xscore.providers.concurrency import AdaptiveConcurrency

LATENCY_S = 1.0


class Host(Struct):
    """Answers after a second, or with an error that `trouble` gives for the time since the start."""

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
    """Make one call, again and again until it is answered; raise what the gate raises."""
    while True:
        ticket = await gate.enter()
        try:
            await host.serve()
        except RateLimited as error:
            gate.refused(ticket, error)
        except ProviderError:
            gate.leave(ticket)
        else:
            gate.answered(ticket)
            return


def limited(*windows: tuple[float, float], retry_after_s: float | None = None) -> Callable[[float], RateLimited | None]:
    """429 within these times."""

    def trouble(at_s: float) -> RateLimited | None:
        is_storm = any(start <= at_s < end for start, end in windows)
        return RateLimited("storm", hint="wait", retry_after_s=retry_after_s) if is_storm else None

    return trouble


async def calls(gate: AdaptiveConcurrency, host: Host, count: int) -> list[BaseException | None]:
    """Make so many calls at once."""
    return await asyncio.gather(*(call(gate, host) for _ in range(count)), return_exceptions=True)


def history_of(gate: AdaptiveConcurrency) -> list[tuple[int, str]]:
    """The limits and why."""
    return [(step.limit, step.because) for step in gate.history]
