"""Run the cases of an evaluation by one variant of the settings, for a comparison.

A variant is an evaluation like any other, under a judge of its own where its scores are not those
of a turn (`variants`), and through a recording where one is made or replayed.
"""

from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.evaluation.asking import AskedCase
from xscore.extensions.evaluation.call_wrapping import with_calls_wrapped
from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.comparison import CaseResult, Miss, ResultSet
from xscore.extensions.evaluation.places import CasePlaces, plan_stops
from xscore.extensions.evaluation.quality import (
    Evaluation,
    QuestionResult,
    figures_of,
    missed_gold,
    where_missed,
)
from xscore.extensions.evaluation.recording import Recording
from xscore.extensions.evaluation.run import forecast_run, run_evaluation
from xscore.extensions.evaluation.variants import Variant, judge_of
from xscore.pipeline.assembly import with_adapted_judge
from xscore.pipeline.build import Pipeline
from xscore.pipeline.explaining import explain_choice
from xscore.pipeline.factories import with_dummy_keys
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import TurnList
from xscore.platform.errors import XscoreError
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Scope
from xscore.settings import LoadedSettings

EXPLAINED = 3
"""Missed entities of a case that are explained."""


class VariantRun(Struct, frozen=True, kw_only=True):
    """What one variant did, and what it took."""

    results: ResultSet
    evaluation: Evaluation


def variant_settings(
    variant: Variant, loaded: LoadedSettings, recording: Recording | None
) -> LoadedSettings:
    """Return the settings to open a pipeline with.

    loaded: with the variant's overrides on top. A replay needs no key, and asks no host what it
    can do.
    """
    settings = variant.settings_over(loaded)
    if recording is not None and not recording.sends:
        settings = with_dummy_keys(settings)
        settings = replace(settings, judge=replace(settings.judge, probe=False))
    return replace(loaded, settings=settings)


def variant_parts(
    parts: PipelineParts, variant: Variant, recording: Recording | None
) -> PipelineParts:
    """Return the parts of an opened pipeline as the variant judges."""
    parts = with_adapted_judge(parts, judge_of(variant, recording))
    if recording is None:
        return parts
    return with_calls_wrapped(parts, recording.around)


async def forecast_variant(
    pipeline: Pipeline,
    *,
    variant: Variant,
    cases: CaseFile,
    scope: Scope,
    clones: Path | None,
    recording: Recording | None,
) -> JudgeEstimate:
    """Return about what judging all cases would take; nothing is sent."""
    parts = variant_parts(pipeline.parts, variant, recording)
    places = CasePlaces(parts, clones)
    turns = TurnList(parts, starts_here=False)
    try:
        return await forecast_run(places, turns, cases, plan_stops(cases.cases), scope)
    finally:
        places.remove_files()


async def run_variant(
    pipeline: Pipeline,
    *,
    variant: Variant,
    cases: CaseFile,
    scope: Scope,
    started: float,
    clones: Path | None,
    recording: Recording | None,
) -> VariantRun:
    """Ask every case. started, clones: see `run_evaluation`. Raises what that raises."""
    parts = variant_parts(pipeline.parts, variant, recording)
    watcher = _Explainer(recording)
    evaluation = await run_evaluation(
        parts, cases, scope=scope, started=started, clones=clones, watch=watcher
    )
    by_id = {case.id: case for case in cases.cases}
    results: list[CaseResult] = []
    for result in evaluation.results:
        results.append(_case_result(by_id[result.id], result, watcher))
    result_set = ResultSet(name=variant.name, cases=tuple(results), judge=evaluation.judge)
    return VariantRun(results=result_set, evaluation=evaluation)


def _case_result(case: EvalCase, result: QuestionResult, watcher: "_Explainer") -> CaseResult:
    words = watcher.words.get(case.id, {})
    misses: list[Miss] = []
    for gold in result.missed:
        why = words.get((gold.path, gold.name)) or where_missed(gold)
        misses.append(Miss(path=gold.path, name=gold.name, why=why))
    return CaseResult(
        id=case.id,
        figures=figures_of(result.judge, result.kept),
        task=case.task,
        repository=case.repository,
        language=case.language,
        kind=case.kind,
        misses=tuple(misses),
    )


class _Explainer(Struct):
    """Explains what a case missed while its files are there; see `run.CaseWatcher`."""

    recording: Recording | None
    words: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    """Id of a case -> path and name of a missed gold -> what `explain` says about it."""

    def __call__(self, parts: PipelineParts, asked_case: AskedCase) -> None:
        """Explain the first of what was missed, and note what the host can do."""
        if self.recording is not None:
            self.recording.keep_host(parts.judge.capability)
        words = self.words.setdefault(asked_case.case.id, {})
        missed = missed_gold(asked_case.ranking, asked_case.case_of_entities().gold)
        candidates = [gold for gold in missed if gold.is_candidate and gold.name]
        # Each explanation ranks the pool again.
        for gold in candidates[:EXPLAINED]:
            name = f"{gold.path}::{gold.name}"
            try:
                explanation = explain_choice(parts, name, turn_id=asked_case.answer.turn_id)
            except XscoreError:
                # A name that only lines tell apart: the rank and the score say enough.
                continue
            words[gold.path, gold.name] = explanation.words
