"""The time of a turn: how long its stages took, and when it must be over.

Monotonic seconds; what is stored or shown of the day and hour comes from the store's own clock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from msgspec import Struct, field

from xscore.records.calls import ServerCall
from xscore.records.receipt import Latency


class Stopwatch(Struct):
    """Started when made."""

    started: float = field(default_factory=monotonic)
    stages: dict[str, float] = field(default_factory=dict)
    laps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Stage -> its first and its last moment so far, on the clock of `started`."""
    server_calls: list[ServerCall] = field(default_factory=list)
    """Requests to shared servers."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage, also when it ends in an error."""
        began = monotonic()
        try:
            yield
        finally:
            ended = monotonic()
            self.stages[name] = self.stages.get(name, 0.0) + ended - began
            self.laps[name] = (self.laps[name][0] if name in self.laps else began, ended)

    def latency(self, *, since: float | None = None) -> Latency:
        """Return what has been measured so far. since: when the wait began, if before the start
        (`time.monotonic`)."""
        # Stages are named as the fields of `Latency`.
        return Latency(
            **self.stages, total=monotonic() - (self.started if since is None else since)
        )


CLOSING_S = 0.2
"""Seconds reserved for selection, receipt and closing."""
ANSWER_SHARE = 1 / 3
"""Reserve at most this share of the time left for the answering call."""


class Deadline(Struct, frozen=True):
    """When a turn or a list must be over."""

    at: float = inf
    """The deadline in seconds of `time.monotonic`; infinite: there is none."""
    answer_s: float = 0.0
    """Seconds reserved for the answering call."""

    @classmethod
    def of(cls, started: float, seconds: float | None) -> "Deadline":
        """Return the deadline this long after the start (`time.monotonic`)."""
        if seconds is None:
            return cls()
        return cls(started + seconds)

    def left_s(self) -> float:
        """Seconds left for judging and answering, at least 0."""
        return max(0.0, self.at - CLOSING_S - monotonic())

    def judging_left_s(self) -> float:
        """Seconds left for judging, at least 0."""
        return max(0.0, self.left_s() - self.answer_s)

    def with_answer(self, typical_s: float) -> "Deadline":
        """Reserve the time that an answering call typically takes."""
        return Deadline(self.at, min(typical_s, ANSWER_SHARE * self.left_s()))
