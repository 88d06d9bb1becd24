"""Compress one session: by rule, then, if the user names a model, with summaries of what the rules
drop.

The tiers are kept before a model is asked and after, and each summary as it comes: a run that is
killed resumes where it was. Trade-off: a larger budget starts over, since what was pushed down for
a smaller one may stay whole.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct

from xscore.extensions.compression.document import (
    CompressedText,
    TurnSummary,
    besides_tokens,
    write_document,
)
from xscore.extensions.compression.frontier import find_frontier, frontier_text
from xscore.extensions.compression.session_turns import AgentSession
from xscore.extensions.compression.tiers import (
    NOTHING_PUSHED,
    Tier,
    TieredSession,
    TierPlan,
    is_due,
    push_down,
)
from xscore.extensions.compression.turn_text import Level
from xscore.store.compressed_sessions import (
    CompressedSession,
    PlacedTurn,
    load_tiers,
    save_tiers,
)
from xscore.store.store import Store

TARGET_SHARE = 2
"""A session that is due is brought to its model's context divided by this, so that it is not
due again at once."""
SUMMARY_SHARE = 10
"""Divisor of the budget for the part that is left for summaries."""
_UNLIMITED = 1 << 62


class CompressionReport(Struct, frozen=True, kw_only=True):
    """A compressed session."""

    thread: str
    origin: str
    session: str
    log: str
    turns: int
    session_tokens: int
    """Estimated tokens of the session as it was."""
    context_tokens: int
    """Context of the model that the session is measured against."""
    due: bool
    """Whether the session takes 70 % of the context or more."""
    budget: int
    """Tokens that the text may take; 0 if it is not due, so nothing was pushed down."""
    tokens: int
    """Estimated tokens of the text."""
    fits: bool
    """Whether it fits; if not, what is kept word for word is alone larger than the budget."""
    tiers: dict[str, int]
    """Number of turns by tier."""
    summaries: int = 0
    calls: int = 0
    cost_usd: Decimal | None = Decimal(0)
    problem: str = ""
    text: str


class SummaryOrder(Struct, frozen=True):
    """What a model is to summarize."""

    session: AgentSession
    thread: str
    pushed: int
    """How many of the oldest turns are in Bulks."""
    room: int
    """Tokens for the summaries."""


class Summarized(Struct, frozen=True):
    """What came of an order."""

    summaries: Sequence[TurnSummary] = ()
    calls: int = 0
    cost_usd: Decimal | None = Decimal(0)
    problem: str = ""


Summarize = Callable[[SummaryOrder], Summarized]


def thread_of(session: AgentSession) -> str:
    """Name the session's row, as hooks name its thread where its id is plain."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", f"{session.origin}-{session.session}")[:120]


def compress_session(
    store: Store,
    session: AgentSession,
    *,
    budget: int,
    context_tokens: int,
    now: float,
    summarize: Summarize | None = None,
) -> CompressionReport:
    """Compress a session and keep how far its turns were pushed.

    budget: in tokens; 0: half of the context, if the session is due.
    now: Unix seconds.
    summarize: has a model summarize what is in Bulks; None if no call is made.

    Raises StoreError.
    """
    due = is_due(session.tokens, context_tokens)
    limit = budget or (context_tokens // TARGET_SHARE if due else 0)
    frontier = find_frontier(session)
    besides = besides_tokens(session, frontier)
    kept = CompressedSession(
        thread=thread_of(session),
        origin=session.origin,
        path=session.path,
        budget=limit,
        frontier=frontier_text(frontier),
    )
    start = _start(store, kept, session)
    tiered = _push_down(session, limit, start, besides, leaves_room=summarize is not None)
    save_tiers(store.connection, kept, _placed(session, tiered), now=now)
    summarized = Summarized()
    if summarize is not None and tiered.plan.bulks:
        room = limit - tiered.tokens - besides
        summarized = summarize(SummaryOrder(session, kept.thread, tiered.plan.bulks, room))
    document = write_document(session, tiered, frontier, summarized.summaries)
    return _report(
        session, kept, tiered, summarized, document, context_tokens=context_tokens, due=due
    )


def _report(
    session: AgentSession,
    kept: CompressedSession,
    tiered: TieredSession,
    summarized: Summarized,
    document: CompressedText,
    *,
    context_tokens: int,
    due: bool,
) -> CompressionReport:
    return CompressionReport(
        thread=kept.thread,
        origin=session.origin,
        session=session.session,
        log=session.path,
        turns=len(session.turns),
        session_tokens=session.tokens,
        context_tokens=context_tokens,
        due=due,
        budget=kept.budget,
        tokens=document.tokens,
        fits=not kept.budget or document.tokens <= kept.budget,
        tiers=_turns_by_tier(session, tiered),
        summaries=len(summarized.summaries),
        calls=summarized.calls,
        cost_usd=summarized.cost_usd,
        problem=summarized.problem,
        text=document.text,
    )


def _push_down(
    session: AgentSession, limit: int, start: TierPlan, besides: int, *, leaves_room: bool
) -> TieredSession:
    """Push turns down by rule. leaves_room: for summaries of what is dropped, if anything is."""
    tiered = push_down(session, limit or _UNLIMITED, besides=besides, start=start)
    if not (leaves_room and tiered.plan.bulks):
        return tiered
    within = limit - limit // SUMMARY_SHARE
    return push_down(session, within, besides=besides, start=tiered.plan)


def _start(store: Store, kept: CompressedSession, session: AgentSession) -> TierPlan:
    """Return how far an earlier run at this budget came; not at all, if the log was rewritten."""
    placed = load_tiers(store.connection, kept.thread, budget=kept.budget)
    if not kept.budget or len(placed) > len(session.turns):
        return NOTHING_PUSHED
    for before, turn in zip(placed, session.turns, strict=False):
        if (before.number, before.memory_id) != (turn.number, turn.memory_id):
            return NOTHING_PUSHED
    in_bulks = [turn for turn in placed if turn.tier == Tier.BULKS]
    return TierPlan(
        kept_only=sum(turn.level == Level.KEPT_ONLY for turn in in_bulks),
        bulks=len(in_bulks),
        topics=sum(turn.tier != Tier.CURRENT for turn in placed),
    )


def _placed(session: AgentSession, tiered: TieredSession) -> list[PlacedTurn]:
    placed: list[PlacedTurn] = []
    for place, turn in enumerate(session.turns):
        tier, level = tiered.plan.place(place)
        placed.append(PlacedTurn(turn.number, turn.memory_id, tier.value, int(level)))
    return placed


def _turns_by_tier(session: AgentSession, tiered: TieredSession) -> dict[str, int]:
    counts = dict.fromkeys((tier.value for tier in Tier), 0)
    for place in range(len(session.turns)):
        counts[tiered.plan.place(place)[0].value] += 1
    return counts
