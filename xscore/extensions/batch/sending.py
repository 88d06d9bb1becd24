"""Render planned requests and send them as batches: as many as the vendor's limits, its queue and
the caps allow.

    rendered -> marked, with its dollars reserved -> uploaded and created

There is one transaction before the vendor is called and one after, so a kill in between leaves a
marked batch, which the next pass looks for at the vendor. Requests without room stay planned and
are sent after something was collected. Trade-off: an input is rendered before its dollars are
reserved, because its size is only known then.
"""

import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import IO

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.judgments import read_judgments
from xscore.cache.keys import judge_key
from xscore.costs.caps import describe_cap
from xscore.extensions.batch import batch_rows, job_rows
from xscore.extensions.batch.batch_rows import custom_id
from xscore.extensions.batch.job_context import JobContext
from xscore.extensions.batch.job_rows import BatchJob, JobRecipe, RequestName
from xscore.extensions.batch.records import Batch, BatchLimits, StoredBatchState
from xscore.extensions.batch.vendor_batches import CERTAINLY_NOT_CREATED
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform import sqlite_drivers
from xscore.platform.errors import PromptTooLong, RequestRejected, UsageError
from xscore.platform.processes import gc_paused
from xscore.platform.text import join_sentences
from xscore.providers.prices import PriceList, call_price, cost_upper_bound
from xscore.records.calls import Request
from xscore.records.candidates import Candidate
from xscore.records.memory import Layer
from xscore.scorer.repair import MemoryPiece, PackPrompt, memory_pieces
from xscore.settings.model import BatchSettings
from xscore.store.store import Store

MAX_ENCRYPTED_BYTES = 32_000_000
"""Largest input of a batch from an encrypted store, which is kept in memory and off the disk."""
WRITE_BUFFER_BYTES = 1_000_000
PROMPTS_AT_ONCE = 128
"""How many prompts are read from the store at a time."""


class BatchInput(Struct):
    """The contents of one batch."""

    taken: list[RequestName] = field(default_factory=list)
    erased: list[RequestName] = field(default_factory=list)
    """Requests whose question was erased; no batch will contain them."""
    incomplete: dict[int, PackPrompt] = field(default_factory=dict)
    """Prompts with a text that is no longer stored, which are planned again; such pieces have no
    kind."""
    repeats: int = 0
    """Requests taken beyond the first of their pack."""
    bytes: int = 0
    input_tokens: int = 0
    most_usd: Decimal | None = Decimal(0)
    """Their maximum cost; None if unpriced."""
    limit: str = ""
    """The limit that the next request would exceed: `requests`, `bytes` or `dollars`; empty if
    none."""

    def exceeded(self, size: int, usd: Decimal | None, limits: BatchLimits) -> str:
        """Return the limit that another request would exceed, or "".

        size: bytes.
        usd: its highest price.
        """
        if len(self.taken) >= limits.requests:
            return "requests"
        if self.bytes + size > limits.bytes:
            return "bytes"
        if limits.usd is None or usd is None or self.most_usd is None:
            return ""
        if self.most_usd + usd > limits.usd:
            return "dollars"
        return ""


def batch_limits(vendors: BatchLimits, settings: BatchSettings, store: Store) -> BatchLimits:
    """Return the lower of the vendor's limits and the user's, and of an encrypted store's memory
    limit."""
    most_bytes = min(vendors.bytes, settings.max_bytes or vendors.bytes)
    return BatchLimits(
        requests=min(vendors.requests, settings.max_requests or vendors.requests),
        bytes=min(most_bytes, MAX_ENCRYPTED_BYTES) if _is_encrypted(store) else most_bytes,
    )


def _is_encrypted(store: Store) -> bool:
    return sqlite_drivers.read_note(store.path) is not None


def _open_input_file(store: Store) -> IO[bytes]:
    """Open a buffer for the input of one batch: an unnamed file next to the store, or memory
    for an encrypted one."""
    if _is_encrypted(store):
        return io.BytesIO()
    return tempfile.TemporaryFile(dir=store.path.parent, buffering=WRITE_BUFFER_BYTES)


