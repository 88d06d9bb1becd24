"""What no longer holds of the memories that are shown: code that they cite has changed, and names
that they mention are gone.

It reads what the store knows and changes nothing. Memories of files are read again with their
files, so only stated ones can be outdated.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from xscore.records.memory import Citation, Memory, MemoryStatus
from xscore.store.drift import gone_names
from xscore.store.evidence import citations_of
from xscore.store.store import Store


class OutdatedMemories(Struct, frozen=True):
    """What no longer holds of some memories, by the id of each."""

    changed: Mapping[str, tuple[Citation, ...]]
    """The cited code that has changed."""
    drift: Mapping[str, str]
    """What is said of names that are gone, and of documents that are out of date."""


def find_outdated(store: Store, stated: Sequence[Memory]) -> OutdatedMemories:
    """Look up what no longer holds of these memories, which come from no file."""
    stale = [memory.id for memory in stated if memory.status is MemoryStatus.STALE]
    changed: dict[str, tuple[Citation, ...]] = {}
    if stale:
        for id_, citations in citations_of(store.connection, stale).items():
            changed[id_] = tuple(citation for citation in citations if citation.is_changed)
    return OutdatedMemories(changed, gone_names(store, stated))
