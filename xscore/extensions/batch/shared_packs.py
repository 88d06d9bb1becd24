"""Judge for several questions at once: a pack is sent once with all questions that have no judgment
of it.

The rest is left to each question's own turn: a memory too large for one prompt or without a valid
score, a pack that another process is paying for, a prompt the host refuses. So every reply is paid
for once, and nothing is repaired here. Estimates go by sizes alone.
Trade-off: only questions that lack all of a pack share it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial, reduce
from math import ceil
from operator import add
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.costs.call_history import Workload
from xscore.extensions.batch.shared_account import SeparatePromptsCost
from xscore.extensions.batch.shared_prompts import (
    SharedUnit,
    plan_shared_units,
    shared_expected_output,
    shared_request,
)
from xscore.pipeline.estimating import (
    ASKED_CHARS,
    chars_of,
    forecast_judging,
    price_work,
    prompts_of_pack,
)
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import caching_builder, context_tokens, prompt_builder
from xscore.pipeline.judged_memories import judged_texts, judging_priors, packs_of
from xscore.pipeline.known_hosts import remember_host
from xscore.pipeline.live_judging import JudgingProgress, work_until_stopped
from xscore.pipeline.model_opening import with_probed_host
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.question_list import PreparedQuestion
from xscore.pipeline.resources import TurnResources
from xscore.pipeline.turn_clock import Deadline
from xscore.platform import tokens
from xscore.platform.errors import BudgetExhausted, NotSent, ProviderError
from xscore.prompts.questions import questions_block, questions_rubric
from xscore.prompts.turn_text import turn_block
from xscore.providers.provider import Provider
from xscore.records.calls import Completion, Request, Stage
from xscore.records.estimates import JudgeEstimate
from xscore.records.judgment import ClaimState, UnjudgedCause
from xscore.records.receipt import StageUsage
from xscore.scorer.chat_replies import parse_replies
from xscore.scorer.fanout import StopSignal, fan_out, workers_for
from xscore.scorer.giving_up import GiveUpRule
from xscore.scorer.judge import Texts
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, PackPrompt
from xscore.scorer.replies import ParsedCompletion, ReplyFaults, parse_completion

MAX_SHARED_REJECTED = 3
"""Stop sharing after this many refused prompts in a row, since each costs more than a question
alone."""
Result = TypeVar("Result")


class SharedQuestion(Struct, frozen=True, kw_only=True):
    """One question, as far as shared prompts go."""

    turn_text: str
    priors: Mapping[str, float]
    write: WriteJudgments
    claims: Claims


class SharedPackJudge(Struct):
    """One pass of shared prompts, the most promising first; nothing is sent before `run`."""

    provider: Provider
    builder: PromptBuilder
    texts: Texts
    units: Sequence[SharedUnit]
    askings: Sequence[SharedQuestion]
    concurrency: int
    stop: StopSignal
    answered: Callable[[Request, Completion, PackPrompt, Sequence[str]], None] = lambda *_: None
    """Called with each answered prompt after its judgments are committed, and with the turn texts
    of the questions answered in full: only those need no prompt of their own."""
    judged: list[set[str]] = field(default_factory=list)
    """For each question, the content hashes that it has a judgment of."""
    faults: ReplyFaults = field(default_factory=ReplyFaults)
    rule: GiveUpRule = field(default_factory=lambda: GiveUpRule(MAX_SHARED_REJECTED))
    spent: StageUsage = StageUsage()
    was_interrupted: bool = False

    def __post_init__(self) -> None:
        self.judged = [set() for _ in self.askings]

    @property
    def gave_up(self) -> bool:
        """Whether it ended because the model gave no usable score at all."""
        return self.stop.cause is UnjudgedCause.UNREADABLE and not any(self.judged)

    @property
    def remarks(self) -> list[str]:
        """What was wrong with replies, and why it ended early."""
        cause = self.stop.cause
        faults = self.faults.in_words()
        remarks: list[str] = []
        if faults:
            remarks.append(
                f"replies to questions that shared a prompt had to be repaired: {faults}"
            )
        if cause is not None and not self.was_interrupted:
            detail = f": {self.stop.detail}" if self.stop.detail else ""
            remarks.append(f"questions stopped sharing prompts ({cause}){detail}")
        return remarks

    def count_judged(self) -> int:
        """Return how many judgments its questions received, one for each question and memory."""
        return sum(len(hashes) for hashes in self.judged)

    async def run(self) -> None:
        """Send the packs of several questions. Raises what `write` or `claims` raise."""
        shared = (unit for unit in self.units if len(unit.questions) > 1)
        units = sorted(shared, key=self._prior, reverse=True)
        batches = fan_out(
            iter(units),
            self._judge_unit,
            workers=max(1, self.concurrency),
            stop=self.stop,
            unsent=lambda _: (),
        )
        async with AsyncExitStack() as stack:
            for asking in self.askings:
                await stack.enter_async_context(asking.claims)
            await stack.enter_async_context(aclosing(batches))
            async for _ in batches:
                pass

    def _prior(self, unit: SharedUnit) -> float:
        best = 0.0
        for number in unit.questions:
            priors = self.askings[number].priors
            for member in unit.pack.members:
                best = max(best, priors.get(member.content_hash, 0.0))
        return best

    async def _judge_unit(
        self, unit: SharedUnit
    ) -> tuple[Sequence[object], Sequence[SharedUnit]]:
        hashes = {member.content_hash for member in unit.pack.members}
        numbers = await self._claim(unit, sorted(hashes))
        # A question that is left alone with a pack judges it in its own turn.
        pieces: Sequence[MemoryPiece] = ()
        if len(numbers) > 1:
            pieces = self.builder.pieces_of(unit.pack, self.texts(unit.pack.members))
        # Units hold whole memories, so that there is one prompt; none where all texts are gone.
        for prompt in self.builder.prompts_of(unit.pack, pieces):
            await self._send(prompt, numbers)
        for number in numbers:
            if unjudged := hashes - self.judged[number]:
                self.askings[number].claims.release(unjudged)
        return (), ()

    async def _claim(self, unit: SharedUnit, hashes: Sequence[str]) -> list[int]:
        """Return the questions the pack is claimed for; those partly judged elsewhere judge it
        alone."""
        claims = [self.askings[number].claims for number in unit.questions]
        shares = await _finish_all(claim.claim([hashes], at_most=1) for claim in claims)
        ours: list[int] = []
        for number, its_claims, (claimed,) in zip(unit.questions, claims, shares, strict=True):
            if claimed.state is ClaimState.OURS and not claimed.known:
                ours.append(number)
            elif claimed.state is ClaimState.OURS:
                its_claims.release(hashes)
        return ours

    async def _send(self, prompt: PackPrompt, numbers: Sequence[int]) -> None:
        askings = [self.askings[number] for number in numbers]
        request, codes = shared_request(
            self.builder, prompt, [asking.turn_text for asking in askings]
        )
        try:
            completion = await self.provider.complete(request)
        except BudgetExhausted as error:
            self.stop.set(UnjudgedCause.BUDGET, error.message)
            return
        except ProviderError as error:
            if not isinstance(error, NotSent) and self.rule.is_over_after(error):
                self.stop.set(UnjudgedCause.PROVIDER, error.message)
            return
        replies = parse_replies(
            completion.text, frozenset(request.reply_ids), request.reply_questions
        )
        parsed_replies: list[ParsedCompletion] = []
        for reply, asking in zip(replies, askings, strict=True):
            self.faults.count(reply)
            parsed = parse_completion(
                prompt,
                codes,
                completion,
                priors=asking.priors,
                read=lambda *_, reply=reply: reply,
            )
            parsed_replies.append(parsed)
        # Each judgment is stored before the give-up rule may stop the rest: it is paid for.
        await _finish_all(map(self._keep, numbers, parsed_replies))
        is_useful = any(parsed.judged for parsed in parsed_replies)
        self.rule.count_reply(scored=is_useful)
        if not is_useful and self.rule.is_over_after_unscored(1):
            self.stop.set(
                UnjudgedCause.UNREADABLE,
                "the model gave no usable score to questions that shared a prompt",
            )
        complete: list[str] = []
        for asking, parsed in zip(askings, parsed_replies, strict=True):
            if not parsed.missing:
                complete.append(asking.turn_text)
        self.answered(request, completion, prompt, complete)

    async def _keep(self, number: int, parsed: ParsedCompletion) -> None:
        judgments = [judgment for _, judgment in parsed.judged]
        if judgments:
            await self.askings[number].write(judgments)
        for judgment in judgments:
            self.judged[number].add(judgment.content_hash)


async def _finish_all(works: Iterable[Awaitable[Result]]) -> list[Result]:
    """Run all to their end, since replies are paid for; then raise the first error."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    results: list[Result] = []
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def judge_shared_packs(
    parts: PipelineParts,
    described: JudgeDescription,
    questions: Sequence[PreparedQuestion],
    *,
    run_id: str,
    separate: SeparatePromptsCost,
    deadline: Deadline,
) -> SharedPackJudge:
    """Let these questions share their packs. Raises as opening the judge does, and StoreError.

    separate: takes what each answered prompt would have cost one question a call.
    """
    parts.observer.stage("judge")
    async with parts.open_resources(run_id) as resources:
        resources.deadline = deadline
        knowing, provider = await with_probed_host(described, resources)
        builder = caching_builder(knowing)
        separate_builder = caching_builder(replace(knowing, shared_layout=None))
        alone_tokens = partial(_alone_tokens, separate_builder)
        _, to_judge = _count_candidates(questions)
        progress = JudgingProgress(parts.observer, to_judge, 0)
        paid = 0

        def count(
            request: Request, completion: Completion, prompt: PackPrompt, texts: Sequence[str]
        ) -> None:
            nonlocal paid
            separate.add(request, completion.usage, alone_tokens(prompt, texts))
            paid += request.candidates
            progress.report(paid, 0, resources.usage.spent(Stage.JUDGE))

        askings = [
            await _shared_question(knowing, resources, question) for question in questions
        ]
        judge = SharedPackJudge(
            provider=provider,
            builder=builder,
            texts=partial(judged_texts, knowing),
            units=_plan_units(knowing, builder, questions),
            askings=askings,
            concurrency=workers_for(knowing.concurrency),
            stop=resources.new_stop(),
            answered=count,
        )
        ended = await work_until_stopped(judge.run(), resources, stop=judge.stop.set)
        remember_host(knowing)
        judge.spent = resources.usage.spent(Stage.JUDGE)
        judge.was_interrupted = ended is UnjudgedCause.INTERRUPTED
        return judge


