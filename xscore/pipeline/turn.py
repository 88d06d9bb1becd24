"""One turn, stage by stage: index, pool, cache, judge, boosts, selection, bundle, answer, receipt.

The order of this file is the order of the turn. It names no concrete provider or judge. Ctrl-C arrives as a
cancellation, is taken back here, and ends in a receipt like any other end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import budget_messages, receipt
from xscore.pipeline.judging import Deadline, JudgedPool, JudgingWatch, NoJudge, judge_pool, take_back_cancellation
from xscore.pipeline.parts import ClosedTurn, PipelineParts, Stopwatch, TurnResources
from xscore.pipeline.pool import stored_reasons
from xscore.pipeline.prepare import OpenedTurn, confirm_cost, open_turn, unreadable_layers
from xscore.pipeline.ranking import Ranking, rank
from xscore.pipeline.save_turn import check_scores_path, save_turn, write_scores
from xscore.platform.errors import BudgetExhausted, NoUsableModel, ProviderError, StoreError, UsageError, XscoreError
from xscore.platform.processes import gc_paused, process_identity
from xscore.records import Answer, JudgeEstimate, Judgment, Ranked, Stage, Turn, TurnFigures, UnjudgedCause
from xscore.scorer.judge import Judge
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.fusion import RenderedContext


class TurnOptions(Struct, frozen=True, kw_only=True):
    """What the caller wants of a turn beside the selection."""

    answer: bool
    """Make one call to the answering model, if there is one."""
    command: str = "ask"
    """The turn's name in the ledger: `ask`, `context`, `continue`, `eval`."""
    isolated: bool = False
    """Not the user's own work: it belongs to no working session, counts no use and learns nothing."""
    bundle: str = ""
    """Return the bundle in this form even if there is an answer: `xml`, `markdown`, `json` or `memory`."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """Write one JSON line for each candidate here."""
    ranked: Callable[[Turn, Ranking], None] | None = None
    """Called with the completed turn and the ranking, before the receipt is made."""
    judged: AbstractSet[str] = frozenset()
    """Contents judged just before in prompts shared with other turns: they count as judged, not as cached."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""


FORECAST_FROM_S = 20.0
"""Announce judging that will take this long."""


async def run_turn(parts: PipelineParts, turn: Turn, options: TurnOptions) -> Answer:
    """Take one turn from task to receipt. Raises XscoreError only if there is nothing to account for."""
    if options.all_scores is not None:
        check_scores_path(options.all_scores, store_dir=parts.store.path.parent)
    watch = Stopwatch()
    if options.isolated:
        turn = replace(turn, fresh=True, thread="")
    opened = open_turn(parts, turn, watch, takes_up=not options.isolated, judged=options.judged)
    answers = options.answer and parts.answerer is not None
    confirm_cost(parts, opened, answers=answers)
    turn_id = turns.begin_turn(
        parts.store.connection,
        opened.turn,
        turn_key=opened.key,
        judge=judge_key(parts.judge.identity),
        now=parts.clock(),
        process=process_identity(),
        isolated=options.isolated,
    )
    run = _TurnRun(parts, replace(opened, turn=replace(opened.turn, id=turn_id)), options, watch)
    run.so_far.warnings += budget_messages.announce_budget(parts, opened, answers=answers, isolated=options.isolated)
    try:
        answer = await run.run()
    except BaseException as error:
        turns.abandon_turn(parts.store.connection, turn_id)
        await run.close(error=error)
        raise
    warning = await run.close(exit_code=answer.exit_code)
    return replace(answer, warnings=(*answer.warnings, warning)) if warning else answer


