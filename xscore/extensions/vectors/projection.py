"""Random projection: vectors of any length as 384 numbers that keep their angles, nearly.

Each row is multiplied with the same matrix of random signs. Of the product every place tells as
much as any other, while the first places of a vector alone can miss a third of the nearest
(`docs/internals/decisions/0066-vectors-and-hot-state.md`). A store keeps the signs of the product
(`sign_blocks`), a server searches the product of long vectors (`projected_search`).
Trade-off: the more numbers a vector has, the fewer of very many near ones are told apart.
"""

from hashlib import shake_256

import numpy as np
from numpy.typing import NDArray

PROJECTED = 384
"""Places of a projection. What is stored here and on servers was made with it, and with `_FOLDED`
and `_flips`: a change of any is a new number of the schema."""
_FOLDED = 512
"""Places that a vector is folded to; a power of two."""


def project(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of each row with the same matrix of random signs: `PROJECTED` columns.

    The matrix is not made (Ailon and Chazelle 2009, the fast Johnson–Lindenstrauss transform):
    places change their signs at random and are folded, then a Walsh–Hadamard transform makes each
    place a sum of all, half of them negative. No product of matrices: those of numpy use threads,
    which take ten times as long where other processes have the processors.
    """
    count, dimensions = rows.shape
    folds = -(-dimensions // _FOLDED)
    filled_up = np.zeros((count, folds * _FOLDED), dtype=np.float32)
    filled_up[:, :dimensions] = rows * _flips(dimensions)
    folded = filled_up.reshape(count, folds, _FOLDED).sum(axis=1)
    # One row a place, so that sums run over all vectors at once.
    places = np.ascontiguousarray(folded.T)
    step = 1
    while step < _FOLDED:
        pairs = places.reshape(_FOLDED // step // 2, 2, step * count)
        first, second = pairs[:, 0], pairs[:, 1]
        places = np.stack([first + second, first - second], axis=1).reshape(_FOLDED, count)
        step *= 2
    return places[:PROJECTED].T


def _flips(dimensions: int) -> NDArray[np.float32]:
    """Return 1 or -1 for each place: at random, and everywhere the same."""
    digest = shake_256(b"xscore").digest((dimensions + 7) // 8)
    bits = np.unpackbits(np.frombuffer(digest, dtype=np.uint8), count=dimensions)
    return 1 - 2 * bits.astype(np.float32)
