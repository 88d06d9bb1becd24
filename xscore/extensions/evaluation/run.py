"""Ask the judge questions with known answers, one turn each, and measure what it finds.

A turn of an evaluation stands apart from the user's work (`TurnOptions.isolated`), but its calls,
budget, judgments and receipt are those of any turn: each judgment is paid once, and a second
evaluation is free. The lexical judge is asked the same for comparison, which costs nothing. What a
file of cases holds is said in `cases`.
"""

import time
from collections import Counter
from functools import partial, reduce
from operator import add

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from xscore.extensions.evaluation import quality
from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.metrics import LabelledScore, calibration_bins
from xscore.extensions.evaluation.quality import Evaluation, JudgeQuality, QuestionResult
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.judging_by_words import lexical_outcomes
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.prepare import open_turn
from xscore.pipeline.question_list import (
    ConfirmedObserver,
    TurnList,
    confirm_list_cost,
    list_caps_left,
)
from xscore.pipeline.ranking import rank
from xscore.pipeline.turn_clock import Stopwatch
from xscore.pipeline.turn_stages import Ranking
from xscore.platform import database
from xscore.platform.errors import ExitCode, StoreError
from xscore.platform.processes import random_hex
from xscore.platform.text import join_sentences
from xscore.records.calls import Stage
from xscore.records.estimates import CapLeft, JudgeEstimate
from xscore.records.events import Observer, StageBegan, TurnEvent
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import NOTHING_JUDGED, Answer, StageUsage
from xscore.records.reports import EvaluationLine
from xscore.records.turn import Scope, SessionInfo, Turn


class QuestionObserver(ConfirmedObserver):
    """Forwards the progress of one question, but not its session or forecast."""

    def __init__(self, observer: Observer, called: str) -> None:
        super().__init__(observer)
        self._called = called

    def on(self, event: TurnEvent) -> None:
        """Forward it, the stage by the question's name."""
        if event == StageBegan("judge"):
            super().on(StageBegan(f"judging {self._called}"))
        elif not isinstance(event, StageBegan | JudgeEstimate | SessionInfo):
            super().on(event)


async def run_evaluation(
    parts: PipelineParts,
    questions: CaseFile,
    *,
    scope: Scope | None = None,
    started: float | None = None,
) -> Evaluation:
    """Ask every question and measure. started: `time.monotonic()` from which the deadline counts;
    None: from now.

    Raises UsageError where the estimate is declined, and what the first turn raises where nothing
    was measured.
    """
    run = _EvaluationRun(TurnList(parts), questions, scope or Scope(), started or time.monotonic())
    run.confirm()
    for number in range(len(questions.cases)):
        if not await run.turns.goes_on_after(partial(run.ask, number)):
            break
    return run.account()


def forecast_cases(parts: PipelineParts, questions: CaseFile, scope: Scope) -> JudgeEstimate:
    """Return what judging every case would take; nothing is sent."""
    # Past answers are not evidence unless the user says so.
    has_session = Layer.SESSION in scope.layers
    forecasts: list[JudgeEstimate] = []
    for case in questions.cases:
        opened = open_turn(
            parts,
            _turn(case, scope),
            Stopwatch(),
            continues_session=False,
            exchanges=has_session,
        )
        forecasts.append(forecast_judging(parts.judge, opened.turn, opened.pool))
    return reduce(add, forecasts)


def _turn(case: EvalCase, scope: Scope) -> Turn:
    return Turn(task=case.task, scope=scope, fresh=True)


