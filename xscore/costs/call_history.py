"""How long a fan-out will take at the limits in force, and which limit binds. Pure but for one look into the ledger.

Trade-off: only the latest calls of any kind are looked at, so that the look takes about a millisecond in a ledger of
any size, and a model that was not asked lately takes the time that is assumed of any.

Whether it pays to have a host keep the packs' prefixes, and for how long: by the gaps seen between turns.

Hosts that keep a prefix only where it is marked charge more for writing it than for plain input, and a tenth or less
for reading it. A mark pays if the next turn comes before the time is over often enough. A token of a prefix costs

    p · read + (1 - p) · write      with marks, where p is the share of gaps within the time kept,
    1                               without.

Five minutes at 1.25 pay from p > 0.217, an hour at 2 from p > 0.526 (reading at 0.1). With few gaps seen, p is a
guess: it is taken as (within + 1) / (seen + 2), Laplace's rule of succession, so that nothing seen is 0.5 and 20 gaps
weigh ten times the prior. It does not price calls, and knows nothing of which packs a turn will send. The trade-off:
one share for all packs of a judge, although a pack that is never sent again is written for nothing. Pure but for one
look into the ledger.

How long a model's judging replies are: tokens a memory, as the latest calls show. One look into the ledger.

How many tokens a score takes is the model's own affair (its tokenizer, spaces in its JSON, thinking aloud), and how
many memories get a reason the user's; both are seen after one turn. Trade-off: only the latest calls of any kind are
looked at, so that the look takes a millisecond in a ledger of any size, and a model that was not asked lately is new.
"""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

from xscore.costs.ledger import MOST_SECONDS, MOST_TOKENS_BITS
from xscore.platform.tokens import REPLY_FRAME
from xscore.providers.catalog import CacheWrite
from xscore.records import RateLimits, Stage

ASSUMED_LATENCY_S = {Stage.JUDGE: 2.0, Stage.PRIMARY: 15.0, Stage.PROBE: 2.0, Stage.EMBED: 1.0}
"""Seconds of a call at a host that the ledger knows nothing of."""
LATENCY_CALLS = 1_000
"""Of any kind, among which those of a model are sought,"""
LATENCY_SAMPLES = 200
"""and so many of them make the median."""
_LATEST_DURATIONS = f"""
    SELECT duration_s FROM (
        SELECT host, model, stage, outcome, duration_s, batch FROM call ORDER BY started_at DESC LIMIT {LATENCY_CALLS}
    ) WHERE host = ? AND model = ? AND stage = ? AND outcome = 'ok' AND batch = ''
    AND duration_s BETWEEN 0 AND {MOST_SECONDS} LIMIT {LATENCY_SAMPLES}
"""
"""A row that makes no sense is passed over; text is more than any number to SQLite."""


class Workload(Struct, frozen=True):
    """What is to be sent."""

    calls: int
    input_tokens: int
    output_tokens: int


class ExpectedDuration(Struct, frozen=True):
    """Seconds, and what they are waited for."""

    seconds: float
    binding_limit: str
    """`none`, `latency`, or the field of `RateLimits` that takes longest."""


