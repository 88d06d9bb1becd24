"""Judge what the questions of `ask --batch` can share, and estimate it: each pack is sent once for several questions.

Each question's own turn judges the rest. Estimates go by sizes alone.
"""

from collections.abc import Sequence
from functools import reduce
from math import ceil
from operator import add

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.call_history import Workload
from xscore.extensions.batch.shared_packs import SeparatePromptsCost, SharedPackJudge, SharedQuestion, SharedReply
from xscore.extensions.batch.shared_prompts import QUESTIONS_LAYOUT, plan_shared_units, shared_expected_output
from xscore.pipeline.estimating import ASKED_CHARS, chars_of, price_work, prompts_of_pack
from xscore.pipeline.judging import Deadline, settle_work
from xscore.pipeline.list_judging import ListProgress
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.model_opening import prior_scores, with_probed_host
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.pipeline.resources import TurnResources
from xscore.platform import tokens
from xscore.prompts.questions import questions_block, questions_rubric
from xscore.prompts.turn_text import turn_block
from xscore.providers.catalog import model_settings
from xscore.records.calls import Stage
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Layer
from xscore.records.receipt import StageUsage
from xscore.records.reports import JudgeEstimate
from xscore.scorer.claiming import claim_by_store
from xscore.scorer.fanout import workers_for
from xscore.scorer.packs import packs_to_send


class SharedPhase(Struct, frozen=True):
    """The result of judging shared packs."""

    judged: tuple[frozenset[str], ...]
    spent: StageUsage
    remarks: tuple[str, ...]
    interrupted: bool
    failed: bool
    """Whether it was given up because the model gave no usable score at all."""


async def judge_shared_packs(
    parts: PipelineParts,
    factory: ModelJudgeFactory,
    questions: Sequence[PreparedQuestion],
    *,
    run_id: str,
    separate: SeparatePromptsCost,
    deadline: Deadline | None = None,
) -> SharedPhase:
    """Have these questions share their packs. Raises what opening the judge raises, StoreError where nothing is kept.

    separate: takes what each answered prompt would have cost one question a call.
    """
    parts.observer.stage("judge")
    async with parts.open_resources(run_id) as resources:
        knowing, provider = await with_probed_host(factory, resources)
        progress, paid = ListProgress(parts.observer, sum(len(one.pool.misses) for one in questions), 0), 0

        def count(answered: SharedReply) -> None:
            nonlocal paid
            separate.add(answered)
            paid += answered.request.candidates
            progress.report(paid, 0, resources.usage.spent(Stage.JUDGE))

        judge = SharedPackJudge(
            provider=provider,
            drafts=knowing.drafts,
            texts=knowing.texts,
            askings=[await _shared_question(parts, knowing, resources, one) for one in questions],
            most=parts.settings.batch.questions_a_call,
            context_tokens=_context_tokens(knowing),
            concurrency=workers_for(knowing.concurrency),
            stop=resources.new_stop(),
            answered=count,
        )
        ended = await settle_work(
            judge.run(),
            stop=judge.stop.set,
            deadline=deadline,
            call_s=lambda: resources.usage.call_s(Stage.JUDGE),
        )
        knowing.close()
        return _phase(judge, resources.usage.spent(Stage.JUDGE), interrupted=ended is UnjudgedCause.INTERRUPTED)


def _phase(judge: SharedPackJudge, spent: StageUsage, *, interrupted: bool) -> SharedPhase:
    cause, faults = judge.stop.cause, judge.faults.in_words()
    remarks = [f"replies to questions that shared a prompt had to be repaired: {faults}"] if faults else []
    if cause is not None and not interrupted:
        remarks.append(f"questions stopped sharing prompts ({cause}): {judge.stop.detail}".removesuffix(": "))
    return SharedPhase(
        judged=tuple(map(frozenset, judge.judged)),
        spent=spent,
        remarks=tuple(remarks),
        interrupted=interrupted,
        failed=cause is UnjudgedCause.UNREADABLE and not any(judge.judged),
    )


async def _shared_question(
    parts: PipelineParts, factory: ModelJudgeFactory, resources: TurnResources, prepared: PreparedQuestion
) -> SharedQuestion:
    pool, identity, key = prepared.pool, factory.identity, prepared.key
    guesses, _ = await prior_scores(factory, resources, prepared.turn, pool)
    write, claims = resources.writer(key, identity), resources.claims(key, identity)
    own = {miss.content_hash for miss in pool.misses if miss.layer is Layer.USER}
    if own:
        write, claims = claim_by_store((write, claims), await resources.user_store_writer(key, identity), own)
    return SharedQuestion(
        turn_text=turn_block(prepared.turn, context=parts.settings.judge.context),
        packs=packs_to_send(pool.misses, factory.slots(pool), factory.drafts.profile),
        priors={miss.content_hash: guesses.get(miss.id, 0.0) for miss in pool.misses},
        write=write,
        claims=claims,
    )


def _context_tokens(factory: ModelJudgeFactory) -> int:
    known = factory.capability.context_tokens if factory.capability else None
    return known or model_settings(factory.spec.provider, factory.spec.model).context_tokens


def forecast_shared(parts: PipelineParts, some: Sequence[PreparedQuestion]) -> JudgeEstimate:
    """Say about what judging these questions takes, sharing what they can."""
    factory, pool = parts.judge, some[0].pool
    if not isinstance(factory, ModelJudgeFactory):
        return factory.forecast(some[0].turn, pool)
    if factory.drafts.layout is not QUESTIONS_LAYOUT:
        return reduce(add, (factory.forecast(one.turn, one.pool) for one in some))
    drafts, settings = factory.drafts, parts.settings
    texts = [turn_block(one.turn, context=settings.judge.context) for one in some]
    packs = [packs_to_send(one.pool.misses, factory.slots(one.pool), drafts.profile) for one in some]
    most, context = settings.batch.questions_a_call, _context_tokens(factory)
    calls = chars = output = 0
    for unit in plan_shared_units(drafts, packs, texts, most=most, context_tokens=context, alone=True):
        asks, members = prompts_of_pack(drafts, unit.pack), unit.pack.members
        memories = len(members) + asks - 1
        shown = questions_block([texts[number] for number in unit.questions])
        calls += asks
        chars += asks * (tokens.size(questions_rubric(), shown) + ASKED_CHARS) + chars_of(members, memories)
        output += asks * shared_expected_output(drafts, ceil(memories / asks), len(unit.questions))
    work = Workload(calls, round(chars / drafts.model.chars_per_token), output)
    return replace(
        price_work(factory, work, pool),
        candidates=sum(len(one.pool.candidates) for one in some),
        cached=sum(len(one.pool.candidates) - len(one.pool.misses) for one in some),
        to_judge=sum(len(one.pool.misses) for one in some),
    )
