"""Extract facts when a session is over: never during a turn, and each exchange once.

A session is over when its agent says so, when it was closed, or when nothing was said in it for an
hour. What fixed forms state is kept first, in the transaction that marks the exchanges as read; a
model comes after that (`by_model`), so that a kill loses facts of the model and never pays twice.
Trade-off: sessions without hooks (imported logs) are read on request alone, since hundreds of old
ones would flood the review.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.extraction.by_model import (
    LEAST_CHARS,
    dialog_of,
    extractor_model,
    propose_facts,
)
from xscore.extensions.extraction.keeping import KeptFacts, Mode, keep_facts
from xscore.extensions.extraction.reading import messages_of
from xscore.extensions.extraction.session_facts import (
    Message,
    SessionFacts,
    check_proposed,
    find_by_rules,
)
from xscore.platform import database
from xscore.platform.errors import StoreError, UnreadableResponse, XscoreError
from xscore.providers.spec import ModelSpec
from xscore.records.memory import Memory
from xscore.settings import Settings
from xscore.store import extracted_facts
from xscore.store.extracted_facts import (
    UnreadSession,
    forget_session_over,
    unread_exchanges,
    unread_sessions,
)
from xscore.store.extractor_state import (
    load_state,
    save_state,
    why_not,
    with_answer,
    with_call,
)
from xscore.store.memory_queries import unindexed_threads
from xscore.store.store import Store

QUIET_S = 3_600.0
"""How long nothing is said until a session counts as over."""
MOST_BY_RULES = 20
"""Most facts of one session that rules keep, the latest ones."""
MOST_EXCHANGES = 200
"""Most exchanges of one session read at once; the rest is read next."""


class ReadSession(Struct, frozen=True, kw_only=True):
    """A session after the rules have read it."""

    messages: tuple[Message, ...]
    exchanges: int
    kept: KeptFacts
    by_model: KeptFacts | None = None
    """Facts that the model gave; None if it was not asked, or gave nothing that can be read."""
    problem: str = ""
    """Why the model was not asked, or why its answer is no use."""


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
    bounded = SessionFacts(
        by_rules.kept[-MOST_BY_RULES:], by_rules.dropped, by_rules.retractions
    )
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
        session = threads.get(exchange.id) or exchange.details.session or exchange.id
        by_session.setdefault(session, []).append(exchange)
    read: list[ReadSession] = []
    for exchanges in by_session.values():
        read.append(read_exchanges(store, exchanges, mode=mode, now=now))
    return read


async def extract_sessions(
    store: Store, settings: Settings, *, now: float
) -> list[ReadSession]:
    """Read the sessions that are over; ask the model, where one is set, once for each.

    settings: with the caps that hold for this work.
    now: Unix seconds.
    Raises StoreError, and UsageError for a model that cannot be used.
    """
    mode = settings.memory.extract
    if mode == "off":
        return []
    spec = extractor_model(settings.memory.extractor)
    sessions: list[ReadSession] = []
    for session in sessions_over(store, now=now):
        read = read_session(store, session.thread, mode=mode, now=now)
        # Another process that read it first has asked already.
        if spec is not None and read.kept.read:
            read = await _ask_about(store, settings, spec, read, mode=mode, now=now)
        sessions.append(read)
    return sessions


async def _ask_about(
    store: Store,
    settings: Settings,
    spec: ModelSpec,
    session: ReadSession,
    *,
    mode: Mode,
    now: float,
) -> ReadSession:
    """Ask a model for the facts of a session that the rules have read."""
    dialog = dialog_of(session.messages)
    if len(dialog) < LEAST_CHARS:
        return session
    connection = store.connection
    with database.transaction(connection):
        state = load_state(connection, str(spec))
        refusal = why_not(state, now=now)
        if refusal:
            return replace(session, problem=refusal)
        # Before it is sent: a kill makes no call free.
        save_state(connection, with_call(state, now=now))
    known_facts = extracted_facts.all_facts(connection)
    try:
        proposed = await propose_facts(store, settings, spec, dialog, known_facts)
    except StoreError:
        raise
    except (XscoreError, TimeoutError) as error:
        is_unreadable = isinstance(error, UnreadableResponse)
        with database.transaction(connection):
            state = load_state(connection, str(spec))
            save_state(connection, replace(state, is_unreadable=is_unreadable))
        return replace(
            session, problem=f"{spec}: {getattr(error, 'message', 'no answer in time')}"
        )
    checked = check_proposed(session.messages, proposed, extractor=str(spec))
    kept = keep_facts(store, checked, mode=mode, now=now)
    reasons = Counter(dropped.why for dropped in checked.dropped)
    with database.transaction(connection):
        state = load_state(connection, str(spec))
        answered = with_answer(
            state, proposed=len(proposed), kept=len(kept.new), dropped=reasons
        )
        save_state(connection, answered)
    return replace(session, by_model=kept)
