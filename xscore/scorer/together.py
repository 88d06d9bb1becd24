"""Judge for several questions at once: a pack goes out once with the questions that know nothing of it.

It does what shared prompts can do and leaves the rest to each question's own judge, which finds in the cache what was
judged here: a pack that another process is paying for, a memory without a valid score for a question, a prompt that
the host would not take. So every reply is asked for once, and nothing is repaired here. A judgment is committed under
its own question before the worker that got it takes more work. Trade-off: a pack is shared by questions that lack all
of it alike; what one of them knows in part it asks alone.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xscore.cache.judgment_store import Claims, Write
from xscore.errors import BudgetExhausted, NotSent, PromptTooLong, ProviderError, RequestRejected, Unreachable
from xscore.providers.provider import Provider
from xscore.records import Cause, Completion, Finish, Judgment, Request, Share, Unjudged
from xscore.scorer.draft import Drafts
from xscore.scorer.fanout import Stop, fan_out
from xscore.scorer.hearing import Heard, hear
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack
from xscore.scorer.parse_questions import Replies, read_questions
from xscore.scorer.repair import Ask
from xscore.scorer.run import Faults
from xscore.scorer.scores_read import NOTHING
from xscore.scorer.shared_drafts import alone_tokens, shared_request
from xscore.scorer.shared_units import Unit, planned
from xscore.scorer.split import PartTally

T = TypeVar("T")
MOST_REJECTED = 3
"""So many shared prompts turned down in a row, without an answer between them, and none more is tried."""
MOST_WASTED = 4
"""So many replies without one usable score, before there was any, and none more is paid for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One question, as far as shared prompts go."""

    turn_text: str
    """As `prompts.judge.turn_block` renders it."""
    packs: Sequence[Pack]
    """What it is to have judged, as its own judge would send it."""
    known_parts: frozenset[str]
    """Content hashes of parts, of memories not yet judged as a whole, that it knows."""
    priors: Mapping[str, float]
    """By content hash of the memory."""
    write: Write
    claims: Claims


@dataclass(slots=True)
class Opened:
    """What is claimed for a unit, until the last of its asks has come to its end."""

    asks: int
    """Still to be settled."""
    unjudged: dict[int, set[str]]
    """Claimed contents without a judgment, for each question."""


@dataclass(slots=True)
class Sent:
    """An ask on its way, with what brings parts together for each of its questions."""

    ask: Ask
    unit: Unit
    tallies: dict[int, PartTally]
    opened: "Opened"


@dataclass(frozen=True, slots=True)
class Answered:
    """One shared prompt that was answered."""

    request: Request
    completion: Completion
    alone: tuple[int, ...]
    """For each question that it answered in full: input tokens of what that one would have been sent by itself."""
    questions: int


@dataclass(slots=True)
class Together:
    """One pass of shared prompts; nothing is sent before `run`."""

    provider: Provider
    drafts: Drafts
    texts: Texts
    askings: Sequence[Asking]
    most: int
    """Questions that may share a prompt, as the user wants it."""
    context_tokens: int
    concurrency: int
    stop: Stop
    answered: Callable[[Answered], None] = lambda _: None
    """Told of each prompt that was answered, with its judgments committed."""
    judged: list[set[str]] = field(default_factory=list)
    """Content hashes of the memories judged, for each question."""
    faults: Faults = field(default_factory=Faults)
    _rejected: int = 0
    _wasted: int = 0
    _has_answer: bool = False
    _has_score: bool = False

    def __post_init__(self) -> None:
        self.judged = [set() for _ in self.askings]

    def units(self) -> list[Unit]:
        """Group the packs by who lacks them; the most promising of any question first. None holds a single question."""
        units = planned(
            self.drafts,
            [asking.packs for asking in self.askings],
            [asking.turn_text for asking in self.askings],
            most=self.most,
            context_tokens=self.context_tokens,
        )
        return sorted(units, key=lambda unit: -self._prior(unit))

    async def run(self) -> None:
        """Send what questions can share; raises what a question's `write` or `claims` raise."""
        units: Iterable[Unit | Sent] = self.units()
        batches = fan_out(
            iter(units), self._settle, workers=max(1, self.concurrency), stop=self.stop, unsent=lambda _: ()
        )
        async with AsyncExitStack() as stack:
            for asking in self.askings:
                await stack.enter_async_context(asking.claims)
            await stack.enter_async_context(aclosing(batches))
            async for _ in batches:
                pass

    def _prior(self, unit: Unit) -> float:
        """Return that of the best memory for any of the questions."""
        members = [member.content_hash for member in unit.pack.members]
        return max(self.askings[number].priors.get(content, 0.0) for number in unit.questions for content in members)

    async def _settle(self, unit: Unit | Sent) -> tuple[Sequence[object], Sequence[Unit | Sent]]:
        asks = [unit] if isinstance(unit, Sent) else await self._open(unit)
        if len(asks) > 1:
            return (), asks
        for sent in asks:
            await self._send(sent)
            self._close(sent.opened)
        return (), ()

    async def _open(self, unit: Unit) -> list[Sent]:
        """Claim a pack for each of its questions, and give the asks for those that lack all of it."""
        pieces = self.drafts.pieces_of(unit.pack, self.texts(unit.pack.members))
        parts = [piece.content_hash for piece in pieces if piece.is_part]
        hashes = [*(member.content_hash for member in unit.pack.members), *parts]
        wanting = [number for number in unit.questions if self.askings[number].known_parts.isdisjoint(parts)]
        shares = await all_of(self.askings[number].claims.claim([hashes], at_most=1) for number in wanting)
        ours: list[int] = []
        for number, (claimed,) in zip(wanting, shares, strict=True):
            if claimed.share is Share.OURS and not claimed.known:
                ours.append(number)
            elif claimed.share is Share.OURS:
                self.askings[number].claims.release(hashes)
        asks = self.drafts.asks(unit.pack, pieces) if len(ours) > 1 else []
        opened = Opened(len(asks), {number: set(hashes) for number in ours})
        if not asks:  # one question alone, or every text is gone
            self._release(opened)
        shared, tallies = Unit(unit.pack, tuple(ours)), {number: PartTally() for number in ours}
        return [Sent(ask, shared, tallies, opened) for ask in asks]

    def _close(self, opened: Opened) -> None:
        """Count an ask as settled; with the last, give up what has no judgment: siblings on their way need it."""
        opened.asks -= 1
        if not opened.asks:
            self._release(opened)

    def _release(self, opened: Opened) -> None:
        for number, contents in opened.unjudged.items():
            if contents:
                self.askings[number].claims.release(contents)

    async def _send(self, sent: Sent) -> None:
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
        await all_of(self._keep(sent, number, found) for number, found in heard.items())
        self._weigh(any(found.judged for found in heard.values()))
        whole = [number for number, found in heard.items() if not found.missing]
        alone = alone_tokens(self.drafts, request, [self.askings[number].turn_text for number in whole])
        self.answered(Answered(request, completion, alone, len(numbers)))

    def _read(self, request: Request, completion: Completion) -> Replies:
        if completion.finish is Finish.REFUSAL:
            return Replies(dict.fromkeys(request.reply_questions, NOTHING), NOTHING)
        replies = read_questions(completion.text, request.reply_questions, frozenset(request.reply_ids))
        self.faults.count(replies.whole)
        return replies

    def _hear(
        self, ask: Ask, codes: Sequence[str], completion: Completion, replies: Replies, asked: tuple[str, int]
    ) -> Heard:
        question, number = asked
        priors = self.askings[number].priors
        return hear(ask, codes, completion, priors=priors, read=lambda *_: replies.by_question[question])

    async def _keep(self, sent: Sent, number: int, found: Heard) -> None:
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
        if not self._has_score and self._wasted >= MOST_WASTED:
            self.stop.set(Cause.UNREADABLE, "the model gave no usable score to questions that shared a prompt")

    def _failed(self, error: ProviderError | BudgetExhausted) -> None:
        """Decide whether an error ends all shared prompts; what this one asked is left to each question's judge."""
        if isinstance(error, NotSent):
            return
        if isinstance(error, BudgetExhausted):
            self.stop.set(Cause.BUDGET, error.message)
        elif isinstance(error, RequestRejected | PromptTooLong):
            self._rejected += 1
            if self._rejected >= MOST_REJECTED:
                self.stop.set(Cause.PROVIDER, error.message)
        elif error.stops_run or (isinstance(error, Unreachable) and not self._has_answer):
            self.stop.set(Cause.PROVIDER, error.message)


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do these beside one another; where one fails the others are ended first, and its own error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