def expected_duration(work: Workload, limits: RateLimits, *, latency_s: float, concurrency: int) -> ExpectedDuration:
    """Take the slowest of several clocks: calls in flight, and each limit a minute.

    Starting up counts nothing: within five calls' time the rate is there.
    """
    if not work.calls:
        return ExpectedDuration(0.0, "none")
    waves = -(-work.calls // max(1, concurrency))
    taken = {
        "requests_per_minute": work.calls,
        "tokens_per_minute": work.input_tokens + work.output_tokens,
        "input_tokens_per_minute": work.input_tokens,
        "output_tokens_per_minute": work.output_tokens,
    }
    clocks = {"latency": waves * latency_s}
    for name, count in taken.items():
        per_minute = getattr(limits, name)
        if per_minute:
            clocks[name] = count / per_minute * 60
    binding = max(clocks, key=lambda name: clocks[name])
    return ExpectedDuration(clocks[binding], binding)


def typical_latency_s(connection: sqlite3.Connection, *, host: str, model: str, stage: Stage = Stage.JUDGE) -> float:
    """Return the median of the latest answered calls of this stage to this model here, or an assumption."""
    rows = connection.execute(_LATEST_DURATIONS, (host, model, stage)).fetchall()
    return median(row[0] for row in rows) if rows else ASSUMED_LATENCY_S[stage]


TURNS_LOOKED_AT = 200
"""Turns that judged nothing, or with another judge, stand between those that count; beyond so many nothing is asked."""

_JUDGED_TURNS = """
    SELECT started_at FROM (SELECT id, started_at FROM turn WHERE started_at <= ? ORDER BY started_at DESC LIMIT ?) AS t
    WHERE (?, ?, ?) = (
        SELECT provider, host, model FROM call WHERE turn_id = t.id AND stage = ? AND outcome = 'ok' LIMIT 1
    )
    ORDER BY started_at DESC LIMIT ?
"""
"""One answered call shows who judged a turn: it has one judge, and thousands of calls."""


def best_cache_ttl_s(gaps_s: Sequence[float], writes: Sequence[CacheWrite], *, read_factor: float) -> int:
    """Return for how many seconds the host is best asked to keep a prefix; 0: asking does not pay.

    gaps_s: seconds between turns that judged, in any order. writes: what the host offers. read_factor: price of a token
    read, as a share of the plain input price.
    """
    cheapest, ttl_s = 1.0, 0
    for write in sorted(writes, key=lambda write: write.ttl_s):
        share = expected_hit_share(gaps_s, write.ttl_s)
        price = share * read_factor + (1 - share) * write.price_factor
        if price < cheapest:
            cheapest, ttl_s = price, write.ttl_s
    return ttl_s


def expected_hit_share(gaps_s: Sequence[float], ttl_s: int) -> float:
    """Return the share of gaps to expect within this time, from those seen and a prior of one within and one not."""
    within = sum(gap <= ttl_s for gap in gaps_s)
    return (within + 1) / (len(gaps_s) + 2)


def gaps_between_turns_s(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str, now: float, limit: int = 20
) -> tuple[float, ...]:
    """Return the seconds between the latest turns whose judging calls this host answered, newest first.

    now: unix seconds of the turn that begins; the first gap is the one it ends. Turns served from the judgment cache
    alone have touched no prefix and do not count; nor do turns of the future, after a clock was set back.
    """
    asked = (now, TURNS_LOOKED_AT, provider, host, model, Stage.JUDGE, limit)
    times = [now, *(float(row[0]) for row in connection.execute(_JUDGED_TURNS, asked))]
    return tuple(later - earlier for later, earlier in pairwise(times))


REPLY_CALLS = 1_000
LEAST_TOKENS, MOST_TOKENS = 3.0, 2_000.0
"""A score and its id take at least so many; beyond the most a host has misreported, or reasons past any estimate."""
_LATEST_REPLIES = f"""
    SELECT sum(output_tokens), sum(candidates), count(*) FROM (
        SELECT stage, outcome, host, model, estimated, output_tokens, candidates FROM call
        ORDER BY started_at DESC LIMIT {REPLY_CALLS}
    ) WHERE stage = 'judge' AND outcome = 'ok' AND NOT estimated AND host = ? AND model = ?
    AND typeof(output_tokens) = 'integer' AND output_tokens BETWEEN 0 AND {1 << MOST_TOKENS_BITS}
    AND typeof(candidates) = 'integer' AND candidates BETWEEN 0 AND {1 << MOST_TOKENS_BITS}
"""
"""A row that makes no sense is passed over; no sum of so few overflows."""


def output_tokens_per_memory(connection: sqlite3.Connection, *, host: str, model: str) -> float | None:
    """Return the output tokens a judged memory beside the frame; None: nothing lately that can be believed."""
    tokens, memories, calls = connection.execute(_LATEST_REPLIES, (host, model)).fetchone()
    if not memories:
        return None
    found = (tokens - REPLY_FRAME * calls) / memories
    return float(found) if LEAST_TOKENS <= found <= MOST_TOKENS else None
