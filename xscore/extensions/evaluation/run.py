"""Put questions with known answers to the judge of an opened repository, one turn each, and measure what it finds.

A turn of an evaluation stands apart from the user's work (`Wishes.isolated`), but its calls, budget, judgments and
receipt are those of any turn: so each judgment is paid once, and a second evaluation is free. The whole run is one
purchase: `budget.max_usd` holds for the sum over the questions, each of which reserves under what the others left. The
lexical judge is asked the same, for comparison; that costs nothing. Trade-off: the index is brought up to date once,
so files that change during the run are judged as they were found.

What a turn within an evaluation tells, and what all of them together would take.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from xscore.costs.caps import Caps, cap_status, spent_in_period
from xscore.extensions.evaluation import quality
from xscore.extensions.evaluation.metrics import LabelledScore, calibration_bins
from xscore.extensions.evaluation.quality import (
    Evaluation,
    JudgeQuality,
    QuestionResult,
    absent_gold_warning,
    labelled_scores,
    mean_quality,
    missed_gold,
    quality_of,
)
from xscore.extensions.evaluation.questions import QrelCase, Qrels
from xscore.pipeline.factories import LexicalJudgeFactory
from xscore.pipeline.judging import take_back_cancellation
from xscore.pipeline.parts import PipelineParts, Stopwatch
from xscore.pipeline.prepare import open_turn
from xscore.pipeline.ranking import Ranking, rank
from xscore.pipeline.turn import TurnOptions, run_turn
from xscore.platform.errors import NoUsableModel, ProviderError, StoreError, UsageError, XscoreError
from xscore.records import (
    Answer,
    CapLeft,
    Coverage,
    Estimate,
    JudgeEstimate,
    Observer,
    Origin,
    Outcome,
    Progress,
    Scope,
    SessionInfo,
    StageUsage,
    Turn,
    UnjudgedCause,
    Usage,
)
from xscore.records.cost_report import NOTHING_JUDGED, EvaluationLine
from xscore.scorer.lexical import LexicalJudge
from xscore.store.evidence import stale_memory_ids
from xscore.store.term_vectors import TERM_EMBEDDER


class QuestionObserver:
    """Passes on how the judging of one question goes; whether to go on was asked once, for all of them."""

    can_confirm = False

    def __init__(self, observer: Observer, called: str) -> None:
        """called: `question 3 of 12`."""
        self._observer, self._called = observer, called

    def stage(self, name: str) -> None:
        """Tell which question is judged."""
        if name == "judge":
            self._observer.stage(f"judging {self._called}")

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Say nothing: it is of one question."""

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._observer.progress(progress)

    def note(self, message: str) -> None:
        """Pass it on."""
        self._observer.note(message)

    def session(self, session: SessionInfo) -> None:
        """Say nothing: an evaluation belongs to no session."""

    def answer_text(self, piece: str) -> None:
        """Say nothing: there is none."""

    def confirm(self, estimate: Estimate) -> bool:
        """Agree: the user has agreed to the whole."""
        return True


def estimate_questions(parts: PipelineParts, turns: Sequence[Turn]) -> Estimate:
    """Say about what judging these turns would take, by sizes alone; sends nothing. `turns` is not empty."""
    each = [_forecast(parts, turn) for turn in turns]
    costs = [one.cost_usd for one in each]
    longest = max(each, key=lambda one: one.seconds)
    whole = replace(
        longest,
        candidates=sum(one.candidates for one in each),
        cached=sum(one.cached for one in each),
        to_judge=sum(one.to_judge for one in each),
        calls=sum(one.calls for one in each),
        input_tokens=sum(one.input_tokens for one in each),
        output_tokens=sum(one.output_tokens for one in each),
        cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        seconds=sum(one.seconds for one in each),
    )
    return Estimate(judge=whole, primary=None, by_kind={}, by_folder={}, caps=caps_left_after(parts, Decimal(0)))


def caps_left_after(parts: PipelineParts, spent: Decimal) -> tuple[CapLeft, ...]:
    """Return what is left of each cap; that of a turn is one of the whole run, which spent so much of it."""
    caps = Caps.of(parts.settings.budget)
    others = cap_status(parts.store.connection, replace(caps, turn=None), now=parts.clock())
    if caps.turn is None:
        return others
    return (CapLeft(of="run", cap_usd=caps.turn, left_usd=caps.turn - spent), *others)


def _forecast(parts: PipelineParts, turn: Turn) -> JudgeEstimate:
    opened = open_turn(parts, turn, Stopwatch(), takes_up=False)
    return parts.judge.forecast(opened.turn, opened.pool)


