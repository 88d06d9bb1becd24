"""Extract facts when a session is over: never during a turn, and each exchange once.

A session is over when its agent says so, when it was closed, or when nothing was said in it for an
hour. What fixed forms state is kept first, in the transaction that marks the exchanges as read; a
model comes after that (`by_model`), so that a kill loses facts of the model and never pays twice.
Trade-off: sessions without hooks (imported logs) are read on request alone, since hundreds of old
ones would flood the review.
"""

from collections.abc import Sequence

from msgspec import Struct

from xscore.extensions.extraction.keeping import KeptFacts, Mode, keep_facts
from xscore.extensions.extraction.reading import messages_of
from xscore.extensions.extraction.session_facts import Message, SessionFacts, find_by_rules
from xscore.records.memory import Memory
from xscore.store.extracted_facts import (
    UnreadSession,
    forget_session_over,
    unread_exchanges,
    unread_sessions,
)
from xscore.store.memory_queries import unindexed_threads
from xscore.store.store import Store

QUIET_S = 3_600.0
"""A session in which nothing was said for so long is over."""
MOST_BY_RULES = 20
"""Facts of one session that rules keep: the latest."""
MOST_EXCHANGES = 200
"""Of one session, read at once; the rest is read next."""


class ReadSession(Struct, frozen=True, kw_only=True):
    """A session after the rules have read it."""

    messages: tuple[Message, ...]
    exchanges: int
    kept: KeptFacts


def sessions_over(store: Store, *, now: float) -> list[UnreadSession]:
    """Return the sessions that are over and were not read to their end. now: Unix seconds."""
    over: list[UnreadSession] = []
    for session in unread_sessions(store.connection):
        # A clock that was set back makes no session last for years.
        is_quiet = abs(now - session.last_at) >= QUIET_S
        if session.is_over or is_quiet:
            over.append(session)
    return over


def read_session(store: Store, thread: str, *, mode: Mode, now: float) -> ReadSession:
    """Keep what a session states in fixed forms, and mark its exchanges as read.

    Raises StoreError.
    """
    exchanges = unread_exchanges(store.connection, thread, limit=MOST_EXCHANGES)
    read = read_exchanges(store, exchanges, mode=mode, now=now)
    if len(exchanges) < MOST_EXCHANGES:
        forget_session_over(store.connection, thread)
    return read


def read_exchanges(
    store: Store, exchanges: Sequence[Memory], *, mode: Mode, now: float
) -> ReadSession:
    """Keep what exchanges of one session state in fixed forms, and mark them as read."""
    messages = messages_of(exchanges)
    by_rules = find_by_rules(messages)
    # The latest: what was said last holds.
    bounded = SessionFacts(by_rules.kept[-MOST_BY_RULES:], by_rules.dropped, by_rules.retractions)
    ids = [exchange.id for exchange in exchanges]
    kept = keep_facts(store, bounded, mode=mode, now=now, read=ids)
    return ReadSession(messages=tuple(messages), exchanges=len(exchanges), kept=kept)


def read_everything(store: Store, *, mode: Mode, now: float) -> list[ReadSession]:
    """Read every exchange that was not read yet, of open and imported sessions too.

    Raises StoreError.
    """
    by_session: dict[str, list[Memory]] = {}
    threads = unindexed_threads(store.connection)
    for exchange in unread_exchanges(store.connection, limit=-1):
        session = threads.get(exchange.id) or exchange.particulars.session or exchange.id
        by_session.setdefault(session, []).append(exchange)
    read: list[ReadSession] = []
    for exchanges in by_session.values():
        read.append(read_exchanges(store, exchanges, mode=mode, now=now))
    return read
