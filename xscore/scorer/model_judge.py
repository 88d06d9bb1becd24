"""The judge that is a model: one result for each candidate, nothing paid is lost.

Packs are claimed before they are sent, and judgments committed before their worker takes more work,
so a kill pays again for at most what was in flight. Retries, limits, prices and the ledger are
wrapped around the provider. Trade-off: valid scores of a reply are kept and only the rest is asked
again, among other neighbours.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from decimal import Decimal
from math import inf

from msgspec import Struct, field

from xscore.cache.judgment_store import Claims, WriteJudgments
from xscore.platform.errors import (
    BudgetExhausted,
    NotSent,
    PromptTooLong,
    ProviderError,
    RequestRejected,
    XscoreError,
)
from xscore.platform.text import counted
from xscore.prompts.turn_text import turn_block
from xscore.providers.provider import Provider
from xscore.records.calls import Completion, Request
from xscore.records.judgment import ClaimResult, JudgeIdentity, Judgment, Unjudged, UnjudgedCause
from xscore.records.memory import Candidate
from xscore.records.receipt import add_costs
from xscore.records.turn import Turn
from xscore.scorer import repair
from xscore.scorer.claiming import ClaimedPack, ClaimNext, NoClaims, OpenedPack, PackQueue
from xscore.scorer.fanout import StopSignal, fan_out
from xscore.scorer.giving_up import MOST_LARGE_REJECTED, GiveUpRule
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPart, PackPrompt, PartTally
from xscore.scorer.replies import ParsedReply, parse_completion

JudgingResult = Judgment | Unjudged
ALIKE = 0.75
"""A request of this share of one that was too long is taken for too long as well: estimates are no
more exact."""


class ReplyFaults(Struct):
    """What was wrong with replies so far; for the receipt's warnings."""

    repaired: int = 0
    """Replies that were not JSON as they stood."""
    foreign: int = 0
    """Scores for ids that were not asked for."""
    void: int = 0
    """Scores that are no integer 0..100, or given twice with different values."""
    asked_again: int = 0
    """Prompts sent for pieces that an earlier one left without a score."""

    def count(self, reply: ParsedReply) -> None:
        """Add what was wrong with one reply."""
        self.repaired += reply.repaired
        self.foreign += reply.foreign
        self.void += reply.void

    def in_words(self) -> str:
        """`2 replies repaired, 1 score void; 3 prompts asked again`; empty if nothing was wrong."""
        counts = (
            (self.repaired, "reply repaired", "replies repaired"),
            (self.foreign, "score for unknown ids", "scores for unknown ids"),
            (self.void, "score void", "scores void"),
        )
        wrong = ", ".join(counted(*one) for one in counts if one[0])
        again = f"{counted(self.asked_again, 'prompt')} asked again" if self.asked_again else ""
        return "; ".join(part for part in (wrong, again) if part)

    def warnings(self) -> tuple[str, ...]:
        """Say for a receipt what was wrong, if anything was."""
        said = self.in_words()
        return (f"the judge's replies had to be repaired: {said}",) if said else ()


class JudgingRun(Struct):
    """One pass over the candidates."""

    turn_text: str
    priors: Mapping[str, float]
    """By content hash of the memory."""
    waiting: PackQueue
    rule: GiveUpRule
    too_long: tuple[float, str] = (inf, "")
    """Tokens of the shortest request that the host found too long, and its words."""
    _parts: PartTally = field(default_factory=PartTally)
    _parts_of: dict[str, list[str]] = field(default_factory=dict)

    def contents(self, pack: Pack, found: Sequence[MemoryPart]) -> list[str]:
        """Name all that judging this pack judges: its members and, where a member is in parts,
        those."""
        parts = [piece for piece in found if piece.is_part]
        for memory in {piece.memory for piece in parts}:
            self._parts_of[memory] = [
                piece.content_hash for piece in parts if piece.memory == memory
            ]
        return [
            *(member.content_hash for member in pack.members),
            *(piece.content_hash for piece in parts),
        ]

    def with_parts(self, memories: Iterable[str]) -> list[str]:
        """Name these memories and the parts they are judged in."""
        return [
            content for memory in memories for content in (memory, *self._parts_of.pop(memory, ()))
        ]

    def take(
        self, settled: Iterable[tuple[MemoryPart, JudgingResult | None]]
    ) -> list[JudgingResult]:
        """Take the results of pieces; give those of the memories that are settled by them."""
        results = [
            self._parts.settle(piece, result) for piece, result in settled if result is not None
        ]
        return [result for result in results if result is not None]

    def lose(
        self, pieces: Sequence[MemoryPart], cause: UnjudgedCause, detail: str
    ) -> list[JudgingResult]:
        """Take pieces that will have no score."""
        return self.take((piece, Unjudged(piece.content_hash, cause, detail)) for piece in pieces)

    @staticmethod
    def lost_texts(pack: Pack, found: Sequence[MemoryPart]) -> list[JudgingResult]:
        """Account for members whose text is gone: another run changed the store meanwhile."""
        there = {piece.memory for piece in found}
        gone = [member.content_hash for member in pack.members if member.content_hash not in there]
        return [
            Unjudged(hash_, UnjudgedCause.UNREADABLE, "it left the store before it was judged")
            for hash_ in gone
        ]


