"""What recent calls show: minutes at the current limits, reply lengths, whether keeping a prefix
pays."""

from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cost_reports.ledger_rows import DAY, add_call, add_turn
from xscore.cache.group_commit import GroupCommit
from xscore.costs.call_history import (
    ASSUMED_LATENCY_S,
    LATENCY_SAMPLES,
    LATEST_CALLS,
    Workload,
    best_cache_ttl_s,
    calls_handled,
    expected_duration,
    gaps_between_turns_s,
    is_timed,
    output_tokens_per_memory,
    typical_latency_s,
)
from xscore.costs.ledger import Ledger
from xscore.platform.tokens import REPLY_FRAME
from xscore.providers.catalog import CacheWrite, model_settings
from xscore.records.calls import CallRecord, RateLimits, Stage, Usage
from xscore.store.opening import connect_store

REPOSITORY = Workload(calls=150, input_tokens=450_000, output_tokens=30_000)
"""About three thousand functions in packs of twenty."""


@pytest.mark.parametrize(
    ("limits", "seconds", "binding"),
    [
        (RateLimits(500, 200_000), 144.0, "tokens_per_minute"),
        (RateLimits(50, 50_000), 576.0, "tokens_per_minute"),
        (RateLimits(50, 2_000_000), 180.0, "requests_per_minute"),
        (RateLimits(5_000, 20_000_000), 10.0, "latency"),
        (RateLimits(), 10.0, "latency"),
        (RateLimits(1_000, None, 450_000, 10_000), 180.0, "output_tokens_per_minute"),
        (RateLimits(1_000, None, 225_000, 30_000), 120.0, "input_tokens_per_minute"),
    ],
)
def test_the_slowest_clock_binds(limits: RateLimits, seconds: float, binding: str) -> None:
    """Calls, tokens, input and output each give a duration; the longest is the estimate and is
    named."""
    took = expected_duration(REPOSITORY, limits, latency_s=2.0, concurrency=32)
    assert took.binding_limit == binding
    assert took.seconds == pytest.approx(seconds)


def test_what_a_host_has_just_handled_at_once(reader: Connection) -> None:
    """Overlapping calls of the last hour count; a few may have failed, but not more than one in
    ten."""
    mine = {"host": "api", "model": "small"}
    for number in range(40):
        add_call(reader, f"now{number}", "t", DAY + number % 4, duration_s=1.0, **mine)
    for number in range(90):
        add_call(reader, f"before{number}", "t", DAY - 3_600, duration_s=1.0, **mine)
    assert calls_handled(reader, now=DAY + 60, **mine) == 10
    assert calls_handled(reader, now=DAY + 60, host="api", model="large") == 0
    for number in range(4):
        add_call(reader, f"refused{number}", "t", DAY + 9, outcome="rate_limited", **mine)
    assert calls_handled(reader, now=DAY + 60, **mine) == 10
    add_call(reader, "refused, too", "t", DAY + 9, outcome="rate_limited", **mine)
    assert calls_handled(reader, now=DAY + 60, **mine) == 0


def test_the_median_of_the_latest_calls_of_this_model_here(reader: Connection) -> None:
    """Older calls, failed ones, and other hosts, models and stages are ignored."""
    for number in range(LATENCY_SAMPLES):
        add_call(reader, f"old{number}", "t", DAY - 1_000 + number, duration_s=99.0)
    for number in range(LATENCY_SAMPLES):
        add_call(
            reader, f"new{number}", "t", DAY + number, duration_s=(1.0, 3.0, 4.0)[number % 3]
        )
    for name, changes in enumerate(
        ({"host": "x"}, {"model": "x"}, {"stage": "primary"}, {"outcome": "timeout"})
    ):
        add_call(reader, f"other{name}", "t", DAY + 999, duration_s=77.0, **changes)
    assert typical_latency_s(reader, host="h", model="small") == 3.0
    assert is_timed(reader, host="h", model="small") and not is_timed(
        reader, host="h", model="new"
    )
    assert typical_latency_s(reader, host="h", model="small", stage=Stage.PRIMARY) == 77.0


