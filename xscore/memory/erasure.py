"""Erase memories for good: the only way anything leaves the store for privacy's sake.

With a memory go all that was made with it or says what it said: its judgments and reasons (where no other memory shows
the same content), vectors, evidence, edges, what receipts tell of it, the answers of turns that kept it, the exchanges
those answers became, and so on from there; then the journal is emptied. A tombstone without content stays. It does not
decide what is to go, and never touches what comes from files: the index does. Trade-off: an answer that was made with
an erased memory goes whole, since nobody can tell which of its words came from there.
"""

from collections.abc import Collection
from dataclasses import dataclass

from xscore.memory.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What went, or would go; counted in rows unless said otherwise."""

    ids: tuple[str, ...] = ()
    """Memories, with the exchanges and summaries that went along; sorted."""
    missing: tuple[str, ...] = ()
    """Ids that no memory has."""
    memories: int = 0
    exchanges: int = 0
    """Of the memories, those that went because an answer was made with an erased one; summaries included."""
    judgments: int = 0
    reasons: int = 0
    vectors: int = 0
    evidence: int = 0
    edges: int = 0
    receipts: int = 0
    """Receipts that named one of them, and are stripped of what they told."""
    answers: int = 0
    """Stored answers of turns that kept one of them, blanked."""
    checkpoints: int = 0
    """Checkpoints that named one of them, stripped."""
    sessions: int = 0
    """Summaries of working sessions, blanked."""
    payloads: int = 0
    """Event payloads, blanked."""
    observations: int = 0
    """What the user's store had noted of them."""
    shared: int = 0
    """Contents that other memories show too: their judgments stay."""
    earlier: tuple[str, ...] = ()
    """Superseded memories that led to one of them, and stay unless they are named too."""
    asides: tuple[str, ...] = ()
    """Set-aside damaged stores and scratch files that held the text, removed; relative to the store's folder."""
    is_clean: bool = True
    """Whether the files hold nothing of it any more; False: another process kept the journal from being emptied."""


def preview(store: Store, ids: Collection[str]) -> Erasure:
    """Tell what `erase` would remove, and remove nothing. Raises UsageError for memories of the index."""
    raise NotImplementedError


def erase(store: Store, ids: Collection[str], *, now: float, forget: bool = False, patience_s: float = 5.0) -> Erasure:
    """Erase these memories for good, in the repository's store and in the user's.

    now: Unix seconds, of the tombstones. forget: remember the ids (not the texts), so that no import brings them back.
    patience_s: how long to wait for processes that read the journal. A call that was killed has changed nothing, or is
    completed by the next. Raises UsageError for memories of the index: exclude their file instead.
    """
    raise NotImplementedError