async def run_evaluation(
    parts: PipelineParts, questions: Qrels, *, scope: Scope | None = None, started: float | None = None
) -> Evaluation:
    """Ask every question and measure. started: `time.monotonic()` from which the deadline counts; None: from now.

    Ctrl-C, a cap, the deadline, a host or a store that fails end the run with what was measured so far. Raises
    UsageError where the estimate is declined, and what the first turn raises where nothing was measured.
    """
    course = _EvaluationRun(parts, questions, scope or Scope(), time.monotonic() if started is None else started)
    await course.go()
    return course.account()


class _EvaluationRun(Struct):
    """One evaluation under way."""

    parts: PipelineParts
    questions: Qrels
    scope: Scope
    started: float
    results: list[QuestionResult] = field(default_factory=list)
    receipts: list[Answer] = field(default_factory=list)
    """Of every turn, that of a question cut short as well."""
    scores: list[LabelledScore] = field(default_factory=list)
    ended: str = ""
    cap: CapLeft | None = None
    warnings: list[str] = field(default_factory=list)
    spent: Decimal = Decimal(0)

    async def go(self) -> None:
        self.parts.observer.stage("index")
        report = self.parts.index()
        self.parts = replace(self.parts, index=lambda: report)
        self._confirm()
        for number, case in enumerate(self.questions.cases, start=1):
            try:
                await asyncio.sleep(0)  # a press of Ctrl-C between two cached turns is met here
                self.ended = await self._ask(case, f"question {number} of {len(self.questions.cases)}")
            except asyncio.CancelledError:
                take_back_cancellation(asyncio.current_task())
                self.ended = str(UnjudgedCause.INTERRUPTED)
            except (ProviderError, NoUsableModel) as error:
                if not self.receipts:
                    raise
                self.ended = str(UnjudgedCause.PROVIDER)
                self.warnings.append(_error_text(error))
            except StoreError as error:
                if not self.receipts:
                    raise
                self.ended = "store"
                self.warnings.append(_error_text(error))
            if self.ended:
                return

    def _confirm(self) -> None:
        """Ask once, before a costly run. Raises UsageError when the user declines."""
        parts = self.parts
        if not (parts.judge.is_model and parts.observer.can_confirm) or parts.settings.judge.replay:
            return
        estimate = estimate_questions(parts, [self._turn(case) for case in self.questions.cases])
        cost = estimate.cost_usd
        if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
            raise UsageError(
                "nothing was sent: the estimate was declined", hint="Narrow with --path, ask fewer, or pass --yes."
            )

    def _turn(self, case: QrelCase) -> Turn:
        return Turn(task=case.query, scope=self.scope, fresh=True)

    async def _ask(self, case: QrelCase, called: str) -> str:
        """Take one turn and measure it; return why the run is over, or nothing."""
        parts = self._under_what_is_left()
        parts = replace(parts, observer=QuestionObserver(parts.observer, called), index=self.parts.index)
        seen: list[tuple[Turn, Ranking]] = []
        wishes = TurnOptions(
            answer=False,
            command="eval",
            isolated=True,
            started=self.started,
            ranked=lambda turn, ranking: seen.append((turn, ranking)),
        )
        answer = await run_turn(parts, self._turn(case), wishes)
        self.receipts.append(answer)
        self.spent += spent_in_period(parts.store.connection, answer.turn_id)
        self.warnings.extend(answer.warnings)
        ended = _cut_short(answer)
        if ended == UnjudgedCause.BUDGET:
            self.cap = min(caps_left_after(self.parts, self.spent), key=lambda cap: cap.left_usd, default=None)
        elif ended:
            self.warnings.extend(dict.fromkeys(absent.detail for absent in answer.unjudged.sample if absent.detail))
        if ended:
            return ended
        (turn, ranking), k = seen[0], parts.settings.selection.top_k
        self.scores.extend(labelled_scores(ranking, case.gold))
        self.results.append(_result(case, answer, ranking, self._words(turn, ranking, case), k=k))
        return ""

    def _under_what_is_left(self) -> PipelineParts:
        """Return the parts whose cap is what the questions so far have left of it."""
        cap = self.parts.settings.budget.max_usd
        if cap is None or self.parts.with_cap is None or not self.receipts:
            return self.parts
        return self.parts.with_cap(max(Decimal(0), cap - self.spent))

    def _words(self, turn: Turn, ranking: Ranking, case: QrelCase) -> JudgeQuality | None:
        """Measure what the lexical judge makes of the same candidates; None where it is the judge."""
        parts = self.parts
        if not parts.judge.is_model:
            return None
        candidates = [entry.candidate for entry in ranking.ranked]
        candidates += [candidate for candidate, _ in ranking.selection.unjudged]
        judge = LexicalJudge(lambda: parts.store.vectors(TERM_EMBEDDER), stale=stale_memory_ids(parts.store.connection))
        judged = {judgment.content_hash: judgment for judgment in judge.judgments(turn, candidates)}
        outcomes = [Outcome(one, judged[one.content_hash], Origin.JUDGED) for one in candidates]
        seated = replace(parts, judge=LexicalJudgeFactory(settings=parts.settings, store=parts.store))
        return quality_of(rank(seated, outcomes, turn), case.gold, k=parts.settings.selection.top_k)

    def account(self) -> Evaluation:
        """Sum up, and record what was asked to the end."""
        parts, whole = self.parts, [_judging(answer) for answer in self.receipts]
        identity, costs = parts.judge.identity, [stage.cost_usd for stages in whole for stage in stages]
        flat = [stage for stages in whole for stage in stages]
        causes = Counter[str]()
        for answer in self.receipts:
            causes.update(answer.unjudged.by_cause)
        found = Evaluation(
            id="",
            questions=self.questions.digest,
            asked=len(self.results),
            of=len(self.questions.cases),
            ended=self.ended,
            cap=self.cap,
            judge=f"{identity.provider}:{identity.model}" if parts.judge.is_model else "lexical",
            is_model=parts.judge.is_model,
            k=parts.settings.selection.top_k,
            threshold=parts.judge.threshold,
            found=mean_quality([result.judge for result in self.results]),
            words=mean_quality([result.words for result in self.results if result.words is not None]),
            reliability=calibration_bins(self.scores),
            coverage=_add_coverage(answer.coverage for answer in self.receipts),
            unjudged_by_cause=dict(causes.most_common()),
            calls=sum(stage.calls for stage in flat),
            usage=sum((stage.usage for stage in flat), Usage()),
            cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
            estimated=any(stage.estimated for stage in flat),
            seconds=time.monotonic() - self.started,
            results=tuple(self.results),
            warnings=tuple(dict.fromkeys([*self.warnings, *absent_gold_warning(self.results)])),
        )
        try:
            return replace(found, id=self._recorded(found))
        except StoreError as error:
            return replace(found, warnings=(*found.warnings, f"the evaluation is not recorded: {_error_text(error)}"))

    def _recorded(self, found: Evaluation) -> str:
        """Keep the figures where all questions were asked and anything was judged; its unjudged are kept with it."""
        judged = found.coverage.candidates - found.coverage.unjudged
        if found.ended or found.found is None or not judged:
            return ""
        chosen = found.found.chosen
        line = EvaluationLine(
            id="",
            at=self.parts.clock(),
            questions=found.questions,
            judge=found.judge,
            cases=found.asked,
            k=found.k,
            recall=chosen.recall,
            precision=chosen.precision,
            hit=chosen.hit,
            reciprocal_rank=chosen.reciprocal_rank,
            ndcg=chosen.ndcg,
            candidates=found.coverage.candidates,
            unjudged=found.coverage.unjudged,
        )
        return quality.record_evaluation(self.parts.store.connection, line)


