"""Make a turn ready: index, session, pool, and what the cache knows. Sends nothing.

It also confirms a costly turn, the last moment before money is spent. Completing the task itself is `completing`'s, its
type `task_type`'s. Trade-off: the whole pool is read before anything is known of its cost.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key, turn_key
from xscore.extension import implementations
from xscore.pipeline.completing import complete_turn
from xscore.pipeline.parts import PipelineParts, Stopwatch
from xscore.pipeline.pool import Pool, known_judgments, narrow_to_scope, pool_among, refuse_empty_scope
from xscore.pipeline.task_type import plan_turn
from xscore.pipeline.uncommitted import uncommitted_work
from xscore.platform.errors import StoreError, UsageError
from xscore.platform.git_folder import earlier_branch_names, working_branch
from xscore.platform.processes import gc_paused, process_identity
from xscore.prompts.judge import turn_block
from xscore.records.memory import IndexReport
from xscore.records.reports import Estimate, JudgeEstimate
from xscore.records.turn import Checkpoint, LayerReport, Routing, SessionInfo, Turn
from xscore.store import turns
from xscore.store.memory_rows import WithoutExchanges
from xscore.store.working_session import resume_session, session_of_branch


class OpenedTurn(Struct, frozen=True):
    """A prepared turn; nothing has been sent."""

    turn: Turn
    key: str
    pool: Pool
    index: IndexReport
    routing: Routing
    session: SessionInfo
    checkpoint: Checkpoint | None


def open_turn(
    parts: PipelineParts,
    turn: Turn,
    stopwatch: Stopwatch,
    *,
    takes_up: bool = True,
    judged: AbstractSet[str] = frozenset(),
    exchanges: bool = True,
) -> OpenedTurn:
    """Bring the index up to date, complete the turn, and look up what is known. Sends nothing.

    takes_up: the turn will run and continues the branch's session; else the session is unchanged.
    judged: contents that were judged for this turn just before. exchanges: earlier exchanges are candidates, except
    those of this session and of the same task.
    """
    settings, judge = parts.settings, parts.judge
    now = parts.clock()
    checkpoint = _checkpoint(parts, turn.checkpoint) if turn.checkpoint else None
    parts.observer.stage("index")
    with stopwatch.stage("index"):
        report = parts.index()
        work = uncommitted_work(parts.store.connection, parts.root, settings.index, now=now)
        ready = complete_turn(
            turn,
            parts.root,
            work=work,
            allow_pii=settings.memory.allow_pii,
            indexed=lambda: _indexed_files(parts),
        )
    parts.observer.stage("pool")
    with gc_paused(), stopwatch.stage("pool"):
        key = turn_key(turn_block(ready, context=settings.judge.context))
        session = _session(parts, turn, now=now, takes_up=takes_up)
        fetched = parts.store.fetch(
            tests=settings.judge.tests,
            deadline_s=settings.routing.deadline_ms / 1000,
            without=WithoutExchanges(
                session.thread, turns.keys_of_task(parts.store.connection, ready.task) | {key}, any=not exchanges
            ),
        )
        _refuse_unreadable_layers(fetched.layers, strict=settings.routing.strict)
        routing = Routing(plan_turn(ready, routing=settings.routing, bundle=settings.bundle), fetched.layers)
    with gc_paused(), stopwatch.stage("cache"):
        known = known_judgments(parts.store, key, judge_key(judge.identity)) if judge.is_model else {}
        inside = narrow_to_scope(fetched.candidates, ready.scope)
        pool = replace(pool_among(fetched.candidates, inside, known), judged_this_turn=judged)
    refuse_empty_scope(pool.all_candidates, pool.candidates, ready.scope)
    ready = replace(ready, thread=session.thread, checkpoint=checkpoint.name if checkpoint else "")
    return OpenedTurn(ready, key, pool, report, routing, session, checkpoint)


def _indexed_files(parts: PipelineParts) -> list[str]:
    from xscore.store.naming import indexed_files  # for an error alone

    return indexed_files(parts.store.connection)


def _checkpoint(parts: PipelineParts, name: str) -> Checkpoint:
    (load_checkpoint,) = implementations("load_checkpoint", parts.settings)
    found: Checkpoint = load_checkpoint(parts.store.connection, name)
    return found


def _session(parts: PipelineParts, turn: Turn, *, now: float, takes_up: bool) -> SessionInfo:
    """Continue the working session of the turn, or of the current branch, and report a break.

    takes_up: false returns the session unchanged. No thread means that the turn would open one.
    """
    place = working_branch(parts.root.git_dir) if parts.root.git_dir else ""
    renamed_from = earlier_branch_names(parts.root.git_dir, place) if parts.root.git_dir else ()
    if takes_up:
        session = resume_session(
            parts.store.connection,
            branch=place,
            now=now,
            fresh=turn.fresh,
            thread=turn.thread,
            renamed_from=renamed_from,
            process=process_identity(),
        )
        parts.observer.session(session)
        return session
    thread = turn.thread
    if not (turn.fresh or thread):
        found = session_of_branch(parts.store.connection, branch=place, renamed_from=renamed_from)
        thread = found.thread if found else ""
    return SessionInfo(thread=thread, branch=place, resumed=False, last_task="", last_updated=0.0)


def _refuse_unreadable_layers(layers: Sequence[LayerReport], *, strict: bool) -> None:
    """Raise StoreError if a layer could not be read and `strict` is set."""
    for layer in layers:
        if layer.problem and strict:
            raise StoreError(
                f"the {layer.layer} layer cannot be read: {layer.problem}", hint="Leave --strict out to go on without."
            )


def unreadable_layers(opened: OpenedTurn) -> list[str]:
    """Return a warning for each layer that could not be read and is left out."""
    return [f"the {one.layer} layer took no part: {one.problem}" for one in opened.routing.layers if one.problem]


def confirm_cost(parts: PipelineParts, opened: OpenedTurn, *, answers: bool) -> None:
    """Ask before a turn whose estimate is above the limit. Raises UsageError when the user declines.

    answers: the turn ends with a call to the answering model.
    """
    spends = answers or (parts.judge.is_model and opened.pool.misses and not parts.settings.judge.replay)
    if not (spends and parts.observer.can_confirm):
        return
    estimate = _estimate_opened(parts, opened, answers=answers)
    cost = estimate.cost_usd
    if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
        raise UsageError("nothing was sent: the estimate was declined", hint="Narrow with --glob, or pass --yes.")


def estimate_turn(parts: PipelineParts, turn: Turn) -> Estimate:
    """Estimate a turn; sends nothing and opens or continues no session."""
    for said in parts.warnings if parts.settings.judge.replay else ():  # names the default judge
        parts.observer.note(said)
    opened = open_turn(parts, turn, Stopwatch(), takes_up=False)
    found = _estimate_opened(parts, opened, answers=parts.answerer is not None)
    return replace(found, ways=(*found.ways, *_other_ways(parts, opened))) if found.ways else found


def _other_ways(parts: PipelineParts, opened: OpenedTurn) -> Iterator[JudgeEstimate]:
    """Estimate the same candidates through the model's other wire, with what its own cache lacks, and by words."""
    from xscore.pipeline.factories import LexicalJudgeFactory, judge_factory, other_wire

    pool, spec = opened.pool, other_wire(parts.judge.spec, parts.settings)
    if spec is not None:
        other = judge_factory(spec, parts.settings, store=parts.store, clock=parts.clock)
        known = known_judgments(parts.store, opened.key, judge_key(other.identity))
        yield from other.estimate(opened.turn, pool_among(pool.all_candidates, pool.candidates, known)).ways
    yield LexicalJudgeFactory(settings=parts.settings, store=parts.store).forecast(opened.turn, pool)


def _estimate_opened(parts: PipelineParts, opened: OpenedTurn, *, answers: bool) -> Estimate:
    from xscore.costs.caps import Caps, cap_status
    from xscore.pipeline.factories import answer_estimate

    judging = parts.judge.estimate(opened.turn, opened.pool)
    left = cap_status(parts.store.connection, Caps.of(parts.settings.budget), now=parts.clock())
    answering = answer_estimate(parts.answerer, parts.settings) if parts.answerer is not None and answers else None
    return replace(judging, primary=answering, caps=left)
