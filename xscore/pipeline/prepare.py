"""Make a turn ready: index, session, pool, and what the cache knows. No model is asked.

Completing the task itself is `uncommitted`'s, confirming its cost `turn_estimate`'s. Trade-off:
the whole pool is read before anything is known about its cost.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from xscore.cache.keys import judge_key, turn_key
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.parts import TEAM_SYNC, PipelineParts
from xscore.pipeline.pool import (
    Pool,
    known_or_taken_over,
    narrow_to_scope,
    pool_among,
    refuse_empty_scope,
)
from xscore.pipeline.task_type import plan_turn
from xscore.pipeline.turn_clock import Deadline, Stopwatch
from xscore.pipeline.turn_stages import JoinedPool, PreparedTurn
from xscore.pipeline.uncommitted import complete_turn, uncommitted_work
from xscore.platform.errors import StoreError
from xscore.platform.git_folder import earlier_branch_names, working_branch
from xscore.platform.processes import gc_paused, process_identity
from xscore.prompts.turn_text import turn_block
from xscore.records.candidates import Candidate
from xscore.records.indexing import IndexReport
from xscore.records.turn import (
    Checkpoint,
    LayerReport,
    Routing,
    Scope,
    SessionInfo,
    Turn,
)
from xscore.store import turns
from xscore.store.fetched_pool import FetchedPool, WithoutExchanges
from xscore.store.index_rows import indexed_files
from xscore.store.task_names import places_in_task
from xscore.store.working_session import (
    resume_session,
    session_of_branch,
    thread_of_latest_turn,
)

if TYPE_CHECKING:
    from xscore.pipeline.server_contacts import TurnSyncResult

DAMAGED_PACKS = (
    "a cache of the index was damaged, so the index itself was read: nothing is missing, and the"
    " next index run makes the cache again"
)
"""Warning where a pack of the store was damaged (`store/packed_pool.py`)."""
INDEX_SHARE, LEAST_INDEX_S = 1 / 2, 0.2
"""Share of the time before the deadline that the index may take, and its least seconds after a slow
start."""


def index_until(deadline: Deadline) -> float | None:
    """Return when the index must stop (`time.monotonic`), so that there is time to judge what it
    has read."""
    if deadline.at == inf:
        return None
    now = monotonic()
    return now + max(LEAST_INDEX_S, (deadline.at - now) * INDEX_SHARE)


def prepare_turn(
    parts: PipelineParts,
    turn: Turn,
    stopwatch: Stopwatch,
    *,
    continues_session: bool = True,
    just_judged_hashes: AbstractSet[str] = frozenset(),
    exchanges: bool = True,
    index_deadline: float | None = None,
    syncs: bool = False,
    shows_diff: bool = True,
) -> PreparedTurn:
    """Bring the index up to date, complete the turn, and look up what is known. No model is asked.

    continues_session: take up the branch's session; False: only look up which it would be.
    just_judged_hashes: contents that were judged for this turn just before.
    exchanges: earlier exchanges are candidates, except those of this session and of the same task.
    index_deadline: when to leave the rest of the index to later (`time.monotonic`).
    syncs: exchange memories with the team, where the settings say so.
    shows_diff: a model may be shown the uncommitted change, as well as the judge.
    """
    settings = parts.settings
    now = parts.clock()
    checkpoint = _checkpoint(parts, turn.checkpoint) if turn.checkpoint else None
    parts.observer.stage("index")
    with stopwatch.stage("index"):
        report, sync_results = _index(parts, index_deadline, stopwatch, syncs=syncs)
        parts.observer.on(report)
        ready = _completed(parts, turn, report, now=now, shows_diff=shows_diff)
    parts.observer.stage("pool")
    with gc_paused(), stopwatch.stage("pool"):
        key = turn_key(turn_block(ready, sees=settings.judge.sees))
        session = _session(parts, turn, now=now, continues_session=continues_session)
        pooled = _without_exchanges(parts, ready, key, session, exchanges=exchanges)
        fetched = _fetch(parts, pooled)
        joined = _with_others(parts, ready, fetched)
        fetched, ready = joined.fetched, replace(ready, scope=joined.scope)
        plan = plan_turn(ready, routing=settings.routing, bundle=settings.bundle)
    with gc_paused(), stopwatch.stage("cache"):
        pool = _pool_of(parts, key, fetched, ready.scope, just_judged_hashes)
    refuse_empty_scope(pool.all_candidates, pool.candidates, ready.scope)
    # From here the turn has a thread in any case, so whether it may carry is fixed now.
    ready = replace(ready, thread=session.thread, rejudge_all=not turn.may_carry)
    ready = replace(ready, checkpoint=checkpoint.name if checkpoint else "")
    pool = with_thread_plan(parts, ready, pool, key, parts.judge)
    team_warnings = [result.warning for result in sync_results if result.warning]
    warnings = (*team_warnings, *_opening_warnings(fetched, report), *joined.warnings)
    routing = Routing(plan, fetched.layers)
    prepared = PreparedTurn(ready, key, pool, report, routing, session, checkpoint, warnings)
    return replace(prepared, also=joined.also, sync_results=sync_results)


def _pool_of(
    parts: PipelineParts,
    key: str,
    fetched: FetchedPool,
    scope: Scope,
    just_judged_hashes: AbstractSet[str],
) -> Pool:
    """Return the candidates within the scope, with what is known about them."""
    inside = narrow_to_scope(fetched.candidates, scope)
    looked_up = _looked_up(parts, key, fetched.candidates, inside)
    return replace(looked_up, judged_this_turn=just_judged_hashes, terms=fetched.terms)


def _index(
    parts: PipelineParts, until: float | None, stopwatch: Stopwatch, *, syncs: bool
) -> "tuple[IndexReport, tuple[TurnSyncResult, ...]]":
    """Bring the index up to date, and synchronise with the team's server."""
    # Memories are exchanged while files are read: both wait, one for the network, one for the disk.
    finish_syncs = _begin_team_sync(parts) if syncs else []
    report = parts.index(until)
    sync_results: list[TurnSyncResult] = []
    for finish in finish_syncs:
        result = finish()
        sync_results.append(result)
        if result.call is not None:
            stopwatch.server_calls.append(result.call)
    return report, tuple(sync_results)