def _result(case: QrelCase, answer: Answer, ranking: Ranking, words: JudgeQuality | None, *, k: int) -> QuestionResult:
    stages = _judging(answer)
    costs = [stage.cost_usd for stage in stages]
    return QuestionResult(
        id=case.id,
        query=case.query,
        turn_id=answer.turn_id,
        gold=len(case.gold),
        judge=quality_of(ranking, case.gold, k=k),
        words=words,
        missed=missed_gold(ranking, case.gold),
        coverage=answer.coverage,
        calls=sum(stage.calls for stage in stages),
        cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        seconds=answer.latency.total,
    )


def _cut_short(answer: Answer) -> str:
    """Why a turn was not judged to its end, as the end of the whole run; empty where it was, or nearly."""
    if answer.exit_code == 130:
        return str(UnjudgedCause.INTERRUPTED)
    is_lost = answer.coverage.unjudged == answer.coverage.candidates
    causes = (UnjudgedCause.BUDGET, UnjudgedCause.DEADLINE, *([UnjudgedCause.PROVIDER] if is_lost else []))
    return next((str(cause) for cause in causes if answer.unjudged.by_cause.get(str(cause))), "")


def _error_text(error: XscoreError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}".strip()


def _judging(answer: Answer) -> Sequence[StageUsage]:
    return [stage for stage in (answer.probe_usage, answer.embed_usage, answer.judge_usage) if stage]


def _add_coverage(coverages: Iterable[Coverage]) -> Coverage:
    """Add up, part by part."""
    rows = [astuple(NOTHING_JUDGED), *map(astuple, coverages)]
    return Coverage(*map(sum, zip(*rows, strict=True)))
