"""Results of a batch that ended, entered as they come: judgments, the ledger, dollars, and what is to be asked again.

Results come in any order and are matched by custom_id; unknown and double ones are counted and left. Each chunk is one
transaction, so a kill loses at most a chunk, which is then fetched again and entered then. Judgments stand under the
contents that were judged, whatever became of the memories since. Trade-off: a chunk of thousands of results holds the
store's write lock for some tenths of a second.

What results of a batch say: judgments, what is asked next, what is sent again, what is lost. It writes nothing.

A reply means what it means live (`scorer.hearing`); what it did not score climbs the same ladder (`scorer.repair`).
Where a host takes none of a job's requests, or a model scores nothing at all, the ladder would only multiply the bill,
so after the first few the rest is lost at once. Trade-off: those few are counted over the results as they come, so
which requests they are depends on the vendor's order.

Memories too large for one prompt: judged in parts, and whole once every part of them is known.

Parts come back in any order, over several batches, and some may have been known before. Trade-off: which parts a memory
has is read from the job's asks, and from the store's texts where an ask was not needed for one; a memory edited
meanwhile whose parts were known in part stays without a judgment of its own, and its parts are found by the next turn.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgment_store import settle_claims
from xscore.cache.judgments import Judgments, find_or_add_query, insert_judgments_under, known_judgments
from xscore.cache.keys import JudgmentKey
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.batch_costs import BatchLedger
from xscore.extensions.batch.batch_rows import Batch
from xscore.extensions.batch.job_context import JobLease
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.vendor import BatchHost
from xscore.platform.errors import ProviderError, UnreadableResponse
from xscore.records import Judgment
from xscore.records.batch import BatchResult, RequestOutcome, VendorBatch
from xscore.scorer import repair
from xscore.scorer.drafts import shuffled_ids
from xscore.scorer.model_judge import ReplyFaults
from xscore.scorer.repair import MemoryPart, PackPrompt, RepairReason, memory_parts, score_of_parts
from xscore.scorer.replies import parse_completion
from xscore.store.store import Store

MAX_WITHOUT_SCORE = 8
"""So many refused, or without a usable score, and no other in the whole job: then the next would be no better."""
_AGAIN = {
    RequestOutcome.ERRED: "provider: the host failed",
    RequestOutcome.EXPIRED: "provider: it was not run in time",
    RequestOutcome.CANCELLED: "provider: it was cancelled at the vendor",
}


class ReturnedRequest(Struct, frozen=True):
    """What came back of one request."""

    name: RequestName
    ask: PackPrompt
    codes: tuple[str, ...]
    result: BatchResult
    not_shown: frozenset[str] = frozenset()
    """Contents of the ask that had left the store when its prompt was made: a score for one is nobody's."""


class ReadResults(Struct):
    """What a chunk of results comes to."""

    judged: list[tuple[int, MemoryPart, Judgment]] = field(default_factory=list)
    """Question, piece, its judgment."""
    settled: list[RequestName] = field(default_factory=list)
    """Requests that have done what they could."""
    again: dict[RequestName, str] = field(default_factory=dict)
    """Requests to be sent again, and why."""
    lost: dict[RequestName, str] = field(default_factory=dict)
    asks: list[tuple[int, PackPrompt]] = field(default_factory=list)
    """Question, and what it is asked next."""


