"""From planned requests to the input of a batch: one line a request, as much as one batch may hold.

No input is kept: it is made of the job's asks and the store's texts when it is to be sent, and again after a crash. A
line is the body of the live call, made by the same dialect (`prompt_shapes`). It sends nothing and writes no row.
Trade-off: prompts are made in the order of the asks, each once for all its questions, so a batch holds all questions to
some packs rather than some questions to all packs.

Prompts of one shape: rendered by the dialect once, then put together from their pieces.

Prompts that ask for the same ids differ in their memories, the name of their pack and the turn alone; the line of a
batch in its custom_id beside. So one body of a shape is rendered, with random marks in these places, and cut there.
What no mark stands for (model, schema, limits, rubric) is the dialect's own, byte for byte. Trade-off: a dialect that
would not pass text through unchanged could not be used so; it is refused, not guessed at.
"""

import io
import json
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import lru_cache
from itertools import groupby, islice
from math import ceil
from typing import IO, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import BatchJob, RequestName
from xscore.extensions.batch.vendor import BatchHost
from xscore.platform import sqlite_drivers, tokens
from xscore.platform.errors import UsageError, XscoreError
from xscore.platform.processes import gc_paused
from xscore.prompts.judge import PackEntry, pack_block
from xscore.providers.prices import BOUND_STEP_TOKENS, batch_price, call_price
from xscore.records import Candidate, Layer, Request, Usage
from xscore.records.batch import BatchLimits
from xscore.scorer.drafts import PromptDrafts, shuffled_ids
from xscore.scorer.repair import MemoryPart, PackPrompt, memory_parts
from xscore.settings.model import BatchSettings
from xscore.store.store import Store


class PromptTemplate(Struct, frozen=True):
    """An ask, rendered but for custom_id and turn."""

    around: tuple[bytes, ...]
    """What stands before, between and after those two."""
    id_first: bool
    chars: int
    output: int

    def line(self, custom_id: bytes, turn: bytes) -> bytes:
        """Return the line of one request."""
        first, second = (custom_id, turn) if self.id_first else (turn, custom_id)
        return b"".join((self.around[0], first, self.around[1], second, self.around[2]))


_PLACEHOLDERS = ("id", "pack", "key", "turn")


class RequestTemplate(Struct, frozen=True):
    """A body of a dialect with marks in the places in which prompts of its shape differ."""

    literals: tuple[bytes, ...]
    order: tuple[str, ...]
    """Of the marks between them."""
    chars: int
    """Of the prompt without memories and turn."""
    output: int

    def prompt(self, block: str, pack: str) -> PromptTemplate:
        """Put the memories and the name of their pack in."""
        filled = {"pack": json_string_bytes(block), "key": json_string_bytes(pack)}
        around, given = [self.literals[0]], []
        for name, literal in zip(self.order, self.literals[1:], strict=True):
            if name in filled:
                around[-1] += filled[name] + literal
            else:
                given.append(name)
                around.append(literal)
        return PromptTemplate(tuple(around), given[0] == "id", self.chars + tokens.size(block), self.output)


def request_template(drafts: PromptDrafts, host: BatchHost, ask: PackPrompt, ids: tuple[str, ...]) -> RequestTemplate:
    """Have the dialect render one body of this shape. Raises XscoreError where it is not as it was asked for."""
    word = secrets.token_hex(16)
    marks = {name: f"xs{word}{name}" for name in _PLACEHOLDERS}
    request = _marked(drafts, ask, ids, marks)
    line = host.line(marks["id"], host.body(request))
    found = re.compile(f"xs{word}({'|'.join(_PLACEHOLDERS)})".encode())
    literals, names = re.split(found, line)[::2], tuple(name.decode() for name in re.split(found, line)[1::2])
    expected = sorted(_PLACEHOLDERS if marks["key"].encode() in line else set(_PLACEHOLDERS) - {"key"})
    if sorted(names) != expected or not line.endswith(b"\n"):
        raise XscoreError(f"{host.name} does not pass a prompt on as it is", hint="Please report it.")
    frame = request.system, *(re.sub("|".join(marks.values()), "", part) for part in request.content)
    return RequestTemplate(tuple(literals), names, tokens.size(*frame), request.max_output_tokens)


