"""Render planned requests into the input of a batch: one line per request, up to the batch's limits.

A line is the body of the live call, made by the same dialect. No input is kept: it is rendered from the job's asks and
the store's texts when it is sent, and again after a crash. The dialect renders each ask once, with a random placeholder
where its questions differ. Trade-off: requests are rendered ask by ask, so a batch holds all questions to some packs,
not some questions to all.
"""

import io
import json
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import groupby, islice
from math import ceil
from typing import IO, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.records import BatchLimits
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.platform import sqlite_drivers, tokens
from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.processes import gc_paused
from xscore.providers.prices import BOUND_STEP_TOKENS, batch_price, call_price
from xscore.records.calls import Usage
from xscore.records.memory import Candidate, Layer
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.repair import MemoryPart, PackPrompt, memory_parts
from xscore.settings.model import BatchSettings
from xscore.store.store import Store

MAX_ENCRYPTED_BYTES = 32_000_000
"""Largest input of a batch from an encrypted store, which is kept in memory and off the disk."""
WRITE_BUFFER_BYTES = 1_000_000
ASKS_AT_ONCE = 512
"""How many asks are read from the store at a time."""
LEFT_THE_STORE = "it left the store before it was judged"


class LineTemplate(Struct, frozen=True):
    """The line of an ask without the id and the turn of a request."""

    before_id: bytes
    before_turn: bytes
    end: bytes
    chars: int
    """Of the prompt without the turn."""
    output_tokens: int

    def line(self, custom_id: bytes, turn: bytes) -> bytes:
        """Return the line of one request."""
        return b"".join((self.before_id, custom_id, self.before_turn, turn, self.end))


def request_template(drafts: PromptDrafts, host: BatchHost, ask: PackPrompt) -> LineTemplate:
    """Have the dialect render an ask; pieces without a text, which left the store, are left out.

    Raises XscoreError where the dialect changes what it is given.
    """
    entries = [entry for entry, piece in zip(drafts.entries(ask), ask.pieces, strict=True) if piece.kind]
    there = replace(ask, pieces=tuple(piece for piece in ask.pieces if piece.kind))
    id_mark, turn_mark = secrets.token_hex(16), secrets.token_hex(16)
    options = drafts.options(ask, max_output_tokens=drafts.output_cap(there))
    request = drafts.layout.render(entries, turn_mark, options)
    line = host.line(id_mark, host.body(request))
    pieces = re.split(f"{id_mark}|{turn_mark}".encode(), line)
    if len(pieces) != 3 or line.find(id_mark.encode()) > line.find(turn_mark.encode()) or not line.endswith(b"\n"):
        raise XscoreError(f"{host.name} does not pass a prompt on as it is", hint="Please report it.")
    chars = tokens.size(request.system, *(part.replace(turn_mark, "") for part in request.content))
    before_id, before_turn, end = pieces
    return LineTemplate(before_id, before_turn, end, chars, request.max_output_tokens)


