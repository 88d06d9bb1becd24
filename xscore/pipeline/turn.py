"""One turn, stage by stage: index, pool, cache, judge, boosts, selection, bundle, answer, receipt.

The order of this file is the order of the turn. Each stage takes the records of the stages before
it and returns its own (`turn_stages`); only this file holds them. It names no concrete provider or
judge. Ctrl-C arrives as a cancellation, is taken back in the stage that awaits, and ends in a
receipt like any other end. Before the event loop starts it is a plain KeyboardInterrupt: nothing
was sent, and there is no receipt.
"""

from contextlib import AsyncExitStack
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import receipt
from xscore.pipeline.parts import (
    KNOCK,
    SESSION_BUFFER,
    ClosedTurn,
    PipelineParts,
    TurnOptions,
)
from xscore.pipeline.prepare import index_until, prepare_turn
from xscore.pipeline.ranking import rank_turn
from xscore.pipeline.save_turn import figures_of_stages, save_turn
from xscore.pipeline.turn_clock import Deadline, Stopwatch
from xscore.pipeline.turn_stages import (
    Answered,
    Judged,
    PreparedTurn,
    Ranking,
    Reasons,
    StagesSoFar,
    TurnStages,
)
from xscore.platform.errors import StoreError, XscoreError
from xscore.platform.event_loop import ensure_event_loop
from xscore.platform.processes import gc_paused, process_identity
from xscore.platform.text import join_sentences
from xscore.records.events import Kept
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, TurnFigures
from xscore.records.turn import Turn
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.pipeline.scores_file import ScoresFile
    from xscore.pipeline.server_contacts import BegunKnock
    from xscore.prompts.bundle_parts import Bundle


async def run_turn(parts: PipelineParts, turn: Turn, options: TurnOptions) -> Answer:
    """Run one turn from task to receipt. Raises XscoreError only if there is nothing to report."""
    setup = _TurnSetup.of(parts, options)
    early_knock = _knock_early(setup, turn)
    prepared = _prepare(setup, turn)
    # From here on the turn's row says `running`, until its receipt or `abandon_turn` ends it. A
    # turn that was declined or could not be opened leaves no row.
    prepared = _begin(setup, prepared)
    try:
        finished = await _run_stages(setup, prepared, early_knock)
    except BaseException as error:
        turns.abandon_turn(parts.store.connection, prepared.turn.id)
        await _tell_listener(setup, prepared, error=error)
        raise
    warnings = [result.at_end() for result in prepared.sync_results]
    warnings.append(await _tell_listener(setup, prepared, finished=finished))
    answer = finished.answer
    if answer.answer and not options.isolated:
        for keep_session in SESSION_BUFFER.implementations(parts.settings):
            thread = prepared.session.thread
            warnings.append(
                await keep_session(parts.settings, store=parts.store, thread=thread)
            )
    return replace(answer, warnings=(*answer.warnings, *filter(None, warnings)))


class _TurnSetup(Struct, frozen=True):
    """What a turn runs with, from its first stage to its last."""

    parts: PipelineParts
    options: TurnOptions
    stopwatch: Stopwatch
    deadline: Deadline
    scores_file: "ScoresFile | None"

    @classmethod
    def of(cls, parts: PipelineParts, options: TurnOptions) -> "_TurnSetup":
        """Start the clock; the deadline may count from an earlier moment.

        Raises UsageError if the file for the scores cannot be written.
        """
        stopwatch = Stopwatch()
        began = stopwatch.started if options.started is None else options.started
        deadline = Deadline.of(began, parts.settings.budget.deadline_s)
        scores_file = None
        if options.all_scores is not None:
            from xscore.pipeline.scores_file import ScoresFile  # only with --all-scores

            scores_file = ScoresFile.checked(
                options.all_scores, store_dir=parts.store.path.parent
            )
        return cls(parts, options, stopwatch, deadline, scores_file)

    @property
    def wants_answer(self) -> bool:
        """Whether it ends with an answering call."""
        return self.options.answer and self.parts.answerer is not None


class _Finished(Struct, frozen=True):
    """A turn that ended with a receipt."""

    answer: Answer
    figures: TurnFigures


