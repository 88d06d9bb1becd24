"""Ask the judge questions with known answers, one turn each, and measure what it finds.

A turn of an evaluation is kept apart from the user's work (`TurnOptions.isolated`), but its calls,
budget, judgments and receipt are those of any turn: each judgment is paid once, and a second
evaluation is free. Cases with a parent are asked of the files of that commit (`places`). The
lexical judge is asked the same for comparison, which costs nothing. What a file of cases holds is
said in `cases`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial, reduce
from operator import add
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict, astuple, replace

from xscore.extensions.evaluation import quality
from xscore.extensions.evaluation.asking import AskedCase, cut_short, judging_usage, turn_of
from xscore.extensions.evaluation.case_figures import MeasuredCase, summarize
from xscore.extensions.evaluation.cases import CaseFile
from xscore.extensions.evaluation.metrics import merged_bins
from xscore.extensions.evaluation.places import CasePlaces, Stop, plan_stops
from xscore.extensions.evaluation.quality import Evaluation
from xscore.extensions.evaluation.result_lines import CaseRecord, ResultFile, run_key
from xscore.pipeline.estimating import forecast_judging
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.prepare import prepare_turn
from xscore.pipeline.question_list import (
    ConfirmedObserver,
    TurnList,
    confirm_list_cost,
    list_caps_left,
)
from xscore.pipeline.turn_clock import Stopwatch
from xscore.pipeline.turn_stages import Ranking
from xscore.platform import database
from xscore.platform.errors import NothingMatched, StoreError
from xscore.platform.processes import random_hex
from xscore.platform.text import join_sentences
from xscore.records.estimates import CapLeft, JudgeEstimate
from xscore.records.events import Observer, StageBegan, TurnEvent
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import NOTHING_JUDGED, StageUsage
from xscore.records.reports import EvaluationLine
from xscore.records.turn import Scope, SessionInfo, Turn

SAMPLED_STOPS = 3
"""How many commits are looked at for the estimate; the others are taken to be like the
nearest."""


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


CaseWatcher = Callable[[PipelineParts, AskedCase], None]
"""Takes the parts of the place where a case was asked, and the case."""


async def run_evaluation(
    parts: PipelineParts,
    questions: CaseFile,
    *,
    scope: Scope | None = None,
    started: float | None = None,
    clones: Path | None = None,
    output: Path | None = None,
    watch: CaseWatcher | None = None,
) -> Evaluation:
    """Ask every question and measure.

    started: `time.monotonic()` from which the deadline counts; None: from now.
    clones: the folder with the repositories that cases name.
    output: a file for a line of JSON a case; what it holds already is not asked again.
    watch: called with each fully judged case, while its files exist.

    Raises UsageError where the estimate is declined or the file is of another run, and what the
    first turn raises where nothing was measured.
    """
    scope = scope or Scope()
    key = run_key(parts, questions, scope)
    run = _EvaluationRun(
        places=CasePlaces(parts, clones),
        turns=TurnList(parts, starts_here=False),
        questions=questions,
        scope=scope,
        started=started or time.monotonic(),
        key=key,
        file=ResultFile(output, key) if output is not None else None,
        watch=watch,
    )
    run.resume()
    try:
        await run.confirm()
        for stop in run.stops():
            if not await run.visit(stop):
                break
    finally:
        run.places.remove_files()
    return run.account()


def forecast_cases(parts: PipelineParts, questions: CaseFile, scope: Scope) -> JudgeEstimate:
    """Return what judging every case here would take; nothing is sent."""
    # Past answers are not evidence unless the user says so.
    has_session = Layer.SESSION in scope.layers
    forecasts: list[JudgeEstimate] = []
    for case in questions.cases:
        prepared = prepare_turn(
            parts,
            turn_of(case, scope, parts.root.path),
            Stopwatch(),
            continues_session=False,
            exchanges=has_session,
        )
        forecasts.append(forecast_judging(parts.judge, prepared.turn, prepared.pool))
    return reduce(add, forecasts, JudgeEstimate())


async def forecast_run(
    places: CasePlaces, turns: TurnList, questions: CaseFile, stops: list[Stop], scope: Scope
) -> JudgeEstimate:
    """Return about what judging the cases of all stops would take; nothing is sent.

    A few stops are visited; the first case of each represents the cases of those around it.
    """
    if not stops:
        return JudgeEstimate()
    step = max(1, len(stops) // SAMPLED_STOPS)
    total: list[JudgeEstimate] = []
    # Forecasts of single cases, and how many cases each represents.
    sampled: list[tuple[JudgeEstimate, int]] = []
    for number, stop in enumerate(stops):
        cases = tuple(questions.cases[at] for at in stop.numbers)
        if number % step == 0 or not stop.parent:
            async with AsyncExitStack() as stack:
                try:
                    place = await stack.enter_async_context(places.parts_at(stop))
                except NothingMatched:
                    continue
                turns.move_to(place)
                # Where the files stay, each case is forecast by itself.
                seen = cases[:1] if stop.parent else cases
                forecast = forecast_cases(turns.parts, CaseFile(seen, questions.digest), scope)
            if not stop.parent:
                total.append(forecast)
                continue
            sampled.append((forecast, 0))
        if sampled:
            forecast, case_count = sampled.pop()
            sampled.append((forecast, case_count + len(cases)))
    return reduce(add, [*total, *spread_out(sampled)], JudgeEstimate())


def spread_out(sampled: Sequence[tuple[JudgeEstimate, int]]) -> Iterator[JudgeEstimate]:
    """Yield a forecast for each case.

    sampled: forecasts of single cases, and how many cases each represents, itself included.
    """
    # A case that was interrupted has a part of its judgments: it represents itself alone.
    typical = next((forecast for forecast, _ in sampled if not _is_half_done(forecast)), None)
    for forecast, case_count in sampled:
        of_others = forecast
        if typical is not None and _is_half_done(forecast):
            of_others = typical
        yield forecast
        yield from [of_others] * (case_count - 1)


def _is_half_done(forecast: JudgeEstimate) -> bool:
    return forecast.cached > 0 and forecast.to_judge > 0


class _EvaluationRun(Struct):
    places: CasePlaces
    turns: TurnList
    questions: CaseFile
    scope: Scope
    started: float
    key: str
    file: ResultFile | None
    watch: CaseWatcher | None
    records: dict[str, CaseRecord] = field(default_factory=dict)
    """Record by the id of the case, those of an earlier run included."""
    resumed: frozenset[str] = frozenset()
    left_out: Counter[str] = field(default_factory=Counter)
    cap: CapLeft | None = None

    @property
    def _base(self) -> PipelineParts:
        return self.places.base

    def resume(self) -> None:
        """Read what an earlier run has written, and remove what a killed one has left."""
        if self.file is not None:
            of_cases = {case.id for case in self.questions.cases}
            for record in self.file.read():
                if record.id in of_cases:
                    self.records[record.id] = record
        self.resumed = frozenset(self.records)
        if any(case.parent or case.repository for case in self.questions.cases):
            self.places.remove_files()
            self.places = replace(self.places, max_usd=self.places.cap_left())

    def stops(self) -> list[Stop]:
        """Return where the cases that are left are asked."""
        return plan_stops(self.questions.cases, self.resumed)

    async def confirm(self) -> None:
        """Say what judging will take, and ask where it is much."""
        parts = self._base
        if not parts.judge.paid or parts.settings.judge.replay or not self.stops():
            return
        estimate = await forecast_run(
            self.places, self.turns, self.questions, self.stops(), self.scope
        )
        if estimate.to_judge:
            parts.observer.on(estimate)
        confirm_list_cost(parts, estimate)

    async def visit(self, stop: Stop) -> bool:
        """Ask the cases of a stop; return False if the run has ended."""
        async with AsyncExitStack() as stack:
            try:
                place = await stack.enter_async_context(self.places.parts_at(stop))
            except NothingMatched as missing:
                self.left_out[missing.message] += len(stop.numbers)
                return True
            self.turns.move_to(place)
            for number in stop.numbers:
                if not await self.turns.goes_on_after(partial(self.ask, place, number)):
                    return False
        return True

    async def ask(self, place: PipelineParts, number: int) -> None:
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
        draft = turn_of(case, self.scope, place.root.path)
        observer = QuestionObserver(turns.parts.observer, called)
        answer = await turns.ask(draft, options, observer)
        self.places.charge(place, turns.charged[answer.turn_id], answer.turn_id)
        turns.warnings.extend(answer.warnings)
        turns.ended = cut_short(answer)
        if turns.ended == UnjudgedCause.BUDGET:
            caps_left = list_caps_left(turns.parts, spent=turns.spent)
            self.cap = min(caps_left, key=lambda cap: cap.left_usd, default=None)
        elif turns.ended:
            details = [absent.detail for absent in answer.unjudged.sample if absent.detail]
            turns.warnings.extend(dict.fromkeys(details))
        else:
            (turn, ranking) = seen[0]
            asked_case = AskedCase(case, turn, ranking, answer)
            if self.watch is not None:
                self.watch(turns.parts, asked_case)
            record = asked_case.record(turns.parts, self.key)
            self.records[case.id] = record
            # A case of which nothing was judged is asked again by the next run.
            if self.file is not None and ranking.ranked:
                self.file.append(record)

    def account(self) -> Evaluation:
        parts = self._base
        answers = self.turns.answers
        spent = sum(map(judging_usage, answers), StageUsage())
        records = [self.records[c.id] for c in self.questions.cases if c.id in self.records]
        earlier = [record for record in records if record.id in self.resumed]
        causes = sum((Counter(answer.unjudged.by_cause) for answer in answers), Counter[str]())
        causes = sum((Counter(record.unjudged_by_cause) for record in earlier), causes)
        coverage = sum((answer.coverage for answer in answers), NOTHING_JUDGED)
        judge_qualities = [record.judge for record in records if record.judge is not None]
        word_qualities = [record.words for record in records if record.words is not None]
        warnings = [*self.turns.warnings, *quality.absent_gold_warning(records)]
        evaluation = Evaluation(
            id="",
            questions=self.questions.digest,
            asked=len(records),
            of=len(self.questions.cases),
            ended=self.turns.ended,
            cap=self.cap,
            judge=parts.judge.name,
            by_model=parts.judge.scale is not Scale.WORDS,
            k=parts.settings.selection.top_k,
            threshold=parts.judge.thresholds.default,
            found=quality.mean_quality(judge_qualities),
            words=quality.mean_quality(word_qualities),
            no_gold=quality.no_gold_quality(records),
            summary=summarize([_measured(record) for record in records if record.ranked]),
            reliability=merged_bins([record.bins for record in records if record.gold]),
            coverage=sum((record.coverage for record in earlier), coverage),
            unjudged_by_cause=dict(causes.most_common()),
            calls=spent.calls,
            usage=spent.usage,
            cost_usd=spent.cost_usd,
            estimated=spent.estimated,
            seconds=time.monotonic() - self.started,
            results=tuple(record.result() for record in records),
            resumed=len(earlier),
            left_out=dict(self.left_out),
            warnings=tuple(dict.fromkeys(warnings)),
        )
        try:
            return replace(evaluation, id=self._record(evaluation))
        except StoreError as error:
            note = (
                f"the evaluation is not recorded: {join_sentences(error.message, error.hint)}"
            )
            return replace(evaluation, warnings=(*evaluation.warnings, note))

    def _record(self, evaluation: Evaluation) -> str:
        """Store the figures if all questions were asked and anything was judged; return their
        id."""
        if (
            evaluation.ended
            or evaluation.left_out
            or evaluation.found is None
            or not self._base.store.path.exists()
            or evaluation.coverage.unjudged == evaluation.coverage.candidates
        ):
            return ""
        line = EvaluationLine(
            id="v_" + random_hex(8),
            at=self._base.clock(),
            questions=evaluation.questions,
            judge=evaluation.judge,
            cases=evaluation.asked - evaluation.no_gold.cases,
            k=evaluation.k,
            candidates=evaluation.coverage.candidates,
            unjudged=evaluation.coverage.unjudged,
            **asdict(evaluation.found.chosen),
        )
        with database.transaction(self._base.store.connection) as connection:
            columns = EvaluationLine.__struct_fields__
            values = ", ".join("?" * len(columns))
            connection.execute(
                f"INSERT INTO evaluation ({', '.join(columns)}) VALUES ({values})",
                astuple(line),
            )
        return line.id


def _measured(record: CaseRecord) -> MeasuredCase:
    return MeasuredCase(
        id=record.id,
        repository=record.repository,
        figures=record.figures,
        kept=record.kept,
        best_score=record.best_score,
    )
