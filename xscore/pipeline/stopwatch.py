"""Seconds by stage of a turn, for the receipt, and when each began and ended. Only measures; it times out nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from xscore.records import Latency


@dataclass(slots=True)
class Stopwatch:
    """Started when made."""

    started: float = field(default_factory=monotonic)
    stages: dict[str, float] = field(default_factory=dict)
    laps: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Stage -> its first and its last moment so far, on the clock of `started`."""

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

    def latency(self) -> Latency:
        """Return what has been measured so far."""
        return Latency(**self.stages, total=monotonic() - self.started)