def _begin_team_sync(parts: PipelineParts) -> "list[Callable[[], TurnSyncResult]]":
    """Begin to exchange memories with the team; a replay sends nothing."""
    if parts.settings.judge.replay:
        return []
    syncs = TEAM_SYNC.implementations(parts.settings)
    return [begin(parts.settings, store=parts.store) for begin in syncs]


def _completed(
    parts: PipelineParts, turn: Turn, report: IndexReport, *, now: float, shows_diff: bool
) -> Turn:
    """Return the turn with what the working tree adds to it; see `prepare_turn`."""
    work = uncommitted_work(
        parts.store.connection,
        parts.root,
        parts.settings.index,
        now=now,
        is_unchanged=report.is_unchanged,
        needs_diff=shows_diff or parts.settings.judge.sees == "full",
    )
    return complete_turn(
        turn,
        parts.root,
        work=work,
        allow_pii=parts.settings.memory.allow_pii,
        indexed=lambda: indexed_files(parts.store.connection),
        places=lambda task: places_in_task(parts.store.connection, task),
    )


def _without_exchanges(
    parts: PipelineParts, turn: Turn, key: str, session: SessionInfo, *, exchanges: bool
) -> WithoutExchanges:
    """Return which exchanges are no candidates: the same task asked before is not evidence for
    itself, nor is this session, which the answering model is shown anyway."""
    asked_before = turns.keys_of_task(parts.store.connection, turn.task) | {key}
    return WithoutExchanges(session.thread, asked_before, any=not exchanges)


def _fetch(parts: PipelineParts, without: WithoutExchanges) -> FetchedPool:
    """Fetch the candidates of all layers; one slower than `routing.deadline_ms` is reported as
    late.

    Raises StoreError for a layer that cannot be read, if none may be missing (`--strict`).
    """
    settings = parts.settings
    fetched = parts.store.fetch(
        tests=settings.judge.tests,
        purposes=settings.judge.purposes,
        deadline_s=settings.routing.deadline_ms / 1000,
        with_terms=parts.judge.scale is Scale.WORDS,
        without=without,
    )
    _refuse_unreadable_layers(fetched.layers, strict=settings.routing.strict)
    return fetched


