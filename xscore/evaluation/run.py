"""Put questions with known answers to the judge of an opened repository, one turn each, and measure what it finds.

A turn of an evaluation stands apart from the user's work (`Wishes.apart`), but its calls, budget, judgments and receipt
are those of any turn: so each judgment is paid once, and a second evaluation is free. The whole run is one purchase:
`budget.max_usd` holds for the sum over the questions, each of which reserves under what the others left. The lexical
judge is asked the same, for comparison; that costs nothing. Trade-off: the index is brought up to date once, so files
that change during the run are judged as they were found.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from decimal import Decimal

from xscore.cost_reports import evaluations
from xscore.cost_reports.caps import charged
from xscore.errors import NoUsableModel, ProviderError, StoreError, UsageError, XscoreError
from xscore.evaluation.metrics import Scored, reliability
from xscore.evaluation.qrels import Case, Questions
from xscore.evaluation.quality import (
    Evaluation,
    Quality,
    QuestionResult,
    mean,
    missed,
    no_candidates,
    quality_of,
    scored,
)
from xscore.evaluation.within import OfQuestion, caps_left, estimate_all
from xscore.memory.evidence import stale_ids
from xscore.memory.likeness.terms import EMBEDDER
from xscore.pipeline.ask import run_turn
from xscore.pipeline.judging import forgive
from xscore.pipeline.lexical_seat import LexicalSeat
from xscore.pipeline.parts import Parts
from xscore.pipeline.ranking import Ranking, rank
from xscore.pipeline.wishes import Wishes
from xscore.records import Answer, CapLeft, Cause, Coverage, Origin, Outcome, Scope, StageUsage, Turn, Usage
from xscore.records.cost_report import NOTHING_JUDGED, EvaluationLine
from xscore.scorer.lexical import LexicalJudge


async def run(
    parts: Parts, questions: Questions, *, scope: Scope | None = None, started: float | None = None
) -> Evaluation:
    """Ask every question and measure. started: `time.monotonic()` from which the deadline counts; None: from now.

    Ctrl-C, a cap, the deadline, a host or a store that fails end the run with what was measured so far. Raises
    UsageError where the estimate is declined, and what the first turn raises where nothing was measured.
    """
    course = _Run(parts, questions, scope or Scope(), time.monotonic() if started is None else started)
    await course.go()
    return course.account()


@dataclass(slots=True)
class _Run:
    """One evaluation under way."""

    parts: Parts
    questions: Questions
    scope: Scope
    started: float
    results: list[QuestionResult] = field(default_factory=list)
    receipts: list[Answer] = field(default_factory=list)
    """Of every turn, that of a question cut short as well."""
    scores: list[Scored] = field(default_factory=list)
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
                forgive(asyncio.current_task())
                self.ended = str(Cause.INTERRUPTED)
            except (ProviderError, NoUsableModel) as error:
                if not self.receipts:
                    raise
                self.ended = str(Cause.PROVIDER)
                self.warnings.append(_said(error))
            except StoreError as error:
                if not self.receipts:
                    raise
                self.ended = "store"
                self.warnings.append(_said(error))
            if self.ended:
                return

    def _confirm(self) -> None:
        """Ask once, before a costly run. Raises UsageError when the user declines."""
        parts = self.parts
        if not (parts.judge.is_model and parts.observer.can_confirm) or parts.settings.judge.replay:
            return
        estimate = estimate_all(parts, [self._turn(case) for case in self.questions.cases])
        cost = estimate.cost_usd
        if (cost is None or cost > parts.settings.budget.confirm_usd) and not parts.observer.confirm(estimate):
            raise UsageError(
                "nothing was sent: the estimate was declined", hint="Narrow with --path, ask fewer, or pass --yes."
            )

    def _turn(self, case: Case) -> Turn:
        return Turn(task=case.query, scope=self.scope, fresh=True)

    async def _ask(self, case: Case, called: str) -> str:
        """Take one turn and measure it; return why the run is over, or nothing."""
        parts = self._under_what_is_left()
        parts = replace(parts, observer=OfQuestion(parts.observer, called), index=self.parts.index)
        seen: list[tuple[Turn, Ranking]] = []
        wishes = Wishes(
            answer=False,
            command="eval",
            apart=True,
            started=self.started,
            ranked=lambda turn, ranking: seen.append((turn, ranking)),
        )
        answer = await run_turn(parts, self._turn(case), wishes)
        self.receipts.append(answer)
        self.spent += charged(parts.store.connection, answer.turn_id)
        self.warnings.extend(answer.warnings)
        ended = _cut_short(answer)
        if ended == Cause.BUDGET:
            self.cap = min(caps_left(self.parts, self.spent), key=lambda cap: cap.left_usd, default=None)
        elif ended:
            self.warnings.extend(dict.fromkeys(absent.detail for absent in answer.unjudged.sample if absent.detail))
        if ended:
            return ended
        (turn, ranking), k = seen[0], parts.settings.selection.top_k
        self.scores.extend(scored(ranking, case.gold))
        self.results.append(_result(case, answer, ranking, self._words(turn, ranking, case), k=k))
        return ""

    def _under_what_is_left(self) -> Parts:
        """Return the parts whose cap is what the questions so far have left of it."""
        cap = self.parts.settings.budget.max_usd
        if cap is None or self.parts.capped_at is None or not self.receipts:
            return self.parts
        return self.parts.capped_at(max(Decimal(0), cap - self.spent))

    def _words(self, turn: Turn, ranking: Ranking, case: Case) -> Quality | None:
        """Measure what the lexical judge makes of the same candidates; None where it is the judge."""
        parts = self.parts
        if not parts.judge.is_model:
            return None
        candidates = [entry.candidate for entry in ranking.ranked]
        candidates += [candidate for candidate, _ in ranking.selection.unjudged]
        judge = LexicalJudge(lambda: parts.store.vectors(EMBEDDER), stale=stale_ids(parts.store.connection))
        judged = {judgment.content_hash: judgment for judgment in judge.judgments(turn, candidates)}
        outcomes = [Outcome(one, judged[one.content_hash], Origin.JUDGED) for one in candidates]
        seated = replace(parts, judge=LexicalSeat(settings=parts.settings, store=parts.store))
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
            found=mean([result.judge for result in self.results]),
            words=mean([result.words for result in self.results if result.words is not None]),
            reliability=reliability(self.scores),
            coverage=_sum(answer.coverage for answer in self.receipts),
            unjudged_by_cause=dict(causes.most_common()),
            calls=sum(stage.calls for stage in flat),
            usage=sum((stage.usage for stage in flat), Usage()),
            cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
            estimated=any(stage.estimated for stage in flat),
            seconds=time.monotonic() - self.started,
            results=tuple(self.results),
            warnings=tuple(dict.fromkeys([*self.warnings, *no_candidates(self.results)])),
        )
        try:
            return replace(found, id=self._recorded(found))
        except StoreError as error:
            return replace(found, warnings=(*found.warnings, f"the evaluation is not recorded: {_said(error)}"))

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
        return evaluations.record(self.parts.store.connection, line)


def _result(case: Case, answer: Answer, ranking: Ranking, words: Quality | None, *, k: int) -> QuestionResult:
    stages = _judging(answer)
    costs = [stage.cost_usd for stage in stages]
    return QuestionResult(
        id=case.id,
        query=case.query,
        turn_id=answer.turn_id,
        gold=len(case.gold),
        judge=quality_of(ranking, case.gold, k=k),
        words=words,
        missed=missed(ranking, case.gold),
        coverage=answer.coverage,
        calls=sum(stage.calls for stage in stages),
        cost_usd=None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0)),
        seconds=answer.latency.total,
    )


def _cut_short(answer: Answer) -> str:
    """Why a turn was not judged to its end, as the end of the whole run; empty where it was, or nearly."""
    if answer.exit_code == 130:
        return str(Cause.INTERRUPTED)
    is_lost = answer.coverage.unjudged == answer.coverage.candidates
    causes = (Cause.BUDGET, Cause.DEADLINE, *([Cause.PROVIDER] if is_lost else []))
    return next((str(cause) for cause in causes if answer.unjudged.by_cause.get(str(cause))), "")


def _said(error: XscoreError) -> str:
    return f"{error.message.rstrip('.')}. {error.hint}".strip()


def _judging(answer: Answer) -> Sequence[StageUsage]:
    return [stage for stage in (answer.probe_usage, answer.embed_usage, answer.judge_usage) if stage]


def _sum(coverages: Iterable[Coverage]) -> Coverage:
    """Add up, part by part."""
    rows = [astuple(NOTHING_JUDGED), *map(astuple, coverages)]
    return Coverage(*map(sum, zip(*rows, strict=True)))
