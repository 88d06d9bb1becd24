"""Predict the next turn from the latest ledger rows: latency, calls at once, reply length, gaps
between turns.

Each query takes about a millisecond in a ledger of any size, because only the latest rows are read.
It prices nothing. Whether marking a prefix for a host's cache pays follows from the gaps: with p
the share of gaps within the time kept, a marked token costs p * read + (1 - p) * write, an unmarked
one 1. With few gaps seen, p is a guess: Laplace's rule of succession, (within + 1) / (seen + 2).
Trade-off: a model that was not asked lately is treated as unknown.
"""

import sqlite3
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median

from msgspec import Struct

from xscore.platform.tokens import REPLY_FRAME
from xscore.providers.catalog import CacheWrite
from xscore.providers.hosts import is_loopback
from xscore.records.calls import RateLimits, Stage
from xscore.store.call_rows import MOST_SECONDS, MOST_TOKENS

ASSUMED_LATENCY_S = 2.0
"""Assumed seconds of a call at a remote host, until the ledger holds calls to one."""
ASSUMED_LATENCY_OF_STAGE_S = {Stage.PRIMARY: 15.0, Stage.EMBED: 1.0}
"""Assumed seconds of a call at a remote host, for stages whose calls are much longer or
shorter."""
LOOPBACK_FACTOR = 5.0
"""A model on this machine is assumed to take this many times as long."""
LATEST_CALLS = 1_000
"""A model's calls are looked for among this many of the latest calls of any kind."""
LATENCY_SAMPLES = 200
"""How many calls of a model the median is taken of."""
LEAST_TOKENS, MOST_REPLY_TOKENS = 3.0, 2_000.0
"""Believable output tokens a memory; outside, the host has misreported its usage."""
BORNE_FOR_S = 3_600.0
"""For this long a host counts as able to take as many concurrent calls as it just answered, equally
fast."""
MOST_FAILED = 0.1
"""Share of its calls that may have failed meanwhile: some hosts refuse a few at any load."""
TURNS_LOOKED_AT = 200
"""Turns to look through, since those with another judge or none do not count."""
_LATEST = f"WITH latest AS (SELECT * FROM call ORDER BY started_at DESC LIMIT {LATEST_CALLS})"
_DURATIONS = f"""
    {_LATEST} SELECT duration_s FROM latest
    WHERE host = ? AND model = ? AND stage = ? AND outcome = 'ok' AND batch = ''
    AND duration_s BETWEEN 0 AND {MOST_SECONDS} LIMIT {LATENCY_SAMPLES}
"""
_IN_FLIGHT = f"""
    {_LATEST} SELECT started_at, duration_s, outcome FROM latest
    WHERE host = ? AND model = ? AND stage = ? AND batch = '' AND started_at BETWEEN ? AND ?
    AND duration_s BETWEEN 0 AND {MOST_SECONDS}
"""
"""Damaged rows are skipped; to SQLite, text is greater than any number."""
_DURATIONS_AT_HOSTS = _DURATIONS.replace(
    "SELECT duration_s", "SELECT host, duration_s"
).replace("host = ? AND model = ? AND ", "")
_REPLIES = f"""
    {_LATEST} SELECT sum(output_tokens), sum(candidates), count(*) FROM latest
    WHERE stage = 'judge' AND outcome = 'ok' AND NOT estimated AND host = ? AND model = ?
    AND typeof(output_tokens) = 'integer' AND output_tokens BETWEEN 0 AND {MOST_TOKENS}
    AND typeof(candidates) = 'integer' AND candidates BETWEEN 0 AND {MOST_TOKENS}
"""
_JUDGED_TURNS = """
    SELECT started_at FROM (SELECT id, started_at FROM turn WHERE started_at <= ?
      ORDER BY started_at DESC LIMIT ?) AS t
    WHERE (?, ?, ?) = (
        SELECT provider, host, model FROM call WHERE turn_id = t.id AND stage = ? AND outcome = 'ok'
          LIMIT 1
    )
    ORDER BY started_at DESC LIMIT ?
"""
"""One answered call identifies a turn's judge: a turn has one judge and thousands of calls."""


class Workload(Struct, frozen=True):
    """What is to be sent."""

    calls: int
    input_tokens: int
    output_tokens: int
    lasting_tokens: int = 0
    """Part of the input that begins a lasting prompt, so that a host's prefix cache may hold it."""
    is_warm: bool = False
    """Whether the host's prefix cache holds all of the lasting prompt."""

    @property
    def cached_tokens(self) -> int:
        """Input tokens that the host's prefix cache serves."""
        return self.lasting_tokens if self.is_warm else 0


class ExpectedDuration(Struct, frozen=True):
    """How long a fan-out takes, and what limits it."""

    seconds: float
    binding_limit: str
    """`none`, `latency`, or the field of `RateLimits` that takes longest."""


