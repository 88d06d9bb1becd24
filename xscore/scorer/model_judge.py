"""The judge that is a model: one result for each candidate, nothing paid is lost.

Packs are claimed before they are sent, and judgments committed before their worker takes more work,
so a kill pays again for at most what was in flight. Retries, limits, prices and the ledger are
wrapped around the provider. Trade-off: valid scores of a reply are kept and only the rest is asked
again, among other neighbours.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from decimal import Decimal

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
from xscore.prompts.turn_text import turn_block
from xscore.providers.provider import Provider
from xscore.records.calls import Completion, Request
from xscore.records.candidates import Candidate, Slots
from xscore.records.judgment import (
    ClaimResult,
    JudgeIdentity,
    Judgment,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import add_costs
from xscore.records.turn import Turn
from xscore.scorer import repair
from xscore.scorer.claiming import ClaimedPack, ClaimNext, NoClaims, OpenedPack, PackQueue
from xscore.scorer.fanout import StopSignal, fan_out
from xscore.scorer.giving_up import MOST_LARGE_REJECTED, GiveUpRule
from xscore.scorer.judge import Texts
from xscore.scorer.judging_run import JudgingResult, JudgingRun
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, PackPrompt
from xscore.scorer.replies import ReplyFaults, parse_completion

ALIKE = 0.75
"""Share of the size of a request that was too long at which another is taken for too long as
well: estimates are no more exact."""


KnownParts = Callable[[Sequence[str]], Mapping[str, Judgment]]
"""Returns the judgments that exist already among these content hashes of parts."""
WorkUnit = ClaimNext | ClaimedPack | PackPrompt
UnitResult = tuple[Sequence[JudgingResult], Sequence[WorkUnit]]
"""Results of a unit: those of memories, and units that follow from it."""


class JudgingPlan(Struct, frozen=True, kw_only=True):
    """What a judge is given to judge one turn with."""

    texts: Texts
    write: WriteJudgments
    slots: Slots
    """Slots of the whole pool."""
    priors: Mapping[str, float]
    """Memory id -> score of the judge without a model, 0..1; stored with each judgment."""
    order: Mapping[str, float] | None = None
    """Memory id -> how early it should be judged; None: by `priors`."""
    known_parts: KnownParts = lambda _: {}
    claims: Claims = NoClaims()
    """Claims of the judge. By default, no other process can be at work on the same store."""
    concurrency: int = 32
    sees: str = "task"
    stop: StopSignal = field(default_factory=StopSignal)
    """Stop that judges of one provider share, so that what ends one ends all."""
    remarks: tuple[str, ...] = ()
    """Warnings from opening the judge."""
    faults: ReplyFaults | None = None
    """Counts of several judges together, which their caller reports; None: `warnings` reports those
    of this judge."""
    write_as: Callable[[str], WriteJudgments] | None = None
    """Name of a model -> writer of its judgments, for replies of another model than expected."""
    head_starts: Mapping[str, float] = {}
    """Content hash -> addition to the order that only moves a pack forward: scores 0..1 of unsigned
    imports, and more for what a follow-up judges first."""


class ModelJudge:
    """Judges memories of one turn in packs. See `scorer.judge.Judge`."""

    def __init__(self, provider: Provider, prompts: PromptBuilder, plan: JudgingPlan) -> None:
        self.identity: JudgeIdentity = prompts.identity(
            provider=provider.name, host=provider.host
        )
        self.faults: ReplyFaults = plan.faults or ReplyFaults()
        self.judged_elsewhere: set[str] = set()
        self.usd_shares: dict[str, Decimal | None] = {}
        self._provider = provider
        self._prompts = prompts
        self._plan = plan

    def warnings(self) -> tuple[str, ...]:
        """Say what was wrong so far, with replies above all, for the receipt's warnings."""
        if self._plan.faults is not None:
            # The caller reports them, for several judges together.
            return self._plan.remarks
        return (*self._plan.remarks, *self.faults.warnings())

    def stop(self, cause: UnjudgedCause) -> None:
        """Send nothing more; calls in flight finish, and the rest is yielded as unjudged with this
        cause."""
        self._plan.stop.set(cause)

    async def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[JudgingResult]:
        """Yield exactly one result for each distinct content hash among the candidates.

        Raises what `write` raises: when judgments cannot be kept, none is paid for.
        """
        packs = self._packs(candidates)
        workers = max(1, min(self._plan.concurrency, len(candidates)))
        run = self._run(turn, packs, workers=workers)
        missing = {member.content_hash for pack in packs for member in pack.members}
        units: Iterator[WorkUnit] = iter(run.queue.next_units())
        batches = fan_out(
            units,
            lambda unit: self._work_on(run, unit),
            workers=workers,
            stop=self._plan.stop,
            unsent=lambda unit: self._unsent(run, unit),
        )
        # Leaving `claims` releases what is left of them, however the loop ends, so that another
        # process need not wait for them to expire.
        async with self._plan.claims, aclosing(batches):
            async for batch in batches:
                unjudged = [result for result in batch if isinstance(result, Unjudged)]
                # Before they are yielded: another process may then judge them at once.
                self._release(run, [result.content_hash for result in unjudged])
                for result in batch:
                    _count_once(missing, result)
                    yield result
        if missing:
            raise XscoreError(
                f"{len(missing)} candidates got no result", hint="Please report it."
            )

    def _run(self, turn: Turn, packs: Sequence[Pack], *, workers: int) -> JudgingRun:
        is_independent = self._prompts.layout.is_independent
        priors: dict[str, float] = {}
        for pack in packs:
            for member in pack.members:
                priors[member.content_hash] = self._plan.priors.get(member.id, 0.0)
        return JudgingRun(
            turn_block(turn, sees=self._plan.sees),
            priors,
            PackQueue(packs, self._plan.claims, workers=workers),
            GiveUpRule(MOST_LARGE_REJECTED) if is_independent else GiveUpRule(),
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
        if self._plan.order is None:
            order = self._plan.priors
        else:
            order = self._plan.order
        return order.get(member.id, 0.0) + self._plan.head_starts.get(member.content_hash, 0.0)

    async def _work_on(self, run: JudgingRun, unit: WorkUnit) -> UnitResult:
        match unit:
            case PackPrompt():
                return await self._send(run, unit)
            case ClaimNext():
                return await self._claim_packs(run)
            case ClaimedPack():
                return await self._send_rest_of(run, unit)

    async def _claim_packs(self, run: JudgingRun) -> UnitResult:
        """Claim the next packs; return what others have judged of them, the rest, and after it the
        next claim."""
        packs = run.queue.take_next()
        if not packs:
            judged_by_others = await run.queue.check_deferred()
            return self._take_judged(run, judged_by_others), run.queue.next_units()
        texts = self._plan.texts([member for pack in packs for member in pack.members])
        opened: list[OpenedPack] = []
        for pack in packs:
            pieces = self._prompts.pieces_of(pack, texts)
            opened.append(OpenedPack(pack, pieces, run.contents(pack, pieces)))
        claimed = await run.queue.claim(opened)
        complete: list[tuple[Pack, ClaimResult]] = []
        ours: list[ClaimedPack] = []
        for unit in claimed:
            if unit.is_judged:
                complete.append((unit.opened.pack, unit.claimed))
            else:
                ours.append(unit)
        # The next claim comes after these packs: claiming further ahead would keep them from other
        # processes.
        return self._take_judged(run, complete), [*ours, *run.queue.next_units()]

    def _take_judged(
        self, run: JudgingRun, packs: Sequence[tuple[Pack, ClaimResult]]
    ) -> Sequence[JudgingResult]:
        """Take packs that others have judged as a whole; release our claims on parts of their
        memories."""
        judgments: list[Judgment] = []
        for pack, claimed in packs:
            judgments += [claimed.known[member.content_hash] for member in pack.members]
        memories = [judgment.content_hash for judgment in judgments]
        self.judged_elsewhere.update(memories)
        parts = set(run.with_parts(memories)).difference(memories)
        if parts:
            self._plan.claims.release(parts)
        return judgments

    async def _send_rest_of(self, run: JudgingRun, ours: ClaimedPack) -> UnitResult:
        """Send what of a claimed pack has no judgment yet, and take what others have judged."""
        pack = ours.opened.pack
        pieces = ours.opened.pieces
        claimed = ours.claimed
        elsewhere: list[Judgment] = []
        members: list[Candidate] = []
        for member in pack.members:
            if member.content_hash in claimed.known:
                elsewhere.append(claimed.known[member.content_hash])
            else:
                members.append(member)
        if elsewhere:
            # Judged by another process between the look-up in the cache and this claim: paying for
            # it again would buy nothing, and its claim is no longer needed.
            done = {judgment.content_hash for judgment in elsewhere}
            self.judged_elsewhere |= done
            self._release(run, done)
            # No longer a lasting pack: a prompt with fewer members does not last.
            pack = Pack(pack.id, tuple(members))
            pieces = tuple(piece for piece in pieces if piece.memory not in done)
        known_judgments = self._known_results(pieces, claimed)
        results = run.lost_texts(pack, pieces)
        # A memory whose last missing part was judged by an earlier, killed run is complete now,
        # and is stored before anything is sent.
        results += run.take(
            (piece, known_judgments.get(piece.content_hash)) for piece in pieces
        )
        await self._keep([result for result in results if isinstance(result, Judgment)])
        prompts = self._prompts.prompts_of(
            pack, [piece for piece in pieces if piece.content_hash not in known_judgments]
        )
        if len(prompts) != 1:
            # Parts of long memories have a prompt each: they go back to the line, so that several
            # workers send them.
            return [*elsewhere, *results], prompts
        sent, follow_ups = await self._send(run, prompts[0])
        return [*elsewhere, *results, *sent], follow_ups

    def _known_results(
        self, pieces: Sequence[MemoryPiece], claimed: ClaimResult
    ) -> dict[str, Judgment]:
        """Return judgments that exist of these pieces, by content hash."""
        parts = [piece.content_hash for piece in pieces if piece.is_part]
        if parts:
            judgments = dict(self._plan.known_parts(parts))
        else:
            judgments = {}
        # What the claim found is newer.
        judgments.update(claimed.known)
        return judgments

    def _release(self, run: JudgingRun, memories: Iterable[str]) -> None:
        """Release the claims on memories, and on their parts, that will have no judgment of
        ours."""
        self._plan.claims.release(run.with_parts(memories))

    async def _send(self, run: JudgingRun, prompt: PackPrompt) -> UnitResult:
        request, codes = self._prompts.request(prompt, run.turn_text)
        too_long_from, detail = run.too_long
        is_alike = request.input_tokens >= ALIKE * too_long_from
        if is_alike and len(prompt.pieces) > 1 and self._prompts.layout.is_independent:
            # The host has turned down a request of this size: send its halves at once.
            return self._repair(run, prompt, prompt.pieces, repair.prompt_too_long(detail))
        try:
            # Held while a host may be one that takes nothing: then few requests are in flight.
            async with run.rule.sending():
                # Looked up once more: the stop may have come while this one waited its turn.
                if self._plan.stop.cause is not None:
                    return self._unsent(run, prompt), ()
                completion = await self._provider.complete(request)
        except BudgetExhausted as error:
            # Nothing was sent. One cap holds for all that is left, so nothing more is tried.
            self._plan.stop.set(UnjudgedCause.BUDGET, error.message)
            return run.lose(prompt.pieces, UnjudgedCause.BUDGET, error.message), ()
        except NotSent:
            return self._unsent(run, prompt), ()
        except ProviderError as error:
            self.faults.asked_again += prompt.is_again
            return self._after_error(run, prompt, error, tokens=request.input_tokens)
        self.faults.asked_again += prompt.is_again
        self._share_cost(prompt, completion.cost_usd)
        return await self._after_reply(run, prompt, codes, completion)

    def _share_cost(self, prompt: PackPrompt, cost_usd: Decimal | None) -> None:
        share = None if cost_usd is None else cost_usd / len(prompt.pieces)
        for piece in prompt.pieces:
            # A memory may have been asked about before, or in several parts. One unpriced call
            # makes its sum unpriced.
            if piece.memory in self.usd_shares:
                self.usd_shares[piece.memory] = add_costs(self.usd_shares[piece.memory], share)
            else:
                self.usd_shares[piece.memory] = share

    async def _after_reply(
        self, run: JudgingRun, prompt: PackPrompt, codes: Sequence[str], completion: Completion
    ) -> UnitResult:
        parsed = parse_completion(
            prompt, codes, completion, priors=run.priors, read=self._prompts.layout.read
        )
        self.faults.count(parsed.reply)
        run.rule.count_reply(scored=bool(parsed.judged))
        expected = self._prompts.model.answered_by
        if expected and completion.model != expected:
            results = await self._keep_of_another(run, prompt, parsed.judged, completion.model)
            return results, ()
        results = run.take(parsed.judged)
        # Parts are stored as well as the memories that they complete: a killed run pays for no
        # part twice.
        judgments = [judgment for piece, judgment in parsed.judged if piece.is_part]
        judgments += [result for result in results if isinstance(result, Judgment)]
        await self._keep(judgments)
        lost, prompts = self._repair(run, prompt, parsed.missing, parsed.trouble)
        declined, alone = self._repair(run, prompt, parsed.refused, repair.REFUSED)
        return [*results, *lost, *declined], [*prompts, *alone]

    async def _keep_of_another(
        self,
        run: JudgingRun,
        prompt: PackPrompt,
        judged: Sequence[tuple[MemoryPiece, Judgment]],
        model: str,
    ) -> list[JudgingResult]:
        """Stop: another model answers under this name.

        What it was paid for is stored as its own judgments.
        """
        named = self._prompts.model
        detail = (
            f"`{named.name}` now answers as {model}, no longer as {named.answered_by}: ask again to"
            " judge with it"
        )
        if judged and self._plan.write_as is not None:
            await self._plan.write_as(model)([judgment for _, judgment in judged])
        self._plan.stop.set(UnjudgedCause.PROVIDER, detail)
        return run.lose(prompt.pieces, UnjudgedCause.PROVIDER, detail)

    def _after_error(
        self, run: JudgingRun, prompt: PackPrompt, error: ProviderError, *, tokens: int
    ) -> UnitResult:
        detail = f"{error.kind}: {error.message}"
        # A length has a remedy of its own, and says nothing against the host.
        if isinstance(error, PromptTooLong):
            run.too_long = min(run.too_long, (tokens, detail))
            return self._repair(run, prompt, prompt.pieces, repair.prompt_too_long(detail))
        if run.rule.is_over_after(error):
            # No prompt would fare better: an empty account may say so in prose.
            self._plan.stop.set(UnjudgedCause.PROVIDER, detail)
        elif isinstance(error, RequestRejected):
            return self._repair(run, prompt, prompt.pieces, repair.prompt_rejected(detail))
        return run.lose(prompt.pieces, UnjudgedCause.PROVIDER, detail), ()

    def _repair(
        self,
        run: JudgingRun,
        prompt: PackPrompt,
        missing: Sequence[MemoryPiece],
        reason: repair.RepairReason,
    ) -> UnitResult:
        """Return the pieces that are lost for good, and the prompts that ask for the others
        again."""
        if not missing:
            return [], []
        prompts, lost = repair.next_prompts(
            prompt, missing, reason, is_independent=self._prompts.layout.is_independent
        )
        if run.rule.is_over_after_unscored(len(lost)):
            self._plan.stop.set(
                reason.cause, f"{reason.detail}; this model has given no usable score at all"
            )
        return run.take(lost), prompts

    def _unsent(self, run: JudgingRun, unit: WorkUnit) -> Sequence[JudgingResult]:
        """Account for a unit that comes after the stop."""
        assert self._plan.stop.cause is not None
        cause = self._plan.stop.cause
        detail = self._plan.stop.detail
        if isinstance(unit, PackPrompt):
            return run.lose(unit.pieces, cause, detail)
        # `ClaimNext` represents all that is still in the queue.
        if isinstance(unit, ClaimedPack):
            packs = [unit.opened.pack]
        else:
            packs = run.queue.drain()
        unjudged: list[JudgingResult] = []
        for pack in packs:
            for member in pack.members:
                unjudged.append(Unjudged(member.content_hash, cause, detail))
        return unjudged

    async def _keep(self, judgments: Sequence[Judgment]) -> None:
        if judgments:
            await self._plan.write(judgments)


def _count_once(missing: set[str], result: JudgingResult) -> None:
    if result.content_hash not in missing:
        raise XscoreError(f"{result.content_hash} got two results", hint="Please report it.")
    missing.remove(result.content_hash)
