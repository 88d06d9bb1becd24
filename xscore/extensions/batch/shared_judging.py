"""The part of `ask --batch` that questions share, and what asking such a list would take.

One line to the host, and each pack sent once for several questions; what is left is each question's own turn's to
judge. Estimates go by sizes alone. Trade-off: the user's own memories are asked about after the repository's, not
beside them, because their judgments are kept in another store.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil
from operator import add

from msgspec import Struct
from msgspec.structs import replace

from xscore.costs.call_history import Workload
from xscore.extensions.batch.list_plan import ListProgress
from xscore.extensions.batch.shared_packs import SeparatePromptsCost, SharedPackJudge, SharedQuestion, SharedReply
from xscore.extensions.batch.shared_prompts import SharedUnit, plan_shared_units, shared_expected_output
from xscore.pipeline.estimating import ASKED_CHARS, chars_of, prompts_of_pack
from xscore.pipeline.factories import answer_estimate
from xscore.pipeline.judging import GRACE_S, Deadline, take_back_cancellation, work_until
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts, TurnResources
from xscore.pipeline.question_list import PreparedQuestion, list_caps_left
from xscore.platform import tokens
from xscore.prompts.judge import turn_block
from xscore.prompts.questions import questions_block, questions_rubric
from xscore.providers.catalog import model_settings
from xscore.providers.provider import Provider
from xscore.records import (
    Candidate,
    Estimate,
    JudgeEstimate,
    Layer,
    Stage,
    StageUsage,
    UnjudgedCause,
)
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.fanout import StopSignal, workers_for
from xscore.scorer.packs import packs_to_send


class SharedPhase(Struct, frozen=True):
    """What came of it."""

    judged: tuple[frozenset[str], ...]
    """Contents judged for each question, in their order."""
    spent: StageUsage
    remarks: tuple[str, ...]
    interrupted: bool


async def judge_shared_packs(
    parts: PipelineParts,
    seat: ModelJudgeFactory,
    questions: Sequence[PreparedQuestion],
    *,
    run_id: str,
    alone: SeparatePromptsCost,
    deadline: Deadline | None = None,
) -> SharedPhase:
    """Have these questions share their packs. Raises what opening the judge raises, StoreError where nothing is kept.

    seat: of the judge whose prompts questions may share. alone: told of each answered prompt.
    """
    observer = parts.observer
    observer.stage("judge")
    async with parts.open_resources(run_id) as resources:
        knowing, provider = await seat.with_probed_host(resources)
        passes = [_SharedPass(parts, resources, knowing, provider, questions, alone, own) for own in (False, True)]
        judged: list[set[str]] = [set() for _ in questions]
        interrupted, remarks = False, list[str]()
        for one in passes:
            together = await one.opened()
            if together is None:
                continue
            interrupted = await _run(together, resources, deadline)
            for number, hashes in enumerate(together.judged):
                judged[number] |= hashes
            said = together.faults.in_words()
            remarks += [f"replies to questions that shared a prompt needed mending: {said}"] if said else []
            if together.stop.cause is not None:
                remarks += [_left(together.stop)] if not interrupted else []
                break
        knowing.close()
        return SharedPhase(
            judged=tuple(map(frozenset, judged)),
            spent=resources.usage.spent(Stage.JUDGE),
            remarks=tuple(dict.fromkeys(remarks)),
            interrupted=interrupted,
        )


def _left(stop: StopSignal) -> str:
    assert stop.cause is not None
    return f"questions stopped sharing prompts ({stop.cause}): {stop.detail}".removesuffix(": ")


async def _run(together: SharedPackJudge, resources: TurnResources, deadline: Deadline | None) -> bool:
    """Let it work to its end, the deadline or Ctrl-C; say whether it was that."""
    work = asyncio.create_task(together.run())
    interrupted = False
    try:
        if deadline is None:
            await asyncio.wait([work])
        else:
            await work_until(deadline, work, together.stop.set, call_s=lambda: resources.usage.call_s(Stage.JUDGE))
    except asyncio.CancelledError:
        interrupted = True
        take_back_cancellation(asyncio.current_task())
        together.stop.set(UnjudgedCause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return interrupted


def missing_of_layer(prepared: PreparedQuestion, *, own: bool) -> list[Candidate]:
    """Return the candidates that a question lacks, of the user's own memories or of all others."""
    return [miss for miss in prepared.pool.misses if (miss.layer is Layer.USER) == own]


def context_tokens(seat: ModelJudgeFactory) -> int:
    """Return what prompt and reply may take together."""
    known = seat.capability.context_tokens if seat.capability else None
    return known or model_settings(seat.spec.provider, seat.spec.model).context_tokens


