"""The part of `ask --batch` that questions share, and what it would take: one line to the host, each pack sent once.

What is left is each question's own turn's to judge. Estimates go by sizes alone.
"""

import asyncio
from collections.abc import Sequence
from functools import reduce
from itertools import chain
from math import ceil
from operator import add

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.call_history import Workload
from xscore.extensions.batch.shared_packs import SeparatePromptsCost, SharedPackJudge, SharedQuestion, SharedReply
from xscore.extensions.batch.shared_prompts import QUESTIONS_LAYOUT, plan_shared_units, shared_expected_output
from xscore.pipeline.estimating import ASKED_CHARS, chars_of, price_work, prompts_of_pack
from xscore.pipeline.judging import GRACE_S, Deadline, take_back_cancellation, work_until
from xscore.pipeline.list_judging import ListProgress
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.pipeline.resources import TurnResources
from xscore.platform import tokens
from xscore.prompts.judge import turn_block
from xscore.prompts.questions import questions_block, questions_rubric
from xscore.providers.catalog import model_settings
from xscore.providers.provider import Provider
from xscore.records.calls import Stage
from xscore.records.judgment import UnjudgedCause
from xscore.records.memory import Candidate, Layer
from xscore.records.receipt import StageUsage
from xscore.records.reports import JudgeEstimate
from xscore.scorer.fanout import workers_for
from xscore.scorer.packs import packs_to_send


class SharedPhase(Struct, frozen=True):
    """What came of it."""

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
        knowing, provider = await factory.with_probed_host(resources)
        phase = _Phase(parts, resources, knowing, provider, questions, separate)
        judged: list[set[str]] = [set() for _ in questions]
        interrupted, failed, remarks = False, False, list[str]()
        for own in (False, True):
            lacking = [_misses_of_layer(one, own=own) for one in questions]
            if sum(map(bool, lacking)) < 2:
                continue
            judge = await phase.open(lacking, own=own)
            interrupted = await _run(judge, resources, deadline)
            for number, hashes in enumerate(judge.judged):
                judged[number] |= hashes
            if said := judge.faults.in_words():
                remarks.append(f"replies to questions that shared a prompt needed mending: {said}")
            if judge.stop.cause is not None:
                failed = judge.stop.cause is UnjudgedCause.UNREADABLE and not any(judged)
                why = f"questions stopped sharing prompts ({judge.stop.cause}): {judge.stop.detail}"
                remarks += [] if interrupted else [why.removesuffix(": ")]
                break
        knowing.close()
        return SharedPhase(
            judged=tuple(map(frozenset, judged)),
            spent=resources.usage.spent(Stage.JUDGE),
            remarks=tuple(dict.fromkeys(remarks)),
            interrupted=interrupted,
            failed=failed,
        )


async def _run(judge: SharedPackJudge, resources: TurnResources, deadline: Deadline | None) -> bool:
    work = asyncio.create_task(judge.run())
    interrupted = False
    try:
        if deadline is None:
            await asyncio.wait([work])
        else:
            await work_until(deadline, work, judge.stop.set, call_s=lambda: resources.usage.call_s(Stage.JUDGE))
    except asyncio.CancelledError:
        interrupted = True
        take_back_cancellation(asyncio.current_task())
        judge.stop.set(UnjudgedCause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return interrupted


def _misses_of_layer(prepared: PreparedQuestion, *, own: bool) -> list[Candidate]:
    return [miss for miss in prepared.pool.misses if (miss.layer is Layer.USER) == own]


def _context_tokens(factory: ModelJudgeFactory) -> int:
    known = factory.capability.context_tokens if factory.capability else None
    return known or model_settings(factory.spec.provider, factory.spec.model).context_tokens


class _Phase(Struct):
    parts: PipelineParts
    resources: TurnResources
    factory: ModelJudgeFactory
    provider: Provider
    questions: Sequence[PreparedQuestion]
    separate: SeparatePromptsCost

    async def open(self, lacking: Sequence[Sequence[Candidate]], *, own: bool) -> SharedPackJudge:
        pairs = zip(self.questions, lacking, strict=True)
        askings = [await self._asking(one, misses, own=own) for one, misses in pairs]
        progress = ListProgress(self.parts.observer, sum(map(len, lacking)), 0)
        judged = 0

        def count(answered: SharedReply) -> None:
            nonlocal judged
            self.separate.add(answered)
            judged += answered.request.candidates
            progress.report(judged, 0, self.resources.usage.spent(Stage.JUDGE))

        return SharedPackJudge(
            provider=self.provider,
            drafts=self.factory.drafts,
            texts=self.factory.texts,
            askings=askings,
            most=self.parts.settings.batch.questions_a_call,
            context_tokens=_context_tokens(self.factory),
            concurrency=workers_for(self.factory.concurrency),
            stop=self.resources.new_stop(),
            answered=count,
        )

    async def _asking(self, prepared: PreparedQuestion, misses: Sequence[Candidate], *, own: bool) -> SharedQuestion:
        guesses, _ = await self.factory.guesses(self.resources, prepared.turn, prepared.pool)
        identity, key = self.factory.identity, prepared.key
        if own:
            write, claims = await self.resources.user_store_writer(key, identity)
        else:
            write, claims = self.resources.writer(key, identity), self.resources.claims(key, identity)
        return SharedQuestion(
            turn_text=turn_block(prepared.turn, context=self.parts.settings.judge.context),
            packs=packs_to_send(misses, self.factory.slots(prepared.pool), self.factory.drafts.profile),
            priors={miss.content_hash: guesses.get(miss.id, 0.0) for miss in misses},
            write=write,
            claims=claims,
        )


def forecast_shared(parts: PipelineParts, some: Sequence[PreparedQuestion]) -> JudgeEstimate:
    """Say about what judging these questions takes, sharing what they can."""
    factory, pool = parts.judge, some[0].pool
    if not isinstance(factory, ModelJudgeFactory):
        return factory.forecast(some[0].turn, pool)
    if factory.drafts.layout is not QUESTIONS_LAYOUT:
        return reduce(add, (factory.forecast(one.turn, one.pool) for one in some))
    drafts, settings = factory.drafts, parts.settings
    texts = [turn_block(one.turn, context=settings.judge.context) for one in some]
    passes = (
        [packs_to_send(_misses_of_layer(one, own=own), factory.slots(one.pool), drafts.profile) for one in some]
        for own in (False, True)
    )
    most, context = settings.batch.questions_a_call, _context_tokens(factory)
    units = chain.from_iterable(
        plan_shared_units(drafts, packs, texts, most=most, context_tokens=context, alone=True) for packs in passes
    )
    calls = chars = output = 0
    for unit in units:
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
