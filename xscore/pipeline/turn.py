"""One turn, stage by stage: index, pool, cache, judge, boosts, selection, bundle, answer, receipt.

The order of this file is the order of the turn. It names no concrete provider or judge. Ctrl-C arrives as a
cancellation, is taken back here, and ends in a receipt like any other end.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import receipt
from xscore.pipeline.judging import Deadline, JudgedPool, JudgingWatch, NoJudge, judge_pool, take_back_cancellation
from xscore.pipeline.parts import ClosedTurn, PipelineParts, Stopwatch, TurnOptions
from xscore.pipeline.prepare import (
    OpenedTurn,
    confirm_cost,
    deadline_at,
    index_until,
    open_turn,
    unfinished_index,
    unreadable_layers,
)
from xscore.pipeline.ranking import Ranking, lexical_outcomes, rank
from xscore.pipeline.save_turn import check_scores_path, save_turn, write_scores
from xscore.platform.errors import BudgetExhausted, NoUsableModel, ProviderError, StoreError, XscoreError
from xscore.platform.event_loop import ensure_event_loop
from xscore.platform.processes import gc_paused, process_identity
from xscore.platform.text import join_sentences
from xscore.records.calls import Stage
from xscore.records.judgment import JudgeIdentity, Judgment, Outcome, Thresholds, Unjudged, UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, ReasonsAccount, SecondDraws, TurnFigures
from xscore.records.reports import JudgeEstimate
from xscore.records.turn import Turn
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.fusion import RenderedContext
    from xscore.pipeline.lexical_factory import LexicalJudgeFactory
    from xscore.pipeline.model_factory import ModelJudgeFactory
    from xscore.pipeline.pool import Pool
    from xscore.pipeline.resources import TurnResources
    from xscore.scorer.judge import Judge

FORECAST_FROM_S, FORECAST_FROM_USD = 20.0, Decimal("0.01")
"""Announce judging that will take this long, or cost this much."""
NEAREST_BY_WORDS = 5
"""How many memories are named where words alone ranked and none reached the threshold."""


async def run_turn(parts: PipelineParts, turn: Turn, options: TurnOptions) -> Answer:
    """Run one turn from task to receipt. Raises XscoreError only if there is nothing to report."""
    if options.all_scores is not None:
        check_scores_path(options.all_scores, store_dir=parts.store.path.parent)
    stopwatch = Stopwatch()
    if options.isolated:
        turn = replace(turn, fresh=True, thread="", follows_latest=False)
    opened = open_turn(
        parts,
        turn,
        stopwatch,
        takes_up=not options.isolated,
        judged=options.judged,
        exchanges=not options.isolated or Layer.SESSION in turn.scope.layers,
        index_until=index_until(parts, options, stopwatch),
    )
    answers = options.answer and parts.answerer is not None
    confirm_cost(parts, opened, answers=answers)
    turn_id = turns.begin_turn(
        parts.store.connection,
        opened.turn,
        turn_key=opened.key,
        judge=judge_key(parts.judge.identity),
        judge_name=str(parts.judge.spec),
        primary=f"{parts.answerer.provider}:{parts.answerer.model}" if parts.answerer else "",
        now=parts.clock(),
        process=process_identity(),
        command=options.command,
        isolated=options.isolated,
    )
    warnings = [*parts.warnings, *unfinished_index(opened), *unreadable_layers(opened)]
    if answers or (opened.pool.misses and parts.judge.is_model):
        from xscore.pipeline.budget_messages import announce_budget  # most fully cached turns spend nothing

        warnings += announce_budget(parts, opened, answers=answers, isolated=options.isolated)
    run = TurnRun(parts, replace(opened, turn=replace(opened.turn, id=turn_id)), options, stopwatch, warnings)
    try:
        finished = await run.go()
    except BaseException as error:
        turns.abandon_turn(parts.store.connection, turn_id)
        await run.close(error=error)
        raise
    warning = await run.close(exit_code=finished.exit_code)
    return replace(finished, warnings=(*finished.warnings, warning)) if warning else finished


class TurnRun(Struct):
    """One running turn: what its stages hand on."""

    parts: PipelineParts
    opened: OpenedTurn
    options: TurnOptions
    stopwatch: Stopwatch
    warnings: list[str]
    resources: "TurnResources | None" = None
    """None: nothing may be spent."""
    deadline: Deadline | None = None
    forecast: JudgeEstimate | None = None
    """Of a model's judging, before it began."""
    outcomes: tuple[Outcome, ...] = ()
    left_by: tuple[UnjudgedCause, ...] = ()
    """Causes of outcomes carried from earlier turns of the thread because a cap or the deadline came first."""
    taken_over: dict[str, JudgeIdentity] = {}
    """Content hash -> who judged it in the judge's place."""
    ranking: Ranking | None = None
    ranked_by: str = ""
    """`lexical` where the judge could not be reached; see `Answer.ranked_by`."""
    second_draws: SecondDraws = SecondDraws()
    reasons: Mapping[str, str] = {}
    """Reasons of the kept and near memories that their judgments do not hold, by content hash."""
    reasons_account: ReasonsAccount = ReasonsAccount()
    context: "RenderedContext | None" = None
    answer_text: str | None = None
    interrupted: bool = False
    primary_failed: bool = False
    refused: str = ""
    """Why a cap had no room for the answering call; empty if it had."""
    unkept: StoreError | None = None
    """Why something could not be stored although there is an answer."""
    figures: TurnFigures | None = None

    @property
    def wants_answer(self) -> bool:
        """Whether it ends with an answering call."""
        return self.options.answer and self.parts.answerer is not None

    async def go(self) -> Answer:
        """Run all stages. Raises StoreError only if there is no answer to return."""
        self.deadline = self._deadline()
        with self._answer_comes_first():
            async with AsyncExitStack() as stack:
                await self._open_resources(stack)
                await self._judge()
                if self.opened.pool.thread is not None:
                    from xscore.pipeline.carrying import take_earlier

                    take_earlier(self)
                self._rank()
                if self.parts.judge.identity.is_decision and not (self.ranked_by or self.options.isolated):
                    from xscore.pipeline.reasons import give_reasons

                    await give_reasons(self)
                self._build_context()
                await self._call_primary()
        assert self.ranking is not None
        finished = receipt.make_receipt(self, self.ranking)
        with self._answer_comes_first():
            ranked = () if self.ranked_by else self.ranking.ranked
            scores = (entry.score for entry in ranked if entry.candidate.content_hash not in self.taken_over)
            self.figures = receipt.turn_figures(finished, scores, command=self.options.command, forecast=self.forecast)
            said = save_turn(self.parts, finished, self.ranking.selection, self.figures, isolated=self.options.isolated)
            finished = replace(finished, warnings=(*finished.warnings, *said))
        if self.unkept is not None:
            warning = join_sentences(f"this turn could not be saved: {self.unkept.message}", self.unkept.hint)
            return replace(finished, warnings=(*finished.warnings, warning), exit_code=self.unkept.exit_code)
        return write_scores(self, finished, self.ranking) if self.options.all_scores else finished

    async def close(self, *, exit_code: int = 0, error: BaseException | None = None) -> str:
        """Tell the listener, if there is one, and return its warning."""
        if self.parts.listener is None:
            return ""
        closed = ClosedTurn(
            turn=self.opened.turn,
            command=self.options.command,
            stopwatch=self.stopwatch,
            connection=self.parts.store.connection,
            now=self.parts.clock(),
            figures=None if error else self.figures,
            exit_code=exit_code,
            error=error,
        )
        await ensure_event_loop()
        return await self.parts.listener(closed)

    @contextmanager
    def _answer_comes_first(self) -> Iterator[None]:
        """Return an answer that was paid for although it cannot be stored, for example on a full disk."""
        try:
            yield
        except StoreError as error:
            if self.answer_text is None:
                raise
            self.unkept = error

    def _deadline(self) -> Deadline | None:
        at = deadline_at(self.parts, self.options, self.stopwatch)
        if at is None or not self.wants_answer:
            return None if at is None else Deadline(at)
        from xscore.pipeline.answering import typical_answer_s

        return Deadline(at).with_answer(typical_answer_s(self.parts))

    async def _open_resources(self, stack: AsyncExitStack) -> None:
        """Open the resources only if something may be spent: not for a cached turn or a replay."""
        judges = self.opened.pool.misses and not (self.parts.settings.judge.replay and self.parts.judge.is_model)
        if judges or self.wants_answer:
            self.resources = await stack.enter_async_context(self.parts.open_resources(self.opened.turn.id))

    async def _judge(self) -> None:
        opened, parts = self.opened, self.parts
        parts.observer.stage("judge")
        with self.stopwatch.stage("judge"):
            if self.resources is None or not opened.pool.misses:
                self.outcomes = await self.judge_by(NoJudge(UnjudgedCause.REPLAY), opened.pool)
                return
            deadline = self.deadline
            self.resources.judging_left_s = deadline.judging_left_s if deadline else lambda: None
            judge = await self._open_judge(self.resources)
            self.outcomes = await self.judge_by(judge, opened.pool)
            if not isinstance(judge, NoJudge) and judge.identity.is_decision:
                from xscore.pipeline.judging_again import draw_again

                drawn = await draw_again(self.parts, self.resources, (opened.turn, opened.key), self.outcomes, deadline)
                self.outcomes, self.second_draws = drawn.outcomes, drawn.counts
                self.interrupted = self.interrupted or drawn.interrupted
                self.warnings += drawn.warnings
            if any(isinstance(one.result, Unjudged) for one in self.outcomes):
                from xscore.pipeline.judging_again import take_over

                await take_over(self)
            lost = {one.result.cause for one in self.outcomes if isinstance(one.result, Unjudged)}
            if UnjudgedCause.DEADLINE in lost and (why := self.resources.why_unanswered()):
                self.warnings.append(why)
            self.remember_host(parts.judge)
        if not isinstance(judge, NoJudge):
            self.warnings += (*judge.warnings(), *self.resources.warnings())

    async def judge_by(self, judge: "Judge | NoJudge", pool: "Pool") -> tuple[Outcome, ...]:
        """Give every candidate of a pool an outcome, within the deadline."""
        parts = self.parts
        bounds = JudgingWatch(observer=parts.observer, leaders=parts.settings.selection.top_k, deadline=self.deadline)
        if self.resources is not None:
            usage = self.resources.usage
            bounds = replace(bounds, spent=lambda: usage.spent(Stage.JUDGE), call_s=lambda: usage.call_s(Stage.JUDGE))
        judged: JudgedPool = await judge_pool(pool, judge, self.opened.turn, bounds)
        self.interrupted = judged.interrupted
        return judged.outcomes

    def remember_host(self, judge: "LexicalJudgeFactory | ModelJudgeFactory") -> None:
        """Store what replies have shown of a judge's host, or warn: it can be probed again."""
        try:
            judge.close()
        except StoreError as error:  # the judgments are worth more
            self.warn(f"what the host can do was not remembered: {error.message}", error.hint)

    async def _open_judge(self, resources: "TurnResources") -> "Judge | NoJudge":
        """Open the judge; probe its host first if needed.

        A host that refuses is an error only if nothing is cached, since there is nothing to report then; if it cannot
        be reached, the lexical judge ranks.
        """
        import asyncio

        opened, parts = self.opened, self.parts
        forecast = parts.judge.forecast(opened.turn, opened.pool)
        self.forecast = forecast if parts.judge.is_model else None
        if forecast.seconds >= FORECAST_FROM_S or (forecast.cost_usd or 0) >= FORECAST_FROM_USD:
            parts.observer.forecast(forecast)
        try:
            async with asyncio.timeout(self.deadline.judging_left_s() if self.deadline else None):
                judge = await parts.judge.open(resources, opened.turn, opened.pool, opened.key)
        except TimeoutError:
            return NoJudge(UnjudgedCause.DEADLINE)
        except asyncio.CancelledError:
            take_back_cancellation(asyncio.current_task())
            return NoJudge(UnjudgedCause.INTERRUPTED)
        except (ProviderError, NoUsableModel) as error:
            from xscore.pipeline.judging_again import can_go_on

            if len(opened.pool.misses) == len(opened.pool.candidates) and not can_go_on(self, error):
                raise
            self.warn(f"the judge could not be asked: {error.message}", error.hint)
            return NoJudge(UnjudgedCause.PROVIDER, error.message)
        if parts.judge.is_model and judge.identity != parts.judge.identity:
            # the turn names the judge that its first contact found to answer under the name it was asked by
            self.parts = replace(parts, judge=replace(parts.judge, identity=judge.identity))
            self.opened = replace(opened, pool=replace(opened.pool, thread=None))  # its thread was told by another
            turns.set_judge(parts.store.connection, opened.turn.id, judge_key(judge.identity))
        return judge

    def _rank(self) -> None:
        parts, turn, outcomes, thresholds = self.parts, self.opened.turn, self.outcomes, self.parts.judge.thresholds
        parts.observer.stage("select")
        with gc_paused(), self.stopwatch.stage("select"):
            if why := self._why_lexical_ranks():
                self.ranked_by = "lexical"
                thresholds = Thresholds(parts.settings.selection.lexical_threshold)
                self.warn(
                    f"{why}, so no model judged: the lexical judge ranked instead",
                    f"`xscore continue {turn.id}` has the model judge.",
                )
                outcomes = lexical_outcomes(parts, turn, self.opened.pool.candidates)
            self.ranking = rank(parts, outcomes, turn, thresholds=thresholds)
            if self.ranked_by:
                unjudged = tuple(receipt.unjudged_pairs(self.outcomes))
                self.ranking = replace(self.ranking, selection=replace(self.ranking.selection, unjudged=unjudged))
            chosen = self.ranking.selection
            self.reasons = receipt.find_reasons(self, (*chosen.kept, *chosen.near_misses))
        if self.options.ranked is not None:
            self.options.ranked(turn, self.ranking)

    def _why_lexical_ranks(self) -> str:
        if not self.nothing_judged or self.left_by:  # an earlier judgment says more than words
            return ""
        from xscore.pipeline.judging_again import why_lexical_ranks

        return why_lexical_ranks(self)

    @property
    def found_nothing(self) -> bool:
        """Whether words alone ranked, and no memory reached the threshold: that says little of what there is."""
        nothing = bool(self.outcomes) and self.ranking is not None and not self.ranking.selection.kept
        return nothing and self._ranked_by_words

    @property
    def _ranked_by_words(self) -> bool:
        return not self.parts.judge.is_model or bool(self.ranked_by)

    @property
    def nothing_judged(self) -> bool:
        """Whether nothing was judged under this wording."""
        judged = (one for one in self.outcomes if isinstance(one.result, Judgment))
        return bool(self.outcomes) and all(self.opened.pool.wording_of(one) for one in judged)

    def _build_context(self) -> None:
        """Render the bundle if anyone will see it."""
        if not (self.options.answer or self.options.bundle):
            return
        from xscore.pipeline.fusion import build_context

        assert self.ranking is not None
        with self.stopwatch.stage("select"):
            self.context = build_context(
                self.parts,
                self.ranking.selection,
                self.opened.turn,
                form=self.options.bundle or "xml",
                reasons=self.reasons,
                nearest=NEAREST_BY_WORDS if self._ranked_by_words else 0,
                max_tokens=self.options.max_tokens,
                ceilings=self.opened.routing.plan.ceilings,
            )

    async def _call_primary(self) -> None:
        """Call the answering model, unless there is nothing to answer from."""
        if self.resources is None or self.context is None or not self.wants_answer:
            return
        if self.interrupted or self.nothing_judged or (self.opened.index.files_left and not self.outcomes):
            return
        if self.found_nothing and not self.options.answer_anyway:
            self.warn("no memory reached the threshold, so no model was asked", "--answer-anyway asks it.")
            return
        if self.ranking is not None and not self.ranking.selection.kept:
            self.warn("nothing was chosen, so the answer rests on the task alone")
        import asyncio

        from xscore.pipeline.answering import ask_primary

        self.parts.observer.stage("primary")
        with self.stopwatch.stage("primary"):
            try:
                self.answer_text, said = await ask_primary(
                    self.parts,
                    self.resources.answering_provider(),
                    self.opened.turn,
                    self.context.bundle,
                    within_s=self.deadline.left_s() if self.deadline else None,
                    checkpoint=self.opened.checkpoint,
                )
            except asyncio.CancelledError:
                self.interrupted = True
                take_back_cancellation(asyncio.current_task())
                return
            except BudgetExhausted as error:  # it was not sent
                self.refused = error.message
                return
            except XscoreError as error:
                self.primary_failed = True
                self.warn(f"the answering call failed: {error.message}", error.hint)
                return
        self.warnings += said

    def warn(self, message: str, hint: str = "") -> None:
        """Add a warning to the receipt."""
        self.warnings.append(join_sentences(message, hint))