def expected_duration(
    work: Workload, limits: RateLimits, *, latency_s: float, concurrency: int
) -> ExpectedDuration:
    """Take the slowest of several clocks: calls in flight, and each limit a minute.

    Ramp-up is ignored: the rate is reached within five calls' time.
    """
    if not work.calls:
        return ExpectedDuration(0.0, "none")
    waves = -(-work.calls // max(1, concurrency))
    taken = {
        "requests_per_minute": work.calls,
        "tokens_per_minute": work.input_tokens + work.output_tokens,
        "input_tokens_per_minute": work.input_tokens - work.cached_tokens,
        "output_tokens_per_minute": work.output_tokens,
    }
    clocks = {"latency": waves * latency_s}
    for name, count in taken.items():
        per_minute = getattr(limits, name)
        if per_minute:
            clocks[name] = count / per_minute * 60
    binding = max(clocks, key=lambda name: clocks[name])
    return ExpectedDuration(clocks[binding], binding)


def typical_latency_s(
    connection: sqlite3.Connection, *, host: str, model: str, stage: Stage = Stage.JUDGE
) -> float:
    """Return the median of the latest answered calls of this stage to this model here.

    A new host starts from its class: the median of calls to hosts on this machine, or
    elsewhere; otherwise an assumption.
    """
    is_here = is_loopback(host)
    durations_s = [row[0] for row in connection.execute(_DURATIONS, (host, model, stage))]
    if not durations_s:
        for timed_host, seconds in connection.execute(_DURATIONS_AT_HOSTS, (stage,)).fetchall():
            if is_loopback(str(timed_host)) is is_here:
                durations_s.append(seconds)
    if durations_s:
        return float(median(durations_s))
    assumed_s = ASSUMED_LATENCY_OF_STAGE_S.get(stage, ASSUMED_LATENCY_S)
    return assumed_s * LOOPBACK_FACTOR if is_here else assumed_s


def is_timed(
    connection: sqlite3.Connection, *, host: str, model: str, stage: Stage = Stage.JUDGE
) -> bool:
    """Whether a call of this stage to this model here was answered lately; otherwise its pace
    is an assumption."""
    return connection.execute(_DURATIONS, (host, model, stage)).fetchone() is not None


def calls_handled(connection: sqlite3.Connection, *, host: str, model: str, now: float) -> int:
    """Return how many concurrent judging calls were answered here in the latest minutes.

    0: there was none, or more than `MOST_FAILED` of them failed. now: Unix seconds.
    """
    parameters = (host, model, Stage.JUDGE, now - BORNE_FOR_S, now)
    # One more is in flight where a call begins, one fewer where it ends.
    steps: list[tuple[float, int]] = []
    failed = calls = 0
    for began_at, took_s, outcome in connection.execute(_IN_FLIGHT, parameters).fetchall():
        calls += 1
        if outcome == "ok":
            steps += ((began_at, 1), (began_at + took_s, -1))
        else:
            failed += 1
    if failed > MOST_FAILED * calls:
        return 0
    in_flight = accumulate(step for _, step in sorted(steps))
    return max(in_flight, default=0)


def latest_call_s(
    connection: sqlite3.Connection, *, host: str, model: str, now: float
) -> float:
    """Return the median seconds of the judging calls answered here in the latest minutes; 0 if
    there are none.

    now: Unix seconds.
    """
    parameters = (host, model, Stage.JUDGE, now - BORNE_FOR_S, now)
    rows = connection.execute(_IN_FLIGHT, parameters).fetchall()
    answered_s = [took_s for _, took_s, outcome in rows if outcome == "ok"]
    return median(answered_s) if answered_s else 0.0


def best_cache_ttl_s(
    gaps_s: Sequence[float], writes: Sequence[CacheWrite], *, read_factor: float
) -> int:
    """Return how many seconds to ask the host to keep a prefix; 0 if it does not pay.

    gaps_s: seconds between turns that judged.
    writes: what the host offers.
    read_factor: price of a token read from the cache, as a share of the plain input price.
    """
    cheapest, ttl_s = 1.0, 0
    for write in sorted(writes, key=lambda write: write.ttl_s):
        in_time = sum(gap <= write.ttl_s for gap in gaps_s)
        # Laplace's rule: few gaps say little, so none makes it an even chance.
        share = (in_time + 1) / (len(gaps_s) + 2)
        price = share * read_factor + (1 - share) * write.price_factor
        if price < cheapest:
            cheapest = price
            ttl_s = write.ttl_s
    return ttl_s


def gaps_between_turns_s(
    connection: sqlite3.Connection,
    *,
    provider: str,
    host: str,
    model: str,
    now: float,
    limit: int = 20,
) -> tuple[float, ...]:
    """Return the seconds between the latest turns whose judging calls this host answered, newest
    first.

    now: Unix seconds of the turn that begins; the first gap ends there. Turns served from the
        judgment cache alone touched no prefix and do not count, nor do turns of the future (a clock
        was set back).
    """
    parameters = (now, TURNS_LOOKED_AT, provider, host, model, Stage.JUDGE, limit)
    times = [now, *(float(row[0]) for row in connection.execute(_JUDGED_TURNS, parameters))]
    return tuple(later - earlier for later, earlier in pairwise(times))


def output_tokens_per_memory(
    connection: sqlite3.Connection, *, host: str, model: str
) -> float | None:
    """Return output tokens per judged memory, without the JSON frame; None if no recent call is
    believable."""
    tokens, memories, calls = connection.execute(_REPLIES, (host, model)).fetchone()
    if not memories:
        return None
    per_memory = float((tokens - REPLY_FRAME * calls) / memories)
    is_believable = LEAST_TOKENS <= per_memory <= MOST_REPLY_TOKENS
    return per_memory if is_believable else None