KnownParts = Callable[[Sequence[str]], Mapping[str, Judgment]]
"""Judgments that exist already among these content hashes of parts."""
WorkUnit = ClaimNext | ClaimedPack | PackPrompt


class JudgingPlan(Struct, frozen=True, kw_only=True):
    """What a judge is given to judge one turn with."""

    texts: Texts
    write: WriteJudgments
    slots: Mapping[str, tuple[str, int]]
    """Memory id -> pack and position, of the whole pool."""
    priors: Mapping[str, float]
    """Memory id -> lexical prior, 0..1."""
    known_parts: KnownParts = lambda _: {}
    claims: Claims = NoClaims()
    """The default: no other process can be at work on the same store."""
    concurrency: int = 32
    sees: str = "task"
    stop: StopSignal = field(default_factory=StopSignal)
    """Shared by judges that share a provider, so that what ends one ends all."""
    remarks: tuple[str, ...] = ()
    """What there was to say before it began."""
    faults: ReplyFaults | None = None
    """Where several judges count together, for their caller to tell; None: `warnings` tells of this
    judge."""
    write_as: Callable[[str], WriteJudgments] | None = None
    """Name of a model -> writer of its judgments, for replies of another model than expected."""
    head_starts: Mapping[str, float] = {}
    """Content hash -> addition to the prior that only moves a pack forward: scores 0..1 of unsigned
    imports, and more for what a follow-up judges first."""


