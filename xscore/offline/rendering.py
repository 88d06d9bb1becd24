"""From planned requests to the input of a batch: one line a request, as much as one batch may hold.

No input is kept: it is made of the job's asks and the store's texts when it is to be sent, and again after a crash. A
line is the body of the live call, made by the same dialect (`prompt_shapes`). It sends nothing and writes no row.
Trade-off: prompts are made in the order of the asks, each once for all its questions, so a batch holds all questions to
some packs rather than some questions to all packs.
"""

import io
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import groupby, islice
from math import ceil
from typing import IO, NamedTuple

from xscore import sealing, tokens
from xscore.cache.keys import judge_key
from xscore.errors import UsageError
from xscore.memory.store import Store
from xscore.offline import job_rows
from xscore.offline.job_rows import Job, RequestName
from xscore.offline.prompt_shapes import Prompt, Shape, inside_json, shape_of
from xscore.pipeline.bulk import made_in_bulk
from xscore.prompts.judge import PackEntry, pack_block
from xscore.providers.batch_host import BatchHost
from xscore.providers.prices import BOUND_STEP_TOKENS, batch_price, price
from xscore.records import Candidate, Layer, Usage
from xscore.records.offline import BatchLimits
from xscore.scorer.codebook import deal
from xscore.scorer.repair import Ask
from xscore.scorer.split import Piece, pieces
from xscore.settings.offline import BatchSettings

MOST_SEALED_BYTES = 32_000_000
"""Of the input of one batch from an encrypted store: it is kept in memory, so that no disk ever holds it."""
WRITTEN_AT_ONCE = 1_000_000
"""So many bytes of lines, about, are written at a time."""
ASKS_AT_ONCE = 512
"""So many are read from the store at a time."""
GONE = "it left the store before it was judged"


class _Size(NamedTuple):
    """How large one request is."""

    bytes: int
    input_tokens: int
    """Our estimate."""
    usd: Decimal | None
    """Most that it may cost."""


class Room(NamedTuple):
    """What there is room for in a batch, beside the limits of every batch; None: any amount."""

    tokens: int | None = None
    usd: Decimal | None = None


@dataclass(slots=True)
class Filled:
    """What went into one batch."""

    taken: list[RequestName] = field(default_factory=list)
    gone: list[RequestName] = field(default_factory=list)
    """Of which no text is left in the store; they are in no batch, and never will be."""
    thinned: dict[int, frozenset[str]] = field(default_factory=dict)
    """Ask -> contents of it whose text is not in the store any more, so that its prompt does not show them."""
    bytes: int = 0
    input_tokens: int = 0
    """Our estimate."""
    most_usd: Decimal | None = Decimal(0)
    """What they may cost at most; None: the model has no known price."""
    full_of: str = ""
    """What had no room for the next request: `requests`, `bytes`, `tokens`, `dollars`; empty: all went in."""

    def add(self, name: RequestName, size: _Size) -> None:
        """Count a request in."""
        self.taken.append(name)
        self.bytes += size.bytes
        self.input_tokens += size.input_tokens
        self.most_usd = None if size.usd is None or self.most_usd is None else self.most_usd + size.usd

    def lacks(self, size: _Size, limits: BatchLimits, room: Room) -> str:
        """Say what has no room for a request of this size; empty: there is room."""
        if len(self.taken) >= limits.requests:
            return "requests"
        if self.bytes + size.bytes > limits.bytes:
            return "bytes"
        if room.tokens is not None and self.input_tokens + size.input_tokens > room.tokens:
            return "tokens"
        if room.usd is None or size.usd is None or self.most_usd is None:
            return ""
        return "dollars" if self.most_usd + size.usd > room.usd else ""


