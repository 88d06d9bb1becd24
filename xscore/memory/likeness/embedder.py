"""What an embedder is: texts in, one dense vector each out; and the texts of memories as it is given them.

Vectors serve the order of judging, the lexical judge and clusters of likeness; they never decide what is judged.
No dimension is fixed: a stored vector is as long as it is, and one of another length than the task's is left out.
It loads no model. Trade-off: long memories are embedded by their beginning alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Dense = NDArray[np.float16]
    """One row a text, each of length 1."""

LONGEST_TEXT = 6_000
"""Characters of a memory that are embedded, its path and entity included."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def name(self) -> str:
        """Names the vectors in table `vec`; whatever changes them is part of it."""
        ...

    @property
    def batch(self) -> int:
        """Texts that are best given at once."""
        ...

    async def embed(self, texts: Sequence[str]) -> "Dense":
        """Return one row for each text. Raises leaves of ProviderError where a host makes them, and UsageError."""
        ...

    async def aclose(self) -> None:
        """Let go of the model or the host."""
        ...


def shown(path: str, entity: str, text: str) -> str:
    """Return what an embedder is given of a memory."""
    return f"{path} {entity}\n{text}"[:LONGEST_TEXT]
