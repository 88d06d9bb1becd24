"""Storms of 429 over a turn of seventy-two packs, in both dialects: all are judged, in at most 1.3
calls each."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo
from tests.proof.faults_setup import (
    ALWAYS,
    EACH_DIALECT,
    ask,
    harbours,
    host_of_dialect,
    pays_only_for,
    settings_at,
)
from tests.servers import Fault, LoopbackServer

pytestmark = pytest.mark.verify

PACKS = 72
AFTER = 20
"""The number of requests before the storm."""
LASTS_S = 1.2
MOST = 1.3


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository of seventy-two memories."""
    return harbours(make_repo, files=12, functions=6)


class Storm:
    """Whether a request is in the storm, which starts with one request and ends by the clock."""

    def __init__(self, host: LoopbackServer) -> None:
        self._host = host
        self._ends_at: float | None = None

    def __call__(self, body: dict[str, Any]) -> bool:
        """Return whether it is."""
        if self._host.counts.requests <= AFTER:
            return False
        if self._ends_at is None:
            self._ends_at = time.monotonic() + LASTS_S
        return time.monotonic() < self._ends_at


@EACH_DIALECT
@pytest.mark.parametrize(
    ("retry_after_s", "in_flight"),
    [(None, 16), (0.5, 16), (0, 8)],
    ids=["silent", "Retry-After", "Retry-After that lies"],
)
async def test_a_storm_costs_few_calls_and_nobody(
    root: Path, dialect: str, retry_after_s: float | None, in_flight: int
) -> None:
    """All calls wait after one is refused: the storm passes, all have their score, and each was
    paid once."""
    with host_of_dialect(dialect, latency_s=0.02) as host:
        host.misbehave(
            Fault.RATE_LIMITED, times=ALWAYS, when=Storm(host), retry_after_s=retry_after_s
        )
        ended = await ask(
            root, settings_at(dialect, host.url, pack_size=1, concurrency=in_flight, attempts=2)
        )
        assert (ended.answer.exit_code, ended.lost) == (0, set()), ended.said
        assert host.counts.refused_requests > 0
        assert host.counts.requests <= MOST * PACKS
        assert set(host.counts.judgments.values()) == {1}
        assert "rate_limited" in [step.because for step in ended.answer.traffic.concurrency]


@EACH_DIALECT
async def test_a_host_that_asks_for_a_quarter_of_an_hour(root: Path, dialect: str) -> None:
    """A wait that long is refused: the turn ends after calls in flight, says what the host asks,
    and keeps the rest."""
    in_flight = 4
    with host_of_dialect(dialect, latency_s=0.02) as host:
        host.misbehave(Fault.RATE_LIMITED, times=ALWAYS, when=Storm(host), retry_after_s=900)
        ended = await ask(
            root, settings_at(dialect, host.url, pack_size=1, concurrency=in_flight, attempts=5)
        )
        assert ended.answer.exit_code == 1 and ended.causes == {"provider"}
        assert host.counts.refused_requests <= in_flight
        assert "asks to wait 900 s" in ended.said
        assert ended.answer.coverage.judged >= AFTER - in_flight
        await pays_only_for(ended.lost, root, host, settings_at(dialect, host.url, pack_size=1))
