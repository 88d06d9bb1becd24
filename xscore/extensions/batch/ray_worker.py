"""What runs in a worker process of Ray: an actor that Ray Data feeds with rows.

It needs the extra `ray`; how a chunk is judged is `ray_actor`'s business, which knows nothing of
Ray.
"""

import asyncio
import atexit
import os
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import ray

from xscore.extensions.batch.ray_actor import ChunkJudge


class ListActor:
    """Judges chunks of packs, one after the other."""

    def __init__(self, library: Any, dollars: Any) -> None:
        # Ray's worker is done by then, and its destructors have been seen to hang.
        atexit.register(os._exit, 0)
        self._runner = asyncio.Runner()
        take = None
        if dollars is not None:

            async def take(usd: Decimal) -> bool:
                return bool(await dollars.take.remote(usd))

        self._judge = ChunkJudge(ray.get(library), take=take)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Judge the chunks of a batch of rows."""
        results = np.empty(len(batch["chunk"]), dtype=object)
        chunks = [pickle.loads(chunk) for chunk in batch["chunk"]]  # noqa: S301  pickled by this process
        results[:] = [
            pickle.dumps(self._runner.run(self._judge.score(chunk))) for chunk in chunks
        ]
        return {"scored": results}
