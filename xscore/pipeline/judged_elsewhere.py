"""What others who share a server have judged of a turn, taken over before a judge is opened.

A clone that was never asked this question, in a team that was, then reads no text, makes no pack
and opens no connection to a model. Claims would find the same, pack by pack. Judgments of the
user's own layer are never asked for. Trade-off: a turn that is new to the server makes one small
request more.
"""

import asyncio
from typing import TypeVar

from msgspec.structs import replace

from xscore.cache.keys import FIRST_DRAW
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.pool import PooledTurn
from xscore.pipeline.resources import TurnResources
from xscore.records.memory import Layer

P = TypeVar("P", bound=PooledTurn)


async def with_judged_elsewhere(
    pooled: P, described: JudgeDescription, resources: TurnResources, draw: int = FIRST_DRAW
) -> P:
    """Add what others on the shared server have judged; by then it is in the store. If the deadline
    passes first, return the turn unchanged.

    Raises StoreError, and SharedUnavailable where a server is required and away.
    """
    pool = pooled.pool
    if not described.stored:
        return pooled
    hashes = [miss.content_hash for miss in pool.misses if miss.layer is not Layer.USER]
    spending = resources.spending
    of_turn = (pooled.key, described.identity, hashes, draw)
    try:
        async with asyncio.timeout(resources.deadline.judging_left_s()):
            judgments = await spending.judged_elsewhere(*of_turn)
    except TimeoutError:
        return pooled
    if not judgments:
        return pooled
    misses = tuple([miss for miss in pool.misses if miss.content_hash not in judgments])
    all_judgments = {**pool.known, **judgments}
    return replace(pooled, pool=replace(pool, known=all_judgments, misses=misses))