class _EvaluationRun(Struct):
    turns: TurnList
    questions: CaseFile
    scope: Scope
    started: float
    results: list[QuestionResult] = field(default_factory=list)
    scores: list[LabelledScore] = field(default_factory=list)
    cap: CapLeft | None = None

    def confirm(self) -> None:
        parts = self.turns.parts
        if parts.judge.paid and parts.observer.can_confirm and not parts.settings.judge.replay:
            confirm_list_cost(parts, forecast_cases(parts, self.questions, self.scope))

    async def ask(self, number: int) -> None:
        turns = self.turns
        case = self.questions.cases[number]
        seen: list[tuple[Turn, Ranking]] = []
        options = TurnOptions(
            answer=False,
            command="eval",
            isolated=True,
            started=self.started,
            ranked=lambda turn, ranking: seen.append((turn, ranking)),
        )
        called = f"question {number + 1} of {len(self.questions.cases)}"
        answer = await turns.ask(
            _turn(case, self.scope), options, QuestionObserver(turns.parts.observer, called)
        )
        turns.warnings.extend(answer.warnings)
        turns.ended = _cut_short(answer)
        if turns.ended == UnjudgedCause.BUDGET:
            caps_left = list_caps_left(turns.parts, spent=turns.spent)
            self.cap = min(caps_left, key=lambda cap: cap.left_usd, default=None)
        elif turns.ended:
            turns.warnings.extend(
                dict.fromkeys(absent.detail for absent in answer.unjudged.sample if absent.detail)
            )
        else:
            (turn, ranking) = seen[0]
            if case.gold:
                self.scores.extend(quality.labelled_scores(ranking, case.gold))
            self.results.append(self._result(case, answer, turn, ranking))

    def _result(
        self, case: EvalCase, answer: Answer, turn: Turn, ranking: Ranking
    ) -> QuestionResult:
        spent = _judging(answer)
        return QuestionResult(
            id=case.id,
            query=case.task,
            turn_id=answer.turn_id,
            gold=len(case.gold),
            kept=len(ranking.selection.kept),
            judge=quality.quality_of(ranking, case.gold, k=self._k),
            words=self._words(turn, ranking, case),
            missed=quality.missed_gold(ranking, case.gold),
            coverage=answer.coverage,
            calls=spent.calls,
            cost_usd=spent.cost_usd,
            seconds=answer.latency.total,
        )

    @property
    def _k(self) -> int:
        return self.turns.parts.settings.selection.top_k

    def _words(self, turn: Turn, ranking: Ranking, case: EvalCase) -> JudgeQuality | None:
        """Measure the lexical judge on the same candidates; None if it is the judge, or if there is
        nothing to find."""
        parts = self.turns.parts
        if parts.judge.scale is Scale.WORDS or not case.gold:
            return None
        candidates = [entry.candidate for entry in ranking.ranked]
        candidates += [candidate for candidate, _ in ranking.selection.unjudged]
        thresholds = parts.settings.selection.thresholds_of_words
        ranked = rank(
            parts,
            lexical_outcomes(parts, turn, candidates),
            turn,
            thresholds=thresholds,
            by_words=True,
        )
        return quality.quality_of(ranked, case.gold, k=self._k)

    def account(self) -> Evaluation:
        parts = self.turns.parts
        answers = self.turns.answers
        spent = sum(map(_judging, answers), StageUsage())
        causes = sum((Counter(answer.unjudged.by_cause) for answer in answers), Counter[str]())
        judge_qualities = [result.judge for result in self.results if result.judge is not None]
        word_qualities = [result.words for result in self.results if result.words is not None]
        warnings = [*self.turns.warnings, *quality.absent_gold_warning(self.results)]
        evaluation = Evaluation(
            id="",
            questions=self.questions.digest,
            asked=len(self.results),
            of=len(self.questions.cases),
            ended=self.turns.ended,
            cap=self.cap,
            judge=parts.judge.name,
            by_model=parts.judge.scale is not Scale.WORDS,
            k=self._k,
            threshold=parts.judge.thresholds.default,
            found=quality.mean_quality(judge_qualities),
            words=quality.mean_quality(word_qualities),
            no_gold=quality.no_gold_quality(self.results),
            reliability=calibration_bins(self.scores),
            coverage=sum((answer.coverage for answer in answers), NOTHING_JUDGED),
            unjudged_by_cause=dict(causes.most_common()),
            calls=spent.calls,
            usage=spent.usage,
            cost_usd=spent.cost_usd,
            estimated=spent.estimated,
            seconds=time.monotonic() - self.started,
            results=tuple(self.results),
            warnings=tuple(dict.fromkeys(warnings)),
        )
        try:
            return replace(evaluation, id=self._record(evaluation))
        except StoreError as error:
            note = f"the evaluation is not recorded: {join_sentences(error.message, error.hint)}"
            return replace(evaluation, warnings=(*evaluation.warnings, note))

    def _record(self, evaluation: Evaluation) -> str:
        """Store the figures if all questions were asked and anything was judged; return their
        id."""
        if (
            evaluation.ended
            or evaluation.found is None
            or evaluation.coverage.unjudged == evaluation.coverage.candidates
        ):
            return ""
        line = EvaluationLine(
            id="v_" + random_hex(8),
            at=self.turns.parts.clock(),
            questions=evaluation.questions,
            judge=evaluation.judge,
            cases=evaluation.asked - evaluation.no_gold.cases,
            k=evaluation.k,
            candidates=evaluation.coverage.candidates,
            unjudged=evaluation.coverage.unjudged,
            **asdict(evaluation.found.chosen),
        )
        with database.transaction(self.turns.parts.store.connection) as connection:
            columns = EvaluationLine.__struct_fields__
            values = ", ".join("?" * len(columns))
            connection.execute(
                f"INSERT INTO evaluation ({', '.join(columns)}) VALUES ({values})", astuple(line)
            )
        return line.id


def _cut_short(answer: Answer) -> str:
    """Say why a turn was not fully judged; empty if it was, or nearly."""
    if answer.exit_code == ExitCode.INTERRUPTED:
        return str(UnjudgedCause.INTERRUPTED)
    is_lost = answer.coverage.unjudged == answer.coverage.candidates
    causes = (
        UnjudgedCause.BUDGET,
        UnjudgedCause.DEADLINE,
        *([UnjudgedCause.PROVIDER] if is_lost else []),
    )
    return next((str(cause) for cause in causes if answer.unjudged.by_cause.get(str(cause))), "")


def _judging(answer: Answer) -> StageUsage:
    return answer.spent(Stage.PROBE, Stage.EMBED, Stage.JUDGE)
