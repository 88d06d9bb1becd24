"""How the vectors of a partition are named in Qdrant, on a server and in a folder.

Each partition and number of dimensions is a collection of its own, so no filter can be forgotten,
and a point is named by the hash of its text: nothing has to be stored with its vector.
Trade-off: a server with many repositories has as many collections.
"""

from uuid import UUID

import numpy as np

from xscore.extensions.vectors.vector_search import VectorPartition
from xscore.platform.hashing import digest

PREFIX = "xscore"
"""Of collections."""


def collection_prefix(partition: VectorPartition) -> str:
    """Return what the names of a partition's collections begin with; the number of dimensions
    follows."""
    parts = (PREFIX, partition.member, partition.repository, digest(partition.embedder)[:12])
    return f"{'_'.join(parts)}_"


def point_id(text_hash: str) -> UUID:
    """Return the point of a text: Qdrant takes 128 bits as a UUID, which is what a hash has."""
    return UUID(hex=text_hash)


def text_hash_of(point: object) -> str:
    """Return the text of a point."""
    if isinstance(point, UUID):
        return point.hex
    return UUID(str(point)).hex


def floats_of(data: bytes) -> list[float]:
    """Return the vector's components."""
    floats: list[float] = np.frombuffer(data, dtype="<f2").tolist()
    return floats
