"""Judge for several questions at once: a pack goes out once with the questions that know nothing of it.

What shared prompts cannot do is left to each question's own judge: a pack that another process is paying for, a memory
without a valid score, a prompt the host refuses. So every reply is paid for once, and nothing is repaired here. The
report compares with one question a call: tokens are counted by the ratio the host showed, dollars against the cheaper
way. Trade-off: only questions that lack all of a pack share it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import Struct, field

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.extensions.batch.shared_prompts import (
    QuestionReplies,
    SharedUnit,
    plan_shared_units,
    read_questions,
    separate_prompt_tokens,
    shared_request,
)
from xscore.platform import tokens
from xscore.platform.errors import BudgetExhausted, NotSent, PromptTooLong, ProviderError, RequestRejected, Unreachable
from xscore.providers.catalog import model_settings
from xscore.providers.prices import PriceFunction, call_price
from xscore.providers.provider import Provider
from xscore.records import ClaimState, Completion, Finish, Judgment, Request, StageUsage, Unjudged, UnjudgedCause, Usage
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.fanout import StopSignal, fan_out
from xscore.scorer.judge import Texts
from xscore.scorer.model_judge import ReplyFaults
from xscore.scorer.packs import Pack
from xscore.scorer.repair import PackPrompt, PartTally
from xscore.scorer.replies import EMPTY_REPLY, ParsedCompletion, parse_completion

T = TypeVar("T")
MAX_SHARED_REJECTED = 3
"""So many shared prompts turned down in a row, without an answer between them, and none more is tried."""
MAX_WITHOUT_SHARED_SCORE = 4
"""So many replies without one usable score, before there was any, and none more is paid for."""


class SharedQuestion(Struct, frozen=True, kw_only=True):
    """One question, as far as shared prompts go."""

    turn_text: str
    """As `prompts.judge.turn_block` renders it."""
    packs: Sequence[Pack]
    """What it is to have judged, as its own judge would send it."""
    known_parts: frozenset[str]
    """Content hashes of parts, of memories not yet judged as a whole, that it knows."""
    priors: Mapping[str, float]
    """By content hash of the memory."""
    write: WriteJudgments
    claims: Claims


class ClaimedUnit(Struct):
    """What is claimed for a unit, until the last of its asks has come to its end."""

    asks: int
    """Still to be settled."""
    unjudged: dict[int, set[str]]
    """Claimed contents without a judgment, for each question."""


class SharedAsk(Struct):
    """An ask on its way, with what brings parts together for each of its questions."""

    ask: PackPrompt
    unit: SharedUnit
    tallies: dict[int, PartTally]
    opened: "ClaimedUnit"


class SharedReply(Struct, frozen=True):
    """One shared prompt that was answered."""

    request: Request
    completion: Completion
    alone: tuple[int, ...]
    """For each question that it answered in full: input tokens of what that one would have been sent by itself."""
    questions: int


class SharedPackJudge(Struct):
    """One pass of shared prompts; nothing is sent before `run`."""

    provider: Provider
    drafts: PromptDrafts
    texts: Texts
    askings: Sequence[SharedQuestion]
    most: int
    """Questions that may share a prompt, as the user wants it."""
    context_tokens: int
    concurrency: int
    stop: StopSignal
    answered: Callable[[SharedReply], None] = lambda _: None
    """Told of each prompt that was answered, with its judgments committed."""
    judged: list[set[str]] = field(default_factory=list)
    """Content hashes of the memories judged, for each question."""
    faults: ReplyFaults = field(default_factory=ReplyFaults)
    _rejected: int = 0
    _wasted: int = 0
    _has_answer: bool = False
    _has_score: bool = False

    def __post_init__(self) -> None:
        self.judged = [set() for _ in self.askings]

    def units(self) -> list[SharedUnit]:
        """Group the packs by who lacks them; the most promising of any question first. None holds a single question."""
        units = plan_shared_units(
            self.drafts,
            [asking.packs for asking in self.askings],
            [asking.turn_text for asking in self.askings],
            most=self.most,
            context_tokens=self.context_tokens,
        )
        return sorted(units, key=lambda unit: -self._prior(unit))

    async def run(self) -> None:
        """Send what questions can share; raises what a question's `write` or `claims` raise."""
        units: Iterable[SharedUnit | SharedAsk] = self.units()
        batches = fan_out(
            iter(units), self._settle, workers=max(1, self.concurrency), stop=self.stop, unsent=lambda _: ()
        )
        async with AsyncExitStack() as stack:
            for asking in self.askings:
                await stack.enter_async_context(asking.claims)
            await stack.enter_async_context(aclosing(batches))
            async for _ in batches:
                pass

    def _prior(self, unit: SharedUnit) -> float:
        """Return that of the best memory for any of the questions."""
        members = [member.content_hash for member in unit.pack.members]
        return max(self.askings[number].priors.get(content, 0.0) for number in unit.questions for content in members)

    async def _settle(self, unit: SharedUnit | SharedAsk) -> tuple[Sequence[object], Sequence[SharedUnit | SharedAsk]]:
        asks = [unit] if isinstance(unit, SharedAsk) else await self._open(unit)
        if len(asks) > 1:
            return (), asks
        for sent in asks:
            await self._send(sent)
            self._close(sent.opened)
        return (), ()

    async def _open(self, unit: SharedUnit) -> list[SharedAsk]:
        """Claim a pack for each of its questions, and give the asks for those that lack all of it."""
        pieces = self.drafts.pieces_of(unit.pack, self.texts(unit.pack.members))
        parts = [piece.content_hash for piece in pieces if piece.is_part]
        hashes = [*(member.content_hash for member in unit.pack.members), *parts]
        wanting = [number for number in unit.questions if self.askings[number].known_parts.isdisjoint(parts)]
        shares = await gather_or_raise(self.askings[number].claims.claim([hashes], at_most=1) for number in wanting)
        ours: list[int] = []
        for number, (claimed,) in zip(wanting, shares, strict=True):
            if claimed.share is ClaimState.OURS and not claimed.known:
                ours.append(number)
            elif claimed.share is ClaimState.OURS:
                self.askings[number].claims.release(hashes)
        asks = self.drafts.asks(unit.pack, pieces) if len(ours) > 1 else []
        opened = ClaimedUnit(len(asks), {number: set(hashes) for number in ours})
        if not asks:  # one question alone, or every text is gone
            self._release(opened)
        shared, tallies = SharedUnit(unit.pack, tuple(ours)), {number: PartTally() for number in ours}
        return [SharedAsk(ask, shared, tallies, opened) for ask in asks]

    def _close(self, opened: ClaimedUnit) -> None:
        """Count an ask as settled; with the last, give up what has no judgment: siblings on their way need it."""
        opened.asks -= 1
        if not opened.asks:
            self._release(opened)

    def _release(self, opened: ClaimedUnit) -> None:
        for number, contents in opened.unjudged.items():
            if contents:
                self.askings[number].claims.release(contents)

    async def _send(self, sent: SharedAsk) -> None:
        numbers = sent.unit.questions
        texts = [self.askings[number].turn_text for number in numbers]
        request, codes = shared_request(self.drafts, sent.ask, texts)
        try:
            completion = await self.provider.complete(request)
        except (ProviderError, BudgetExhausted) as error:
            self._failed(error)
            return
        self._has_answer, self._rejected = True, 0
        replies = self._read(request, completion)
        heard = {
            number: self._hear(sent.ask, codes, completion, replies, (question, number))
            for question, number in zip(request.reply_questions, numbers, strict=True)
        }
        await gather_or_raise(self._keep(sent, number, found) for number, found in heard.items())
        self._weigh(any(found.judged for found in heard.values()))
        whole = [number for number, found in heard.items() if not found.missing]
        alone = separate_prompt_tokens(self.drafts, request, [self.askings[number].turn_text for number in whole])
        self.answered(SharedReply(request, completion, alone, len(numbers)))

    def _read(self, request: Request, completion: Completion) -> QuestionReplies:
        if completion.finish is Finish.REFUSAL:
            return QuestionReplies(dict.fromkeys(request.reply_questions, EMPTY_REPLY), EMPTY_REPLY)
        replies = read_questions(completion.text, request.reply_questions, frozenset(request.reply_ids))
        self.faults.count(replies.whole)
        return replies

    def _hear(
        self,
        ask: PackPrompt,
        codes: Sequence[str],
        completion: Completion,
        replies: QuestionReplies,
        asked: tuple[str, int],
    ) -> ParsedCompletion:
        question, number = asked
        priors = self.askings[number].priors
        return parse_completion(ask, codes, completion, priors=priors, read=lambda *_: replies.by_question[question])

    async def _keep(self, sent: SharedAsk, number: int, found: ParsedCompletion) -> None:
        """Commit the judgments of one question."""
        asking, tally = self.askings[number], sent.tallies[number]
        settled = [tally.settle(piece, judgment) for piece, judgment in found.judged]
        for piece in found.missing:
            tally.settle(piece, Unjudged(piece.content_hash, found.trouble.cause))
        judged = [result for result in settled if isinstance(result, Judgment)]
        parts = [judgment for piece, judgment in found.judged if piece.is_part]
        if parts or judged:
            await asking.write([*parts, *judged])
        self.judged[number].update(judgment.content_hash for judgment in judged)
        sent.opened.unjudged[number].difference_update(one.content_hash for one in (*parts, *judged))

    def _weigh(self, is_useful: bool) -> None:
        """Stop where the model gives nothing to shared prompts, which cost more each than a question alone."""
        self._has_score = self._has_score or is_useful
        self._wasted += not self._has_score
        if not self._has_score and self._wasted >= MAX_WITHOUT_SHARED_SCORE:
            self.stop.set(UnjudgedCause.UNREADABLE, "the model gave no usable score to questions that shared a prompt")

    def _failed(self, error: ProviderError | BudgetExhausted) -> None:
        """Decide whether an error ends all shared prompts; what this one asked is left to each question's judge."""
        if isinstance(error, NotSent):
            return
        if isinstance(error, BudgetExhausted):
            self.stop.set(UnjudgedCause.BUDGET, error.message)
        elif isinstance(error, RequestRejected | PromptTooLong):
            self._rejected += 1
            if self._rejected >= MAX_SHARED_REJECTED:
                self.stop.set(UnjudgedCause.PROVIDER, error.message)
        elif error.stops_run or (isinstance(error, Unreachable) and not self._has_answer):
            self.stop.set(UnjudgedCause.PROVIDER, error.message)