def limits_in_force(vendors: BatchLimits, wanted: BatchSettings, *, is_sealed: bool = False) -> BatchLimits:
    """Return the lower of the vendor's limits and the user's. is_sealed: of an encrypted store."""
    queues = [most for most in (vendors.enqueued_tokens, wanted.enqueued_tokens) if most is not None]
    most_bytes = min(vendors.bytes, wanted.max_bytes or vendors.bytes)
    return BatchLimits(
        requests=min(vendors.requests, wanted.max_requests or vendors.requests),
        bytes=min(most_bytes, MOST_SEALED_BYTES) if is_sealed else most_bytes,
        enqueued_tokens=min(queues, default=None),
    )


def scratch(store: Store) -> IO[bytes]:
    """Open what holds the input of one batch: a file without a name beside the store; memory for an encrypted one."""
    if sealing.note_of(store.path) is not None:
        return io.BytesIO()
    return tempfile.TemporaryFile(dir=store.path.parent)


class Rendering:
    """Makes the inputs of one job's batches. Not for two batches at a time."""

    def __init__(self, store: Store, host: BatchHost, job: Job) -> None:
        """Raise UsageError where the job was planned for another judge than this version asks."""
        if judge_key(job.recipe.identity()) != job.judge:
            raise UsageError(
                f"{job.id} was planned with an earlier judging prompt",
                hint=f"Collect what was sent, then `xscore batch cancel {job.id}` and submit the list again.",
            )
        self._store, self._host, self._job = store, host, job
        self._drafts = job.recipe.drafts()
        self._turns = _Turns(store, job)
        self._shapes: dict[tuple[object, ...], Shape] = {}
        self._members: dict[str, Candidate] | None = None

    def fill(
        self,
        into: IO[bytes],
        requests: Iterable[RequestName],
        *,
        mark: str,
        limits: BatchLimits | None = None,
        room: Room = Room(),  # noqa: B008  frozen
    ) -> Filled:
        """Write lines of these requests, in their order, until the next has no room; say which went in.

        requests: those of one ask one after the other (`job_rows.planned`). mark: begins every custom_id. limits: None
        for a batch that was filled before and is to be made again. Raises StoreDamaged, UsageError.
        """
        with made_in_bulk():
            return self._fill(into, requests, mark.encode(), limits, room)

    def _fill(
        self, into: IO[bytes], requests: Iterable[RequestName], mark: bytes, limits: BatchLimits | None, room: Room
    ) -> Filled:
        filled, waiting = Filled(), _Waiting(into)
        for (number, ask), questions in self._by_ask(requests, ASKS_AT_ONCE if limits is None else limits.requests):
            if ask is None:
                filled.gone.extend((question, number) for question in questions)
                continue
            prompt = self._prompt(ask)
            if bare := frozenset(piece.content_hash for piece in ask.pieces if not piece.kind):
                filled.thinned[number] = bare
            for question in questions:
                turn = self._turns[question]
                if not turn.text:
                    filled.gone.append((question, number))
                    continue
                line = prompt.line(b"%b-q%d-a%d" % (mark, question, number), turn.text)
                size = self._size(len(line), prompt.chars + turn.chars, prompt.output)
                if limits is not None and (full_of := filled.lacks(size, limits, room)):
                    filled.full_of = full_of
                    waiting.write_all()
                    return filled
                filled.add((question, number), size)
                waiting.add(line)
        waiting.write_all()
        return filled

    def _size(self, line_bytes: int, chars: int, output: int) -> "_Size":
        recipe, ratio = self._job.recipe, self._drafts.model.chars_per_token
        most_tokens = ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio))
        given = -(-most_tokens // BOUND_STEP_TOKENS) * BOUND_STEP_TOKENS
        usd = most_usd(recipe.provider, recipe.model.name, recipe.host, given, output)
        return _Size(line_bytes, ceil(chars / ratio), usd)

    def _by_ask(
        self, requests: Iterable[RequestName], at_once: int
    ) -> Iterator[tuple[tuple[int, Ask | None], list[int]]]:
        """Yield each ask with texts, None where none is left, and the questions to it."""
        grouped = (
            (ask, [question for question, _ in group]) for ask, group in groupby(requests, key=lambda one: one[1])
        )
        while some := list(islice(grouped, min(at_once, ASKS_AT_ONCE))):
            bare = job_rows.asks(self._store.connection, self._job.id, [number for number, _ in some])
            whole = self._with_texts(bare)
            for number, questions in some:
                yield (number, whole.get(number)), questions

    def _with_texts(self, asks: dict[int, Ask]) -> dict[int, Ask]:
        """Give pieces their texts; pieces without one are left bare, and asks of nothing else left out."""
        pool = self._candidates()
        wanted = {piece.memory for ask in asks.values() for piece in ask.pieces}
        members = [pool[memory] for memory in wanted if memory in pool]
        texts = self._store.texts(members, tests=self._job.recipe.tests)
        most = self._job.recipe.packs.tokens
        there: dict[str, Piece] = {}
        for member in members:
            for piece in pieces(member, texts[member.id], max_tokens=most) if member.id in texts else ():
                there[piece.content_hash] = piece
        return {
            number: replace(ask, pieces=tuple([there.get(piece.content_hash, piece) for piece in ask.pieces]))
            for number, ask in asks.items()
            if any(piece.content_hash in there for piece in ask.pieces)
        }

    def _candidates(self) -> dict[str, Candidate]:
        if self._members is None:
            pool = self._store.pool(tests=self._job.recipe.tests)
            self._members = {one.content_hash: one for one in pool if one.layer is not Layer.USER}
        return self._members

    def _prompt(self, ask: Ask) -> Prompt:
        codes = deal(len(ask.pieces), secret=self._drafts.secret, pack=ask.pack)
        entries = [
            PackEntry(code, piece.kind, piece.path, piece.entity, piece.text)
            for code, piece in zip(codes, ask.pieces, strict=True)
            if piece.kind  # a bare piece left the store
        ]
        ids = tuple(sorted(entry.code_id for entry in entries))
        kind = (ids, ask.rung, ask.is_kept, bool(ask.pack))
        shape = self._shapes.get(kind)
        if shape is None:
            there = replace(ask, pieces=tuple(piece for piece in ask.pieces if piece.kind))
            shape = self._shapes[kind] = shape_of(self._drafts, self._host, there, ids)
        return shape.prompt(pack_block(entries), ask.pack)


class _Waiting:
    """Lines on their way into a file, some at a time: each write costs the system more than a line does."""

    def __init__(self, into: IO[bytes]) -> None:
        self._into, self._lines, self._bytes = into, list[bytes](), 0

    def add(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes > WRITTEN_AT_ONCE:
            self.write_all()

    def write_all(self) -> None:
        self._into.write(b"".join(self._lines))
        self._lines.clear()
        self._bytes = 0


class _Turn(NamedTuple):
    text: bytes
    """As it stands inside a JSON string; empty: it was erased."""
    chars: int


class _Turns(dict[int, _Turn]):
    """Turn texts by number of the question, read when the first is needed."""

    def __init__(self, store: Store, job: Job) -> None:
        super().__init__()
        self._store, self._job = store, job

    def __missing__(self, number: int) -> _Turn:
        for question in job_rows.questions(self._store.connection, self._job.id).values():
            text = question.turn_text if question.turn.task else ""
            self[question.number] = _Turn(inside_json(text), tokens.size(text))
        return self[number]


@lru_cache(maxsize=4096)
def most_usd(provider: str, model: str, host: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """Return the most one request may cost at the Batch price, or at the live one where no such price is known."""
    plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    written = replace(plain, cache_write_tokens=input_tokens)
    known = [batch_price(model, host, usage) for usage in (plain, written)]
    found = [usd for usd in known if usd is not None]
    found = found or [usd for usage in (plain, written) if (usd := price(provider, model, host, usage)) is not None]
    return max(found, default=None)