def _alone_tokens(
    builder: PromptBuilder, prompt: PackPrompt, turn_texts: Sequence[str]
) -> list[int]:
    """Return the input tokens that each of these questions would have sent by itself."""
    input_tokens: list[int] = []
    for text in turn_texts:
        request, _ = builder.request(prompt, text)
        input_tokens.append(request.input_tokens)
    return input_tokens


def _count_candidates(questions: Sequence[PreparedQuestion]) -> tuple[int, int]:
    """Return the candidates of all questions, and how many of them have no judgment yet."""
    candidates = to_judge = 0
    for question in questions:
        candidates += len(question.pool.candidates)
        to_judge += len(question.pool.misses)
    return candidates, to_judge


async def _shared_question(
    judge: JudgeDescription, resources: TurnResources, prepared: PreparedQuestion
) -> SharedQuestion:
    misses = prepared.pool.misses
    priors = await judging_priors(judge, resources, prepared.turn, prepared.pool)
    write, claims = await resources.judgment_access(misses, prepared.key, judge.identity)
    return SharedQuestion(
        turn_text=turn_block(prepared.turn, sees=judge.settings.judge.sees),
        priors={miss.content_hash: priors.words.get(miss.id, 0.0) for miss in misses},
        write=write,
        claims=claims,
    )