async def gather_or_raise(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do these beside one another; where one fails the others are ended first, and its own error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


PREFIX_STEP_TOKENS = 128
"""Tokens of a prefix are cached in steps of so many."""
_NO_USD = Decimal(0)


class JudgingTotals(Struct, frozen=True, kw_only=True):
    """Judging calls, with what they took."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """None: unpriced."""

    def __sub__(self, other: "JudgingTotals") -> "JudgingTotals":
        costs = self.cost_usd, other.cost_usd
        return JudgingTotals(
            calls=self.calls - other.calls,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cost_usd=None if costs[0] is None or costs[1] is None else costs[0] - costs[1],
        )


class AskListReport(Struct, frozen=True, kw_only=True):
    """The account of a run; `together` in its JSON."""

    id: str
    """`a_…`: what the calls that questions shared are entered under; empty: there was none."""
    questions: int
    asked: int
    """Questions that had a turn."""
    questions_a_call: int
    """At most so many shared a prompt."""
    ended: str
    """Why not all were asked: `interrupted`, `provider`, `store`; empty: all were."""
    judged_together: int
    """Judgments that shared prompts gave."""
    shared: StageUsage
    """Calls that questions shared."""
    took: JudgingTotals
    """All judging: what was shared, and what questions had judged alone."""
    alone: JudgingTotals
    """What one question a call would have taken, without a prefix cache."""
    alone_at_best_usd: Decimal | None
    """The same, were rubric and pack served from the host's prefix cache for every question but the first."""
    saved: JudgingTotals
    """`alone` less `took`, dollars by the cheaper of both ways alone; below zero where sharing took more."""
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


class SeparatePromptsCost(Struct):
    """Adds up what the answered shared prompts would have taken one question a call."""

    provider: str
    host: str
    price_of: PriceFunction = call_price
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal | None = _NO_USD
    at_best_usd: Decimal | None = _NO_USD

    def add(self, answered: SharedReply) -> None:
        """Enter one shared prompt that was answered."""
        request, usage = answered.request, answered.completion.usage
        counted = usage.input_tokens / max(1, request.input_tokens)
        output = max(0, usage.output_tokens - tokens.REPLY_FRAME) // answered.questions + tokens.REPLY_FRAME
        prefix = tokens.size(request.system, *request.content[: request.stable_parts])
        whole = tokens.size(request.system, *request.content)
        prefix_tokens = int(usage.input_tokens * prefix / max(1, whole)) // PREFIX_STEP_TOKENS * PREFIX_STEP_TOKENS
        is_long = prefix_tokens >= model_settings(self.provider, request.model).cache_floor and request.stable_parts
        for nth, input_tokens in enumerate(answered.alone):
            one = Usage(input_tokens=round(input_tokens * counted), output_tokens=output)
            is_cached = is_long and (nth > 0 or usage.cached_input_tokens > 0)
            cached = min(prefix_tokens, one.input_tokens) if is_cached else 0
            best = Usage(input_tokens=one.input_tokens, cached_input_tokens=cached, output_tokens=output)
            self.calls += 1
            self.usage += one
            self.cost_usd = add_usd(self.cost_usd, self.price_of(self.provider, request.model, self.host, one))
            self.at_best_usd = add_usd(self.at_best_usd, self.price_of(self.provider, request.model, self.host, best))


def judging_totals(stages: Iterable[StageUsage]) -> JudgingTotals:
    """Add judging stages up."""
    whole = sum(stages, StageUsage())
    return JudgingTotals(
        calls=whole.calls,
        input_tokens=whole.usage.input_tokens,
        output_tokens=whole.usage.output_tokens,
        cost_usd=whole.cost_usd,
    )


def counterfactual_totals(shared: SeparatePromptsCost, turns: JudgingTotals) -> JudgingTotals:
    """Return what one question a call would have taken, where turns had this judged alone as it was."""
    return JudgingTotals(
        calls=shared.calls + turns.calls,
        input_tokens=shared.usage.input_tokens + turns.input_tokens,
        output_tokens=shared.usage.output_tokens + turns.output_tokens,
        cost_usd=add_usd(shared.cost_usd, turns.cost_usd),
    )


def add_usd(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """Add dollars; None as soon as one is unpriced."""
    return None if one is None or other is None else one + other
