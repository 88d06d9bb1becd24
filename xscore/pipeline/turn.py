"""One turn, room by room: index, context, pool, cache, judge, boosts, selection, bundle, answer, receipt.

The order of this file is the order of the turn. It names no concrete provider or judge, and leaves it to `closing` what
a turn ends with. Ctrl-C arrives as a cancellation, is taken here, and ends in a receipt like any other end.

What the caller wants of a turn beside the selection: an answer, a bundle in some form, a list of all scores.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import budget_messages, pool, receipt
from xscore.pipeline.answering import ask_primary, typical_answer_s, with_checkpoint
from xscore.pipeline.fusion import NO_CONTEXT, RenderedContext, build_context
from xscore.pipeline.judging import Deadline, JudgedPool, JudgingWatch, NoJudge, judge_pool, take_back_cancellation
from xscore.pipeline.parts import ClosedTurn, PipelineParts, Stopwatch, TurnResources
from xscore.pipeline.prepare import OpenedTurn, confirm_cost, open_turn, unreadable_layers
from xscore.pipeline.ranking import Ranking, rank
from xscore.pipeline.receipt import TurnOutcome, make_receipt, turn_figures
from xscore.pipeline.save_turn import check_scores_path, save_turn, write_scores
from xscore.platform.errors import BudgetExhausted, NoUsableModel, ProviderError, StoreError, UsageError, XscoreError
from xscore.platform.processes import gc_paused, process_identity
from xscore.records import Answer, JudgeEstimate, Judgment, Ranked, Selection, Stage, Turn, TurnFigures, UnjudgedCause
from xscore.scorer.judge import Judge
from xscore.store import turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from xscore.pipeline.ranking import Ranking
    from xscore.records import Turn


class TurnOptions(Struct, frozen=True, kw_only=True):
    """What the caller wants of a turn beside the selection."""

    answer: bool
    """One call to the answering model, where there is one."""
    command: str = "ask"
    """What the turn is entered as in the ledger: `ask`, `context`, `continue`, `eval`."""
    isolated: bool = False
    """It is no work of the user's: it belongs to no working session, nothing counts as used by it or is remembered."""
    bundle: str = ""
    """`xml`, `markdown`, `json` or `memory`: give the bundle in this form even when there is an answer."""
    max_tokens: int | None = None
    all_scores: Path | None = None
    """One JSON line a candidate goes here."""
    ranked: "Callable[[Turn, Ranking], None] | None" = None
    """Told of the completed turn and of every candidate's place, before the receipt is made."""
    judged: "AbstractSet[str]" = frozenset()
    """Contents that were judged for it just before, in prompts that it shared: they count as judged, not as cached."""
    started: float | None = None
    """`time.monotonic()` from which the deadline counts; None: now."""


FORECAST_FROM_S = 20.0
"""Judging that will take so long is announced."""


async def run_turn(parts: PipelineParts, turn: Turn, wishes: TurnOptions) -> Answer:
    """Take one turn from task to receipt. Raises XscoreError only where there is nothing to account for."""
    if wishes.all_scores is not None:
        check_scores_path(wishes.all_scores, store_dir=parts.store.path.parent)
    watch = Stopwatch()
    deadline = _deadline(parts, watch.started if wishes.started is None else wishes.started)
    if wishes.isolated:
        turn = replace(turn, fresh=True, thread="")
    opened = open_turn(parts, turn, watch, takes_up=not wishes.isolated, judged=wishes.judged)
    answers = wishes.answer and parts.answerer is not None
    confirm_cost(parts, opened, answers=answers)
    turn_id = turns.begin_turn(
        parts.store.connection,
        opened.turn,
        turn_key=opened.key,
        judge=judge_key(parts.judge.identity),
        now=parts.clock(),
        process=process_identity(),
        isolated=wishes.isolated,
    )
    course = _TurnRun(parts, replace(opened, turn=replace(opened.turn, id=turn_id)), wishes, watch, deadline)
    course.warnings.extend(budget_messages.announce_budget(parts, opened, answers=answers, isolated=wishes.isolated))
    try:
        answer = await course.run()
    except BaseException as error:
        turns.abandon_turn(parts.store.connection, turn_id)
        await course.tell(error=error)
        raise
    untold = await course.tell(exit_code=answer.exit_code)
    return replace(answer, warnings=(*answer.warnings, untold)) if untold else answer


