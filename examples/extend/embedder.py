"""An embedder: vectors of letter pairs, made here. A real one loads a model of yours.

    [project.entry-points."xscore.embedders"]
    pairs = "embedder:connect"

Then `XSCORE_EMBEDDING_MODEL=pairs:64`. Vectors (extra `vectors`) order the judging, nothing else.
"""

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from xscore.settings import Settings


class PairEmbedder:
    """Counts pairs of letters, hashed to a number of places."""

    def __init__(self, places: int) -> None:
        self.name = str(places)  # vectors are kept under it
        self._places = places

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text."""
        rows = np.zeros((len(texts), self._places), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for pair in pairwise(text.lower()):
                row[crc32("".join(pair).encode()) % self._places] += 1
        return rows

    async def aclose(self) -> None:
        """There is nothing to release."""


def connect(model: str, settings: Settings) -> PairEmbedder:
    """Return the embedder of `pairs:MODEL`."""
    return PairEmbedder(int(model))