def json_string_bytes(text: str) -> bytes:
    """Write text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


class _RequestSize(NamedTuple):
    bytes: int
    input_tokens: int
    usd: Decimal | None


class BatchRoom(NamedTuple):
    """What a batch has room for, besides the limits of every batch; None: any amount."""

    tokens: int | None = None
    usd: Decimal | None = None


class BatchInput(Struct):
    """What went into one batch."""

    taken: list[RequestName] = field(default_factory=list)
    missing: list[RequestName] = field(default_factory=list)
    """Requests whose texts have all left the store; no batch will ever hold them."""
    omitted: dict[int, frozenset[str]] = field(default_factory=dict)
    """Ask -> its contents whose text has left the store, so that its prompt does not show them."""
    bytes: int = 0
    input_tokens: int = 0
    most_usd: Decimal | None = Decimal(0)
    """What they may cost at most; None: the model has no known price."""
    limit: str = ""
    """What had no room for the next request: `requests`, `bytes`, `tokens`, `dollars`; empty: all went in."""

    def add(self, name: RequestName, size: _RequestSize) -> None:
        """Count a request in."""
        self.taken.append(name)
        self.bytes += size.bytes
        self.input_tokens += size.input_tokens
        self.most_usd = None if size.usd is None or self.most_usd is None else self.most_usd + size.usd

    def exceeded(self, size: _RequestSize, limits: BatchLimits, room: BatchRoom) -> str:
        """Name what has no room for a request of this size; empty: there is room."""
        if len(self.taken) >= limits.requests:
            return "requests"
        if self.bytes + size.bytes > limits.bytes:
            return "bytes"
        if room.tokens is not None and self.input_tokens + size.input_tokens > room.tokens:
            return "tokens"
        if room.usd is None or size.usd is None or self.most_usd is None:
            return ""
        return "dollars" if self.most_usd + size.usd > room.usd else ""


def effective_batch_limits(vendors: BatchLimits, wanted: BatchSettings, *, encrypted: bool = False) -> BatchLimits:
    """Return the lower of the vendor's limits and the user's. encrypted: the store is."""
    queues = [most for most in (vendors.enqueued_tokens, wanted.enqueued_tokens) if most is not None]
    most_bytes = min(vendors.bytes, wanted.max_bytes or vendors.bytes)
    return BatchLimits(
        requests=min(vendors.requests, wanted.max_requests or vendors.requests),
        bytes=min(most_bytes, MAX_ENCRYPTED_BYTES) if encrypted else most_bytes,
        enqueued_tokens=min(queues, default=None),
    )


def is_encrypted(store: Store) -> bool:
    """Whether a store is encrypted."""
    return sqlite_drivers.read_note(store.path) is not None


def open_input_file(store: Store) -> IO[bytes]:
    """Open a buffer for the input of one batch: an unnamed file beside the store, or memory for an encrypted one."""
    if is_encrypted(store):
        return io.BytesIO()
    return tempfile.TemporaryFile(dir=store.path.parent, buffering=WRITE_BUFFER_BYTES)


class BatchRenderer:
    """Makes the inputs of one job's batches, one at a time."""

    def __init__(self, store: Store, host: BatchHost, job: BatchJob) -> None:
        """Raise UsageError where the job was planned with another judging prompt than this version's."""
        if judge_key(job.recipe.identity()) != job.judge:
            raise UsageError(
                f"{job.id} was planned with an earlier judging prompt",
                hint=f"Collect what was sent, then `xscore batch cancel {job.id}` and submit the list again.",
            )
        self._store, self._host, self._job = store, host, job
        self._drafts = job.recipe.drafts()

    def fill(
        self,
        into: IO[bytes],
        requests: Iterable[RequestName],
        *,
        mark: str,
        limits: BatchLimits | None = None,
        room: BatchRoom = BatchRoom(),  # noqa: B008  frozen
    ) -> BatchInput:
        """Write lines of these requests, in order, until the next has no room; say which went in.

        requests: grouped by ask (`job_rows.planned_requests`). mark: prefix of every custom_id. limits: None for a
        batch that is rendered again. Raises StoreDamaged, UsageError.
        """
        filled, prefix = BatchInput(), mark.encode()
        at_once = ASKS_AT_ONCE if limits is None else min(ASKS_AT_ONCE, limits.requests)
        with gc_paused():
            for number, ask, questions in self._by_ask(requests, at_once):
                if ask is None:
                    filled.missing.extend((question, number) for question in questions)
                    continue
                prompt = request_template(self._drafts, self._host, ask)
                if bare := frozenset(piece.content_hash for piece in ask.pieces if not piece.kind):
                    filled.omitted[number] = bare
                for question in questions:
                    turn, chars = self._turns[question]
                    if not turn:  # it was erased
                        filled.missing.append((question, number))
                        continue
                    line = prompt.line(b"%b-q%d-a%d" % (prefix, question, number), turn)
                    size = self._size(len(line), prompt.chars + chars, prompt.output_tokens)
                    if limits is not None and (limit := filled.exceeded(size, limits, room)):
                        filled.limit = limit
                        return filled
                    filled.add((question, number), size)
                    into.write(line)
        return filled

    def _size(self, line_bytes: int, chars: int, output: int) -> _RequestSize:
        recipe, ratio = self._job.recipe, self._drafts.model.chars_per_token
        most_tokens = ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio))
        given = -(-most_tokens // BOUND_STEP_TOKENS) * BOUND_STEP_TOKENS
        usd = request_bound_usd(recipe.provider, recipe.model.name, recipe.host, given, output)
        return _RequestSize(line_bytes, ceil(chars / ratio), usd)

    def _by_ask(
        self, requests: Iterable[RequestName], at_once: int
    ) -> Iterator[tuple[int, PackPrompt | None, list[int]]]:
        """Yield each ask with texts (None where none is left) and the questions to it."""
        grouped = (
            (ask, [question for question, _ in group]) for ask, group in groupby(requests, key=lambda one: one[1])
        )
        while some := list(islice(grouped, at_once)):
            bare = job_rows.read_asks(self._store.connection, self._job.id, [number for number, _ in some])
            whole = self._with_texts(bare)
            for number, questions in some:
                yield number, whole.get(number), questions

    def _with_texts(self, asks: dict[int, PackPrompt]) -> dict[int, PackPrompt]:
        wanted = {piece.memory for ask in asks.values() for piece in ask.pieces}
        members = [self._candidates[memory] for memory in wanted if memory in self._candidates]
        texts = self._store.texts(members, tests=self._job.recipe.tests)
        most = self._job.recipe.packs.tokens
        there: dict[str, MemoryPart] = {}
        for member in members:
            for piece in memory_parts(member, texts[member.id], max_tokens=most) if member.id in texts else ():
                there[piece.content_hash] = piece
        return {
            number: replace(ask, pieces=tuple([there.get(piece.content_hash, piece) for piece in ask.pieces]))
            for number, ask in asks.items()
            if any(piece.content_hash in there for piece in ask.pieces)
        }

    @cached_property
    def _candidates(self) -> Mapping[str, Candidate]:
        pool = self._store.pool(tests=self._job.recipe.tests)
        return {one.content_hash: one for one in pool if one.layer is not Layer.USER}

    @cached_property
    def _turns(self) -> Mapping[int, tuple[bytes, int]]:
        found = job_rows.read_job_questions(self._store.connection, self._job.id).items()
        texts = {number: one.turn_text if one.turn.task else "" for number, one in found}
        return {number: (json_string_bytes(text), tokens.size(text)) for number, text in texts.items()}


@lru_cache(maxsize=4096)
def request_bound_usd(provider: str, model: str, host: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """Return the most one request may cost at the Batch price, or at the live one where no such price is known."""
    plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    usages = (plain, replace(plain, cache_write_tokens=input_tokens))
    found = [usd for usage in usages if (usd := batch_price(model, host, usage)) is not None]
    found = found or [usd for usage in usages if (usd := call_price(provider, model, host, usage)) is not None]
    return max(found, default=None)