def test_a_new_host_starts_from_its_class(reader: Connection) -> None:
    """Estimated from hosts equally far away, local or remote; with none, a local model is assumed
    to be slower."""
    assert typical_latency_s(reader, host="h", model="new") == ASSUMED_LATENCY_S
    add_call(reader, "near", "t", DAY, duration_s=9.0, host="127.0.0.1:8080")
    assert typical_latency_s(reader, host="localhost:1", model="new") == 9.0
    assert typical_latency_s(reader, host="h", model="new") == ASSUMED_LATENCY_S
    add_call(reader, "far", "t", DAY, duration_s=1.5, host="x")
    assert typical_latency_s(reader, host="h", model="new") == 1.5
    assert (
        typical_latency_s(reader, host="[::1]:1", model="m", stage=Stage.PROBE)
        > ASSUMED_LATENCY_S
    )


@pytest.mark.parametrize("value", ["abc", b"x", -1.0, float("inf"), 1e300])
def test_a_duration_that_makes_no_sense_is_passed_over(
    reader: Connection, value: object
) -> None:
    """One damaged ledger row neither breaks an estimate nor makes it infinite."""
    add_call(reader, "odd", "t", DAY + 1, duration_s=value)
    assert typical_latency_s(reader, host="h", model="small") == ASSUMED_LATENCY_S
    add_call(reader, "sound", "t", DAY, duration_s=2.5)
    assert typical_latency_s(reader, host="h", model="small") == 2.5


CALL = CallRecord(
    id="c",
    turn_id="t",
    stage=Stage.JUDGE,
    provider="openai",
    host="h",
    model="m",
    started_at=0.0,
    duration_s=1.0,
    outcome="ok",
    candidates=10,
    usage=Usage(input_tokens=100, output_tokens=REPLY_FRAME + 90),
    cost_usd=None,
    estimated=False,
)


async def entered(path: Path, calls: Iterable[CallRecord]) -> Connection:
    """Insert calls one after the other and open the ledger."""
    async with GroupCommit(path) as commits:
        ledger = Ledger(commits)
        for number, call in enumerate(calls):
            ledger.record(replace(call, id=f"c{number}", started_at=float(number)))
    return connect_store(path)


async def test_tokens_per_memory_without_the_frame(path: Path) -> None:
    """Reply length is the text beyond the braces, divided by the memories judged."""
    tokens = output_tokens_per_memory(await entered(path, [CALL, CALL]), host="h", model="m")
    assert tokens == pytest.approx(9.0)


@pytest.mark.parametrize(
    "call",
    [
        replace(CALL, host="other"),
        replace(CALL, model="other"),
        replace(CALL, stage=Stage.PRIMARY),
        replace(CALL, outcome="timeout"),
        replace(CALL, estimated=True),
        replace(CALL, candidates=0),
        replace(CALL, usage=Usage(output_tokens=1)),
        replace(CALL, usage=Usage(output_tokens=10**6)),
    ],
    ids=["host", "model", "stage", "failed", "estimated", "empty", "too few", "too many"],
)
async def test_what_teaches_nothing(path: Path, call: CallRecord) -> None:
    """Other hosts and models, failed or silent calls, and impossible counts are ignored."""
    assert output_tokens_per_memory(await entered(path, [call]), host="h", model="m") is None


async def test_only_the_latest_calls_count(path: Path) -> None:
    """A judge that has become brief is estimated as brief."""
    brief = replace(CALL, usage=Usage(output_tokens=REPLY_FRAME + 40))
    ledger = await entered(path, [*[CALL] * 50, *[brief] * LATEST_CALLS])
    assert output_tokens_per_memory(ledger, host="h", model="m") == pytest.approx(4.0)


