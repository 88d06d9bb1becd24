"""The judge that is a model: candidates in, calls out, one result for each back. Nobody is lost, nothing paid is lost.

A judgment is committed (`write`) before the worker that got it takes more work, so a kill re-pays at most what was in
flight, and claimed before it is sent (`sharing`), so that processes at work on one store do not pay for it twice. Texts
are loaded some packs at a time. Retries, limits, prices and the ledger are wrapped around the provider, out of sight.
Trade-off: a reply's valid scores are kept and only the rest is asked again, so one memory may be judged among other
neighbours than another of its pack.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from xscore.cache.judgment_store import Claims, Write
from xscore.errors import (
    BudgetExhausted,
    NotSent,
    PromptTooLong,
    ProviderError,
    RequestRejected,
    Unreachable,
    XscoreError,
)
from xscore.prompts.judge import turn_block
from xscore.providers.provider import Provider
from xscore.records import Candidate, Cause, Claimed, Completion, Judgment, Request, Turn, Unjudged
from xscore.scorer import repair
from xscore.scorer.draft import Drafts
from xscore.scorer.fanout import Stop, fan_out
from xscore.scorer.hearing import hear
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, to_send
from xscore.scorer.repair import Ask
from xscore.scorer.run import Faults, Result, Run
from xscore.scorer.sharing import Alone, Look, Opened, Ours, Waiting
from xscore.scorer.split import Piece

KnownParts = Callable[[Sequence[str]], Mapping[str, Judgment]]
"""Judgments that exist already among these content hashes of parts."""
Unit = Look | Ours | Ask
MOST_REJECTED = 8
"""So many requests turned down in a row, without an answer between them, and the host will take none."""
MOST_LOST = 4
"""So many memories lost, each alone in its prompt, before there was any score, and the model will give none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What judging would take, when every first reply is good."""

    calls: int
    input_tokens: int
    output_tokens: int


class ModelJudge:
    """Judges memories of one turn in packs. See `scorer.judge.Judge`."""

    is_model = True

    def __init__(
        self,
        provider: Provider,
        drafts: Drafts,
        *,
        texts: Texts,
        write: Write,
        slots: Mapping[str, tuple[str, int]],
        priors: Mapping[str, float],
        known_parts: KnownParts = lambda _: {},
        claims: Claims | None = None,
        concurrency: int = 32,
        context: str = "task",
        stop: Stop | None = None,
        remarks: tuple[str, ...] = (),
        hearsay: Mapping[str, float] | None = None,
    ) -> None:
        """Slots: memory id -> pack and position, of the whole pool. priors: memory id -> lexical prior, 0..1.

        claims: None where no other process can be at work on the same store. remarks: what there was to say before it
        began. hearsay: content hash -> 0..1, of what nobody vouches for; it moves a pack forward and does nothing else.
        stop: shared by judges that share a provider, so that what ends one ends all; None: one of its own.
        """
        self.identity = drafts.identity(provider=provider.name, host=provider.host)
        self.faults = Faults()
        self.elsewhere: set[str] = set()
        self._provider, self._drafts = provider, drafts
        self._texts, self._write, self._known_parts = texts, write, known_parts
        self._slots, self._priors = slots, priors
        self._concurrency, self._context = concurrency, context
        self._claims = claims or Alone()
        self._stop = stop or Stop()
        self._remarks = remarks
        self._hearsay = hearsay or {}

    def remarks(self) -> tuple[str, ...]:
        """Say what was wrong so far, with replies above all, for the receipt's warnings."""
        said = self.faults.in_words()
        return (*self._remarks, *((f"the judge's replies needed mending: {said}",) if said else ()))

    def stop(self, cause: Cause) -> None:
        """Send nothing more; what is in flight still settles, and the rest is yielded as unjudged with this cause."""
        self._stop.set(cause)

    async def judge(self, turn: Turn, candidates: Sequence[Candidate]) -> AsyncIterator[Result]:
        """Yield exactly one result for each distinct content hash among the candidates.

        Raises what `write` raises: when judgments cannot be kept, none is paid for.
        """
        packs = self._packs(candidates)
        workers = max(1, min(self._concurrency, len(candidates)))
        line = Waiting(packs, self._claims, workers=workers)
        run = Run(turn_block(turn, context=self._context), self._priors_by_content(packs), line)
        waiting = {member.content_hash for pack in packs for member in pack.members}
        units: Iterator[Unit] = iter(line.look())
        batches = fan_out(
            units,
            lambda unit: self._settle(run, unit),
            workers=workers,
            stop=self._stop,
            unsent=lambda unit: self._unsent(run, unit),
        )
        async with self._claims, aclosing(batches):
            async for batch in batches:
                self._give_up(run, [result.content_hash for result in batch if isinstance(result, Unjudged)])
                for result in batch:
                    _cross_off(waiting, result)
                    yield result
        if waiting:
            raise XscoreError(f"{len(waiting)} candidates were not settled", hint="Please report it.")

    def requests(self, turn: Turn, candidates: Sequence[Candidate]) -> Iterator[Request]:
        """Yield the requests that `judge` would send first, in its order, sending none."""
        turn_text = turn_block(turn, context=self._context)
        for pack in self._packs(candidates):
            found = self._drafts.pieces_of(pack, self._texts(pack.members))
            known = self._known(found)
            todo = [piece for piece in found if piece.content_hash not in known]
            for ask in self._drafts.asks(pack, todo):
                yield self._drafts.request(ask, turn_text)[0]

    def plan(self, turn: Turn, candidates: Sequence[Candidate]) -> Plan:
        """Add up what `judge` would send."""
        calls = tokens = output = 0
        for request in self.requests(turn, candidates):
            calls += 1
            tokens += request.input_tokens
            output += self._drafts.expected_output(request.candidates)
        return Plan(calls, tokens, output)

    def _packs(self, candidates: Sequence[Candidate]) -> list[Pack]:
        """Group the distinct contents into packs, the most promising pack first."""
        distinct = {candidate.content_hash: candidate for candidate in candidates}
        packs = to_send(list(distinct.values()), self._slots, self._drafts.profile)
        return sorted(packs, key=lambda pack: -max(map(self._promise, pack.members)))

    def _promise(self, member: Candidate) -> float:
        """How early it should be judged; only the prior is kept with its judgment."""
        return self._priors.get(member.id, 0.0) + self._hearsay.get(member.content_hash, 0.0)

    def _priors_by_content(self, packs: Sequence[Pack]) -> dict[str, float]:
        return {member.content_hash: self._priors.get(member.id, 0.0) for pack in packs for member in pack.members}

    async def _settle(self, run: Run, unit: Unit) -> tuple[Sequence[Result], Sequence[Unit]]:
        match unit:
            case Ask():
                return await self._send(run, unit)
            case Look():
                return await self._look(run)
            case Ours():
                return await self._settle_pack(run, unit)

    async def _look(self, run: Run) -> tuple[Sequence[Result], Sequence[Unit]]:
        """Claim the next packs; return what others have judged of them, the rest, and after it the next look."""
        packs = run.waiting.take()
        if not packs:
            settled = await run.waiting.look_aside()
            return self._found_judged(run, settled), run.waiting.look()
        texts = self._texts([member for pack in packs for member in pack.members])
        found = [(pack, self._drafts.pieces_of(pack, texts)) for pack in packs]
        opened = [Opened(pack, pieces, run.contents(pack, pieces)) for pack, pieces in found]
        ours = await run.waiting.claim(opened)
        settled = [(one.opened.pack, one.claimed) for one in ours if one.is_settled]
        return self._found_judged(run, settled), [*(one for one in ours if not one.is_settled), *run.waiting.look()]

    def _found_judged(self, run: Run, settled: Sequence[tuple[Pack, Claimed]]) -> Sequence[Result]:
        """Take packs that others have judged as a whole; parts of their memories that we claimed are given up."""
        found = [claimed.known[member.content_hash] for pack, claimed in settled for member in pack.members]
        memories = [judgment.content_hash for judgment in found]
        self.elsewhere.update(memories)
        parts = set(run.with_parts(memories)).difference(memories)
        if parts:
            self._claims.release(parts)
        return found

    async def _settle_pack(self, run: Run, ours: Ours) -> tuple[Sequence[Result], Sequence[Unit]]:
        pack, found, claimed = ours.opened.pack, ours.opened.pieces, ours.claimed
        elsewhere = [claimed.known[one.content_hash] for one in pack.members if one.content_hash in claimed.known]
        if elsewhere:
            done = {judgment.content_hash for judgment in elsewhere}
            self.elsewhere |= done
            self._give_up(run, done)
            pack = Pack(pack.id, tuple(member for member in pack.members if member.content_hash not in done))
            found = tuple(piece for piece in found if piece.memory not in done)
        known = {**self._known(found), **claimed.known}
        results = run.lost_texts(pack, found) + run.take((piece, known.get(piece.content_hash)) for piece in found)
        await self._keep([result for result in results if isinstance(result, Judgment)])
        asks = self._drafts.asks(pack, [piece for piece in found if piece.content_hash not in known])
        if len(asks) != 1:
            return [*elsewhere, *results], asks
        more, again = await self._send(run, asks[0])
        return [*elsewhere, *results, *more], again

    def _give_up(self, run: Run, memories: Iterable[str]) -> None:
        """Release the claims on memories, and on their parts, that will have no judgment of ours."""
        self._claims.release(run.with_parts(memories))

    def _known(self, found: Sequence[Piece]) -> Mapping[str, Judgment]:
        parts = [piece.content_hash for piece in found if piece.is_part]
        return self._known_parts(parts) if parts else {}

    async def _send(self, run: Run, ask: Ask) -> tuple[Sequence[Result], Sequence[Ask]]:
        request, codes = self._drafts.request(ask, run.turn_text)
        try:
            completion = await self._provider.complete(request)
        except BudgetExhausted as error:
            self._stop.set(Cause.BUDGET, error.message)
            return run.lose(ask.pieces, Cause.BUDGET, error.message), ()
        except NotSent:
            return self._unsent(run, ask), ()
        except ProviderError as error:
            return self._after_error(run, ask, error)
        run.has_answer, run.rejected = True, 0
        return await self._after_reply(run, ask, codes, completion)

    async def _after_reply(
        self, run: Run, ask: Ask, codes: Sequence[str], completion: Completion
    ) -> tuple[Sequence[Result], Sequence[Ask]]:
        heard = hear(ask, codes, completion, priors=run.priors, read=self._drafts.layout.read)
        self.faults.count(heard.reply)
        run.has_score = run.has_score or bool(heard.judged)
        results = run.take(heard.judged)
        parts = [judgment for piece, judgment in heard.judged if piece.is_part]
        await self._keep([*parts, *(result for result in results if isinstance(result, Judgment))])
        more, again = self._climb(run, ask, heard.missing, heard.trouble)
        return [*results, *more], again

    def _after_error(self, run: Run, ask: Ask, error: ProviderError) -> tuple[Sequence[Result], Sequence[Ask]]:
        detail = f"{error.kind}: {error.message}"
        if isinstance(error, PromptTooLong):
            return self._climb(run, ask, ask.pieces, repair.too_long(detail))
        if isinstance(error, RequestRejected):
            run.rejected += 1
            if run.rejected < MOST_REJECTED:
                return self._climb(run, ask, ask.pieces, repair.rejected(detail))
            self._stop.set(Cause.PROVIDER, detail)  # any prompt, not this one: an empty account may say so in prose
        if error.stops_run or (isinstance(error, Unreachable) and not run.has_answer):
            self._stop.set(Cause.PROVIDER, detail)
        return run.lose(ask.pieces, Cause.PROVIDER, detail), ()

    def _climb(
        self, run: Run, ask: Ask, missing: Sequence[Piece], trouble: repair.Trouble
    ) -> tuple[Sequence[Result], Sequence[Ask]]:
        again, lost = repair.next_rung(ask, missing, trouble)
        self.faults.asked_again += len(again)
        if not run.has_score:
            run.lost_alone += len(lost)
            if run.lost_alone >= MOST_LOST:
                self._stop.set(trouble.cause, f"{trouble.detail}; this model has given no usable score at all")
        return run.take(lost), again

    def _unsent(self, run: Run, unit: Unit) -> Sequence[Result]:
        assert self._stop.cause is not None
        if isinstance(unit, Ask):
            return run.lose(unit.pieces, self._stop.cause, self._stop.detail)
        packs = [unit.opened.pack] if isinstance(unit, Ours) else run.waiting.leave()
        members = [member for pack in packs for member in pack.members]
        return [Unjudged(member.content_hash, self._stop.cause, self._stop.detail) for member in members]

    async def _keep(self, judgments: Sequence[Judgment]) -> None:
        if judgments:
            await self._write(judgments)


def _cross_off(waiting: set[str], result: Result) -> None:
    if result.content_hash not in waiting:
        raise XscoreError(f"{result.content_hash} was settled twice", hint="Please report it.")
    waiting.remove(result.content_hash)
