"""Read the results of a batch and enter them: judgments, the ledger, dollars, and what is asked
again.

Results come in any order and are matched by custom_id. Replies are read as live ones are, and
memories without a score are asked for again in smaller prompts (`scorer.repair`). If the host
rejects every request, or the model scores nothing at all, the rest is given up: asking again would
only cost more. Each chunk is one transaction. Trade-off: a chunk of thousands of results holds the
store's write lock for some tenths of a second.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from sqlite3 import Connection

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgment_store import insert_judgments
from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import JudgmentKey
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.job_context import JobContext
from xscore.extensions.batch.job_rows import RequestName
from xscore.extensions.batch.records import (
    Batch,
    BatchResult,
    RequestOutcome,
    StoredBatchState,
    VendorBatch,
)
from xscore.extensions.batch.sending import BatchRenderer, parts_in_store
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform.errors import (
    PromptCut,
    PromptTooLong,
    ProviderError,
    UnreadableResponse,
    UsageError,
)
from xscore.records.judgment import Judgment
from xscore.scorer import repair
from xscore.scorer.chat_replies import parse_reply
from xscore.scorer.giving_up import GiveUpRule
from xscore.scorer.prompt_builder import rotated_codes
from xscore.scorer.repair import MemoryPiece, PackPrompt, RepairReason
from xscore.scorer.replies import ReplyFaults, parse_completion

MAX_WITHOUT_SCORE = 8
"""After this many refusals, or replies without a usable score, and no other in the whole job, the
rest is lost."""
_AGAIN = {
    RequestOutcome.ERRED: "provider: the host failed",
    RequestOutcome.EXPIRED: "provider: it was not run in time",
    RequestOutcome.CANCELLED: "provider: it was cancelled at the vendor",
}


class _ReadResults(Struct):
    judged: list[tuple[int, MemoryPiece, Judgment]] = field(default_factory=list)
    """Question, piece and judgment of each memory or part that has one."""
    answered_requests: list[RequestName] = field(default_factory=list)
    to_replan: dict[RequestName, str] = field(default_factory=dict)
    lost: dict[RequestName, str] = field(default_factory=dict)
    new_prompts: list[tuple[int, PackPrompt]] = field(default_factory=list)


def _read_results(
    chunk: Sequence[tuple[RequestName, BatchResult]],
    prompts: Mapping[int, PackPrompt],
    *,
    secret: bytes,
    rule: GiveUpRule,
    faults: ReplyFaults,
) -> _ReadResults:
    """Read a chunk of results.

    prompts: by number.
    secret: deals their ids.
    rule: of the job; updated.
    faults: of the job; updated.
    """
    readings = _ReadResults()
    unscored: list[tuple[RequestName, Sequence[MemoryPiece], RepairReason]] = []
    for name, result in chunk:
        prompt = prompts[name[1]]
        if result.completion is not None:
            codes = rotated_codes(len(prompt.pieces), secret=secret, pack=prompt.pack)
            parsed = parse_completion(
                prompt, codes, result.completion, priors={}, read=parse_reply
            )
            faults.count(parsed.reply)
            rule.has_answer = True
            rule.unscored += not parsed.judged
            for piece, judgment in parsed.judged:
                readings.judged.append((name[0], piece, judgment))
            unscored.append((name, parsed.missing, parsed.trouble))
        elif result.outcome is RequestOutcome.REFUSED:
            rule.rejected += 1
            unscored.append((name, prompt.pieces, _refusal(result)))
        else:
            readings.to_replan[name] = failure_cause(result)
    # Whether the host accepts and the model scores anything is known once the whole chunk is read.
    rule.has_score = rule.has_score or bool(readings.judged)
    takes_nothing = not rule.has_answer and rule.rejected >= rule.most_rejected
    in_vain = takes_nothing or rule.is_over_after_unscored(0)
    for name, missing, trouble in unscored:
        follow_ups, lost = repair.next_prompts(prompts[name[1]], missing, trouble)
        if lost or (follow_ups and in_vain):
            readings.lost[name] = f"{trouble.cause}: {trouble.detail}"
        else:
            readings.answered_requests.append(name)
            for prompt in follow_ups:
                readings.new_prompts.append((name[0], prompt))
    return readings


def failure_cause(result: BatchResult) -> str:
    """Say why a request without an answer is planned again."""
    cause = _AGAIN[result.outcome]
    if result.detail:
        return f"{cause} ({result.detail})"
    return cause


def _refusal(result: BatchResult) -> RepairReason:
    """Return why the host refused a prompt, as the repair of live replies knows it."""
    detail = result.detail or "the host refused it"
    if result.error_kind == PromptTooLong.kind:
        return repair.prompt_too_long(detail)
    return repair.prompt_rejected(detail)


CHUNK = 5_000
"""Results stored in one transaction."""
UNREADABLE_RESULTS = "the vendor ran them, but their results cannot be read: "
"""Prefix of the problem of an ended batch whose host returned fewer results than it reports."""
NO_RESULT = "provider: the vendor gave no result for it"
ResultChunk = list[tuple[RequestName, BatchResult]]


class _Fetched(Struct):
    awaited: set[RequestName]
    entered: set[RequestName]
    met: set[RequestName] = field(default_factory=set)
    completed: set[RequestName] = field(default_factory=set)
    unreadable: int = 0
    chunk: ResultChunk = field(default_factory=list)


class ResultCollector:
    """Stores the results of one job's batches, one batch at a time."""

    def __init__(
        self,
        context: JobContext,
        host: BatchHost,
        *,
        chunk: int,
        make_renderer: type[BatchRenderer] = BatchRenderer,
    ) -> None:
        self._make_renderer = make_renderer
        connection = context.connection
        job = context.job
        self.context: JobContext = context
        self._host = host
        self._job = job
        self._chunk = chunk
        self._unmatched = Counter[str]()
        self._secret = job.recipe.builder().secret
        self._keys: dict[int, str] = {}
        for number, question in job_rows.read_job_questions(connection, job.id).items():
            self._keys[number] = question.turn_key
        any_call = "SELECT EXISTS (SELECT 1 FROM call WHERE turn_id = ? AND outcome = 'ok')"
        has_answer = bool(connection.execute(any_call, (job.id,)).fetchone()[0])
        rejections = MAX_WITHOUT_SCORE
        self._rule = GiveUpRule(
            rejections, rejections, has_answer=has_answer, has_score=has_answer
        )
        self.faults: ReplyFaults = ReplyFaults()

    def unmatched_in_words(self) -> tuple[str, ...]:
        """Describe results that match no request."""
        return tuple(
            f"{count:,} {description}"
            for description, count in self._unmatched.items()
            if count
        )

    async def collect(self, batch: Batch, seen: VendorBatch) -> None:
        """Store all results of a batch that ended.

        Raises StoreError and leaves of ProviderError; retry later.
        """
        connection = self.context.connection
        fetched = _Fetched(
            job_rows.requests_of_batch(connection, self._job.id, batch.number),
            job_rows.requests_of_batch(connection, self._job.id, batch.number, answered=True),
        )
        try:
            async with aclosing(
                self._host.results(seen, model=self._job.recipe.model.name)
            ) as results:
                async for result in results:
                    self._take(fetched, result, batch)
                    if len(fetched.chunk) >= self._chunk:
                        self._enter(batch, fetched)
        except ProviderError:  # results received so far were paid for
            self._enter(batch, fetched)
            raise
        self._enter(batch, fetched)
        self._unmatched["lines of results cannot be read"] += fetched.unreadable
        rest = sorted(fetched.awaited - fetched.met)
        # Nothing came, and the vendor does not say how many it ran.
        if rest and not fetched.met and not seen.requests:
            unread = len(rest)
        # Lines are unread if the vendor says that it completed more than was read, or if they
        # were damaged.
        else:
            unread = min(len(rest), max(seen.done - len(fetched.completed), fetched.unreadable))
        self._close(batch, rest, unread, may_give_up=bool(fetched.completed))

    def _take(self, fetched: _Fetched, result: BatchResult, batch: Batch) -> None:
        mark, name = batch_rows.parse_custom_id(result.custom_id) or ("", None)
        name = name if mark == batch.mark else None
        # The vendor ran it.
        if name is not None and (
            result.outcome is RequestOutcome.ANSWERED or result.is_charged
        ):
            fetched.completed.add(name)
        if not result.custom_id:
            fetched.unreadable += 1
        elif name is None or not (name in fetched.awaited or name in fetched.entered):
            self._unmatched["results have an ID that was never sent"] += 1
        elif name in fetched.met:
            self._unmatched["results came twice"] += 1
        else:
            fetched.met.add(name)
            fetched.chunk += [(name, result)] if name in fetched.awaited else []

    def _close(
        self, batch: Batch, rest: list[RequestName], unread: int, *, may_give_up: bool
    ) -> None:
        """Replan requests without a result; those the host ran but does not return are fetched
        again, then charged.

        unread: how many of the rest these are.
        Raises UnreadableResponse if they are to be fetched again.
        """
        # the first time they may only be late; the second time, with other results there, they are
        # given up
        if unread and not (may_give_up and batch.problem.startswith(UNREADABLE_RESULTS)):
            problem = f"{UNREADABLE_RESULTS}{unread:,} of its {batch.requests:,}"
            with self.context.transaction() as connection:
                batch_rows.update_batch(
                    connection,
                    batch,
                    StoredBatchState.CREATED,
                    StoredBatchState.ENDED,
                    problem=problem,
                )
            raise UnreadableResponse(
                f"batch {batch.number}: {problem}",
                hint="The next `xscore batch collect` fetches them again.",
            )
        with self.context.transaction() as connection:
            self.context.ledger.enter_unread(connection, batch, rest[:unread])
            batch_rows.replan_requests(connection, self._job.id, dict.fromkeys(rest, NO_RESULT))
            batch_rows.move_batch(connection, batch, StoredBatchState.COLLECTED)

    def _enter(self, batch: Batch, fetched: _Fetched) -> None:
        chunk = fetched.chunk
        fetched.chunk = []
        if chunk:
            self.enter_results(batch, self._refuse_cut_prompts(chunk))

    def enter_results(self, batch: Batch, chunk: ResultChunk) -> None:
        """Keep these results and enter what they cost, in one transaction."""
        numbers = {number for (_, number), _ in chunk}
        prompts = job_rows.read_prompts(self.context.connection, self._job.id, numbers)
        parts_of: Mapping[str, frozenset[str]] = {}
        # The parts of large memories are looked up only where a chunk holds one: that takes all
        # their texts.
        if any(map(_holds_part, prompts.values())):
            parts_of = self._parts_of
        with self.context.transaction() as connection:
            readings = _read_results(
                chunk, prompts, secret=self._secret, rule=self._rule, faults=self.faults
            )
            self.enter_costs(connection, batch, chunk, prompts)
            self._keep(connection, readings, parts_of)
            batch_rows.mark_answered(connection, self._job.id, readings.answered_requests)
            batch_rows.lose_requests(connection, self._job.id, readings.lost)
            batch_rows.replan_requests(connection, self._job.id, readings.to_replan)
            self._plan_follow_ups(connection, readings)

    def enter_costs(
        self,
        connection: Connection,
        batch: Batch,
        chunk: ResultChunk,
        prompts: Mapping[int, PackPrompt],
    ) -> None:
        """Enter what these results cost, whatever they are worth. prompts: by number."""
        answered: list[tuple[BatchResult, int]] = []
        charged: list[RequestName] = []
        for name, result in chunk:
            if result.completion is not None:
                answered.append((result, len(prompts[name[1]].pieces)))
            if result.is_charged:
                charged.append(name)
        self.context.ledger.enter(connection, batch, answered)
        self.context.ledger.enter_unread(connection, batch, charged)

    def _refuse_cut_prompts(self, chunk: ResultChunk) -> ResultChunk:
        """Refuse the answers to prompts that the host cut silently, and count them as charged, as
        live calls do."""
        host = self._host
        results = dict(chunk)
        if host.provider.is_vendors_own:
            return chunk
        answered: list[RequestName] = []
        for name, result in chunk:
            if result.completion is not None:
                answered.append(name)
        # The renderer takes the questions of one prompt together.
        answered.sort(key=itemgetter(1))
        # Planned with another version's prompt: the answers count.
        with suppress(UsageError):
            renderer = self._make_renderer(self.context.store, host, self._job)
            for name, request in renderer.requests(answered):
                completion = results[name].completion
                assert completion is not None
                try:
                    checked = host.provider.read_whole(request, completion, counts_cached=True)
                    results[name] = replace(results[name], completion=checked)
                except PromptCut as error:
                    results[name] = BatchResult(
                        custom_id=results[name].custom_id,
                        outcome=RequestOutcome.REFUSED,
                        detail=error.message,
                        error_kind=PromptTooLong.kind,
                        is_charged=True,
                    )
        return list(results.items())

    def _keep(
        self,
        connection: Connection,
        readings: _ReadResults,
        parts_of: Mapping[str, frozenset[str]],
    ) -> None:
        readings.judged.sort(key=itemgetter(0))
        for question, group in groupby(readings.judged, key=itemgetter(0)):
            key = (self._keys[question], self._job.judge, 0)
            judgments: list[Judgment] = []
            new: dict[str, Judgment] = {}
            in_parts = set[str]()
            for _, piece, judgment in group:
                # A piece without a hash has been erased.
                if piece.content_hash:
                    judgments.append(judgment)
                    new[judgment.content_hash] = judgment
                    if piece.is_part:
                        in_parts.add(piece.memory)
            for memory in in_parts:
                hashes = parts_of.get(memory, frozenset())
                of_parts = read_judgments(connection, key, hashes)
                for hash_ in hashes & new.keys():
                    of_parts[hash_] = new[hash_]
                # A memory has a score once all its parts have one, whichever batch brought them.
                if hashes and len(of_parts) == len(hashes):
                    judgments.append(_joined(connection, memory, of_parts, key))
            insert_judgments(connection, judgments, key)

    @cached_property
    def _parts_of(self) -> Mapping[str, frozenset[str]]:
        """Memory too large for one prompt -> its parts.

        An edited memory has other parts, so it stays unjudged.
        """
        store = self.context.store
        recipe = self._job.recipe
        large = []
        for candidate in store.pool(tests=recipe.tests, purposes=recipe.purposes):
            if candidate.tokens > recipe.packs.tokens:
                large.append(candidate)
        parts_by_memory = parts_in_store(store, recipe, large).items()
        hashes: dict[str, frozenset[str]] = {}
        for memory, parts in parts_by_memory:
            hashes[memory] = frozenset(part.content_hash for part in parts)
        return hashes

    def _plan_follow_ups(self, connection: Connection, readings: _ReadResults) -> None:
        if not readings.new_prompts:
            return
        new = list(dict.fromkeys(prompt for _, prompt in readings.new_prompts))
        numbers = dict(
            zip(new, job_rows.add_prompts(connection, self._job.id, new), strict=True)
        )
        job_rows.add_requests(
            connection,
            self._job.id,
            [(question, numbers[prompt]) for question, prompt in readings.new_prompts],
        )


def _holds_part(prompt: PackPrompt) -> bool:
    return any(piece.is_part for piece in prompt.pieces)


def _joined(
    connection: Connection, memory: str, parts: Mapping[str, Judgment], key: JudgmentKey
) -> Judgment:
    """Judge a memory by its best part; the reason of an earlier part is in the store."""
    best = max((parts[hash_] for hash_ in sorted(parts)), key=lambda judgment: judgment.score)
    reason = best.reason or read_reasons(connection, key, [best.content_hash]).get(
        best.content_hash, ""
    )
    return Judgment(memory, best.score, reason, prior=best.prior)