@pytest.mark.parametrize("column", ["output_tokens", "candidates"])
@pytest.mark.parametrize("value", ["abc", b"x", -1, 0.5, float("inf"), 2**63 - 1])
async def test_a_row_that_makes_no_sense_is_passed_over(
    path: Path, column: str, value: object
) -> None:
    """One damaged ledger row neither breaks nor changes an estimate."""
    ledger = await entered(path, [CALL, CALL, CALL])
    ledger.execute(f"UPDATE call SET {column} = ? WHERE id IN ('c0', 'c1')", (value,))
    assert output_tokens_per_memory(ledger, host="h", model="m") == pytest.approx(9.0)


CLAUDE = model_settings("anthropic", "claude-haiku-5-5").cache_writes
GPT = model_settings("openai", "gpt-6-luna").cache_writes
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("gaps_s", "ttl_s"),
    [
        ([], 300),
        ([60.0] * 20, 300),
        ([900.0] * 20, 3_600),
        ([9_000.0] * 20, 0),
        ([60.0] * 5 + [9_000.0] * 15, 300),
        ([60.0] * 2 + [9_000.0] * 18, 0),
        ([60.0] * 5 + [900.0] * 15, 3_600),
    ],
    ids=[
        "nothing seen",
        "at once",
        "quarters of an hour",
        "once a day",
        "a quarter soon",
        "a tenth soon",
        "mixed",
    ],
)
def test_the_time_that_pays(gaps_s: list[float], ttl_s: int) -> None:
    """Short gaps justify five minutes, medium ones an hour, long ones nothing; a quarter of short
    gaps suffices."""
    assert best_cache_ttl_s(gaps_s, CLAUDE, read_factor=0.1) == ttl_s


@given(st.lists(st.floats(0, 1e6), max_size=40), st.floats(0.01, 0.5))
def test_marks_never_cost_more_than_none(gaps_s: list[float], read_factor: float) -> None:
    """The choice is the cheapest of all by the module's stated expectation."""

    def price(write: CacheWrite) -> float:
        share = (sum(gap <= write.ttl_s for gap in gaps_s) + 1) / (len(gaps_s) + 2)
        return share * read_factor + (1 - share) * write.price_factor

    prices = {write.ttl_s: price(write) for write in CLAUDE} | {0: 1.0}
    assert prices[best_cache_ttl_s(gaps_s, CLAUDE, read_factor=read_factor)] == min(
        prices.values()
    )


def add_judged_turn(
    reader: Connection, number: int, at: float, calls: int = 1, **changes: object
) -> None:
    """Add a turn with this many judging calls."""
    add_turn(reader, f"t_{number}", at)
    for index in range(calls):
        row = {"provider": "anthropic", "host": "h", "model": "m"} | changes
        add_call(reader, f"c_{number}_{index}", f"t_{number}", at, **row)


def gaps(reader: Connection, *, now: float = NOW, limit: int = 20) -> tuple[float, ...]:
    """Return the gaps of the judge that `add_judged_turn` adds."""
    return gaps_between_turns_s(
        reader, provider="anthropic", host="h", model="m", now=now, limit=limit
    )


def test_gaps_are_between_turns_that_sent_something(reader: Connection) -> None:
    """Cached turns, other judges, other stages, failed calls and future turns are ignored."""
    assert gaps(reader) == ()
    add_judged_turn(reader, 1, NOW - 1_000)
    add_judged_turn(reader, 2, NOW - 900, calls=0)
    add_judged_turn(reader, 3, NOW - 800, host="elsewhere")
    add_judged_turn(reader, 4, NOW - 700, model="other")
    add_judged_turn(reader, 5, NOW - 650, provider="openai")
    add_judged_turn(reader, 6, NOW - 600, stage="primary")
    add_judged_turn(reader, 7, NOW - 550, outcome="rate_limited")
    add_judged_turn(reader, 8, NOW - 400, calls=3)
    add_judged_turn(reader, 9, NOW - 100)
    add_judged_turn(reader, 10, NOW + 9_000)
    assert gaps(reader) == (100.0, 300.0, 600.0)
    assert gaps(reader, limit=2) == (100.0, 300.0)
