"""Measure a judge on past commits, and keep what its scores were worth.

Cases are run as those of any evaluation; the best memories of each are kept under every weight
of words that is tried. What is fitted from them is stored under the judge's identity, in the
store of this repository, which only its user writes
(`docs/internals/decisions/0034-store-place.md`). Trade-off: boosts are worked out again for
every weight, some tens of milliseconds a case.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.asking import AskedCase
from xscore.extensions.evaluation.calibration_fit import (
    FEWEST_POSITIVES,
    KEPT_PER_CASE,
    WEIGHTS,
    CalibrationFit,
    ScoredCase,
    ScoredMemory,
    count_positives,
    fit_calibration,
)
from xscore.extensions.evaluation.call_wrapping import with_calls_wrapped
from xscore.extensions.evaluation.cases import EvalCase
from xscore.extensions.evaluation.metrics import entity_ref
from xscore.pipeline.assembly import described_again
from xscore.pipeline.joining import WORDS_WEIGHT
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.probe import probe_host
from xscore.pipeline.ranking import rank
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.errors import GateFailed, UsageError
from xscore.platform.processes import random_hex
from xscore.platform.text import counted
from xscore.providers.provider import OnText, Provider, ProviderWrapper
from xscore.records.calibration import Calibration
from xscore.records.calls import Completion, Request
from xscore.records.judgment import Outcome
from xscore.records.turn import Turn

USUAL_RECALL = 0.9


class CaseCollector(Struct):
    """Collects a judge's scores of each case; see `run.CaseWatcher`."""

    cases: list[ScoredCase] = field(default_factory=list)
    answered_as: set[str] = field(default_factory=set)
    """Names that the host gave the model in its replies."""

    judge: JudgeDescription | None = None
    """The judge under the name by which its host answered; None if no case was judged."""

    def __call__(self, parts: PipelineParts, asked_case: AskedCase) -> None:
        """Score one case under every weight."""
        case = asked_case.case_of_entities()
        self.cases.append(score_case(parts, case, asked_case.turn, asked_case.ranking))
        # Its first reply may have named another model, whose judgments these are.
        self.judge = described_again(parts).judge