class _SharedPass(Struct):
    """One pass: over the repository's memories, or over the user's own."""

    parts: PipelineParts
    resources: TurnResources
    seat: ModelJudgeFactory
    provider: Provider
    questions: Sequence[PreparedQuestion]
    alone: SeparatePromptsCost
    own: bool

    async def opened(self) -> SharedPackJudge | None:
        """Return what will judge; None where fewer than two questions lack anything."""
        lacking = [missing_of_layer(one, own=self.own) for one in self.questions]
        if sum(map(bool, lacking)) < 2:
            return None
        askings = [await self._asking(one, misses) for one, misses in zip(self.questions, lacking, strict=True)]
        progress = ListProgress(self.parts.observer, sum(map(len, lacking)), 0)
        judged = 0

        def count(answered: SharedReply) -> None:
            nonlocal judged
            self.alone.add(answered)
            judged += answered.request.candidates
            progress.report(judged, 0, self.resources.usage.spent(Stage.JUDGE))

        return SharedPackJudge(
            provider=self.provider,
            drafts=self.seat.drafts,
            texts=self.seat.texts,
            askings=askings,
            most=self.parts.settings.batch.questions_a_call,
            context_tokens=context_tokens(self.seat),
            concurrency=workers_for(self.seat.concurrency),
            stop=self.resources.new_stop(),
            answered=count,
        )

    async def _asking(self, prepared: PreparedQuestion, misses: Sequence[Candidate]) -> SharedQuestion:
        guesses, _ = await self.seat.guesses(self.resources, prepared.turn, prepared.pool)
        identity, key = self.seat.identity, prepared.key
        if self.own:
            write, claims = await self.resources.user_store_writer(key, identity)
        else:
            write, claims = self.resources.writer(key, identity), self.resources.claims(key, identity)
        whole = {candidate.content_hash for candidate in prepared.pool.candidates}
        return SharedQuestion(
            turn_text=turn_block(prepared.turn, context=self.parts.settings.judge.context),
            packs=packs_to_send(misses, self.seat.slots(prepared.pool), self.seat.drafts.profile),
            known_parts=frozenset(prepared.pool.known.keys() - whole),
            priors={miss.content_hash: guesses.get(miss.id, 0.0) for miss in misses},
            write=write,
            claims=claims,
        )


def estimate_ask_list(
    parts: PipelineParts, runs: Iterable[Sequence[PreparedQuestion]], *, questions: int, answers: bool
) -> Estimate:
    """Say about what the judging takes, and what as many answers take at most. There is at least one question."""
    judging = reduce(add, (_of_run(parts, some) for some in runs))
    if answers:
        judging = replace(judging, calls=judging.calls + questions - 1)  # the confirmation counts one answer more
    primary = answer_estimate(parts.answerer, parts.settings) if answers and parts.answerer is not None else None
    if primary is not None:
        cost = primary.cost_usd
        primary = replace(
            primary,
            input_tokens=questions * primary.input_tokens,
            output_tokens=questions * primary.output_tokens,
            cost_usd=None if cost is None else questions * cost,
        )
    return Estimate(judge=judging, primary=primary, by_kind={}, by_folder={}, caps=list_caps_left(parts))


def _of_run(parts: PipelineParts, some: Sequence[PreparedQuestion]) -> JudgeEstimate:
    seat = parts.judge
    first = some[0]
    if not isinstance(seat, ModelJudgeFactory):
        return seat.forecast(first.turn, first.pool)
    work = Workload(0, 0, 0)
    for own in (False, True):
        work = _add_work(work, _of_pass(parts, seat, some, own=own))
    pools = [one.pool for one in some]
    return replace(
        seat.priced(work, first.pool),
        candidates=sum(len(pool.candidates) for pool in pools),
        cached=sum(len(pool.candidates) - len(pool.misses) for pool in pools),
        to_judge=sum(len(pool.misses) for pool in pools),
    )


def _of_pass(parts: PipelineParts, seat: ModelJudgeFactory, some: Sequence[PreparedQuestion], *, own: bool) -> Workload:
    drafts, context = seat.drafts, parts.settings.judge.context
    packs = [packs_to_send(missing_of_layer(one, own=own), seat.slots(one.pool), drafts.profile) for one in some]
    texts = [turn_block(one.turn, context=context) for one in some]
    most = parts.settings.batch.questions_a_call
    units = plan_shared_units(drafts, packs, texts, most=most, context_tokens=context_tokens(seat), alone=True)
    work = Workload(0, 0, 0)
    for unit in units:
        work = _add_work(work, _of_unit(drafts, unit, [texts[number] for number in unit.questions]))
    return work


def _of_unit(drafts: PromptDrafts, unit: SharedUnit, texts: Sequence[str]) -> Workload:
    asks, pack = prompts_of_pack(drafts, unit.pack), unit.pack
    memories = len(pack.members) + asks - 1
    frame = tokens.size(questions_rubric(), questions_block(texts)) + ASKED_CHARS
    chars = asks * frame + chars_of(pack.members, memories)
    output = asks * shared_expected_output(drafts, ceil(memories / asks), len(texts))
    return Workload(asks, round(chars / drafts.model.chars_per_token), output)


def _add_work(one: Workload, other: Workload) -> Workload:
    return Workload(
        one.calls + other.calls, one.input_tokens + other.input_tokens, one.output_tokens + other.output_tokens
    )