class _TurnRun:
    """One turn under way: the state that the stages hand on, in one place."""

    def __init__(
        self, parts: PipelineParts, opened: OpenedTurn, wishes: TurnOptions, watch: Stopwatch, deadline: Deadline | None
    ) -> None:
        self.parts, self.opened, self.wishes, self.watch = parts, opened, wishes, watch
        if deadline is not None and self._wants_answer():
            deadline = deadline.with_answer(typical_answer_s(parts))
        self.deadline = deadline
        self.warnings = [*parts.warnings, *unreadable_layers(opened)]
        self.forecast: JudgeEstimate | None = None
        self.interrupted = False
        self.primary_failed = False
        self.figures: TurnFigures | None = None
        self.refused = ""

    async def tell(self, *, exit_code: int = 0, error: BaseException | None = None) -> str:
        """Tell of the turn where that is wanted, and return what should be said of that; else load nothing for it."""
        if self.parts.listener is None:
            return ""
        closed = ClosedTurn(
            turn=self.opened.turn,
            command=self.wishes.command,
            watch=self.watch,
            connection=self.parts.store.connection,
            now=self.parts.clock(),
            figures=None if error else self.figures,
            exit_code=exit_code,
            error=error,
        )
        return await self.parts.listener(closed)

    async def run(self) -> Answer:
        text: str | None = None
        unkept: StoreError | None = None  # a full disk, say: an answer that was paid for is given all the same
        try:
            async with AsyncExitStack() as stack:
                resources = await self._resources(stack)
                settled = await self._judge(resources)
                ranking = self._rank(settled)
                if self.wishes.ranked is not None:
                    self.wishes.ranked(self.opened.turn, ranking)
                selection = ranking.selection
                context = self._assemble(selection)
                text = await self._answer(resources, context, settled)
        except StoreError as error:
            if text is None:
                raise
            unkept = error
        answer = self._receipt(resources, settled, selection, context, text)
        try:
            scores = (entry.score for entry in ranking.ranked)
            self.figures = turn_figures(answer, scores, command=self.wishes.command, forecast=self.forecast)
            remarks = save_turn(self.parts, answer, selection, self.figures, isolated=self.wishes.isolated)
            answer = replace(answer, warnings=(*answer.warnings, *remarks)) if remarks else answer
        except StoreError as error:
            if text is None:
                raise
            unkept = error
        if unkept is not None:
            said = _with_hint(f"this turn could not be kept: {unkept.message}", unkept.hint)
            return replace(answer, warnings=(*answer.warnings, said), exit_code=unkept.exit_code)
        return self._with_scores_written(answer, settled, ranking)

    async def _resources(self, stack: AsyncExitStack) -> TurnResources | None:
        """Open what spending needs only when something may be spent: a cached turn opens nothing, nor does a replay."""
        judges = self.opened.pool.misses and not (self.parts.settings.judge.replay and self.parts.judge.is_model)
        if not (judges or self._wants_answer()):
            return None
        return await stack.enter_async_context(self.parts.open_resources(self.opened.turn.id))

    def _wants_answer(self) -> bool:
        return self.wishes.answer and self.parts.answerer is not None

    async def _judge(self, resources: TurnResources | None) -> JudgedPool:
        opened, parts = self.opened, self.parts
        parts.observer.stage("judge")
        watched = JudgingWatch(observer=parts.observer, leaders=parts.settings.selection.top_k, deadline=self.deadline)
        with self.watch.stage("judge"):
            if resources is None or not opened.pool.misses:
                return await judge_pool(opened.pool, NoJudge(UnjudgedCause.REPLAY), opened.turn, watched)
            judge = await self._open_judge(resources)
            tab = resources.usage
            spending = replace(watched, spent=lambda: tab.spent(Stage.JUDGE), call_s=lambda: tab.call_s(Stage.JUDGE))
            settled = await judge_pool(opened.pool, judge, opened.turn, spending)
            self._keep_what_was_learned()
        self.interrupted = settled.interrupted
        self.warnings.extend(() if isinstance(judge, NoJudge) else (*judge.warnings(), *resources.warnings()))
        return settled

    def _keep_what_was_learned(self) -> None:
        try:
            self.parts.judge.close()
        except StoreError as error:  # it can be found out again; what was judged is worth more
            self.warnings.append(_with_hint(f"what the host can do was not remembered: {error.message}", error.hint))

    async def _open_judge(self, resources: TurnResources) -> Judge | NoJudge:
        """Open the judge, finding out what its host can do where need be.

        A host that cannot be asked is an error only where nothing is known: then there is no account to give.
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
            self.warnings.append(_with_hint(f"the judge could not be asked: {error.message}", error.hint))
            return NoJudge(UnjudgedCause.PROVIDER, error.message)

    def _rank(self, settled: JudgedPool) -> Ranking:
        self.parts.observer.stage("select")
        with gc_paused(), self.watch.stage("select"):
            return rank(self.parts, settled.outcomes, self.opened.turn)

    def _assemble(self, selection: Selection) -> RenderedContext:
        """Render the bundle where someone will see it."""
        if not (self.wishes.answer or self.wishes.bundle):
            return NO_CONTEXT
        with self.watch.stage("select"):
            form = self.wishes.bundle or "xml"
            return build_context(
                self.parts,
                selection,
                form=form,
                max_tokens=self.wishes.max_tokens,
                ceilings=self.opened.routing.plan.ceilings,
                scope=self.opened.turn.scope,
            )

    async def _answer(
        self, resources: TurnResources | None, context: RenderedContext, settled: JudgedPool
    ) -> str | None:
        if resources is None or not self._wants_answer() or self.interrupted or _nothing_judged(settled):
            return None
        self.parts.observer.stage("primary")
        with self.watch.stage("primary"):
            try:
                within_s = self.deadline.left_s() if self.deadline else None
                asked, saved = self.opened.turn, self.opened.checkpoint
                answered = await ask_primary(
                    self.parts, resources.answering_provider(), asked, context, within_s=within_s, checkpoint=saved
                )
            except asyncio.CancelledError:
                self.interrupted = True
                take_back_cancellation(asyncio.current_task())
                return None
            except BudgetExhausted as error:  # it was not sent
                self.refused = error.message
                return None
            except XscoreError as error:
                self.primary_failed = True
                self.warnings.append(_with_hint(f"the answering call failed: {error.message}", error.hint))
                return None
        if not context.bundle.text:
            self.warnings.append("nothing was chosen, so the answer rests on the task alone")
        self.warnings.extend(answered.warnings)
        return answered.text

    def _receipt(
        self,
        resources: TurnResources | None,
        settled: JudgedPool,
        selection: Selection,
        context: RenderedContext,
        text: str | None,
    ) -> Answer:
        self.warnings += context.warnings
        if not self.wishes.isolated:
            self.warnings += budget_messages.how_to_continue(self.parts, self.opened, settled.outcomes, self.refused)
        show = bool(self.wishes.bundle) or (self.wishes.answer and text is None)
        ended = TurnOutcome(
            outcomes=settled.outcomes,
            selection=selection,
            reasons=self._reasons((*selection.kept, *selection.near_misses)),
            titles=self._titles((*selection.kept, *selection.near_misses)),
            answer=text,
            bundle=with_checkpoint(context, self.opened.checkpoint, form=self.wishes.bundle) if show else None,
            warnings=tuple(dict.fromkeys(self.warnings)),
            interrupted=self.interrupted,
            primary_failed=self.primary_failed,
            is_over_budget=bool(self.refused),
        )
        return make_receipt(
            self.parts, self.opened, ended, resources, latency=self.watch.latency(), wants_answer=self.wishes.answer
        )

    def _with_scores_written(self, answer: Answer, settled: JudgedPool, ranking: Ranking) -> Answer:
        """Write `--all-scores`; where that fails after all, the answer was paid for and is given, with a warning."""
        if self.wishes.all_scores is None:
            return answer
        lines = receipt.score_lines(settled.outcomes, ranking.in_order(), self._reasons(ranking.ranked))
        try:
            write_scores(self.wishes.all_scores, lines)
        except UsageError as error:
            warnings = (*answer.warnings, f"--all-scores: {error.message}")
            return replace(answer, warnings=warnings, exit_code=answer.exit_code or error.exit_code)
        return answer

    def _reasons(self, shown: Sequence[Ranked]) -> Mapping[str, str]:
        here = self.opened.pool.judged_here
        stored = [one.candidate.content_hash for one in shown if not here(one.candidate, one.origin)]
        return pool.stored_reasons(self.parts.store, self.opened.key, judge_key(self.parts.judge.identity), stored)

    def _titles(self, shown: Sequence[Ranked]) -> dict[str, str]:
        """Read the titles of what has no path to be named by."""
        nameless = [entry.candidate.id for entry in shown if not entry.candidate.path]
        return {id_: memory.title for id_, memory in self.parts.store.memories(nameless).items()} if nameless else {}


def _deadline(parts: PipelineParts, started: float) -> Deadline | None:
    seconds = parts.settings.budget.deadline_s
    return None if seconds is None else Deadline(started + seconds)


def _nothing_judged(settled: JudgedPool) -> bool:
    return bool(settled.outcomes) and not any(isinstance(one.result, Judgment) for one in settled.outcomes)


def _with_hint(message: str, hint: str) -> str:
    return f"{message.rstrip('.')}. {hint}" if hint else message