class ModelJudge:
    """Judges memories of one turn in packs. See `scorer.judge.Judge`."""

    def __init__(self, provider: Provider, prompts: PromptBuilder, plan: JudgingPlan) -> None:
        self.identity: JudgeIdentity = prompts.identity(provider=provider.name, host=provider.host)
        self.faults: ReplyFaults = plan.faults or ReplyFaults()
        self.judged_elsewhere: set[str] = set()
        self.paid: dict[str, Decimal | None] = {}
        self._provider, self._prompts, self._plan = provider, prompts, plan

    def warnings(self) -> tuple[str, ...]:
        """Say what was wrong so far, with replies above all, for the receipt's warnings."""
        return (*self._plan.remarks, *(() if self._plan.faults else self.faults.warnings()))

    def stop(self, cause: UnjudgedCause) -> None:
        """Send nothing more; what is in flight still settles, and the rest is yielded as unjudged
        with this cause."""
        self._plan.stop.set(cause)

    async def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[JudgingResult]:
        """Yield exactly one result for each distinct content hash among the candidates.

        Raises what `write` raises: when judgments cannot be kept, none is paid for.
        """
        packs = self._packs(candidates)
        workers = max(1, min(self._plan.concurrency, len(candidates)))
        line = PackQueue(packs, self._plan.claims, workers=workers)
        rule = (
            GiveUpRule(MOST_LARGE_REJECTED) if self._prompts.layout.is_independent else GiveUpRule()
        )
        priors = {
            one.content_hash: self._plan.priors.get(one.id, 0.0)
            for pack in packs
            for one in pack.members
        }
        run = JudgingRun(turn_block(turn, sees=self._plan.sees), priors, line, rule)
        waiting = {member.content_hash for pack in packs for member in pack.members}
        units: Iterator[WorkUnit] = iter(line.look())
        batches = fan_out(
            units,
            lambda unit: self._settle(run, unit),
            workers=workers,
            stop=self._plan.stop,
            unsent=lambda unit: self._unsent(run, unit),
        )
        async with self._plan.claims, aclosing(batches):
            async for batch in batches:
                self._give_up(
                    run, [result.content_hash for result in batch if isinstance(result, Unjudged)]
                )
                for result in batch:
                    _mark_settled(waiting, result)
                    yield result
        if waiting:
            raise XscoreError(
                f"{len(waiting)} candidates were not settled", hint="Please report it."
            )

    def requests(self, turn: Turn, candidates: Sequence[Candidate]) -> Iterator[Request]:
        """Yield the requests that `judge` would send first, in its order, sending none."""
        return self._prompts.first_requests(
            self._packs(candidates), turn_block(turn, sees=self._plan.sees), self._plan.texts
        )

    def _packs(self, candidates: Sequence[Candidate]) -> list[Pack]:
        """Group the distinct contents into packs, the most promising pack first."""
        distinct = {candidate.content_hash: candidate for candidate in candidates}
        candidates = list(distinct.values())
        if self._prompts.profile.is_independent:
            candidates.sort(key=self._promise, reverse=True)
        packs = packs_to_send(candidates, self._plan.slots, self._prompts.profile)
        return sorted(packs, key=lambda pack: -max(map(self._promise, pack.members)))

    def _promise(self, member: Candidate) -> float:
        """How early it should be judged; only the prior is kept with its judgment."""
        return self._plan.priors.get(member.id, 0.0) + self._plan.head_starts.get(
            member.content_hash, 0.0
        )

    async def _settle(
        self, run: JudgingRun, unit: WorkUnit
    ) -> tuple[Sequence[JudgingResult], Sequence[WorkUnit]]:
        match unit:
            case PackPrompt():
                return await self._send(run, unit)
            case ClaimNext():
                return await self._look(run)
            case ClaimedPack():
                return await self._settle_pack(run, unit)

    async def _look(self, run: JudgingRun) -> tuple[Sequence[JudgingResult], Sequence[WorkUnit]]:
        """Claim the next packs; return what others have judged of them, the rest, and after it the
        next look."""
        packs = run.waiting.take()
        if not packs:
            settled = await run.waiting.look_aside()
            return self._found_judged(run, settled), run.waiting.look()
        texts = self._plan.texts([member for pack in packs for member in pack.members])
        found = [(pack, self._prompts.pieces_of(pack, texts)) for pack in packs]
        opened = [OpenedPack(pack, pieces, run.contents(pack, pieces)) for pack, pieces in found]
        ours = await run.waiting.claim(opened)
        settled = [(one.opened.pack, one.claimed) for one in ours if one.is_settled]
        return self._found_judged(run, settled), [
            *(one for one in ours if not one.is_settled),
            *run.waiting.look(),
        ]

    def _found_judged(
        self, run: JudgingRun, settled: Sequence[tuple[Pack, ClaimResult]]
    ) -> Sequence[JudgingResult]:
        """Take packs that others have judged as a whole; parts of their memories that we claimed
        are given up."""
        found = [
            claimed.known[member.content_hash]
            for pack, claimed in settled
            for member in pack.members
        ]
        memories = [judgment.content_hash for judgment in found]
        self.judged_elsewhere.update(memories)
        parts = set(run.with_parts(memories)).difference(memories)
        if parts:
            self._plan.claims.release(parts)
        return found

    async def _settle_pack(
        self, run: JudgingRun, ours: ClaimedPack
    ) -> tuple[Sequence[JudgingResult], Sequence[WorkUnit]]:
        pack, found, claimed = ours.opened.pack, ours.opened.pieces, ours.claimed
        elsewhere = [
            claimed.known[one.content_hash]
            for one in pack.members
            if one.content_hash in claimed.known
        ]
        if elsewhere:
            done = {judgment.content_hash for judgment in elsewhere}
            self.judged_elsewhere |= done
            self._give_up(run, done)
            pack = Pack(
                pack.id, tuple(member for member in pack.members if member.content_hash not in done)
            )
            found = tuple(piece for piece in found if piece.memory not in done)
        parts = [piece.content_hash for piece in found if piece.is_part]
        known = {**(self._plan.known_parts(parts) if parts else {}), **claimed.known}
        results = run.lost_texts(pack, found) + run.take(
            (piece, known.get(piece.content_hash)) for piece in found
        )
        await self._keep([result for result in results if isinstance(result, Judgment)])
        asks = self._prompts.asks(
            pack, [piece for piece in found if piece.content_hash not in known]
        )
        if len(asks) != 1:
            return [*elsewhere, *results], asks
        more, again = await self._send(run, asks[0])
        return [*elsewhere, *results, *more], again

    def _give_up(self, run: JudgingRun, memories: Iterable[str]) -> None:
        """Release the claims on memories, and on their parts, that will have no judgment of
        ours."""
        self._plan.claims.release(run.with_parts(memories))

    async def _send(
        self, run: JudgingRun, ask: PackPrompt
    ) -> tuple[Sequence[JudgingResult], Sequence[PackPrompt]]:
        request, codes = self._prompts.request(ask, run.turn_text)
        least, detail = run.too_long
        if (
            request.input_tokens >= ALIKE * least
            and len(ask.pieces) > 1
            and self._prompts.layout.is_independent
        ):
            # the host has turned down a request of this size: send its halves at once
            return self._climb(run, ask, ask.pieces, repair.prompt_too_long(detail))
        try:
            async with run.rule.sending():
                if self._plan.stop.cause is not None:
                    return self._unsent(run, ask), ()
                completion = await self._provider.complete(request)
        except BudgetExhausted as error:
            self._plan.stop.set(UnjudgedCause.BUDGET, error.message)
            return run.lose(ask.pieces, UnjudgedCause.BUDGET, error.message), ()
        except NotSent:
            return self._unsent(run, ask), ()
        except ProviderError as error:
            self.faults.asked_again += ask.is_again
            return self._after_error(run, ask, error, tokens=request.input_tokens)
        self.faults.asked_again += ask.is_again
        self._share_cost(ask, completion.cost_usd)
        return await self._after_reply(run, ask, codes, completion)

    def _share_cost(self, ask: PackPrompt, cost_usd: Decimal | None) -> None:
        share = None if cost_usd is None else cost_usd / len(ask.pieces)
        for piece in ask.pieces:
            self.paid[piece.memory] = (
                add_costs(self.paid[piece.memory], share) if piece.memory in self.paid else share
            )

    async def _after_reply(
        self, run: JudgingRun, ask: PackPrompt, codes: Sequence[str], completion: Completion
    ) -> tuple[Sequence[JudgingResult], Sequence[PackPrompt]]:
        heard = parse_completion(
            ask, codes, completion, priors=run.priors, read=self._prompts.layout.read
        )
        self.faults.count(heard.reply)
        run.rule.count_reply(scored=bool(heard.judged))
        expected = self._prompts.model.answered_by
        if expected and completion.model != expected:
            return await self._keep_of_another(run, ask, heard.judged, completion.model), ()
        results = run.take(heard.judged)
        parts = [judgment for piece, judgment in heard.judged if piece.is_part]
        await self._keep([*parts, *(result for result in results if isinstance(result, Judgment))])
        more, again = self._climb(run, ask, heard.missing, heard.trouble)
        declined, alone = self._climb(run, ask, heard.refused, repair.REFUSED)
        return [*results, *more, *declined], [*again, *alone]

    async def _keep_of_another(
        self,
        run: JudgingRun,
        ask: PackPrompt,
        judged: Sequence[tuple[MemoryPart, Judgment]],
        model: str,
    ) -> list[JudgingResult]:
        """Stop: another model answers under this name.

        What it was paid for is stored as its own judgments.
        """
        name = self._prompts.model
        detail = (
            f"`{name.name}` now answers as {model}, no longer as {name.answered_by}: ask again to"
            " judge with it"
        )
        if judged and self._plan.write_as is not None:
            await self._plan.write_as(model)([judgment for _, judgment in judged])
        self._plan.stop.set(UnjudgedCause.PROVIDER, detail)
        return run.lose(ask.pieces, UnjudgedCause.PROVIDER, detail)

    def _after_error(
        self, run: JudgingRun, ask: PackPrompt, error: ProviderError, *, tokens: int
    ) -> tuple[Sequence[JudgingResult], Sequence[PackPrompt]]:
        detail = f"{error.kind}: {error.message}"
        if isinstance(error, PromptTooLong):
            run.too_long = min(run.too_long, (tokens, detail))
            return self._climb(run, ask, ask.pieces, repair.prompt_too_long(detail))
        if run.rule.is_over_after(error):
            # no prompt would fare better: an empty account may say so in prose
            self._plan.stop.set(UnjudgedCause.PROVIDER, detail)
        elif isinstance(error, RequestRejected):
            return self._climb(run, ask, ask.pieces, repair.prompt_rejected(detail))
        return run.lose(ask.pieces, UnjudgedCause.PROVIDER, detail), ()

    def _climb(
        self,
        run: JudgingRun,
        ask: PackPrompt,
        missing: Sequence[MemoryPart],
        trouble: repair.RepairReason,
    ) -> tuple[Sequence[JudgingResult], Sequence[PackPrompt]]:
        if not missing:
            return [], []
        again, lost = repair.next_prompts(
            ask, missing, trouble, is_independent=self._prompts.layout.is_independent
        )
        if run.rule.is_over_after_unscored(len(lost)):
            self._plan.stop.set(
                trouble.cause, f"{trouble.detail}; this model has given no usable score at all"
            )
        return run.take(lost), again

    def _unsent(self, run: JudgingRun, unit: WorkUnit) -> Sequence[JudgingResult]:
        assert self._plan.stop.cause is not None
        if isinstance(unit, PackPrompt):
            return run.lose(unit.pieces, self._plan.stop.cause, self._plan.stop.detail)
        packs = [unit.opened.pack] if isinstance(unit, ClaimedPack) else run.waiting.leave()
        members = [member for pack in packs for member in pack.members]
        return [
            Unjudged(member.content_hash, self._plan.stop.cause, self._plan.stop.detail)
            for member in members
        ]

    async def _keep(self, judgments: Sequence[Judgment]) -> None:
        if judgments:
            await self._plan.write(judgments)


def _mark_settled(waiting: set[str], result: JudgingResult) -> None:
    if result.content_hash not in waiting:
        raise XscoreError(f"{result.content_hash} was settled twice", hint="Please report it.")
    waiting.remove(result.content_hash)
