"""Make a turn ready: index up to date, the moment looked at, the pool and what is known of it. Sends nothing.

It also asks before a costly turn, because that is the last moment at which nothing has been spent.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from xscore.cache.keys import judge_key, turn_key
from xscore.cost_reports.caps import caps_of, standing
from xscore.errors import StoreError, UsageError
from xscore.git import earlier_names, working_branch
from xscore.memory.working_session import current, take_up
from xscore.pipeline import kept
from xscore.pipeline.bulk import made_in_bulk
from xscore.pipeline.context import complete
from xscore.pipeline.parts import Parts
from xscore.pipeline.pool import Pool, gather, refuse_nothing
from xscore.pipeline.routing import plan
from xscore.pipeline.seats import answer_estimate
from xscore.pipeline.stopwatch import Stopwatch
from xscore.processes import life
from xscore.prompts.judge import turn_block
from xscore.records import Checkpoint, Estimate, IndexReport, LayerReport, Routing, SessionInfo, Turn


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn made ready: nothing has been sent."""

    turn: Turn
    key: str
    pool: Pool
    index: IndexReport
    routing: Routing
    session: SessionInfo
    checkpoint: Checkpoint | None


def open_turn(
    parts: Parts, turn: Turn, watch: Stopwatch, *, takes_up: bool = True, judged: AbstractSet[str] = frozenset()
) -> Opened:
    """Bring the index up to date, complete the turn, and look up what is known. Sends nothing.

    takes_up: the turn is to be run, so that the session of the branch goes on with it; else the session is as it was.
    judged: contents that were judged for this very turn just before.
    """
    settings, judge = parts.settings, parts.judge
    now = parts.clock()
    checkpoint = _checkpoint(parts, turn.checkpoint) if turn.checkpoint else None
    parts.observer.stage("index")
    with watch.stage("index"):
        report = parts.index()
        ready = complete(turn, parts.root, use_git=settings.index.git, now=now, allow_pii=settings.memory.allow_pii)
    parts.observer.stage("pool")
    with made_in_bulk(), watch.stage("pool"):
        session = session_of(parts, turn, now=now) if takes_up else _session_as_it_stands(parts, turn)
        fetched = parts.store.fetch(
            tests=settings.judge.tests, thread=session.thread, deadline_s=settings.routing.deadline_ms / 1000
        )
        _refuse_what_is_missing(fetched.layers, strict=settings.routing.strict)
        routing = Routing(plan(ready, routing=settings.routing, bundle=settings.bundle), fetched.layers)
    with made_in_bulk(), watch.stage("cache"):
        key = turn_key(turn_block(ready, context=settings.judge.context))
        known = kept.known(parts.store, key, judge_key(judge.identity)) if judge.is_model else {}
        pool = replace(gather(fetched.candidates, ready.scope, known), fresh=judged)
    refuse_nothing(pool.everything, pool.candidates, ready.scope)
    ready = replace(ready, thread=session.thread, checkpoint=checkpoint.name if checkpoint else "")
    return Opened(ready, key, pool, report, routing, session, checkpoint)


def _checkpoint(parts: Parts, name: str) -> Checkpoint:
    from xscore.memory import checkpoints  # few turns name one

    return checkpoints.load(parts.store.connection, name)


def session_of(parts: Parts, turn: Turn, *, now: float) -> SessionInfo:
    """Take up the working session of the turn, or of the branch that is checked out, and tell of a break."""
    place = working_branch(parts.root.git_dir) if parts.root.git_dir else ""
    session = take_up(
        parts.store.connection,
        branch=place,
        now=now,
        fresh=turn.fresh,
        thread=turn.thread,
        renamed_from=earlier_names(parts.root.git_dir, place) if parts.root.git_dir else (),
        life=life(),
    )
    parts.observer.session(session)
    return session


def _session_as_it_stands(parts: Parts, turn: Turn) -> SessionInfo:
    """Return the session that the turn would go on with, opening and moving none; no thread: it would open one."""
    place = working_branch(parts.root.git_dir) if parts.root.git_dir else ""
    renamed_from = earlier_names(parts.root.git_dir, place) if parts.root.git_dir else ()
    found = (
        None if turn.fresh or turn.thread else current(parts.store.connection, branch=place, renamed_from=renamed_from)
    )
    thread = found.thread if found else turn.thread
    return SessionInfo(thread=thread, branch=place, resumed=False, last_task="", last_updated=0.0)


def _refuse_what_is_missing(layers: Sequence[LayerReport], *, strict: bool) -> None:
    """Stop where a layer could not be read and the user wants all or nothing. Raises StoreError."""
    for layer in layers:
        if layer.problem and strict:
            raise StoreError(
                f"the {layer.layer} layer cannot be read: {layer.problem}", hint="Leave --strict out to go on without."
            )


def missing(opened: Opened) -> list[str]:
    """Name the layers that could not be read: the turn goes on without them, and says so."""
    return [f"the {one.layer} layer took no part: {one.problem}" for one in opened.routing.layers if one.problem]


def confirm(parts: Parts, opened: Opened, *, answers: bool) -> None:
    """Ask before a turn whose estimate is above the limit. Raises UsageError when the user declines.

    answers: the turn is to end with a call to the answering model.
    """
    spends = answers or (parts.judge.is_model and opened.pool.misses and not parts.settings.judge.replay)
    if not (spends and parts.observer.can_confirm):
        return
    estimate = _estimate(parts, opened, answers=answers)
    cost = estimate.cost_usd
    if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
        raise UsageError("nothing was sent: the estimate was declined", hint="Narrow with --path, or pass --yes.")


def estimate_turn(parts: Parts, turn: Turn) -> Estimate:
    """Say what a turn would take; sends nothing, and begins nothing: no session is opened or taken up."""
    for said in parts.warnings if parts.settings.judge.replay else ():  # which judge it is, where none is named
        parts.observer.note(said)
    opened = open_turn(parts, turn, Stopwatch(), takes_up=False)
    return _estimate(parts, opened, answers=parts.answerer is not None)


def _estimate(parts: Parts, opened: Opened, *, answers: bool) -> Estimate:
    judging = parts.judge.estimate(opened.turn, opened.pool)
    left = standing(parts.store.connection, caps_of(parts.settings.budget), now=parts.clock())
    answering = answer_estimate(parts.answerer, parts.settings) if parts.answerer is not None and answers else None
    return replace(judging, primary=answering, caps=left)
