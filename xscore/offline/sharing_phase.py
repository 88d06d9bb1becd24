"""The part of `ask --batch` that questions share: one desk, one line to the host, and each pack sent once for several.

What it leaves unjudged is each question's own turn's to judge. Ctrl-C stops it as it stops a turn: what is in flight
may end, what was judged is kept. Trade-off: the user's own memories are asked about after the repository's, not beside
them, since their judgments are kept in another store.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from xscore.offline.prepared import Prepared
from xscore.offline.shared_account import Alone
from xscore.pipeline.deadline import Deadline, work_until
from xscore.pipeline.judging import GRACE_S, REPORT_EVERY_S, forgive
from xscore.pipeline.model_seat import ModelSeat
from xscore.pipeline.parts import Desk, Parts
from xscore.prompts.judge import turn_block
from xscore.providers.catalog import declared
from xscore.providers.provider import Provider
from xscore.records import Candidate, Cause, Layer, Observer, Progress, Stage, StageUsage
from xscore.scorer.fanout import Stop, workers_for
from xscore.scorer.packs import to_send
from xscore.scorer.together import Answered, Asking, Together


@dataclass(frozen=True, slots=True)
class Phase:
    """What came of it."""

    judged: tuple[frozenset[str], ...]
    """Contents judged for each question, in their order."""
    spent: StageUsage
    remarks: tuple[str, ...]
    interrupted: bool


async def share(
    parts: Parts,
    seat: ModelSeat,
    questions: Sequence[Prepared],
    *,
    run_id: str,
    alone: Alone,
    deadline: Deadline | None = None,
) -> Phase:
    """Have these questions share their packs. Raises what opening the judge raises, StoreError where nothing is kept.

    seat: of the judge whose prompts questions may share. alone: told of each answered prompt.
    """
    observer = parts.observer
    observer.stage("judge")
    async with parts.open_desk(run_id) as desk:
        knowing, provider = await seat.acquainted(desk)
        passes = [_Pass(parts, desk, knowing, provider, questions, alone, own) for own in (False, True)]
        judged: list[set[str]] = [set() for _ in questions]
        interrupted, remarks = False, list[str]()
        for one in passes:
            together = await one.opened()
            if together is None:
                continue
            interrupted = await _run(together, desk, deadline)
            for number, hashes in enumerate(together.judged):
                judged[number] |= hashes
            said = together.faults.in_words()
            remarks += [f"replies to questions that shared a prompt needed mending: {said}"] if said else []
            if together.stop.cause is not None:
                remarks += [_left(together.stop)] if not interrupted else []
                break
        knowing.close()
        return Phase(
            judged=tuple(map(frozenset, judged)),
            spent=desk.tab.spent(Stage.JUDGE),
            remarks=tuple(dict.fromkeys(remarks)),
            interrupted=interrupted,
        )


def _left(stop: Stop) -> str:
    assert stop.cause is not None
    return f"questions stopped sharing prompts ({stop.cause}): {stop.detail}".removesuffix(": ")


async def _run(together: Together, desk: Desk, deadline: Deadline | None) -> bool:
    """Let it work to its end, the deadline or Ctrl-C; say whether it was that."""
    work = asyncio.create_task(together.run())
    interrupted = False
    try:
        if deadline is None:
            await asyncio.wait([work])
        else:
            await work_until(deadline, work, together.stop.set, call_s=lambda: desk.tab.call_s(Stage.JUDGE))
    except asyncio.CancelledError:
        interrupted = True
        forgive(asyncio.current_task())
        together.stop.set(Cause.INTERRUPTED)
        await asyncio.wait([work], timeout=GRACE_S)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    if not work.cancelled():
        work.result()
    return interrupted


def lacked_by(prepared: Prepared, *, own: bool) -> list[Candidate]:
    """Return the candidates that a question lacks, of the user's own memories or of all others."""
    return [miss for miss in prepared.pool.misses if (miss.layer is Layer.USER) == own]


def context_tokens(seat: ModelSeat) -> int:
    """Return what prompt and reply may take together."""
    known = seat.capability.context_tokens if seat.capability else None
    return known or declared(seat.spec.provider, seat.spec.model).context_tokens


@dataclass(slots=True)
class _Told:
    """Enters answered prompts in the account, and tells the observer now and then."""

    observer: Observer
    desk: Desk
    candidates: int
    """Over all questions."""
    alone: Alone
    judged: int = 0
    began: float = field(default_factory=monotonic)
    told: float = 0.0

    def answered(self, answered: Answered) -> None:
        self.alone.add(answered)
        self.judged += answered.request.candidates
        now = monotonic()
        if now - self.told < REPORT_EVERY_S:
            return
        self.told = now
        spent, elapsed = self.desk.tab.spent(Stage.JUDGE), now - self.began
        left = max(0, self.candidates - self.judged)
        self.observer.progress(
            Progress(
                candidates=self.candidates,
                cached=0,
                judged=min(self.judged, self.candidates),
                unjudged=0,
                calls=spent.calls,
                cost_usd=spent.cost_usd,
                elapsed_s=elapsed,
                seconds_left=elapsed / self.judged * left,
                leaders=(),
            )
        )


@dataclass(slots=True)
class _Pass:
    """One pass: over the repository's memories, or over the user's own."""

    parts: Parts
    desk: Desk
    seat: ModelSeat
    provider: Provider
    questions: Sequence[Prepared]
    alone: Alone
    own: bool

    async def opened(self) -> Together | None:
        """Return what will judge; None where fewer than two questions lack anything."""
        lacking = [lacked_by(one, own=self.own) for one in self.questions]
        if sum(map(bool, lacking)) < 2:
            return None
        askings = [await self._asking(one, misses) for one, misses in zip(self.questions, lacking, strict=True)]
        told = _Told(self.parts.observer, self.desk, sum(map(len, lacking)), self.alone)
        return Together(
            provider=self.provider,
            drafts=self.seat.drafts,
            texts=self.seat.texts,
            askings=askings,
            most=self.parts.settings.batch.questions_a_call,
            context_tokens=context_tokens(self.seat),
            concurrency=workers_for(self.seat.concurrency),
            stop=self.desk.new_stop(),
            answered=told.answered,
        )

    async def _asking(self, prepared: Prepared, misses: Sequence[Candidate]) -> Asking:
        guesses, _ = await self.seat.guesses(self.desk, prepared.turn, prepared.pool)
        identity, key = self.seat.identity, prepared.key
        if self.own:
            write, claims = await self.desk.of_user(key, identity)
        else:
            write, claims = self.desk.writer(key, identity), self.desk.claims(key, identity)
        whole = {candidate.content_hash for candidate in prepared.pool.candidates}
        return Asking(
            turn_text=turn_block(prepared.turn, context=self.parts.settings.judge.context),
            packs=to_send(misses, self.seat.slots(prepared.pool), self.seat.drafts.profile),
            known_parts=frozenset(prepared.pool.known.keys() - whole),
            priors={miss.content_hash: guesses.get(miss.id, 0.0) for miss in misses},
            write=write,
            claims=claims,
        )