class _TurnRun:
    """One turn under way: what its stages hand on."""

    def __init__(self, parts: PipelineParts, opened: OpenedTurn, options: TurnOptions, watch: Stopwatch) -> None:
        self.parts, self.opened, self.options, self.watch = parts, opened, options, watch
        self.wants_answer = options.answer and parts.answerer is not None
        self.deadline = self._deadline()
        self.so_far = receipt.TurnOutcome(warnings=[*parts.warnings, *unreadable_layers(opened)])
        self.forecast: JudgeEstimate | None = None
        self.figures: TurnFigures | None = None

    def _deadline(self) -> Deadline | None:
        seconds, started = self.parts.settings.budget.deadline_s, self.options.started
        if seconds is None:
            return None
        from xscore.pipeline.answering import typical_answer_s

        deadline = Deadline((self.watch.started if started is None else started) + seconds)
        return deadline.with_answer(typical_answer_s(self.parts)) if self.wants_answer else deadline

    async def close(self, *, exit_code: int = 0, error: BaseException | None = None) -> str:
        """Tell the listener, if there is one, and return its warning."""
        if self.parts.listener is None:
            return ""
        closed = ClosedTurn(
            turn=self.opened.turn,
            command=self.options.command,
            watch=self.watch,
            connection=self.parts.store.connection,
            now=self.parts.clock(),
            figures=None if error else self.figures,
            exit_code=exit_code,
            error=error,
        )
        return await self.parts.listener(closed)

    async def run(self) -> Answer:
        unkept: StoreError | None = None  # for example a full disk: an answer that was paid for is still returned
        try:
            async with AsyncExitStack() as stack:
                resources = await self._open_resources(stack)
                judged = await self._judge(resources)
                ranking = self._rank(judged)
                context = self._build_context(ranking)
                self.so_far.answer = await self._answer(resources, context, judged)
        except StoreError as error:
            if self.so_far.answer is None:
                raise
            unkept = error
        answer = self._receipt(resources, ranking, context)
        try:
            scores = (entry.score for entry in ranking.ranked)
            self.figures = receipt.turn_figures(answer, scores, command=self.options.command, forecast=self.forecast)
            warnings = save_turn(self.parts, answer, ranking.selection, self.figures, isolated=self.options.isolated)
            answer = replace(answer, warnings=(*answer.warnings, *warnings))
        except StoreError as error:
            if self.so_far.answer is None:
                raise
            unkept = error
        if unkept is not None:
            said = _with_hint(f"this turn could not be saved: {unkept.message}", unkept.hint)
            return replace(answer, warnings=(*answer.warnings, said), exit_code=unkept.exit_code)
        return self._write_scores(answer, judged, ranking)

    async def _open_resources(self, stack: AsyncExitStack) -> TurnResources | None:
        """Open what spending needs only if something may be spent: a cached turn opens nothing, nor does a replay."""
        judges = self.opened.pool.misses and not (self.parts.settings.judge.replay and self.parts.judge.is_model)
        if not (judges or self.wants_answer):
            return None
        return await stack.enter_async_context(self.parts.open_resources(self.opened.turn.id))

    async def _judge(self, resources: TurnResources | None) -> JudgedPool:
        opened, parts = self.opened, self.parts
        parts.observer.stage("judge")
        watched = JudgingWatch(observer=parts.observer, leaders=parts.settings.selection.top_k, deadline=self.deadline)
        with self.watch.stage("judge"):
            if resources is None or not opened.pool.misses:
                return self._settled(await judge_pool(opened.pool, NoJudge(UnjudgedCause.REPLAY), opened.turn, watched))
            judge, usage = await self._open_judge(resources), resources.usage
            watched = replace(watched, spent=lambda: usage.spent(Stage.JUDGE), call_s=lambda: usage.call_s(Stage.JUDGE))
            judged = self._settled(await judge_pool(opened.pool, judge, opened.turn, watched))
            try:
                parts.judge.close()
            except StoreError as error:  # it can be found out again; what was judged is worth more
                self._warn(f"what the host can do was not remembered: {error.message}", error.hint)
        if not isinstance(judge, NoJudge):
            self.so_far.warnings += (*judge.warnings(), *resources.warnings())
        return judged

    def _settled(self, judged: JudgedPool) -> JudgedPool:
        self.so_far.outcomes, self.so_far.interrupted = judged.outcomes, judged.interrupted
        return judged

    async def _open_judge(self, resources: TurnResources) -> Judge | NoJudge:
        """Open the judge; probe its host first if needed.

        A host that does not answer is an error only if nothing is known: then there is nothing to account for.
        """
        opened, parts = self.opened, self.parts
        forecast = parts.judge.forecast(opened.turn, opened.pool)
        self.forecast = forecast if parts.judge.is_model else None
        if forecast.seconds >= FORECAST_FROM_S:
            parts.observer.forecast(forecast)
        try:
            async with asyncio.timeout(self.deadline.judging_left_s() if self.deadline else None):
                return await parts.judge.open(resources, opened.turn, opened.pool, opened.key)
        except TimeoutError:
            return NoJudge(UnjudgedCause.DEADLINE)
        except asyncio.CancelledError:
            take_back_cancellation(asyncio.current_task())
            return NoJudge(UnjudgedCause.INTERRUPTED)
        except (ProviderError, NoUsableModel) as error:
            if len(opened.pool.misses) == len(opened.pool.candidates):
                raise
            self._warn(f"the judge could not be asked: {error.message}", error.hint)
            return NoJudge(UnjudgedCause.PROVIDER, error.message)

    def _rank(self, judged: JudgedPool) -> Ranking:
        self.parts.observer.stage("select")
        with gc_paused(), self.watch.stage("select"):
            ranking = rank(self.parts, judged.outcomes, self.opened.turn)
        if self.options.ranked is not None:
            self.options.ranked(self.opened.turn, ranking)
        return ranking

    def _build_context(self, ranking: Ranking) -> "RenderedContext | None":
        """Render the bundle if anyone will see it."""
        if not (self.options.answer or self.options.bundle):
            return None
        from xscore.pipeline.fusion import build_context

        with self.watch.stage("select"):
            return build_context(
                self.parts,
                ranking.selection,
                form=self.options.bundle or "xml",
                max_tokens=self.options.max_tokens,
                ceilings=self.opened.routing.plan.ceilings,
                scope=self.opened.turn.scope,
            )

    async def _answer(
        self, resources: TurnResources | None, context: "RenderedContext | None", judged: JudgedPool
    ) -> str | None:
        nothing_judged = judged.outcomes and not any(isinstance(one.result, Judgment) for one in judged.outcomes)
        if resources is None or context is None or not self.wants_answer or judged.interrupted or nothing_judged:
            return None
        from xscore.pipeline.answering import ask_primary

        self.parts.observer.stage("primary")
        with self.watch.stage("primary"):
            try:
                answered = await ask_primary(
                    self.parts,
                    resources.answering_provider(),
                    self.opened.turn,
                    context,
                    within_s=self.deadline.left_s() if self.deadline else None,
                    checkpoint=self.opened.checkpoint,
                )
            except asyncio.CancelledError:
                self.so_far.interrupted = True
                take_back_cancellation(asyncio.current_task())
                return None
            except BudgetExhausted as error:  # it was not sent
                self.so_far.refused = error.message
                return None
            except XscoreError as error:
                self.so_far.primary_failed = True
                self._warn(f"the answering call failed: {error.message}", error.hint)
                return None
        if not context.bundle.text:
            self._warn("nothing was chosen, so the answer rests on the task alone")
        self.so_far.warnings += answered.warnings
        return answered.text

    def _receipt(self, resources: TurnResources | None, ranking: Ranking, context: "RenderedContext | None") -> Answer:
        so_far, options, selection = self.so_far, self.options, ranking.selection
        if context is not None:
            so_far.warnings += context.warnings
        if not options.isolated:
            so_far.warnings += budget_messages.how_to_continue(self.parts, self.opened, so_far.outcomes, so_far.refused)
        shown = (*selection.kept, *selection.near_misses)
        so_far.selection = selection
        so_far.reasons, so_far.titles = self._reasons(shown), self._titles(shown)
        if context is not None and (options.bundle or so_far.answer is None):
            from xscore.pipeline.answering import with_checkpoint

            so_far.bundle = with_checkpoint(context, self.opened.checkpoint, form=options.bundle)
        return receipt.make_receipt(
            self.parts, self.opened, so_far, resources, latency=self.watch.latency(), wants_answer=options.answer
        )

    def _write_scores(self, answer: Answer, judged: JudgedPool, ranking: Ranking) -> Answer:
        """Write `--all-scores`. If that fails after all, the answer was paid for and is returned with a warning."""
        if self.options.all_scores is None:
            return answer
        lines = receipt.score_lines(judged.outcomes, ranking.in_order(), self._reasons(ranking.ranked))
        try:
            write_scores(self.options.all_scores, lines)
        except UsageError as error:
            warnings = (*answer.warnings, f"--all-scores: {error.message}")
            return replace(answer, warnings=warnings, exit_code=answer.exit_code or error.exit_code)
        return answer

    def _reasons(self, shown: Sequence[Ranked]) -> Mapping[str, str]:
        here = self.opened.pool.judged_here
        stored = [one.candidate.content_hash for one in shown if not here(one.candidate, one.origin)]
        return stored_reasons(self.parts.store, self.opened.key, judge_key(self.parts.judge.identity), stored)

    def _titles(self, shown: Sequence[Ranked]) -> dict[str, str]:
        """Read the titles of memories that have no path to show."""
        nameless = [entry.candidate.id for entry in shown if not entry.candidate.path]
        return {id_: memory.title for id_, memory in self.parts.store.memories(nameless).items()} if nameless else {}

    def _warn(self, message: str, hint: str = "") -> None:
        self.so_far.warnings.append(_with_hint(message, hint))


def _with_hint(message: str, hint: str) -> str:
    return f"{message.rstrip('.')}. {hint}" if hint else message
