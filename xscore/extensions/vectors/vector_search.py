"""What searches vectors: the store itself, or a server of the user's.

A search orders the judging and is a baseline to compare with; it never decides what is judged.
So it may be approximate, and what it returns is only looked up here: a server can name no memory
that this store does not have. Everything lies in a partition of one user and one repository, both
hashed. Trade-off: a server gets vectors, and from the vector of a short text the text can be
guessed.
"""

from collections.abc import Collection, Sequence
from sqlite3 import Connection
from typing import Protocol

from msgspec import Struct

from xscore.platform import database
from xscore.platform.hashing import digest
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.store import Store
from xscore.store.vector_copies import CopiedVector

MEMBER = "vector_member"
"""Key in `meta`."""


class VectorPartition(Struct, frozen=True, kw_only=True):
    """Where the vectors of one user, repository and embedder are."""

    member: str
    """The user's hashed id: 32 hex characters that only this user can compute."""
    repository: str
    """Of the store's id, hashed with the user's: nobody sees that two users have one repository."""
    embedder: str


def partition_of(store: Store, embedder: str) -> VectorPartition:
    """Return the partition of a repository's vectors by this embedder."""
    return _partition(store.hashed_user_id, store.store_id, embedder)


def note_partition(store: Store) -> None:
    """Note who sends the vectors, for an erasure, which only has the store."""
    with database.transaction(store.connection):
        write_meta(store.connection, MEMBER, store.hashed_user_id)


def has_noted_partition(connection: Connection) -> bool:
    """Whether it is noted who sends the vectors; a rebuilt store has forgotten it."""
    return bool(read_meta(connection, MEMBER))


def noted_partition(connection: Connection, embedder: str) -> VectorPartition:
    """Return the partition that vectors of this store were sent to."""
    return _partition(
        read_meta(connection, MEMBER), read_meta(connection, "store_id"), embedder
    )


def _partition(member: str, store_id: str, embedder: str) -> VectorPartition:
    repository = digest("vectors of a repository", member, store_id)
    return VectorPartition(member=member, repository=repository, embedder=embedder)


class NearestTexts(Protocol):
    """Finds the texts that are nearest to a query."""

    async def search(self, query: bytes, k: int) -> list[tuple[str, float]]:
        """Return text hash and cosine of about the k nearest, best first. query: float16."""
        ...


class VectorSearch(NearestTexts, Protocol):
    """Searches the vectors of one partition on a server, or in a folder. Methods raise
    SharedUnavailable, and StoreError for a folder that another process has."""

    name: str
    """For messages and notes: without user and password."""
    is_here: bool
    """It is a folder of this machine: what is in it can be counted at no cost, and damage may have
    lost a part."""

    async def upsert(self, vectors: Sequence[CopiedVector], *, is_last: bool) -> None:
        """Add these vectors; those of the same texts are replaced.

        is_last: none follow for now, so it is time to make what searches them fast.
        """
        ...

    async def count(self) -> int:
        """Return how many vectors there are."""
        ...

    async def erase(self, text_hashes: Collection[str]) -> int:
        """Erase the vectors of these texts; return how many there were."""
        ...

    async def check(self) -> str:
        """Describe what answers, for `doctor`."""
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
