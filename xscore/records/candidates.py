"""What a turn may judge: memories without their texts, and the words that they hold."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from xscore.records.memory import FACT_KINDS, MOST_FACT_TOKENS, Kind, Layer

LAYERS_WITHOUT_FACTS = frozenset({Layer.GRAPH, Layer.VECTOR, Layer.SESSION})


class Slot(NamedTuple):
    """Where a memory is judged."""

    pack: str
    position: int


Slots = Mapping[str, Slot]
"""Memory id -> its slot."""


class Candidate(NamedTuple):
    """A memory that may be judged this turn, without its text.

    A named tuple, because every turn makes one for each memory.
    """

    id: str
    content_hash: str
    """Identity of what the judge is shown this turn."""
    layer: Layer
    kind: Kind
    path: str
    entity: str
    start_line: int
    end_line: int
    language: str
    tokens: int
    updated_at: float
    duplicates: tuple[str, ...] = ()
    """Ids of memories with the same content, which are judged once through this one."""
    is_inferred: bool = False
    """Whether nobody stated it: files show it, or it was learned."""
    purpose: str = ""
    """What a model says that its file is for, where the judge is shown it: part of
    `content_hash`."""

    @property
    def is_of_files(self) -> bool:
        """Whether the index made it from a file here."""
        return self.layer.is_indexed and self.kind is not Kind.DOCUMENT

    @property
    def is_fact(self) -> bool:
        """Whether it was stated, in a sentence or two."""
        # The layer tells most of a pool: asked first, in a fifth of the time.
        return (
            self.layer not in LAYERS_WITHOUT_FACTS
            and self.kind in FACT_KINDS
            and self.tokens <= MOST_FACT_TOKENS
        )


id_of: Callable[[Candidate], str] = itemgetter(Candidate._fields.index("id"))
"""Returns a field of a candidate, for `map`: a turn asks each of its pool several times, in
half the time of a loop."""
content_hash_of: Callable[[Candidate], str] = itemgetter(
    Candidate._fields.index("content_hash")
)
path_of: Callable[[Candidate], str] = itemgetter(Candidate._fields.index("path"))
TERM_ENTRY = struct.Struct("<IBB")
"""An entry of a term vector: term hash, count in the text (at most 255), field flags."""


class TermColumn(Struct, frozen=True):
    """The term vectors of many memories end to end, as `store.term_vectors` makes them."""

    ids: Sequence[str] = ()
    sizes: Sequence[int] = ()
    """Bytes of each vector."""
    entries: bytes = b""

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, bytes]]) -> "TermColumn":
        """Join vectors given by memory id; the last of an id counts."""
        vectors = dict(pairs)
        return cls(
            list(vectors),
            [len(vector) for vector in vectors.values()],
            b"".join(vectors.values()),
        )