class _NameListener(ProviderWrapper):
    """Notes the name of the model in every reply."""

    def __init__(self, provider: Provider, names: set[str]) -> None:
        super().__init__(provider)
        self._names = names

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Ask, and note who answered."""
        completion = await self.provider.complete(request, on_text)
        self._names.add(completion.model)
        return completion


def with_names_noted(parts: PipelineParts, names: set[str]) -> PipelineParts:
    """Return the parts so that `names` gets the name of the model in every reply."""

    return with_calls_wrapped(parts, lambda: lambda provider: _NameListener(provider, names))


async def who_answers(parts: PipelineParts) -> tuple[JudgeDescription, set[str]]:
    """Ask the judge's host about two built-in memories; return the judge as it answers now, and
    the names that it gave.

    A replay asks nothing. Raises what `probe_host` raises.
    """
    names: set[str] = set()
    judge = parts.judge
    if parts.settings.judge.replay:
        return judge, names
    async with with_names_noted(parts, names).open_resources(f"p_{random_hex(8)}") as resources:
        line = resources.judging_provider(judge.connected(), model=judge.asked_model)
        probed = await probe_host(judge, line)
    return judge.knowing(probed.capability), names


def score_case(
    parts: PipelineParts, case: EvalCase, turn: Turn, ranking: Ranking
) -> ScoredCase:
    """Return a case as the judge scored it, boosts included, under every weight of words."""
    outcomes = [
        Outcome(entry.candidate, entry.judgment, entry.origin) for entry in ranking.ranked
    ]
    gold_ranks: dict[float, tuple[int, ...]] = {}
    memories: dict[float, tuple[ScoredMemory, ...]] = {}
    for weight in _weights(parts):
        in_order = rank(parts, outcomes, turn, by_words=False, words_weight=weight).in_order()
        hits = metrics.match_gold(
            [entity_ref(entry.candidate) for entry in in_order], case.gold
        )
        ranks: list[int] = []
        scored: list[ScoredMemory] = []
        for place, (entry, hit) in enumerate(zip(in_order, hits, strict=True), start=1):
            is_gold = hit is not None
            if is_gold:
                ranks.append(place)
            if is_gold or place <= KEPT_PER_CASE:
                scored.append(ScoredMemory(entry.score, str(entry.candidate.kind), is_gold))
        gold_ranks[weight] = tuple(ranks)
        memories[weight] = tuple(scored)
    return ScoredCase(
        id=case.id,
        repository=case.repository,
        gold=len(case.gold),
        gold_ranks=gold_ranks,
        memories=memories,
    )


def _weights(parts: PipelineParts) -> list[float]:
    """Return the weights to try; one that the user has chosen is the only one."""
    chosen = parts.settings.selection.words
    if chosen is None:
        return sorted({*WEIGHTS, WORDS_WEIGHT})
    return [chosen]


def refuse_words(judge: JudgeDescription) -> None:
    """Raise UsageError for the lexical judge, whose scores were fitted once for all."""
    if judge.scale is Scale.WORDS:
        raise UsageError(
            "the lexical judge is not calibrated here: its cut was fitted for all repositories",
            hint="Name a model: --judge provider:model.",
        )


def refuse_too_little_gold(cases: Sequence[EvalCase]) -> None:
    """Raise UsageError where cases name too little to fit anything, before a judge is paid."""
    positives = 0
    for case in cases:
        if any(not place.name for place in case.gold):
            return  # a path alone means any number of memories
        positives += len(case.gold)
    _refuse_too_few(positives, len(cases))


def refuse_too_few(cases: Sequence[ScoredCase]) -> None:
    """Raise UsageError where the cases hold too little to fit anything."""
    _refuse_too_few(count_positives(cases), len(cases))


def _refuse_too_few(positives: int, cases: int) -> None:
    if positives < FEWEST_POSITIVES:
        memories = counted(positives, "needed memory", "needed memories")
        raise UsageError(
            f"{memories} in {counted(cases, 'case')}: {FEWEST_POSITIVES} are the fewest to fit"
            " a cut on, since a recall measured on fewer is off by more than 0.1",
            hint="Mine more commits (`xscore eval mine`), or write more cases.",
        )


def make_calibration(
    judge: JudgeDescription,
    collector: CaseCollector,
    *,
    recall: float,
    kept_limit: int,
    now: float,
) -> tuple[Calibration, CalibrationFit]:
    """Fit the collected cases. now: Unix seconds. Raises UsageError if they are too few."""
    cases = collector.cases
    refuse_too_few(cases)
    # From the default, not from an earlier calibration: the same cases give the same weight.
    chosen = judge.settings.selection.words
    fit = fit_calibration(
        cases,
        recall=recall,
        kept_limit=kept_limit,
        weight_in_force=WORDS_WEIGHT if chosen is None else chosen,
        is_weight_chosen=chosen is not None,
    )
    calibration = Calibration(
        asked=str(judge.spec),
        identity=judge.identity,
        answered_as=tuple(sorted(collector.answered_as)),
        made_at=now,
        cases=len(cases),
        positives=count_positives(cases),
        repositories=len({case.repository for case in cases}),
        wished_recall=recall,
        most=kept_limit,
        words_weight=fit.words_weight,
        cuts=fit.cuts,
        maps=fit.maps,
        recall=fit.recall,
        recall_low=fit.interval.low if fit.interval else None,
        recall_high=fit.interval.high if fit.interval else None,
        kept=fit.figures.mean_kept,
        error=fit.error,
    )
    return calibration, fit


def check_calibration(
    calibrations: Sequence[Calibration], judge: JudgeDescription, answered_as: set[str]
) -> Calibration:
    """Return the calibration of this judge.

    answered_as: names that its host gave the model just now; empty if it was not asked.
    Raises UsageError if it was never calibrated, GateFailed if another model answers now.
    """
    name = str(judge.spec)
    of_judge = [calibration for calibration in calibrations if calibration.asked == name]
    if not of_judge:
        raise UsageError(
            f"{name} was not calibrated in this store",
            hint="Run `xscore eval calibrate CASES`.",
        )
    matching = [entry for entry in of_judge if entry.identity == judge.identity]
    if not matching:
        raise GateFailed(
            f"{name} was calibrated as {_describe(of_judge[0])}, and judges now as"
            f" {judge.identity.model} ({judge.identity.prompt_version})",
            hint="Calibrate it again, or name the model that was calibrated.",
        )
    calibration = matching[0]
    strangers = answered_as - set(calibration.answered_as)
    if answered_as and calibration.answered_as and strangers:
        raise GateFailed(
            f"{name} answers as {', '.join(sorted(strangers))}, and was calibrated as"
            f" {', '.join(calibration.answered_as)}",
            hint="Calibrate it again, or name the model that was calibrated.",
        )
    return calibration


def _describe(calibration: Calibration) -> str:
    identity = calibration.identity
    return f"{identity.model} ({identity.prompt_version})"
