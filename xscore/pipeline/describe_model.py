"""Describes a judge that is a model: its identity in the cache, its form and its rubric.

Nothing is sent, and a fully cached turn reads no more than this of its judge. Trade-off: naming a
script or a model file reads its start.
"""

from msgspec.structs import replace

from xscore.pipeline.joining import WORDS_WEIGHT
from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.known_hosts import known_capability
from xscore.pipeline.pack_slots import PackSlots
from xscore.platform.text import encodable_text
from xscore.prompts.rubric import Rubric, named_rubric
from xscore.providers.catalog import model_settings
from xscore.providers.provider import Adaptable
from xscore.providers.spec import ModelSpec, connect_provider, model_name
from xscore.records.calls import DecisionForm
from xscore.records.judgment import DECISION_ORDER, USUAL_THRESHOLD, JudgeIdentity, Thresholds
from xscore.settings import JudgeSettings, Settings
from xscore.store.personal_data import redact_said
from xscore.store.store import Store


def describe_model_judge(
    spec: ModelSpec, settings: Settings, *, store: Store, rubric: Rubric | None = None
) -> JudgeDescription:
    """Describe a model as the judge.

    rubric: what it looks for; None: what the settings name.
    Raises what `connect_provider` raises.
    """
    provider = connect_provider(spec, settings)
    model = model_name(spec)
    rubric = rubric or rubric_of(settings)
    form = _decision_form(spec, settings.judge)
    declared = model_settings(spec.provider, spec.model)
    # Each question of a decision model is independent: it has no order and no pack.
    order, is_packed = DECISION_ORDER, False
    if form is None:
        order = settings.judge.order or declared.order
        is_packed = settings.judge.pack_size != 1
    identity = JudgeIdentity(
        provider=provider.name,
        host=provider.host,
        model=model,
        reasoning=declared.reasoning,
        prompt_version=rubric.version(form),
        order=order,
        packed=is_packed,
    )
    judge = JudgeDescription(
        spec=spec,
        identity=identity,
        paid=True,
        stored=True,
        batches_memories=True,
        needs_resources=True,
        scale=Scale.RUBRIC,
        thresholds=Thresholds.of_table(settings.selection.threshold, judge=spec.provider),
        words_weight=words_weight(settings),
        settings=settings,
        store=store,
        provider=provider,
        asked_model=model,
        form=form,
        rubric=rubric,
        slots=PackSlots(),
    )
    if isinstance(provider, Adaptable):
        capability = known_capability(store.connection, provider, model, now=store.clock())
        judge = judge.knowing(capability)
    return _calibrated(judge)


def words_weight(settings: Settings) -> float:
    """Return the weight of words relative to a model that was not measured here."""
    chosen = settings.selection.words
    return WORDS_WEIGHT if chosen is None else chosen


def _calibrated(judge: JudgeDescription) -> JudgeDescription:
    """Return the judge with the cuts and the weight that were measured for it, where the user has
    set none."""
    has_any = "SELECT EXISTS (SELECT 1 FROM calibration)"
    if not judge.store.connection.execute(has_any).fetchone()[0]:
        return judge
    from xscore.cache.calibrations import read_calibration  # few judges are calibrated

    calibration = read_calibration(judge.store.connection, judge.identity)
    if calibration is None:
        return judge
    judge = replace(judge, calibration=calibration)
    selection = judge.settings.selection
    if selection.threshold == USUAL_THRESHOLD:
        judge = replace(judge, thresholds=calibration.thresholds(judge.thresholds))
    if selection.words is None:
        judge = replace(judge, words_weight=calibration.words_weight)
    return judge


def rubric_of(settings: Settings) -> Rubric:
    """Return the rubric that the settings name, redacted where it is the user's own text."""
    text = encodable_text(settings.judge.rubric)
    redacted = redact_said(text, allow_pii=settings.memory.allow_pii)
    return named_rubric(redacted.text)


def _decision_form(spec: ModelSpec, judge: JudgeSettings) -> DecisionForm | None:
    if not spec.is_decision:
        return None
    if judge.wire == "decisions-score":
        return DecisionForm.SCORE
    return DecisionForm.PREDICATE
