"""Ask one case as a turn, and make its record.

The turn is kept apart from the user's work (`TurnOptions.isolated`). The lexical judge scores the
same candidates, which costs nothing.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.evaluation import case_figures, quality
from xscore.extensions.evaluation.cases import EvalCase
from xscore.extensions.evaluation.metrics import calibration_bins, entity_ref, span_entities
from xscore.extensions.evaluation.quality import JudgeQuality
from xscore.extensions.evaluation.result_lines import CaseRecord, ranked_lines
from xscore.pipeline.judge_description import Scale
from xscore.pipeline.judging_by_words import lexical_outcomes
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranking import rank
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.errors import ExitCode
from xscore.platform.files import is_there, leads_out
from xscore.records.calls import Stage
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment, Outcome, UnjudgedCause
from xscore.records.receipt import Answer, StageUsage
from xscore.records.turn import Scope, Turn
from xscore.store.redaction import redact


def turn_of(case: EvalCase, scope: Scope, root: Path) -> Turn:
    """Return the turn that a case is asked as. root: folder of the files; a file that is not
    there is not named."""
    is_there_now = bool(case.file) and not leads_out(case.file) and is_there(root / case.file)
    file = case.file if is_there_now else ""
    return Turn(task=case.task, file=file, scope=scope, fresh=True)


def judging_usage(answer: Answer) -> StageUsage:
    """Return what was spent on judging."""
    return answer.spent(Stage.PROBE, Stage.EMBED, Stage.JUDGE)


def cut_short(answer: Answer) -> str:
    """Say why a turn was not fully judged; empty if it was, or nearly."""
    if answer.exit_code == ExitCode.INTERRUPTED:
        return str(UnjudgedCause.INTERRUPTED)
    is_lost = answer.coverage.unjudged == answer.coverage.candidates
    causes = (
        UnjudgedCause.BUDGET,
        UnjudgedCause.DEADLINE,
        *([UnjudgedCause.PROVIDER] if is_lost else []),
    )
    return next(
        (str(cause) for cause in causes if answer.unjudged.by_cause.get(str(cause))), ""
    )


class AskedCase(Struct, frozen=True):
    """A case that was judged to its end."""

    case: EvalCase
    turn: Turn
    ranking: Ranking
    answer: Answer

    def record(self, parts: PipelineParts, run: str) -> CaseRecord:
        """Return its record. parts: those that it was asked with."""
        ranking = self.ranking
        answer = self.answer
        candidates = self._candidates()
        case = self.case_of_entities()
        k = parts.settings.selection.top_k
        by_words = lexical_outcomes(parts, self.turn, candidates)
        spent = judging_usage(answer)
        in_order = ranking.in_order()
        return CaseRecord(
            run=run,
            id=case.id,
            query=redact(case.task, prose=True).text,
            repository=case.repository,
            language=case.language,
            kind=case.kind,
            commit=case.commit,
            parent=case.parent,
            date=case.date,
            turn_id=answer.turn_id,
            gold=len(case.gold),
            kept=len(ranking.selection.kept),
            judge=quality.quality_of(ranking, case.gold, k=k),
            words=self._quality_by_words(parts, case, by_words),
            missed=quality.missed_gold(ranking, case.gold),
            figures=case_figures.case_figures(ranking, case.gold),
            best_score=in_order[0].score if in_order else 0.0,
            bins=calibration_bins(quality.labelled_scores(ranking, case.gold)),
            ranked=ranked_lines(ranking, case, _scores(by_words)),
            coverage=answer.coverage,
            unjudged_by_cause=dict(answer.unjudged.by_cause),
            calls=spent.calls,
            cost_usd=spent.cost_usd,
            seconds=answer.latency.total,
        )

    def case_of_entities(self) -> EvalCase:
        """Return the case with the entities at its gold lines."""
        places = [entity_ref(candidate) for candidate in self._candidates()]
        return replace(self.case, gold=span_entities(self.case.gold, places))

    def _candidates(self) -> list[Candidate]:
        candidates = [entry.candidate for entry in self.ranking.ranked]
        return candidates + [candidate for candidate, _ in self.ranking.selection.unjudged]

    def _quality_by_words(
        self, parts: PipelineParts, case: EvalCase, outcomes: tuple[Outcome, ...]
    ) -> JudgeQuality | None:
        """Measure the lexical judge; None if it is the judge, or if there is nothing to find."""
        if parts.judge.scale is Scale.WORDS or not case.gold:
            return None
        selection = parts.settings.selection
        thresholds = selection.thresholds_of_words
        ranked = rank(parts, outcomes, self.turn, thresholds=thresholds, by_words=True)
        return quality.quality_of(ranked, case.gold, k=selection.top_k)


def _scores(outcomes: tuple[Outcome, ...]) -> Mapping[str, float]:
    scores: dict[str, float] = {}
    for outcome in outcomes:
        if isinstance(outcome.result, Judgment):
            scores[outcome.candidate.content_hash] = outcome.result.score
    return scores