class ResultReader(Struct):
    """Reads the results of one job."""

    has_answer: bool
    """The host has taken a request of this job."""
    has_score: bool
    """A reply held a usable score."""
    faults: ReplyFaults = field(default_factory=ReplyFaults)
    refused: int = 0
    unscored: int = 0

    def of(self, chunk: Sequence[ReturnedRequest]) -> ReadResults:
        """Read a chunk of results."""
        verdict = ReadResults()
        climbing: list[tuple[ReturnedRequest, Sequence[MemoryPart], RepairReason]] = []
        for one in chunk:
            match one.result.fate:
                case RequestOutcome.ANSWERED:
                    missing, trouble = self._answered(verdict, one)
                    climbing.append((one, missing, trouble))
                case RequestOutcome.REFUSED:
                    self.refused += 1
                    climbing.append((one, one.ask.pieces, _refusal(one.result)))
                case fate:
                    verdict.again[one.name] = retry_reason(fate, one.result.detail)
        self.has_score = self.has_score or bool(verdict.judged)
        for one, pieces, trouble in climbing:
            self._climb(verdict, one, pieces, trouble)
        return verdict

    def _answered(self, verdict: ReadResults, one: ReturnedRequest) -> tuple[Sequence[MemoryPart], RepairReason]:
        self.has_answer = True
        completion = one.result.completion
        assert completion is not None
        heard = parse_completion(one.ask, one.codes, completion, priors={})
        self.faults.count(heard.reply)
        question, judged, missing = one.name[0], heard.judged, heard.missing
        if one.not_shown:
            missing = [*missing, *(piece for piece, _ in judged if piece.content_hash in one.not_shown)]
            judged = [pair for pair in judged if pair[0].content_hash not in one.not_shown]
        self.unscored += not judged
        verdict.judged += [(question, piece, judgment) for piece, judgment in judged]
        return missing, heard.trouble

    def _climb(
        self, verdict: ReadResults, one: ReturnedRequest, missing: Sequence[MemoryPart], trouble: RepairReason
    ) -> None:
        in_vain = (not self.has_answer and self.refused >= MAX_WITHOUT_SCORE) or (
            not self.has_score and self.unscored >= MAX_WITHOUT_SCORE
        )
        asks, lost = repair.next_prompts(one.ask, missing, trouble)
        if lost or (asks and in_vain):
            verdict.lost[one.name] = f"{trouble.cause}: {trouble.detail}"
            return
        self.faults.asked_again += len(asks)
        verdict.settled.append(one.name)
        verdict.asks += [(one.name[0], ask) for ask in asks]


def retry_reason(fate: RequestOutcome, detail: str) -> str:
    """Say why a request without an answer is sent again."""
    return _AGAIN[fate] + (f" ({detail})" if detail else "")


def _refusal(result: BatchResult) -> RepairReason:
    told = result.detail or "the host refused it"
    return repair.prompt_too_long(told) if "prompt_too_long" in result.tells else repair.prompt_rejected(told)


_PARTS = """
    SELECT DISTINCT json_extract(piece.value, '$[1]'), json_extract(piece.value, '$[0]')
    FROM job_ask, json_each(pieces) AS piece
    WHERE job = ? AND json_array_length(piece.value) > 1
"""


class MemoryParts:
    """Brings the parts of one job's memories together."""

    def __init__(self, store: Store, job: BatchJob) -> None:
        self._store, self._job = store, job
        self._parts: dict[str, set[str]] | None = None

    def whole(
        self, connection: Connection, names: JudgmentKey, judged: Iterable[tuple[MemoryPart, Judgment]]
    ) -> list[Judgment]:
        """Return judgments of the memories whose parts are all known, among those of which some are judged now."""
        parts = [(piece, judgment) for piece, judgment in judged if piece.is_part]
        if not parts:
            return []
        now = {judgment.content_hash: judgment for _, judgment in parts}
        query = find_or_add_query(connection, names)
        found: list[Judgment] = []
        for memory, count in {piece.memory: piece.parts for piece, _ in parts}.items():
            hashes = self._hashes(connection, memory, count)
            known = {
                **known_judgments(connection, names, query, hashes),
                **{one: now[one] for one in hashes if one in now},
            }
            if len(known) == count:
                found.append(self._best(memory, known, names))
        return found

    def _best(self, memory: str, known: dict[str, Judgment], names: JudgmentKey) -> Judgment:
        best = max((known[hash_] for hash_ in sorted(known)), key=lambda one: one.score)
        if not best.reason:
            turn_key, judge, sample = names
            told = Judgments(self._store.connection).reasons(turn_key, judge, [best.content_hash], sample=sample)
            known[best.content_hash] = best = Judgment(
                best.content_hash, best.score, told.get(best.content_hash, ""), best.pack, best.position, best.prior
            )
        result = score_of_parts(memory, [best, *(one for one in known.values() if one is not best)])
        assert isinstance(result, Judgment)
        return result

    def _hashes(self, connection: Connection, memory: str, count: int) -> set[str]:
        if self._parts is None:
            self._parts = {}
            for of, part in connection.execute(_PARTS, (self._job.id,)):
                self._parts.setdefault(of, set()).add(part)
        found = self._parts.setdefault(memory, set())
        if len(found) < count:
            found |= self._in_store(memory)
        return found

    def _in_store(self, memory: str) -> set[str]:
        """Return the parts of a memory as they are cut now; none where it is no longer in the store."""
        recipe = self._job.recipe
        members = [one for one in self._store.pool(tests=recipe.tests) if one.content_hash == memory]
        texts = self._store.texts(members, tests=recipe.tests)
        cut = [memory_parts(one, texts[one.id], max_tokens=recipe.packs.tokens) for one in members if one.id in texts]
        return {piece.content_hash for found in cut for piece in found if piece.is_part}