class BatchRenderer:
    """Makes the inputs of one job's batches, one at a time."""

    def __init__(
        self, store: Store, host: BatchHost, job: BatchJob, prices: PriceList = call_price
    ) -> None:
        """Raise UsageError if the job was planned with another judging prompt than this
        version's."""
        if self.judge_of(job) != job.judge:
            raise UsageError(
                f"{job.id} was planned with an earlier judging prompt",
                hint=(
                    f"Collect what was sent, then `xscore batch cancel {job.id}` and submit the"
                    " list again."
                ),
            )
        self._store = store
        self._host = host
        self._job = job
        self._prices = prices
        self._builder = job.recipe.builder()

    @classmethod
    def judge_of(cls, job: BatchJob) -> str:
        """Return what this version would have planned the job for."""
        return judge_key(job.recipe.identity())

    def fill(
        self,
        into: IO[bytes],
        requests: Iterable[RequestName],
        *,
        mark: str,
        limits: BatchLimits,
    ) -> BatchInput:
        """Write lines of these requests, in order, until one exceeds a limit; return which are
        included.

        requests: grouped by prompt (`job_rows.planned_requests`).
        mark: prefix of every custom_id.
        Raises StoreDamaged.
        """
        filled = BatchInput()
        with gc_paused():
            for number, prompt, questions in self._by_prompt(requests):
                if not all(piece.kind for piece in prompt.pieces):
                    filled.incomplete[number] = prompt
                    continue
                for question in questions:
                    name = question, number
                    if not self.turns[question]:
                        filled.erased.append(name)
                        continue
                    request = self.request_of(prompt, self.turns[question])
                    line = self._host.line(custom_id(mark, name), request)
                    usd = self.bound(request)
                    filled.limit = filled.exceeded(len(line), usd, limits)
                    if filled.limit:
                        return filled
                    filled.taken.append(name)
                    filled.repeats += prompt.is_again
                    filled.bytes += len(line)
                    filled.input_tokens += request.input_tokens
                    if usd is None or filled.most_usd is None:
                        filled.most_usd = None
                    else:
                        filled.most_usd = filled.most_usd + usd
                    into.write(line)
        return filled

    def requests(self, names: Iterable[RequestName]) -> Iterator[tuple[RequestName, Request]]:
        """Yield these requests again, except those whose texts have left the store. names: grouped
        by prompt."""
        for number, prompt, questions in self._by_prompt(names):
            if all(piece.kind for piece in prompt.pieces):
                for question in questions:
                    if self.turns[question]:
                        yield (question, number), self.request_of(prompt, self.turns[question])

    def request_of(self, prompt: PackPrompt, turn_text: str) -> Request:
        """Return the request of a prompt with its texts."""
        request, _ = self._builder.request(prompt, turn_text)
        return request

    def bound(self, request: Request) -> Decimal | None:
        """Return a request's maximum cost at the Batch price, or at the live one if unknown."""
        provider = self._job.recipe.provider
        host = self._job.recipe.host
        prices = self._prices
        bound = cost_upper_bound(
            provider,
            host,
            request,
            price_of=lambda _, model, host, usage: prices.batch(model, host, usage),
        )
        if bound is None:
            return cost_upper_bound(provider, host, request, price_of=prices)
        return bound

    def _by_prompt(
        self, requests: Iterable[RequestName]
    ) -> Iterator[tuple[int, PackPrompt, list[int]]]:
        """Yield each prompt with its texts, and the questions to it."""
        groups = groupby(requests, key=itemgetter(1))
        while True:
            chunk: list[tuple[int, list[int]]] = []
            for number, group in islice(groups, PROMPTS_AT_ONCE):
                # Read at once: groupby forgets a group when it goes on to the next.
                chunk.append((number, [question for question, _ in group]))
            if not chunk:
                return
            numbers = [number for number, _ in chunk]
            prompts = job_rows.read_prompts(self._store.connection, self._job.id, numbers)
            with_texts = self.with_texts(prompts)
            for number, questions in chunk:
                yield number, with_texts[number], questions

    def with_texts(self, prompts: dict[int, PackPrompt]) -> dict[int, PackPrompt]:
        """Return these prompts with the texts of their pieces; a piece whose text is no longer
        stored is unchanged."""
        recipe = self._job.recipe
        hashes = set[str]()
        for prompt in prompts.values():
            hashes.update(piece.memory for piece in prompt.pieces)
        members = [self._candidates[memory] for memory in hashes & self._candidates.keys()]
        pieces = chain.from_iterable(parts_in_store(self._store, recipe, members).values())
        stored = {piece.content_hash: piece for piece in pieces}
        return with_stored_pieces(prompts, stored)

    @cached_property
    def _candidates(self) -> Mapping[str, Candidate]:
        candidates: dict[str, Candidate] = {}
        recipe = self._job.recipe
        for candidate in self._store.pool(tests=recipe.tests, purposes=recipe.purposes):
            # The user's own memories are never sent by a batch.
            if candidate.layer is not Layer.USER:
                candidates[candidate.content_hash] = candidate
        return candidates

    @cached_property
    def turns(self) -> Mapping[int, str]:
        """What the judge sees of each question; empty once it was erased."""
        questions = job_rows.read_job_questions(self._store.connection, self._job.id).items()
        return {number: question.turn_text for number, question in questions}


