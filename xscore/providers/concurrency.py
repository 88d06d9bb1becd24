"""How many calls may be in flight: as many as the host accepts, found by trying, and none while it
answers 429.

Slow start: from 16, or from what the host handled minutes ago, the limit doubles with each window
(as many answers as the limit) up to the ceiling. Where more than a seventh of a window meets 429s,
they take it to four fifths, once an episode, and from then on it grows by an eighth a window; a
host that sheds a few calls at any load is not taken for one that has too many. 429s in a row,
`STORM_REFUSALS` and a quarter of the limit, close the gate until Retry-After, or a doubling
backoff, has passed; then one call probes, and the gate opens unless that one meets a 429 too.
Broken connections in a row close it in the same way, the first one already where the host has never
answered, and `MOST_SILENT_PROBES` more end the run: a dead host costs a handful of attempts.
Trade-off: a host that limits requests a minute without saying so is probed for its rate with calls
that it refuses.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable

from xscore.platform.errors import ConnectionFailed, ProviderError, RateLimited
from xscore.platform.figures import format_wait
from xscore.records.calls import ConcurrencyStep

START_LIMIT = 16
FIRST_CALLS = 4
"""Calls sent before a host has shown that it is there: by what it handled minutes ago, by an
answer, or by `FIRST_CALLS_S` without a failure."""
FIRST_CALLS_S = 0.4
MOST_SILENT_PROBES = 4
"""Give up after this many calls in a row, each alone, that found no connection."""
SHRINK_FACTOR = 0.8
SHRINK_SHARE, GROW_SHARE = 0.15, 0.08
"""Share of a window's calls that met a 429: above the first the limit shrinks, above the second it
does not grow. Some hosts shed a few calls at any load; refusals are free, and each call is tried
again when its host says."""
SMALLEST_WINDOW = 20
"""Fewest calls over which these shares are counted."""
GROWTH_SHARE = 0.125
"""Share of the limit that is added after each window of answers once there was a 429 (at least
one call)."""
STORM_REFUSALS, STORM_SHARE = 3, 0.25
"""The gate closes after this many 429s in a row with no answer in between, and at least this share
of the limit. Just above what a host takes at once, it refuses a few calls while it answers the
rest."""
FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
RETRY_AFTER_FLOOR = 0.1
"""Wait at least this share of the backoff, even if Retry-After says 0."""
MIN_LIMIT = 8
"""Lowest limit for a host that answers between its 429s; only a storm goes lower."""
STORM_JITTER_SHARE = 0.1
"""Random share of the wait to add, so that several processes do not return together."""
LONGEST_RETRY_AFTER_S = 120.0
"""Longest wait that a host may ask for; one that asks for more counts as failed."""
GIVE_UP_AFTER_S = 300.0
"""The run gives up after this long with nothing but 429s."""
NEVER_RETRY_S = float("inf")
"""`retry_after_s` of the error with which the gate gives up, since no wait helps."""
MAX_HISTORY = 100


class AdaptiveConcurrency:
    """Calls in flight at one host, for one caller at a time.

    Each ticket goes to `answered`, `refused` or `leave`.
    """

    def __init__(
        self,
        ceiling: int | None = None,
        *,
        start: int = 0,
        host: str = "",
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """ceiling: most calls at once; None: as many as the host takes.
        start: what it has just handled; 0: unknown.
        """
        self._first_calls = start or FIRST_CALLS
        start = max(START_LIMIT, start)
        self.limit: int = start if ceiling is None else min(start, ceiling)
        self.in_flight: int = 0
        self._ceiling = ceiling
        self._host = host
        self._jitter = jitter
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Calls that wait for a slot, the first to come first; some have gone since."""
        self._ticket = self._last_before_shrink = self._probe = 0
        self._is_slow_start = True
        self._answers = 0
        self._was_full = False
        self._window_answers = self._window_refusals = 0
        """Answers in this window; also the 429s of calls that were sent since the limit last
        shrank."""
        self._has_tried_limit = True
        """Whether a call was answered that was sent since the limit last shrank: one episode of
        429s shrinks it once."""
        self._refusals = 0
        self._closings = 0
        self._broken = 0
        self._silent_probes = 0
        """Connections that broke, and probes that found none, since the last answer."""
        self._is_heard = False
        """Whether the host has answered a call, be it with a 429."""
        self._refused_since: float | None = None
        self._closed_until: float | None = None
        """When the gate may be probed; None if it is open. In the past: one call may probe."""
        self._final_error: ProviderError | None = None
        self._first_at: float | None = None
        self._history: deque[ConcurrencyStep] = deque(maxlen=MAX_HISTORY)

    @property
    def history(self) -> tuple[ConcurrencyStep, ...]:
        """The latest changes of the limit; growth in a row is one step."""
        return tuple(self._history)

    async def enter(self) -> int:
        """Wait for a slot; return a ticket.

        Raises RateLimited or ConnectionFailed once the gate has given up.
        """
        if self._first_at is None:
            self._first_at = _now()
            self._note("start")
        while self._free_slots() < 1:
            await self._wait_for_change(self._first_at + FIRST_CALLS_S)
        self._ticket += 1
        self.in_flight += 1
        self._was_full = self._was_full or self.in_flight >= self.limit
        if self._closed_until is not None:
            self._probe = self._ticket
        return self._ticket

    def _free_slots(self) -> int:
        """Return how many calls may start now. Raises the error with which the gate gave up."""
        if self._final_error is not None:
            raise self._give_up_error(self._final_error)
        is_there = self._is_heard or _now() >= (self._first_at or 0.0) + FIRST_CALLS_S
        if is_there:
            limit = self.limit
        else:
            limit = min(self.limit, self._first_calls)
        free = limit - self.in_flight
        if self._closed_until is None:
            return free
        may_probe = not self._probe and _now() >= self._closed_until
        if may_probe:
            return min(free, 1)
        return 0

    async def _wait_for_change(self, first_calls_until: float) -> None:
        """Wait until `_wake` chooses this call, or until a time at which the gate may open."""
        opens_at = [
            at
            for at in (self._closed_until, first_calls_until)
            if at is not None and at > _now()
        ]
        chosen = asyncio.get_running_loop().create_future()
        self._waiting.append(chosen)
        try:
            async with asyncio.timeout_at(min(opens_at, default=None)):
                await chosen
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            # It may have been the one that was to start, or the only one that watches the clock.
            self._wake()
            raise

    def _wake(self) -> None:
        """Wake as many calls as may start, and one at least: it waits for the gate to open.

        Waking all of thousands for each slot would take time by the square.
        """
        if self._final_error is not None:
            number = len(self._waiting)
        else:
            number = max(1, self._free_slots())
        while self._waiting and number > 0:
            chosen = self._waiting.popleft()
            if not chosen.done():
                chosen.set_result(None)
                number -= 1

    def answered(self, ticket: int) -> None:
        """Return the ticket of a call that the host answered."""
        self._is_heard = True
        self._refusals = 0
        self._refused_since = None
        self._broken = self._silent_probes = 0
        is_of_limit = ticket > self._last_before_shrink  # sent since the limit last shrank
        self._has_tried_limit = self._has_tried_limit or is_of_limit
        if ticket == self._probe or self._final_error is not None:
            self._open()
        elif self._closed_until is None and is_of_limit:
            self._count_answer()
            self._grow()
        self._give_back()

    def leave(self, ticket: int) -> None:
        """Return the ticket of a call that ended otherwise; a probe without a 429 opens the
        gate."""
        if ticket == self._probe:
            self._open()
        self._give_back()

    def refused(self, ticket: int, error: RateLimited) -> None:
        """Return the ticket of a call that got a 429."""
        now = _now()
        asked_s = error.retry_after_s
        self._is_heard = True
        self._refusals += 1
        self._refused_since = now if self._refused_since is None else self._refused_since
        waits_too_long = (asked_s or 0.0) > LONGEST_RETRY_AFTER_S
        if waits_too_long or now - self._refused_since >= GIVE_UP_AFTER_S:
            self._final_error = error
        elif self._closed_until is None:
            is_storm = self._refusals >= max(STORM_REFUSALS, int(STORM_SHARE * self.limit))
            # Sent at the limit in force, so they tell of it.
            if ticket > self._last_before_shrink:
                self._window_refusals += 1
                is_too_high = is_storm or (
                    self.limit > MIN_LIMIT and self._has_too_many_refusals()
                )
                if is_too_high and self._has_tried_limit:
                    self._shrink(1 if is_storm else MIN_LIMIT)
            if is_storm:
                self._close(now + self._wait_s(asked_s))
        elif ticket == self._probe:
            self._close(now + self._wait_s(asked_s))
        elif asked_s is not None:  # sent before the gate closed, and the host has named a time
            # A probe that is out stays the one probe.
            self._closed_until = max(self._closed_until, now + asked_s)
        self._give_back()

    def unanswered(self, ticket: int, error: ConnectionFailed) -> None:
        """Return the ticket of a call whose connection could not be made, or broke."""
        self._broken += 1
        if ticket == self._probe:
            self._silent_probes += 1
            if self._silent_probes >= MOST_SILENT_PROBES:
                self._final_error = error
            self._close(_now() + self._wait_s(None))
        elif self._closed_until is None and self._broken >= (
            STORM_REFUSALS if self._is_heard else 1
        ):
            self._close(_now() + self._wait_s(None))
        self._give_back()

    def _give_back(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _has_too_many_refusals(self) -> bool:
        return self._window_refusals > SHRINK_SHARE * self._window_size

    @property
    def _window_size(self) -> int:
        return max(self.limit, SMALLEST_WINDOW)

    def _count_answer(self) -> None:
        """Begin another window of refusals after each full one."""
        self._window_answers += 1
        if self._window_answers >= self._window_size:
            self._window_answers = self._window_refusals = 0

    def _grow(self) -> None:
        self._answers += 1
        if self._answers < self.limit:
            return
        was_full = self._was_full
        self._answers = 0
        self._was_full = False
        if not was_full:  # the host has not shown that it accepts a limit that was not reached
            return
        # More calls would be refused, too.
        if self._window_refusals > GROW_SHARE * self._window_size:
            return
        if self._is_slow_start:
            step = self.limit
        else:
            step = max(1, int(self.limit * GROWTH_SHARE))
        if self._ceiling is None:
            grown = self.limit + step
        else:
            grown = min(self._ceiling, self.limit + step)
        if grown > self.limit:
            self.limit = grown
            self._note("doubled" if self._is_slow_start else "grew")

    def _shrink(self, least: int) -> None:
        self.limit = max(least, int(self.limit * SHRINK_FACTOR))
        self._is_slow_start = False
        self._window_answers = self._window_refusals = 0
        self._has_tried_limit = False
        self._last_before_shrink = self._ticket
        self._note("rate_limited")

    def _wait_s(self, asked_s: float | None) -> float:
        backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**self._closings)
        self._closings += 1
        least = backoff_s if asked_s is None else max(asked_s, RETRY_AFTER_FLOOR * backoff_s)
        return least + self._jitter() * STORM_JITTER_SHARE * least

    def _close(self, until: float) -> None:
        self._closed_until = until
        self._probe = 0

    def _open(self) -> None:
        self._closed_until = None
        self._probe = 0
        self._final_error = None
        self._closings = self._answers = self._broken = self._silent_probes = 0
        self._was_full = False
        self._note("recovered")

    def _give_up_error(self, last: ProviderError) -> ProviderError:
        asked_s = last.retry_after_s or 0.0
        why = f"refused for {GIVE_UP_AFTER_S:.0f} s"
        if isinstance(last, ConnectionFailed):
            why = f"could not be reached in {self._broken} attempts"
        elif asked_s > LONGEST_RETRY_AFTER_S:
            why = f"asks to wait {format_wait(asked_s)}"
        message = f"{self._host or 'the host'} {why} ({last.message})"
        return type(last)(message, hint=last.hint, retry_after_s=NEVER_RETRY_S)

    def _note(self, because: str) -> None:
        if because == "grew" and self._history[-1].because == because:
            self._history.pop()
        at_s = _now() - (self._first_at or 0.0)
        self._history.append(ConcurrencyStep(at_s, self.limit, because))


def _now() -> float:
    return asyncio.get_running_loop().time()