async def _run_stages(
    setup: _TurnSetup, prepared: PreparedTurn, early_knock: "BegunKnock | None"
) -> _Finished:
    """Run all stages. Raises StoreError only if there is no answer to return."""
    resources: TurnResources | None = None
    judged: Judged | None = None
    ranking: Ranking | None = None
    reasons = Reasons()
    bundle: Bundle | None = None
    answered = Answered()
    unsaved: StoreError | None = None
    try:
        try:
            async with AsyncExitStack() as stack:
                resources = await _open_resources(setup, prepared, early_knock, stack)
                judged = await _judge(setup, prepared, resources)
                ranking = _rank(setup, prepared, judged)
                reasons = await _give_reasons(setup, prepared, judged, ranking, resources)
                bundle = _build_bundle(setup, prepared, ranking, reasons)
                stages = TurnStages(prepared, judged, ranking, reasons, bundle)
                answered = await _answer(setup, stages, resources)
                stages = replace(stages, answered=answered)
        except StoreError as error:
            # Closing the resources failed, for example on a full disk. An answer that was paid for
            # is returned all the same; without one there is nothing to return.
            if answered.text is None:
                raise
            unsaved = error
        return _finish(setup, stages, resources, unsaved)
    except XscoreError as error:
        # A stage that failed returned nothing, and its resources are closed by now: whatever it
        # bought is committed, so this receipt reads it from the store.
        if resources is not None and resources.usage.has_sent:
            from xscore.pipeline.failed_turn import receipt_of_failed  # few turns fail

            so_far = StagesSoFar(prepared, judged, ranking, reasons, bundle, answered)
            latency = setup.stopwatch.latency(since=setup.options.waits_from)
            error.receipt = receipt_of_failed(
                setup.parts, setup.options, so_far, resources, latency
            )
        raise
    finally:
        # What closing sent is among them.
        if resources is not None:
            setup.stopwatch.server_calls += resources.spending.server_calls()


def _knock_early(setup: _TurnSetup, turn: Turn) -> "BegunKnock | None":
    """Begin to look for a shared server while the index is brought up to date.

    Only for a task that was never asked before: another may be all cached, and need no server.
    """
    parts = setup.parts
    settings = parts.settings
    may_send = parts.judge.needs_resources and not settings.judge.replay
    if setup.options.isolated or not (may_send and settings.shared.is_used):
        return None
    if turns.keys_of_task(parts.store.connection, turn.task):
        return None
    return _begin_knock(setup)


def _begin_knock(setup: _TurnSetup) -> "BegunKnock | None":
    """Begin to look for the shared server of the settings; None if there is none."""
    settings = setup.parts.settings
    for knock_at in KNOCK.implementations(settings):
        return knock_at(settings.shared)
    return None


def _prepare(setup: _TurnSetup, turn: Turn) -> PreparedTurn:
    """Prepare the turn, and have a costly one confirmed; nothing is sent."""
    parts = setup.parts
    options = setup.options
    if options.isolated:
        turn = replace(turn, fresh=True, thread="", follows_latest=False)
    sees_past = options.sees_past or Layer.SESSION in turn.scope.layers
    prepared = prepare_turn(
        parts,
        turn,
        setup.stopwatch,
        continues_session=not options.isolated,
        just_judged_hashes=options.just_judged_hashes,
        exchanges=sees_past or not options.isolated,
        index_deadline=index_until(setup.deadline),
        syncs=not options.isolated,
        shows_diff=setup.wants_answer,
    )
    if parts.observer.can_confirm:
        # Imported late: only a terminal can be asked.
        from xscore.pipeline.turn_estimate import confirm_cost

        confirm_cost(parts, prepared, answers=setup.wants_answer)
    if _sends_to_judge(setup, prepared):
        # Imported late: a turn that is all cached needs none.
        from xscore.pipeline.estimating import forecast_judging

        # Made once: caps, the announcement and the receipt go by the same figures.
        forecast = forecast_judging(parts.judge, prepared.turn, prepared.pool)
        prepared = replace(prepared, forecast=forecast)
    # What spends nothing, as most fully cached turns do, is not measured by the caps.
    if not (setup.wants_answer or (prepared.pool.misses and parts.may_pay_judge)):
        return prepared
    # Imported late: a turn that is all cached costs nothing.
    from xscore.pipeline.room_under_caps import announce_budget

    warnings = announce_budget(
        parts, prepared, answers=setup.wants_answer, isolated=options.isolated
    )
    return replace(prepared, warnings=(*prepared.warnings, *warnings))


