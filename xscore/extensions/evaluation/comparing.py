"""Run the cases of an evaluation by one variant of the settings, for a comparison.

A variant is an evaluation like any other, under a judge of its own where its scores are not those
of a turn (`variants`), and through a recording where one is made or replayed.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from xscore.extensions.evaluation.cases import CaseFile
from xscore.extensions.evaluation.comparison import WORST, CaseResult, Miss, ResultSet
from xscore.extensions.evaluation.quality import (
    Evaluation,
    MissedGold,
    QuestionResult,
    figures_of,
    where_missed,
)
from xscore.extensions.evaluation.recording import Recording
from xscore.extensions.evaluation.run import forecast_cases, run_evaluation
from xscore.extensions.evaluation.variants import Variant, judge_of
from xscore.pipeline.assembly import with_adapted_judge
from xscore.pipeline.build import Pipeline
from xscore.pipeline.explaining import explain_choice
from xscore.pipeline.factories import with_dummy_keys
from xscore.pipeline.parts import JudgingParts, PipelineParts, ResourcesOpener
from xscore.pipeline.resources import TurnResources
from xscore.platform.errors import XscoreError
from xscore.records.estimates import JudgeEstimate
from xscore.records.turn import Scope
from xscore.settings import LoadedSettings


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
    return replace(parts, resources_opener=_recorded(parts.resources_opener, recording))


def _recorded(opener: ResourcesOpener, recording: Recording) -> ResourcesOpener:
    @asynccontextmanager
    async def open_recorded(parts: JudgingParts, turn_id: str) -> AsyncIterator[TurnResources]:
        async with opener(parts, turn_id) as resources:
            resources.around = recording.around()
            yield resources

    return open_recorded


async def forecast_variant(
    pipeline: Pipeline,
    *,
    variant: Variant,
    cases: CaseFile,
    scope: Scope,
    recording: Recording | None,
) -> JudgeEstimate:
    """Return what judging all cases would take; nothing is sent."""
    parts = variant_parts(pipeline.parts, variant, recording)
    return forecast_cases(parts, cases, scope)


async def run_variant(
    pipeline: Pipeline,
    *,
    variant: Variant,
    cases: CaseFile,
    scope: Scope,
    started: float,
    recording: Recording | None,
) -> VariantRun:
    """Ask every case. started: see `run_evaluation`. Raises what that raises."""
    parts = variant_parts(pipeline.parts, variant, recording)
    evaluation = await run_evaluation(parts, cases, scope=scope, started=started)
    if recording is not None:
        recording.keep_host(with_adapted_judge(pipeline.parts, variant.judge).judge.capability)
    results = _results(parts, variant, cases, evaluation)
    return VariantRun(results=results, evaluation=evaluation)


def _results(
    parts: PipelineParts, variant: Variant, cases: CaseFile, evaluation: Evaluation
) -> ResultSet:
    by_id = {case.id: case for case in cases.cases}
    # Each explanation ranks a pool again: only those that a reader will see are made.
    explained = {result.id for result in evaluation.worst[:WORST]}
    results: list[CaseResult] = []
    for result in evaluation.results:
        case = by_id[result.id]
        words: Mapping[MissedGold, str] = {}
        if result.id in explained:
            words = _explanations(parts, result)
        misses: list[Miss] = []
        for gold in result.missed:
            why = words.get(gold) or where_missed(gold)
            misses.append(Miss(path=gold.path, name=gold.name, why=why))
        results.append(
            CaseResult(
                id=case.id,
                figures=figures_of(result.judge, result.kept),
                task=case.task,
                repository=case.repository,
                language=case.language,
                kind=case.kind,
                misses=tuple(misses),
            )
        )
    return ResultSet(name=variant.name, cases=tuple(results), judge=evaluation.judge)


def _explanations(parts: PipelineParts, result: QuestionResult) -> Mapping[MissedGold, str]:
    """Return what `explain` says of each missed gold that it knows."""
    words: dict[MissedGold, str] = {}
    for gold in result.missed:
        if not (gold.is_candidate and gold.name):
            continue
        try:
            explanation = explain_choice(parts, f"{gold.path}::{gold.name}", turn_id=result.turn_id)
        except XscoreError:
            # A name that only lines tell apart: the rank and the score say enough.
            continue
        words[gold] = explanation.words
    return words