def _with_others(parts: PipelineParts, turn: Turn, fetched: FetchedPool) -> JoinedPool:
    """Return the pool with the memories of other repositories, where any is named."""
    if not (turn.scope.also or parts.settings.index.also):
        parts.store.others.close()  # those of an earlier turn
        return JoinedPool(fetched, turn.scope)
    from xscore.pipeline.other_repositories import join_others  # few turns name one

    return join_others(parts, turn, fetched)


def _looked_up(
    parts: PipelineParts,
    key: str,
    everything: tuple[Candidate, ...],
    inside: tuple[Candidate, ...],
) -> Pool:
    """Return the pool with what is known about it. The lexical judge keeps no judgments."""
    if not parts.judge.stored:
        return pool_among(everything, inside, {})
    judge = judge_key(parts.judge.identity)
    judgments = known_or_taken_over(parts.store, key, judge, inside, note=parts.observer.note)
    return pool_among(everything, inside, judgments)


def with_thread_plan(
    parts: PipelineParts,
    turn: Turn,
    pool: Pool,
    key: str,
    judge: JudgeDescription,
) -> Pool:
    """Return the pool with what the thread of a follow-up has judged.

    The lexical judge keeps no judgments.
    """
    if not (turn.may_carry and pool.misses and judge.stored):
        return pool
    # A turn outside any thread needs none of it.
    from xscore.pipeline.carrying import with_thread

    near_from = judge.thresholds.lowest - parts.settings.selection.near_margin
    return with_thread(
        pool, parts.store, turn, key=key, judge=judge.identity, near_from=near_from
    )


def _checkpoint(parts: PipelineParts, name: str) -> Checkpoint:
    from xscore.store.checkpoints import load_checkpoint  # few turns continue from one

    return load_checkpoint(parts.store.connection, name)


def _session(
    parts: PipelineParts, turn: Turn, *, now: float, continues_session: bool
) -> SessionInfo:
    """Continue the working session of the turn, or of the current branch, and report a break.

    continues_session: see `prepare_turn`; if False, a session without a thread represents a new
        one.
    """
    connection = parts.store.connection
    branch = working_branch(parts.root.git_dir)
    renamed_from = earlier_branch_names(parts.root.git_dir, branch)
    thread = turn.thread
    if turn.follows_latest and not thread:
        thread = thread_of_latest_turn(connection, branch)
    if continues_session:
        session = resume_session(
            connection,
            branch=branch,
            now=now,
            fresh=turn.fresh,
            thread=thread,
            renamed_from=renamed_from,
            process=process_identity(),
        )
        parts.observer.on(session)
        return session
    if not (turn.fresh or thread):
        earlier = session_of_branch(connection, branch=branch, renamed_from=renamed_from)
        thread = earlier.thread if earlier else ""
    return SessionInfo(
        thread=thread, branch=branch, resumed=False, last_task="", last_updated=0.0
    )


def _refuse_unreadable_layers(layers: Sequence[LayerReport], *, strict: bool) -> None:
    for layer in layers:
        if layer.problem and strict:
            raise StoreError(
                f"the {layer.layer} layer cannot be read: {layer.problem}",
                hint="Leave out --strict to continue without it.",
            )


def _opening_warnings(fetched: FetchedPool, index: IndexReport) -> tuple[str, ...]:
    """Return a warning for each layer that is left out, one if the deadline left files that are in
    no memory, and one if a damaged part of the store was passed over."""
    warnings: list[str] = []
    files_left = index.files_left
    if files_left:
        count = f"{files_left:,} of {files_left + index.files.seen:,} files left"
        warnings.append(f"the index is still being built: {count}. `xscore index` finishes it.")
    if fetched.has_damaged_packs:
        warnings.append(DAMAGED_PACKS)
    for layer in fetched.layers:
        if layer.problem:
            warnings.append(f"the {layer.layer} layer was skipped: {layer.problem}")
    return tuple(warnings)
