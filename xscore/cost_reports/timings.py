"""How long stages took: exact percentiles by nearest rank, turns and calls, live and cached apart.

A percentile is always a time that was measured: of n samples in order, the one at rank ⌈q · n⌉. A stage that did not
happen in a turn (0 s) is no sample of it. Times of calls are exact to the microsecond.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from xscore.cost_reports.ledger_sums import DURATIONS
from xscore.records import Latency, Stage
from xscore.records.cost_report import Timing

if TYPE_CHECKING:  # 0.2 s of CPU that no other command pays
    import polars as pl

_KINDS = {"live": 0, "cached": 1}
_QUANTILES = (0.5, 0.95, 0.99)


class Took(NamedTuple):
    """What a finished turn took."""

    latency: Latency
    is_cached: bool
    """Every score was known before."""


def call_timings(calls: "pl.DataFrame") -> list[Timing]:
    """Return the timings of answered calls, by their stage and whether a prefix came from the host's cache."""
    import polars as pl

    found = []
    for stage in Stage:
        packed = calls.filter(pl.col("stage") == str(stage))[DURATIONS].drop_nulls()
        taken = packed.str.split(",").explode().cast(pl.Int64).sort()
        for kind, is_cached in _KINDS.items():
            samples = taken.filter(taken % 2 == is_cached)
            if len(samples):
                percentiles = [samples[rank(q, len(samples))] // 2 / 1e6 for q in _QUANTILES]
                found.append(_timing("call", str(stage), kind, percentiles, len(samples)))
    return found


def turn_timings(turns: Iterable[Took]) -> list[Timing]:
    """Return the timings of finished turns by stage."""
    taken: dict[tuple[str, str], list[float]] = {}
    for latency, is_cached in turns:
        for field in fields(Latency):
            seconds = getattr(latency, field.name)
            if seconds > 0:
                taken.setdefault((field.name, "cached" if is_cached else "live"), []).append(seconds)
    found = []
    for stage in (field.name for field in fields(Latency)):
        for kind in _KINDS:
            samples = sorted(taken.get((stage, kind), ()))
            if samples:
                found.append(
                    _timing("turn", stage, kind, [samples[rank(q, len(samples))] for q in _QUANTILES], len(samples))
                )
    return found


def rank(quantile: float, count: int) -> int:
    """Return the place, from 0, of a quantile among so many samples in order."""
    return max(0, ceil(quantile * count - 1e-9) - 1)


def _timing(of: str, stage: str, kind: str, percentiles: Sequence[float], count: int) -> Timing:
    p50, p95, p99 = percentiles
    return Timing(of=of, stage=stage, kind=kind, count=count, p50_s=p50, p95_s=p95, p99_s=p99)
