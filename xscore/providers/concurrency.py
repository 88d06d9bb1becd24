"""How many calls may be in flight: as many as the host bears, found by trying, and none while it says 429.

Slow start: from 16 the limit doubles with each window (as many answers as the limit) up to the ceiling or the first
429. Each episode of 429s takes it to four fifths, once; after that it grows by an eighth a window. `STORM_REFUSALS`
429s in a row close the gate until Retry-After, or a doubling backoff, has passed; then one call probes, and only its
success opens it. Other errors change nothing. Trade-off: a host that limits requests a minute without saying so is
probed for its rate with calls that it refuses.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from xscore.platform.errors import RateLimited
from xscore.records import ConcurrencyStep

START_LIMIT = 16
SHRINK_FACTOR = 0.8
GROWTH_SHARE = 0.125
"""Of the limit, added after each window of answers once there was a 429 (at least one call)."""
STORM_REFUSALS = 3
"""429s in a row, without an answer between them, that close the gate."""
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
RETRY_AFTER_FLOOR = 0.1
"""Share of the backoff that is waited at least, whatever Retry-After says: a host that says 0 is not stormed."""
MIN_LIMIT = 8
"""A host that answers between its 429s bears at least this many calls; only a storm takes the limit lower."""
STORM_JITTER_SHARE = 0.1
"""Of the wait, added at random, so that several processes do not come back together."""
LONGEST_RETRY_AFTER_S = 120.0
"""A host that asks for a longer wait has failed."""
GIVE_UP_AFTER_S = 300.0
"""After this long with nothing but 429s the run gives up."""
MAX_LOST_PROBES = 3
"""After this many probes that failed otherwise (5xx, deadline) the gate opens: the 429s seem to be over."""
NEVER_RETRY_S = float("inf")
"""`retry_after_s` of the error with which the gate gives up: no wait will do."""
MAX_HISTORY = 100


class _State(Enum):
    OPEN = auto()
    CLOSED = auto()
    HALF_OPEN = auto()


class AdaptiveConcurrency:
    """Calls in flight at one host. Every ticket is handed back once: `answered`, `refused` or `leave`."""

    def __init__(
        self, ceiling: int | None = None, *, host: str = "", jitter: Callable[[], float] = random.random
    ) -> None:
        """ceiling: most calls at once; None: as many as the host bears."""
        self.limit = START_LIMIT if ceiling is None else min(START_LIMIT, ceiling)
        self.in_flight = 0
        self._ceiling, self._host, self._jitter = ceiling, host, jitter
        self._waiters: deque[asyncio.Future[int]] = deque()
        self._state = _State.OPEN
        self._ticket = self._last_before_shrink = self._probe = 0
        self._is_slow_start = True
        self._answers, self._was_full = 0, False
        self._closings = self._lost_probes = self._refusals = 0
        self._opens_at = 0.0
        self._refused_since: float | None = None
        self._final_error: RateLimited | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._first_at: float | None = None
        self._history: deque[ConcurrencyStep] = deque(maxlen=MAX_HISTORY)

    @property
    def history(self) -> tuple[ConcurrencyStep, ...]:
        """The latest changes of the limit; growth in a row is one step."""
        return tuple(self._history)

    async def enter(self) -> int:
        """Wait in line for a slot; return a ticket. Raises RateLimited once the gate has given up."""
        if self._final_error is not None:
            raise self._give_up_error(self._final_error)
        if self._first_at is None:
            self._first_at = _now()
            self._note("start")
        if not self._waiters and self._has_room():
            return self._admit()
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                self.leave(waiter.result())
            raise

    def answered(self, ticket: int) -> None:
        """Take back the ticket of a call that the host served."""
        self.in_flight -= 1
        self._refusals, self._refused_since = 0, None
        if ticket == self._probe or self._final_error is not None:
            self._open()
        elif self._state is _State.OPEN:
            self._grow()
        self._serve()

    def refused(self, ticket: int, error: RateLimited) -> None:
        """Take back the ticket of a call that met a 429."""
        self.in_flight -= 1
        now = _now()
        self._refusals += 1
        self._refused_since = now if self._refused_since is None else self._refused_since
        wait_s = error.retry_after_s
        if (wait_s or 0.0) > LONGEST_RETRY_AFTER_S or now - self._refused_since >= GIVE_UP_AFTER_S:
            self._give_up(error)
        elif self._state is _State.OPEN:
            is_storm = self._refusals >= STORM_REFUSALS
            if ticket > self._last_before_shrink and (is_storm or self.limit > MIN_LIMIT):
                self._shrink(1 if is_storm else MIN_LIMIT)
            if is_storm:
                self._close(now + self._wait_s(wait_s))
        elif ticket == self._probe:
            self._close(now + self._wait_s(wait_s))
        elif wait_s is not None:  # sent before the gate closed, and the host has named a time
            self._close(max(self._opens_at, now + wait_s))
        self._serve()

    def leave(self, ticket: int) -> None:
        """Take back the ticket of a call that ended otherwise, or was never sent."""
        self.in_flight -= 1
        if ticket == self._probe:
            self._probe = 0
            self._lost_probes += 1
            if self._lost_probes >= MAX_LOST_PROBES:
                self._open()
        self._serve()

    def _has_room(self) -> bool:
        if self._state is _State.OPEN:
            return self.in_flight < self.limit
        return self._state is _State.HALF_OPEN and not self._probe and self.in_flight < self.limit

    def _admit(self) -> int:
        self._ticket += 1
        self.in_flight += 1
        self._was_full = self._was_full or self.in_flight >= self.limit
        if self._state is _State.HALF_OPEN:
            self._probe = self._ticket
        return self._ticket

    def _serve(self) -> None:
        while self._waiters and (self._waiters[0].cancelled() or self._has_room()):
            waiter = self._waiters.popleft()
            if not waiter.cancelled():
                waiter.set_result(self._admit())

    def _grow(self) -> None:
        self._answers += 1
        if self._answers < self.limit:
            return
        was_full, self._answers, self._was_full = self._was_full, 0, False
        if not was_full:  # a limit that was not reached is not known to be borne
            return
        step = self.limit if self._is_slow_start else max(1, int(self.limit * GROWTH_SHARE))
        grown = self.limit + step if self._ceiling is None else min(self._ceiling, self.limit + step)
        if grown > self.limit:
            self.limit = grown
            self._note("doubled" if self._is_slow_start else "grew")

    def _shrink(self, least: int) -> None:
        self.limit = max(least, int(self.limit * SHRINK_FACTOR))
        self._is_slow_start = False
        self._last_before_shrink = self._ticket
        self._note("rate_limited")

    def _wait_s(self, asked_s: float | None) -> float:
        backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**self._closings)
        self._closings += 1
        least = backoff_s if asked_s is None else max(asked_s, RETRY_AFTER_FLOOR * backoff_s)
        return least + self._jitter() * STORM_JITTER_SHARE * least

    def _close(self, until: float) -> None:
        self._enter_state(_State.CLOSED)
        self._opens_at = until
        self._timer = asyncio.get_running_loop().call_at(until, self._open_halfway)

    def _open_halfway(self) -> None:
        self._state = _State.HALF_OPEN
        self._serve()

    def _open(self) -> None:
        self._enter_state(_State.OPEN)
        self._closings = self._lost_probes = self._answers = 0
        self._was_full = False
        self._note("recovered")

    def _give_up(self, error: RateLimited) -> None:
        self._enter_state(_State.CLOSED)
        self._final_error = error
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.cancelled():
                waiter.set_exception(self._give_up_error(error))

    def _enter_state(self, state: _State) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._state, self._probe, self._final_error = state, 0, None

    def _give_up_error(self, last: RateLimited) -> RateLimited:
        asked_s = last.retry_after_s or 0.0
        is_long = asked_s > LONGEST_RETRY_AFTER_S
        why = f"asks to wait {asked_s:.0f} s" if is_long else f"refused for {GIVE_UP_AFTER_S:.0f} s"
        message = f"{self._host or 'the host'} {why} ({last.message})"
        return RateLimited(message, hint=last.hint, retry_after_s=NEVER_RETRY_S)

    def _note(self, because: str) -> None:
        if because == "grew" and self._history[-1].because == because:
            self._history.pop()
        at_s = _now() - (self._first_at or 0.0)
        self._history.append(ConcurrencyStep(at_s, self.limit, because))


def _now() -> float:
    return asyncio.get_running_loop().time()
