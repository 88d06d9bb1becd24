"""Review extracted facts: accept, correct or reject what waits, or what has not been looked at.

An accepted fact is the user's own from then on: stated, without expiry, in the place of what had
its key. A rejected one stays archived, and no session brings it back, not even after `memory
delete` has erased it. Trade-off: each fact is a transaction of its own, so a review that is
cut short keeps what was answered.
"""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.extraction.session_facts import fact_digests
from xscore.platform import database
from xscore.platform.errors import NothingMatched, UsageError
from xscore.records.memory import Memory, MemorySource, MemoryStatus
from xscore.store import extracted_facts, memory_rows, memory_writer
from xscore.store.composing import statement_text
from xscore.store.remembering import MemoryChange, update_memory

if TYPE_CHECKING:
    from xscore.store.store import Store

_OPEN = ("waiting", "unreviewed")


class Reviewed(Struct, frozen=True, kw_only=True):
    """What a review changed."""

    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()
    """Memories whose key an accepted fact took over."""
    left: int = 0
    """Number of facts that still wait."""


def facts_to_review(store: "Store") -> list[Memory]:
    """Return the facts that wait, the repository's first."""
    facts: list[Memory] = []
    for connection in store.connections():
        facts += extracted_facts.waiting_facts(connection)
    return facts


def taken_facts(store: "Store") -> list[Memory]:
    """Return the facts that were taken without a review, the repository's first."""
    facts: list[Memory] = []
    for connection in store.connections():
        facts += extracted_facts.taken_facts(connection)
    return facts


def count_to_review(store: "Store") -> int:
    """Return how many facts wait."""
    return sum(map(extracted_facts.count_waiting, store.connections()))


def accept_fact(
    store: "Store", identifier: str, *, now: float, text: str = ""
) -> tuple[str, ...]:
    """Accept a fact; return the ids of the memories that it supersedes. text: as corrected.

    Raises NothingMatched for what is not a fact under review, UsageError for a bad text.
    """
    find_open_fact(store, identifier)
    if text:
        update_memory(store, identifier, MemoryChange(text=text), now=now)
    connection, memory = find_open_fact(store, identifier)
    with database.transaction(connection):
        accepted = replace(
            memory_writer.with_status(memory, MemoryStatus.ACTIVE),
            source=MemorySource.EXPLICIT,
            confidence=1.0,
            updated_at=max(memory.updated_at, now),
            details=replace(memory.details, review=""),
        )
        return memory_writer.write_memory(connection, accepted, before=memory, now=now)


def reject_fact(store: "Store", identifier: str, *, now: float) -> None:
    """Reject a fact: no turn reads it, and no session brings it back. Raises NothingMatched."""
    connection, memory = find_open_fact(store, identifier)
    with database.transaction(connection):
        rejected = replace(
            memory_writer.with_status(memory, MemoryStatus.ARCHIVED),
            details=replace(memory.details, review="rejected"),
        )
        memory_writer.write_memory(connection, rejected, before=memory, now=now, link=False)
        digests = fact_digests(memory.kind, statement_text(memory), memory.details.quote)
        extracted_facts.note_rejected(connection, digests, now=now)


def review_by_ids(
    store: "Store", *, accept: Sequence[str], reject: Sequence[str], now: float
) -> Reviewed:
    """Accept and reject facts by id: all of them, or none where one is unknown.

    Raises NothingMatched, and UsageError for an id that is to be accepted and rejected.
    """
    accept = tuple(dict.fromkeys(accept))
    reject = tuple(dict.fromkeys(reject))
    for identifier in (*accept, *reject):
        find_open_fact(store, identifier)
        if identifier in accept and identifier in reject:
            raise UsageError(
                f"{identifier} is given to both --accept and --reject",
                hint="Nothing was changed. Use one of the two.",
            )
    superseded: list[str] = []
    for identifier in accept:
        superseded += accept_fact(store, identifier, now=now)
    for identifier in reject:
        reject_fact(store, identifier, now=now)
    return Reviewed(
        accepted=accept,
        rejected=reject,
        superseded=tuple(superseded),
        left=count_to_review(store),
    )


def find_open_fact(store: "Store", identifier: str) -> tuple[Connection, Memory]:
    """Return a fact under review, and the store that holds it. Raises NothingMatched."""
    for connection in store.connections():
        memory = memory_rows.memory_with_id(connection, identifier)
        if memory is not None and memory.details.review in _OPEN:
            return connection, memory
    raise NothingMatched(
        f"no fact to review has the id {identifier}",
        hint="`xscore memory review` lists the facts to review.",
    )
