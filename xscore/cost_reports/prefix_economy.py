"""Whether it pays to have a host keep the packs' prefixes, and for how long: by the gaps seen between turns.

Hosts that keep a prefix only where it is marked charge more for writing it than for plain input, and a tenth or less
for reading it. A mark pays if the next turn comes before the time is over often enough. A token of a prefix costs

    p · read + (1 - p) · write      with marks, where p is the share of gaps within the time kept,
    1                               without.

Five minutes at 1.25 pay from p > 0.217, an hour at 2 from p > 0.526 (reading at 0.1). With few gaps seen, p is a
guess: it is taken as (within + 1) / (seen + 2), Laplace's rule of succession, so that nothing seen is 0.5 and 20 gaps
weigh ten times the prior. It does not price calls, and knows nothing of which packs a turn will send. The trade-off:
one share for all packs of a judge, although a pack that is never sent again is written for nothing. Pure but for one
look into the ledger.
"""

import sqlite3
from collections.abc import Sequence
from itertools import pairwise

from xscore.providers.catalog import CacheWrite
from xscore.records import Stage

TURNS_LOOKED_AT = 200
"""Turns that judged nothing, or with another judge, stand between those that count; beyond so many nothing is asked."""

_TURNS = """
    SELECT started_at FROM (SELECT id, started_at FROM turn WHERE started_at <= ? ORDER BY started_at DESC LIMIT ?) AS t
    WHERE (?, ?, ?) = (
        SELECT provider, host, model FROM call WHERE turn_id = t.id AND stage = ? AND outcome = 'ok' LIMIT 1
    )
    ORDER BY started_at DESC LIMIT ?
"""
"""One answered call shows who judged a turn: it has one judge, and thousands of calls."""


def ttl_that_pays(gaps_s: Sequence[float], writes: Sequence[CacheWrite], *, read_factor: float) -> int:
    """Return for how many seconds the host is best asked to keep a prefix; 0: asking does not pay.

    gaps_s: seconds between turns that judged, in any order. writes: what the host offers. read_factor: price of a token
    read, as a share of the plain input price.
    """
    cheapest, ttl_s = 1.0, 0
    for write in sorted(writes, key=lambda write: write.ttl_s):
        share = within_share(gaps_s, write.ttl_s)
        price = share * read_factor + (1 - share) * write.price_factor
        if price < cheapest:
            cheapest, ttl_s = price, write.ttl_s
    return ttl_s


def within_share(gaps_s: Sequence[float], ttl_s: int) -> float:
    """Return the share of gaps to expect within this time, from those seen and a prior of one within and one not."""
    within = sum(gap <= ttl_s for gap in gaps_s)
    return (within + 1) / (len(gaps_s) + 2)


def observed_gaps(
    connection: sqlite3.Connection, *, provider: str, host: str, model: str, now: float, limit: int = 20
) -> tuple[float, ...]:
    """Return the seconds between the latest turns whose judging calls this host answered, newest first.

    now: unix seconds of the turn that begins; the first gap is the one it ends. Turns served from the judgment cache
    alone have touched no prefix and do not count; nor do turns of the future, after a clock was set back.
    """
    asked = (now, TURNS_LOOKED_AT, provider, host, model, Stage.JUDGE, limit)
    times = [now, *(float(row[0]) for row in connection.execute(_TURNS, asked))]
    return tuple(later - earlier for later, earlier in pairwise(times))