CHUNK = 5_000
"""Results entered in one transaction."""
ASKS_KEPT = 4_096
"""So many asks are remembered from chunk to chunk."""
UNREADABLE_RESULTS = "the vendor ran them and their results cannot be read: "
"""Begins the problem of a batch that ended, of which the host gave less than it says it has."""
NO_RESULT = "provider: the vendor gave no result for it"
CUSTOM_ID = re.compile(r"(.+)-q(\d{1,9})-a(\d{1,9})")


class UnmatchedResults(Struct):
    """Results that belong to no request."""

    unreadable: int = 0
    unknown: int = 0
    double: int = 0

    def in_words(self) -> tuple[str, ...]:
        """Say what there was."""
        found = (
            (self.unreadable, "lines of results cannot be read"),
            (self.unknown, "results bear an id that was never sent"),
            (self.double, "results came twice"),
        )
        return tuple(f"{count:,} {what}" for count, what in found if count)


class ResultCollector:
    """Enters the results of one job's batches, one batch at a time."""

    def __init__(
        self, store: Store, lease: JobLease, job: BatchJob, ledger: BatchLedger, *, chunk: int = CHUNK
    ) -> None:
        self.strays, self._chunk = UnmatchedResults(), chunk
        self._store, self._lease, self._job, self._ledger = store, lease, job, ledger
        self._secret = job.recipe.drafts().secret
        self._asks: dict[int, tuple[PackPrompt, tuple[str, ...]]] = {}
        self._not_shown: dict[RequestName, frozenset[str]] = {}
        self._keys = {
            number: one.turn_key for number, one in job_rows.read_job_questions(store.connection, job.id).items()
        }
        self._parts = MemoryParts(store, job)
        any_call = "SELECT EXISTS (SELECT 1 FROM call WHERE turn_id = ? AND outcome = 'ok')"
        has_answer = bool(store.connection.execute(any_call, (job.id,)).fetchone()[0])
        self.verdicts = ResultReader(has_answer, has_score=has_answer)

    async def collect(self, batch: Batch, host: BatchHost, seen: VendorBatch) -> None:
        """Enter all results of a batch that ended. Raises StoreError and leaves of ProviderError: go on later."""
        connection = self._store.connection
        left = set(job_rows.requests_of_batch(connection, self._job.id, batch.number))
        entered = batch_rows.settled_requests(connection, batch)
        self._not_shown = batch_rows.read_omitted(connection, batch)
        met: set[RequestName] = set()
        chunk: list[tuple[RequestName, BatchResult]] = []
        completed: set[RequestName] = set()
        unreadable = 0
        results = host.results(seen, model=self._job.recipe.model.name)
        try:
            async with aclosing(results):
                async for result in results:
                    name = request_of_custom_id(result.custom_id, batch.mark)
                    if name is not None and (result.fate is RequestOutcome.ANSWERED or result.is_charged):
                        completed.add(name)
                    if not result.custom_id:
                        unreadable += 1
                    elif name is None or not (name in left or name in entered):
                        self.strays.unknown += 1
                    elif name in met:
                        self.strays.double += 1
                    else:
                        met.add(name)
                        chunk += [(name, result)] if name in left else []
                    if len(chunk) >= self._chunk:
                        whole, chunk = chunk, []
                        self._enter(batch, whole)
        except ProviderError:  # what came until then was paid for
            self._enter(batch, chunk)
            raise
        self._enter(batch, chunk)
        self.strays.unreadable += unreadable
        rest = sorted(left - met)
        untold = bool(rest) and not met and not seen.requests
        unread = len(rest) if untold else min(len(rest), max(seen.done - len(completed), unreadable))
        self._close(batch, rest, unread, may_give_up=bool(completed))

    def _close(self, batch: Batch, rest: list[RequestName], unread: int, *, may_give_up: bool) -> None:
        """Plan again what has no result. What the host ran and does not give is fetched once more, and then charged.

        unread: how many of the rest these are. Raises UnreadableResponse where they are to be fetched again.
        """
        if unread and not (may_give_up and batch.problem.startswith(UNREADABLE_RESULTS)):
            problem = f"{UNREADABLE_RESULTS}{unread:,} of its {batch.requests:,}"
            with self._lease.step() as connection:
                batch_rows.set_ended_problem(connection, batch, problem)
            raise UnreadableResponse(
                f"batch {batch.number}: {problem}", hint="The next `xscore batch collect` fetches them again."
            )
        with self._lease.step() as connection:
            asks = self._asked(connection, {ask for _, ask in rest[:unread]})
            self._ledger.enter_unread(connection, batch, {name: len(asks[name[1]][0].pieces) for name in rest[:unread]})
            batch_rows.replan_requests(connection, self._job.id, dict.fromkeys(rest, NO_RESULT))
            batch_rows.record_collected(connection, batch)
            self._ledger.close(connection, batch)

    def _enter(self, batch: Batch, chunk: list[tuple[RequestName, BatchResult]]) -> None:
        """Enter a chunk."""
        if not chunk:
            return
        with self._lease.step() as connection:
            asks = self._asked(connection, {name[1] for name, _ in chunk})
            verdict = self.verdicts.of([self._returned(name, asks[name[1]], result) for name, result in chunk])
            answered = [
                (one, len(asks[name[1]][0].pieces)) for name, one in chunk if one.fate is RequestOutcome.ANSWERED
            ]
            self._ledger.enter(connection, batch, answered)
            unread = {name: len(asks[name[1]][0].pieces) for name, one in chunk if one.is_charged}
            if unread:
                self._ledger.enter_unread(connection, batch, unread)
            self._keep(connection, verdict)
            batch_rows.settle_requests(connection, self._job.id, verdict.settled)
            batch_rows.lose_requests(connection, self._job.id, verdict.lost)
            batch_rows.replan_requests(connection, self._job.id, verdict.again)
            self._follow_up(connection, verdict)

    def _returned(
        self, name: RequestName, asked: tuple[PackPrompt, tuple[str, ...]], result: BatchResult
    ) -> ReturnedRequest:
        return ReturnedRequest(name, *asked, result, self._not_shown.get(name, frozenset()))

    def _asked(self, connection: Connection, numbers: set[int]) -> dict[int, tuple[PackPrompt, tuple[str, ...]]]:
        """Return these asks with the id of each of their pieces."""
        if len(self._asks) > ASKS_KEPT:
            self._asks = {}
        missing = numbers - self._asks.keys()
        for number, ask in job_rows.read_asks(connection, self._job.id, missing).items() if missing else ():
            self._asks[number] = ask, shuffled_ids(len(ask.pieces), secret=self._secret, pack=ask.pack)
        return self._asks

    def _keep(self, connection: Connection, verdict: ReadResults) -> None:
        """Write the judgments, those of each question together."""
        any_claim = bool(connection.execute("SELECT EXISTS (SELECT 1 FROM claim)").fetchone()[0])
        verdict.judged.sort(key=itemgetter(0))
        for question, group in groupby(verdict.judged, key=itemgetter(0)):
            names = (self._keys[question], self._job.judge, 0)
            judged: list[tuple[MemoryPart, Judgment]] = [
                (piece, judgment)
                for _, piece, judgment in group
                if piece.content_hash  # else it was erased meanwhile
            ]
            judgments = [judgment for _, judgment in judged]
            judgments += self._parts.whole(connection, names, judged)
            kept = insert_judgments_under(connection, judgments, names)
            if any_claim:
                settle_claims(connection, kept)

    def _follow_up(self, connection: Connection, verdict: ReadResults) -> None:
        """Plan what is asked next; questions that ask the same share it."""
        if not verdict.asks:
            return
        bare = [replace(ask, pieces=tuple(_without_texts(ask.pieces))) for _, ask in verdict.asks]
        numbers = batch_rows.read_follow_ups(connection, self._job.id)
        new = [ask for ask in dict.fromkeys(bare) if ask not in numbers]
        numbers |= zip(new, job_rows.add_asks(connection, self._job.id, new), strict=True)
        pairs = [(question, numbers[ask]) for (question, _), ask in zip(verdict.asks, bare, strict=True)]
        job_rows.add_requests(connection, self._job.id, pairs)


def request_of_custom_id(custom_id: str, mark: str) -> RequestName | None:
    """Return which request of the batch of this mark has this id; None: none."""
    found = CUSTOM_ID.fullmatch(custom_id)
    return (int(found[2]), int(found[3])) if found and found[1] == mark else None


def _without_texts(pieces: Iterable[MemoryPart]) -> Iterable[MemoryPart]:
    """Leave nothing of pieces but what the store keeps of them."""
    return (MemoryPart(one.content_hash, "", "", "", "", one.memory, one.parts) for one in pieces)