def _sends_to_judge(setup: _TurnSetup, prepared: PreparedTurn) -> bool:
    """Whether judging may send anything: not for a cached turn, a replay, or words alone."""
    judge = setup.parts.judge
    # Words are scored in a replay too.
    is_replay = setup.parts.settings.judge.replay and judge.paid
    return bool(prepared.pool.misses) and judge.needs_resources and not is_replay


def _begin(setup: _TurnSetup, prepared: PreparedTurn) -> PreparedTurn:
    """Write the turn's row, and return the turn with its id."""
    parts = setup.parts
    answerer = setup.parts.answerer
    primary = f"{answerer.provider}:{answerer.model}" if answerer else ""
    start = turns.TurnStart(
        turn_key=prepared.key,
        judge=judge_key(parts.judge.identity),
        judge_name=str(parts.judge.spec),
        primary=primary,
        process=process_identity(),
        command=setup.options.command,
        isolated=setup.options.isolated,
        branch=prepared.session.branch,
    )
    turn_id = turns.begin_turn(parts.store.connection, prepared.turn, start, now=parts.clock())
    return replace(prepared, turn=replace(prepared.turn, id=turn_id))


async def _open_resources(
    setup: _TurnSetup,
    prepared: PreparedTurn,
    early_knock: "BegunKnock | None",
    stack: AsyncExitStack,
) -> "TurnResources | None":
    """Open the resources only if something may be spent."""
    parts = setup.parts
    # Which memories a final round looks at is known only when all are judged.
    may_send = parts.has_final_round and not parts.settings.judge.replay
    if not (_sends_to_judge(setup, prepared) or setup.wants_answer or may_send):
        return None
    if not setup.options.isolated:
        parts = replace(parts, knock=early_knock or _begin_knock(setup))
    resources = await stack.enter_async_context(parts.open_resources(prepared.turn.id))
    resources.deadline = setup.deadline
    if setup.wants_answer and setup.deadline.at != inf:
        from xscore.pipeline.answering import typical_answer_s  # only where an answer is wanted

        resources.deadline = setup.deadline.with_answer(typical_answer_s(parts))
    return resources


async def _judge(
    setup: _TurnSetup, prepared: PreparedTurn, resources: "TurnResources | None"
) -> Judged:
    """Judge what the cache lacks, by model or by words."""
    parts = setup.parts
    pool = prepared.pool
    parts.observer.stage("judge")
    with setup.stopwatch.stage("judge"):
        if not pool.misses:
            with gc_paused():
                outcomes = tuple(filter(None, pool.known_outcomes(prepared.turn)))
            judged = Judged(outcomes=outcomes, pool=pool, judge=parts.judge.identity)
        elif not parts.judge.needs_resources:
            # Imported late: a turn of a model judge needs none of it.
            from xscore.pipeline.judging_by_words import judge_by_words

            deadline = resources.deadline if resources else setup.deadline
            with gc_paused():
                outcomes = judge_by_words(parts, prepared, deadline)
            judged = Judged(outcomes=outcomes, pool=pool, judge=parts.judge.identity)
        else:
            # A turn that is all cached needs none of it.
            from xscore.pipeline.turn_judging import judge_missing

            judged = await judge_missing(
                parts, prepared, resources, isolated=setup.options.isolated
            )
    if judged.pool.thread is not None:
        from xscore.pipeline.carrying import with_earlier  # only in a thread

        judged = with_earlier(judged, prepared.turn)
    if not parts.has_final_round:
        return judged
    from xscore.pipeline.final_round import judge_finalists  # where the settings name a model

    with setup.stopwatch.stage("judge"):
        return await judge_finalists(parts, prepared, judged, resources)


def _rank(setup: _TurnSetup, prepared: PreparedTurn, judged: Judged) -> Ranking:
    """Boost and select, and show what was kept."""
    parts = setup.parts
    options = setup.options
    parts.observer.stage("select")
    with gc_paused(), setup.stopwatch.stage("select"):
        ranking = rank_turn(parts, prepared, judged, isolated=options.isolated)
    parts.observer.on(Kept(ranking.selection.kept))
    if options.ranked is not None:
        options.ranked(prepared.turn, ranking)
    return ranking


