"""One turn, stage by stage: index, pool, cache, judge, boosts, selection, bundle, answer, receipt.

The order of this file is the order of the turn. It names no concrete provider or judge. Ctrl-C
arrives as a cancellation, is taken back here, and ends in a receipt like any other end.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline import receipt
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import ClosedTurn, PipelineParts, TurnOptions
from xscore.pipeline.prepare import OpenedTurn, index_until, open_turn, opening_warnings
from xscore.pipeline.ranking import Ranking, rank
from xscore.pipeline.save_turn import check_scores_path, save_turn, write_scores
from xscore.pipeline.turn_clock import Deadline, Stopwatch
from xscore.platform.errors import BudgetExhausted, ExitCode, StoreError, XscoreError
from xscore.platform.event_loop import ensure_event_loop, take_back_cancellation
from xscore.platform.processes import gc_paused, process_identity
from xscore.platform.text import join_sentences
from xscore.records.events import JudgeEstimate, Kept
from xscore.records.judgment import JudgeIdentity, Judgment, Outcome, Thresholds, UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import Answer, ReasonsAccount, SecondDraws, TurnFigures
from xscore.records.turn import Turn
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources
    from xscore.pipeline.turn_judging import WordsInstead
    from xscore.prompts.bundle_parts import Bundle

NEAREST_BY_WORDS = 5
"""How many memories are named where words alone ranked and none reached the threshold."""


async def run_turn(parts: PipelineParts, turn: Turn, options: TurnOptions) -> Answer:
    """Run one turn from task to receipt. Raises XscoreError only if there is nothing to report."""
    if options.all_scores is not None:
        check_scores_path(options.all_scores, store_dir=parts.store.path.parent)
    stopwatch = Stopwatch()
    began = stopwatch.started if options.started is None else options.started
    deadline = Deadline.of(began, parts.settings.budget.deadline_s)
    if options.isolated:
        turn = replace(turn, fresh=True, thread="", follows_latest=False)
    opened = open_turn(
        parts,
        turn,
        stopwatch,
        takes_up=not options.isolated,
        judged=options.judged,
        exchanges=not options.isolated or Layer.SESSION in turn.scope.layers,
        index_until=index_until(deadline),
    )
    answers = options.answer and parts.answerer is not None
    if parts.observer.can_confirm:
        from xscore.pipeline.turn_estimate import confirm_cost

        confirm_cost(parts, opened, answers=answers)
    opened = _begin_turn(parts, opened, options)
    run = TurnRun(
        parts, opened, options, stopwatch, deadline, [*parts.warnings, *opening_warnings(opened)]
    )
    if answers or (opened.pool.misses and parts.judge.paid):
        # Most fully cached turns spend nothing.
        from xscore.pipeline.turn_estimate import announce_budget

        run.warnings += announce_budget(run)
    try:
        finished = await run.go()
    except BaseException as error:
        if isinstance(error, XscoreError):
            from xscore.pipeline.turn_judging import receipt_of_failed

            error.receipt = receipt_of_failed(run)
        turns.abandon_turn(parts.store.connection, opened.turn.id)
        await run.close(error=error)
        raise
    warning = await run.close(exit_code=finished.exit_code)
    return replace(finished, warnings=(*finished.warnings, warning)) if warning else finished


def _begin_turn(parts: PipelineParts, opened: OpenedTurn, options: TurnOptions) -> OpenedTurn:
    start = turns.TurnStart(
        turn_key=opened.key,
        judge=judge_key(parts.judge.identity),
        judge_name=str(parts.judge.spec),
        primary=f"{parts.answerer.provider}:{parts.answerer.model}" if parts.answerer else "",
        process=process_identity(),
        command=options.command,
        isolated=options.isolated,
    )
    turn_id = turns.begin_turn(parts.store.connection, opened.turn, start, now=parts.clock())
    return replace(opened, turn=replace(opened.turn, id=turn_id))


class TurnRun(Struct):
    """One running turn: what its stages hand on."""

    parts: PipelineParts
    opened: OpenedTurn
    options: TurnOptions
    stopwatch: Stopwatch
    deadline: Deadline
    warnings: list[str]
    resources: "TurnResources | None" = None
    """None: nothing may be spent."""
    forecast: JudgeEstimate | None = None
    """Of a model's judging, before it began."""
    outcomes: tuple[Outcome, ...] = ()
    left_by: tuple[UnjudgedCause, ...] = ()
    """Causes of outcomes carried from earlier turns of the thread because a cap or the deadline
    came first."""
    taken_over: dict[str, JudgeIdentity] = {}
    """Content hash -> who judged it in the judge's place."""
    ranking: Ranking | None = None
    no_judge: str = ""
    """Kind of the error for which the judge was not opened; empty: it was, or was not needed."""
    ranked_by: str = ""
    """`lexical` where the judge's host failed; see `Answer.ranked_by`."""
    unjudged_exit: ExitCode = ExitCode.NOTHING_JUDGED
    """How the turn ends if nothing was judged."""
    second_draws: SecondDraws = SecondDraws()
    reasons: Mapping[str, str] = {}
    """Reasons of the kept and near memories that their judgments do not hold, by content hash."""
    reasons_account: ReasonsAccount = ReasonsAccount()
    bundle: "Bundle | None" = None
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
        with self._answer_comes_first():
            async with AsyncExitStack() as stack:
                await self._open_resources(stack)
                await self._judge()
                if self.opened.pool.thread is not None:
                    from xscore.pipeline.carrying import take_earlier

                    take_earlier(self)
                self._rank()
                asks = (
                    self.parts.judge.identity.is_decision
                    and self.parts.settings.judge.reason_model != "none"
                )
                if asks and not (self.ranked_by or self.options.isolated):
                    from xscore.pipeline.reasons import give_reasons

                    await give_reasons(self)
                self._build_bundle()
                await self._call_primary()
        assert self.ranking is not None
        finished = receipt.make_receipt(self, self.ranking)
        if self.options.deliver is not None:
            self.options.deliver(finished)
        with self._answer_comes_first():
            ranked, others = () if self.ranked_by else self.ranking.ranked, self.taken_over
            scores = [
                entry.score
                for entry in ranked
                if not others or entry.candidate.content_hash not in others
            ]
            self.figures = receipt.turn_figures(
                finished,
                scores,
                command=self.options.command,
                forecast=self.forecast,
                threshold=self.parts.judge.thresholds.default if self.ranked_by else None,
            )
            said = save_turn(self, finished, self.ranking.selection)
            finished = replace(finished, warnings=(*finished.warnings, *said))
        if self.unkept is not None:
            warning = join_sentences(
                f"this turn could not be saved: {self.unkept.message}", self.unkept.hint
            )
            return replace(
                finished, warnings=(*finished.warnings, warning), exit_code=self.unkept.exit_code
            )
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
        """Return an answer that was paid for although it cannot be stored, for example on a full
        disk."""
        try:
            yield
        except StoreError as error:
            if self.answer_text is None:
                raise
            self.unkept = error

    async def _open_resources(self, stack: AsyncExitStack) -> None:
        """Open the resources only if something may be spent: not for a cached turn, a replay, or
        words alone."""
        judge = self.parts.judge
        is_replay = self.parts.settings.judge.replay and judge.paid
        judges = self.opened.pool.misses and judge.needs_resources and not is_replay
        if judges or self.wants_answer:
            self.resources = await stack.enter_async_context(
                self.parts.open_resources(self.opened.turn.id)
            )
            self.resources.deadline = self.deadline
            if self.wants_answer and self.deadline.at != inf:
                from xscore.pipeline.answering import typical_answer_s

                self.resources.deadline = self.deadline.with_answer(typical_answer_s(self.parts))

    async def _judge(self) -> None:
        opened, parts = self.opened, self.parts
        parts.observer.stage("judge")
        with self.stopwatch.stage("judge"):
            if not opened.pool.misses:
                with gc_paused():
                    self.outcomes = tuple(filter(None, opened.pool.known_outcomes(opened.turn)))
                return
            if not parts.judge.needs_resources:
                # A model's turn needs none of it.
                from xscore.pipeline.judging_by_words import judge_by_words

                with gc_paused():
                    self.outcomes = judge_by_words(self)
                return
            # A turn that is all cached needs none of it.
            from xscore.pipeline.turn_judging import judge_missing

            await judge_missing(self)

    def _rank(self) -> None:
        parts, turn, outcomes, thresholds = (
            self.parts,
            self.opened.turn,
            self.outcomes,
            self.parts.judge.thresholds,
        )
        parts.observer.stage("select")
        with gc_paused(), self.stopwatch.stage("select"):
            if instead := self._words_instead():
                from xscore.pipeline.judging_by_words import lexical_outcomes

                self.ranked_by, self.unjudged_exit = "lexical", instead.exit_code
                thresholds = Thresholds(parts.settings.selection.lexical_threshold)
                # What the judge failed with is a warning already; it is not said twice.
                why = "" if self.no_judge else f"{instead.why}, so no model judged: "
                way_on = f"`xscore continue {turn.id}` has the model judge."
                self.warn(f"{why}the lexical judge ranked instead", way_on)
                outcomes = lexical_outcomes(parts, turn, self.opened.pool.candidates)
            self.ranking = rank(
                parts, outcomes, turn, thresholds=thresholds, by_words=self._ranked_by_words
            )
            if self.ranked_by:
                unjudged = receipt.unjudged_pairs(self.outcomes)
                self.ranking = replace(
                    self.ranking, selection=replace(self.ranking.selection, unjudged=unjudged)
                )
            chosen = self.ranking.selection
            self.reasons = receipt.find_reasons(self, (*chosen.kept, *chosen.near_misses))
        self.parts.observer.on(Kept(chosen.kept))
        if self.options.ranked is not None:
            self.options.ranked(turn, self.ranking)

    def _words_instead(self) -> "WordsInstead | None":
        if not self.nothing_judged or self.left_by:  # an earlier judgment says more than words
            return None
        from xscore.pipeline.turn_judging import words_instead

        return words_instead(self)

    @property
    def found_nothing(self) -> bool:
        """Whether there are memories and none reached the threshold; a model's may be kept below it
        on request."""
        if not self.outcomes or self.ranking is None:
            return False
        chosen = self.ranking.selection
        return not (chosen.has_passed if self._ranked_by_words else chosen.kept)

    @property
    def is_left_open(self) -> bool:
        """Whether it ends without what was wanted of it: an answer, or by words, which say little,
        a memory."""
        return (
            self.found_nothing
            and self.answer_text is None
            and (self._ranked_by_words or self.wants_answer)
        )

    @property
    def _ranked_by_words(self) -> bool:
        return self.parts.judge.scale is Scale.WORDS or bool(self.ranked_by)

    @property
    def nothing_judged(self) -> bool:
        """Whether nothing was judged under this wording."""
        judged = (one for one in self.outcomes if isinstance(one.result, Judgment))
        return bool(self.outcomes) and all(self.opened.pool.wording_of(one) for one in judged)

    def _build_bundle(self) -> None:
        """Render the bundle if anyone will see it."""
        if not (self.options.answer or self.options.bundle):
            return
        from xscore.pipeline.fusion import build_bundle

        with self.stopwatch.stage("select"):
            self.bundle = build_bundle(
                self, nearest=NEAREST_BY_WORDS if self._ranked_by_words else 0
            )

    async def _call_primary(self) -> None:
        """Call the answering model, unless there is nothing to answer from."""
        if self.resources is None or self.bundle is None or not self.wants_answer:
            return
        if (
            self.interrupted
            or self.nothing_judged
            or (self.opened.index.files_left and not self.outcomes)
        ):
            return
        if self.found_nothing and not self.options.answer_anyway:
            self.warn(
                "no memory reached the threshold, so no model was asked", "--answer-anyway asks it."
            )
            return
        if self.ranking is not None and not self.ranking.selection.kept:
            self.warn("nothing was chosen, so the answer is based on the task alone")
        import asyncio

        from xscore.pipeline.answering import ask_primary

        self.parts.observer.stage("primary")
        with self.stopwatch.stage("primary"):
            try:
                self.answer_text, said = await ask_primary(self, self.resources, self.bundle)
            except asyncio.CancelledError:
                self.interrupted = True
                take_back_cancellation()
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