def _marked(drafts: PromptDrafts, ask: PackPrompt, ids: tuple[str, ...], marks: dict[str, str]) -> Request:
    """Draft this ask as the live judge does, with marks in place of memories, name and turn."""
    request, dealt = drafts.request(ask, marks["turn"])
    entries = [
        PackEntry(code, one.kind, one.path, one.entity, one.text) for code, one in zip(dealt, ask.pieces, strict=True)
    ]
    block = pack_block(entries)
    content = tuple(part.replace(block, marks["pack"], 1) for part in request.content)
    return replace(request, content=content, cache_key=marks["key"] if request.cache_key else "", reply_ids=ids)


def json_string_bytes(text: str) -> bytes:
    """Write text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


MAX_ENCRYPTED_BYTES = 32_000_000
"""Of the input of one batch from an encrypted store: it is kept in memory, so that no disk ever holds it."""
WRITTEN_AT_ONCE = 1_000_000
"""So many bytes of lines, about, are written at a time."""
ASKS_AT_ONCE = 512
"""So many are read from the store at a time."""
LEFT_THE_STORE = "it left the store before it was judged"


class _RequestSize(NamedTuple):
    """How large one request is."""

    bytes: int
    input_tokens: int
    """Our estimate."""
    usd: Decimal | None
    """Most that it may cost."""


class BatchRoom(NamedTuple):
    """What there is room for in a batch, beside the limits of every batch; None: any amount."""

    tokens: int | None = None
    usd: Decimal | None = None


class BatchInput(Struct):
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

    def add(self, name: RequestName, size: _RequestSize) -> None:
        """Count a request in."""
        self.taken.append(name)
        self.bytes += size.bytes
        self.input_tokens += size.input_tokens
        self.most_usd = None if size.usd is None or self.most_usd is None else self.most_usd + size.usd

    def lacks(self, size: _RequestSize, limits: BatchLimits, room: BatchRoom) -> str:
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


def effective_batch_limits(vendors: BatchLimits, wanted: BatchSettings, *, is_sealed: bool = False) -> BatchLimits:
    """Return the lower of the vendor's limits and the user's. is_sealed: of an encrypted store."""
    queues = [most for most in (vendors.enqueued_tokens, wanted.enqueued_tokens) if most is not None]
    most_bytes = min(vendors.bytes, wanted.max_bytes or vendors.bytes)
    return BatchLimits(
        requests=min(vendors.requests, wanted.max_requests or vendors.requests),
        bytes=min(most_bytes, MAX_ENCRYPTED_BYTES) if is_sealed else most_bytes,
        enqueued_tokens=min(queues, default=None),
    )


def open_input_file(store: Store) -> IO[bytes]:
    """Open what holds the input of one batch: a file without a name beside the store; memory for an encrypted one."""
    if sqlite_drivers.read_note(store.path) is not None:
        return io.BytesIO()
    return tempfile.TemporaryFile(dir=store.path.parent)


class BatchRenderer:
    """Makes the inputs of one job's batches. Not for two batches at a time."""

    def __init__(self, store: Store, host: BatchHost, job: BatchJob) -> None:
        """Raise UsageError where the job was planned for another judge than this version asks."""
        if judge_key(job.recipe.identity()) != job.judge:
            raise UsageError(
                f"{job.id} was planned with an earlier judging prompt",
                hint=f"Collect what was sent, then `xscore batch cancel {job.id}` and submit the list again.",
            )
        self._store, self._host, self._job = store, host, job
        self._drafts = job.recipe.drafts()
        self._turns = _TurnTexts(store, job)
        self._shapes: dict[tuple[object, ...], RequestTemplate] = {}
        self._members: dict[str, Candidate] | None = None

    def fill(
        self,
        into: IO[bytes],
        requests: Iterable[RequestName],
        *,
        mark: str,
        limits: BatchLimits | None = None,
        room: BatchRoom = BatchRoom(),  # noqa: B008  frozen
    ) -> BatchInput:
        """Write lines of these requests, in their order, until the next has no room; say which went in.

        requests: those of one ask one after the other (`job_rows.planned`). mark: begins every custom_id. limits: None
        for a batch that was filled before and is to be made again. Raises StoreDamaged, UsageError.
        """
        with gc_paused():
            return self._fill(into, requests, mark.encode(), limits, room)

    def _fill(
        self, into: IO[bytes], requests: Iterable[RequestName], mark: bytes, limits: BatchLimits | None, room: BatchRoom
    ) -> BatchInput:
        filled, waiting = BatchInput(), _BufferedLines(into)
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

    def _size(self, line_bytes: int, chars: int, output: int) -> "_RequestSize":
        recipe, ratio = self._job.recipe, self._drafts.model.chars_per_token
        most_tokens = ceil(chars / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio))
        given = -(-most_tokens // BOUND_STEP_TOKENS) * BOUND_STEP_TOKENS
        usd = request_bound_usd(recipe.provider, recipe.model.name, recipe.host, given, output)
        return _RequestSize(line_bytes, ceil(chars / ratio), usd)

    def _by_ask(
        self, requests: Iterable[RequestName], at_once: int
    ) -> Iterator[tuple[tuple[int, PackPrompt | None], list[int]]]:
        """Yield each ask with texts, None where none is left, and the questions to it."""
        grouped = (
            (ask, [question for question, _ in group]) for ask, group in groupby(requests, key=lambda one: one[1])
        )
        while some := list(islice(grouped, min(at_once, ASKS_AT_ONCE))):
            bare = job_rows.read_asks(self._store.connection, self._job.id, [number for number, _ in some])
            whole = self._with_texts(bare)
            for number, questions in some:
                yield (number, whole.get(number)), questions

    def _with_texts(self, asks: dict[int, PackPrompt]) -> dict[int, PackPrompt]:
        """Give pieces their texts; pieces without one are left bare, and asks of nothing else left out."""
        pool = self._candidates()
        wanted = {piece.memory for ask in asks.values() for piece in ask.pieces}
        members = [pool[memory] for memory in wanted if memory in pool]
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

    def _candidates(self) -> dict[str, Candidate]:
        if self._members is None:
            pool = self._store.pool(tests=self._job.recipe.tests)
            self._members = {one.content_hash: one for one in pool if one.layer is not Layer.USER}
        return self._members

    def _prompt(self, ask: PackPrompt) -> PromptTemplate:
        codes = shuffled_ids(len(ask.pieces), secret=self._drafts.secret, pack=ask.pack)
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
            shape = self._shapes[kind] = request_template(self._drafts, self._host, there, ids)
        return shape.prompt(pack_block(entries), ask.pack)


class _BufferedLines:
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


class _TurnText(NamedTuple):
    text: bytes
    """As it stands inside a JSON string; empty: it was erased."""
    chars: int


class _TurnTexts(dict[int, _TurnText]):
    """Turn texts by number of the question, read when the first is needed."""

    def __init__(self, store: Store, job: BatchJob) -> None:
        super().__init__()
        self._store, self._job = store, job

    def __missing__(self, number: int) -> _TurnText:
        for question in job_rows.read_job_questions(self._store.connection, self._job.id).values():
            text = question.turn_text if question.turn.task else ""
            self[question.number] = _TurnText(json_string_bytes(text), tokens.size(text))
        return self[number]


@lru_cache(maxsize=4096)
def request_bound_usd(provider: str, model: str, host: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """Return the most one request may cost at the Batch price, or at the live one where no such price is known."""
    plain = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    written = replace(plain, cache_write_tokens=input_tokens)
    known = [batch_price(model, host, usage) for usage in (plain, written)]
    found = [usd for usd in known if usd is not None]
    found = found or [
        usd for usage in (plain, written) if (usd := call_price(provider, model, host, usage)) is not None
    ]
    return max(found, default=None)
