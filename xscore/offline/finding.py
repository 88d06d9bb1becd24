"""Batches that were marked and whose creation was never heard of: found at the vendor, or known not to be there.

OpenAI keeps our mark, so a batch of ours is known for certain. Anthropic keeps none: a batch with as many requests,
created since, that no row of ours names, may be it; once it has ended the ids of its results tell. Only when nothing
there can be ours, and a minute has passed in which a slow vendor may still have listed it, is it created again.
Trade-off: a stranger's batch of the same size is waited for.
"""

import re
from collections.abc import Sequence
from contextlib import aclosing

from xscore.errors import UnreadableResponse
from xscore.offline import batch_rows
from xscore.offline.batch_rows import Batch
from xscore.offline.bench import Bench
from xscore.offline.collecting import name_of
from xscore.offline.sending import NOT_SENT
from xscore.records.offline import BatchSeen, BatchState

OURS = re.compile(r"xs_[0-9a-f]+_\d+-q\d+-a\d+")
DOUBT_S = 60.0
"""A vendor lists a batch this long after it was created at the latest."""


async def is_missing(bench: Bench, batch: Batch) -> bool:
    """Look for a marked batch; enter it where it is found. True: it certainly is not there.

    False also where it may yet turn up: look again later. Raises leaves of ProviderError.
    """
    if batch.problem.startswith(NOT_SENT):
        return True
    found = await bench.host.find(mark=batch.mark, since=bench.since(batch), requests=batch.requests)
    certain = [seen for seen in found if seen.mark == batch.mark]
    known = batch_rows.known_vendor_ids(bench.connection)
    strange = [seen for seen in found if not seen.mark and seen.vendor_id not in known]
    candidates = [] if certain else [await bench.host.look(seen.vendor_id) for seen in strange]
    mine = certain[0] if certain else await _recognised(bench, batch, candidates)
    if mine is not None:
        with bench.lease.step() as connection:
            batch_rows.created(connection, batch, mine)
        return False
    may_be_ours = any(seen.state in (BatchState.WORKING, BatchState.CANCELLING) for seen in candidates)
    return not may_be_ours and bench.clock() - batch.marked_at >= DOUBT_S


async def _recognised(bench: Bench, batch: Batch, candidates: Sequence[BatchSeen]) -> BatchSeen | None:
    """Return the candidate whose results bear our mark.

    Raises UnreadableResponse where one has results and not an id among them can be read: it may be ours.
    """
    for seen in candidates:
        if seen.state is not BatchState.ENDED:
            continue
        async with aclosing(bench.host.results(seen, model=bench.job.recipe.model.name)) as results:
            ids = 0
            async for result in results:
                ids += bool(result.custom_id)
                if name_of(result.custom_id, batch.mark) is not None:
                    return seen
                if OURS.fullmatch(result.custom_id):
                    break  # another batch of xscore's
        if seen.requests and not ids:
            raise UnreadableResponse(
                f"batch {seen.vendor_id} may be ours, and none of its results can be read",
                hint="The next `xscore batch collect` tries again.",
            )
    return None