def parts_in_store(
    store: Store, recipe: JobRecipe, members: Sequence[Candidate]
) -> dict[str, tuple[MemoryPiece, ...]]:
    """Return each memory whose text is still stored, whole or in parts, by content hash."""
    texts = store.texts(members, tests=recipe.tests)
    max_tokens = recipe.packs.tokens
    parts: dict[str, tuple[MemoryPiece, ...]] = {}
    for member in members:
        if member.id in texts:
            parts[member.content_hash] = memory_pieces(
                member, texts[member.id], max_tokens=max_tokens
            )
    return parts


LOST_TEXT = "unreadable: it left the store before it was judged"
DIVISOR_AFTER_FULL = 2
"""After a vendor refused a batch for its queue limit, at most this fraction of it is sent."""


def with_stored_pieces(
    prompts: Mapping[int, PackPrompt], stored: Mapping[str, MemoryPiece]
) -> dict[int, PackPrompt]:
    """Return prompts with these pieces, by content hash, in place of those without a text."""
    with_texts: dict[int, PackPrompt] = {}
    for number, prompt in prompts.items():
        pieces = [stored.get(piece.content_hash, piece) for piece in prompt.pieces]
        with_texts[number] = replace(prompt, pieces=tuple(pieces))
    return with_texts


class BatchSender:
    """Creates the batches of one job."""

    def __init__(
        self,
        context: JobContext,
        host: BatchHost,
        *,
        make_renderer: type[BatchRenderer] = BatchRenderer,
    ) -> None:
        self._make_renderer = make_renderer
        self.context: JobContext = context
        self.host: BatchHost = host
        self.held_back: str = ""
        """Why planned requests were not sent; empty if all were."""
        self.over_budget: bool = False
        self.asked_again: int = 0
        """Prompts sent beyond the first of their pack."""

    @cached_property
    def _renderer(self) -> BatchRenderer:
        return self._make_renderer(
            self.context.store, self.host, self.context.job, self.context.ledger.prices
        )

    async def send(self) -> bool:
        """Create one batch of planned requests; False if nothing could be sent.

        Raises leaves of ProviderError.
        """
        context = self.context
        self.held_back = ""
        self.over_budget = False
        planned = self._not_judged(
            job_rows.planned_requests(context.connection, context.job.id)
        )
        if not planned:
            return False
        number, mark = batch_rows.next_batch(context.connection, context.job.id)
        # The input is rendered before its dollars are reserved: its size is only known then.
        with _open_input_file(context.store) as lines:
            try:
                filled = self._render(lines, planned, mark)
            # Planned for another prompt: what was sent is still collected.
            except UsageError as error:
                self.held_back = join_sentences(error.message, error.hint)
                return False
            batch = self._mark(filled, number, mark)
            if batch is None:
                return bool(filled.erased or filled.incomplete)
            await self._create(batch, lines)
            self.asked_again += filled.repeats
        return True

    def _not_judged(self, planned: list[RequestName]) -> list[RequestName]:
        """Settle requests that were fully judged meanwhile, for example by a turn; return the
        others."""
        connection = self.context.connection
        job = self.context.job
        keys = batch_rows.judged_questions(connection, job)
        candidates = [name for name in planned if name[0] in keys]
        prompts = job_rows.read_prompts(
            connection, job.id, {number for _, number in candidates}
        )
        judged = set[RequestName]()
        for question, number in candidates:
            if self._is_judged(keys[question], prompts[number]):
                judged.add((question, number))
        if judged:
            with self.context.transaction() as connection:
                batch_rows.mark_answered(connection, job.id, judged)
        return [name for name in planned if name not in judged]

    def _is_judged(self, turn_key: str, prompt: PackPrompt) -> bool:
        """Return whether all its pieces have a judgment, or all memories that they are parts of."""
        key = (turn_key, self.context.job.judge, 0)
        pieces = {piece.content_hash for piece in prompt.pieces}
        memories = {piece.memory for piece in prompt.pieces}
        for hashes in (pieces, memories):
            if len(read_judgments(self.context.connection, key, hashes)) == len(hashes):
                return True
        return False

    async def _create(self, batch: Batch, lines: IO[bytes]) -> None:
        host = self.host
        try:
            file_id = await host.upload(lines, mark=batch.mark)
            # The upload may have taken long, and a lost batch is looked for from this stamp on.
            with self.context.transaction() as connection:
                batch = batch_rows.update_batch(
                    connection, batch, StoredBatchState.MARKED, marked_at=self.context.clock()
                )
            seen = await host.create(lines, mark=batch.mark, file_id=file_id)
        except CERTAINLY_NOT_CREATED as error:
            # where the input is at fault, waiting will not mend it
            counts = isinstance(error, RequestRejected | PromptTooLong)
            with self.context.transaction() as connection:
                batch_rows.fail_batch(
                    connection, batch, f"{error.kind}: {error.message}", counts=counts
                )
            raise
        with self.context.transaction() as connection:
            batch_rows.record_created(connection, batch, seen)

    def _render(self, lines: IO[bytes], planned: list[RequestName], mark: str) -> BatchInput:
        context = self.context
        limits = batch_limits(self.host.limits, context.settings.batch, context.store)
        refused = batch_rows.smallest_refused(context.connection, context.job.id)
        # The vendor's queue was full: send less, and one batch at a time.
        if refused is not None:
            if batch_rows.read_batches(context.connection, context.job.id, only_open=True):
                self.held_back = "the vendor had no room for more"
                return BatchInput()
            limits = replace(
                limits, requests=max(1, min(limits.requests, refused // DIVISOR_AFTER_FULL))
            )
        tightest = context.ledger.tightest_cap(context.connection, now=context.clock())
        if tightest is None:
            usd = None
        else:
            usd = max(Decimal(0), tightest.left_usd)
        filled = self._renderer.fill(lines, planned, mark=mark, limits=replace(limits, usd=usd))
        if not filled.taken and filled.limit:
            self._hold_back(filled.limit)
        return filled

    def _mark(self, filled: BatchInput, number: int, mark: str) -> Batch | None:
        """Record a batch and reserve its dollars, in one transaction; None if there is nothing
        to send."""
        context = self.context
        with context.transaction() as connection:
            batch_rows.lose_requests(
                connection, context.job.id, dict.fromkeys(filled.erased, LOST_TEXT)
            )
            for prompt_number, prompt in filled.incomplete.items():
                job_rows.replan_without_text(
                    connection, context.job.id, prompt_number, prompt, cause=LOST_TEXT
                )
            now = context.clock()
            if not filled.taken or batch_rows.is_job_stopped(connection, context.job.id):
                return None
            if not context.ledger.reserve(
                connection, mark, filled.most_usd or Decimal(0), now=now
            ):
                self._hold_back("dollars")  # another process has spent in the meantime
                return None
            # Written before the vendor is called: after a kill, its mark finds the batch there.
            size = len(filled.taken), filled.bytes, filled.input_tokens
            batch = Batch(context.job.id, number, mark, StoredBatchState.MARKED, now, *size)
            batch_rows.insert_batch(connection, batch, filled.taken)
            return batch

    def _hold_back(self, limit: str) -> None:
        if limit == "dollars":
            tightest = self.context.ledger.tightest_cap(
                self.context.connection, now=self.context.clock()
            )
            self.held_back = "no request fits " + (
                describe_cap(tightest) if tightest else "the caps"
            )
            self.over_budget = True
        else:
            self.held_back = (
                f"not one request fits a batch's limit of {limit} (batch.max_{limit})"
            )