async def _give_reasons(
    setup: _TurnSetup,
    prepared: PreparedTurn,
    judged: Judged,
    ranking: Ranking,
    resources: "TurnResources | None",
) -> Reasons:
    """Look up the reasons of what was chosen; a decision model gives none, so a chat model may."""
    parts = setup.parts
    chosen = ranking.selection
    if ranking.ranked_by:
        return Reasons()
    with gc_paused(), setup.stopwatch.stage("select"):
        shown = (*chosen.kept, *chosen.near_misses)
        stored = receipt.find_reasons(parts, prepared.key, judged, shown)
    has_model = parts.settings.judge.reason_model != "none"
    if not (judged.judge.is_decision and has_model) or setup.options.isolated:
        return Reasons(stored)
    from xscore.pipeline.reasons import give_reasons  # only after a decision model

    return await give_reasons(parts, prepared, judged, ranking, stored, resources=resources)


def _build_bundle(
    setup: _TurnSetup, prepared: PreparedTurn, ranking: Ranking, reasons: Reasons
) -> "Bundle | None":
    """Render the bundle if anyone will see it."""
    if not (setup.options.answer or setup.options.bundle):
        return None
    from xscore.pipeline.bundle_building import build_bundle  # only where anyone will see it

    with setup.stopwatch.stage("select"):
        return build_bundle(setup.parts, setup.options, prepared, ranking, reasons.by_hash)


async def _answer(
    setup: _TurnSetup, stages: TurnStages, resources: "TurnResources | None"
) -> Answered:
    """Call the answering model, unless there is nothing to answer from."""
    judged = stages.judged
    ranking = stages.ranking
    bundle = stages.bundle
    if resources is None or bundle is None or not setup.wants_answer:
        return Answered()
    is_unread = stages.prepared.index.files_left and not judged.outcomes
    if stages.interrupted or judged.nothing_judged or is_unread:
        return Answered()
    if ranking.is_empty and not setup.options.answer_anyway:
        warning = "no memory reached the threshold, so no model was asked"
        return Answered(
            warnings=(join_sentences(warning, "`--answer-anyway` asks it anyway."),)
        )
    warnings: tuple[str, ...] = ()
    if not ranking.selection.kept:
        warnings = ("nothing was chosen, so the answer is based on the task alone",)
    from xscore.pipeline.answering import ask_primary  # only where an answer is wanted

    setup.parts.observer.stage("primary")
    with setup.stopwatch.stage("primary"):
        answered = await ask_primary(setup.parts, stages.prepared, resources, bundle)
    return replace(answered, warnings=(*warnings, *answered.warnings))


def _finish(
    setup: _TurnSetup,
    stages: TurnStages,
    resources: "TurnResources | None",
    unsaved: StoreError | None,
) -> _Finished:
    """Make the receipt, show it, and save it.

    unsaved: what could not be stored so far although there is an answer. Raises StoreError if the
    turn has no answer and cannot be saved.
    """
    parts = setup.parts
    options = setup.options
    latency = setup.stopwatch.latency(since=options.waits_from)
    answer = receipt.make_receipt(parts, options, stages, resources, latency)
    # Shown before it is saved: a reader waits for the answer, not for the disk.
    if options.deliver is not None:
        options.deliver(answer)
    figures = figures_of_stages(parts.judge, stages, answer, command=options.command)
    try:
        warnings = save_turn(
            parts, answer, stages.ranking.selection, figures, isolated=options.isolated
        )
        answer = replace(answer, warnings=(*answer.warnings, *warnings))
    except StoreError as error:
        if answer.answer is None:
            raise
        unsaved = error
    if unsaved is not None:
        warning = join_sentences(
            f"this turn could not be saved: {unsaved.message}", unsaved.hint
        )
        warnings = (*answer.warnings, warning)
        answer = replace(answer, warnings=warnings, exit_code=unsaved.exit_code)
    elif setup.scores_file is not None:
        answer = setup.scores_file.write(parts, answer, stages)
    return _Finished(answer, figures)


async def _tell_listener(
    setup: _TurnSetup,
    prepared: PreparedTurn,
    *,
    finished: _Finished | None = None,
    error: BaseException | None = None,
) -> str:
    """Tell the listener that the turn has ended, if there is one, and return its warning."""
    parts = setup.parts
    if parts.listener is None:
        return ""
    closed = ClosedTurn(
        turn=prepared.turn,
        command=setup.options.command,
        stopwatch=setup.stopwatch,
        connection=parts.store.connection,
        now=parts.clock(),
        figures=finished.figures if finished else None,
        exit_code=finished.answer.exit_code if finished else 0,
        error=error,
    )
    await ensure_event_loop()
    return await parts.listener(closed)