def _turn_texts(judge: JudgeDescription, questions: Sequence[PreparedQuestion]) -> list[str]:
    sees = judge.settings.judge.sees
    return [turn_block(question.turn, sees=sees) for question in questions]


def _plan_units(
    judge: JudgeDescription, builder: PromptBuilder, questions: Sequence[PreparedQuestion]
) -> list[SharedUnit]:
    return plan_shared_units(
        builder,
        [packs_of(judge, question.pool) for question in questions],
        _turn_texts(judge, questions),
        limit=judge.settings.batch.questions_a_call,
        context_tokens=context_tokens(judge),
    )


def forecast_shared(
    parts: PipelineParts, questions: Sequence[PreparedQuestion]
) -> JudgeEstimate:
    """Estimate judging these questions with shared packs, where the judge has them."""
    judge = parts.judge
    if judge.shared_layout is None:
        estimates: list[JudgeEstimate] = []
        for question in questions:
            estimates.append(forecast_judging(judge, question.turn, question.pool))
        return reduce(add, estimates)
    builder = prompt_builder(judge)
    texts = _turn_texts(judge, questions)
    calls = chars = output = 0
    for unit in _plan_units(judge, builder, questions):
        prompts, memories = prompts_of_pack(builder, unit.pack)
        shown = questions_block([texts[number] for number in unit.questions])
        calls += prompts
        chars += prompts * (tokens.size(questions_rubric(), shown) + ASKED_CHARS)
        chars += chars_of(builder.layout, unit.pack.members, memories)
        output += prompts * shared_expected_output(
            builder, ceil(memories / prompts), len(unit.questions)
        )
    work = Workload(calls, round(chars / builder.model.chars_per_token), output)
    candidates, to_judge = _count_candidates(questions)
    estimate = price_work(judge, work, questions[0].pool)
    cached = candidates - to_judge
    return replace(estimate, candidates=candidates, cached=cached, to_judge=to_judge)
