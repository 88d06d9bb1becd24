"""What a list of questions takes by batch: misses -> packs -> asks -> requests, asks shared between questions.

The packs are those of the live judge, so batch and live prompts are the same. Two questions that show the judge the
same are judged once, and what another job is having judged is left to it. Where the caps may not let all requests go,
the asks whose memories look best by words alone go first. Nothing is sent or written. Trade-off: sizes are those in the
store, so tokens and dollars are estimates; they are exact only once the input is rendered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.extensions.batch.job_rows import JobQuestion, RequestName
from xscore.extensions.batch.rendering import request_bound_usd
from xscore.pipeline.estimating import ASKED_CHARS, chars_of
from xscore.pipeline.model_factory import ModelJudgeFactory
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import Pool
from xscore.pipeline.question_list import ListMemories, PreparedQuestion, prepare_questions
from xscore.platform import tokens
from xscore.prompts.judge import judge_rubric, turn_block
from xscore.providers.prices import BOUND_STEP_TOKENS
from xscore.records import Candidate, CapLeft, Judgment, Turn
from xscore.records.batch import Question
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.judge import Texts
from xscore.scorer.lexical import lexical_priors
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.repair import MemoryPart, PackPrompt, score_of_parts
from xscore.store.term_vectors import TERM_EMBEDDER

Slots = Callable[[Pool], Mapping[str, tuple[str, int]]]
ESCAPED = 1.05
"""Bytes that a character of a prompt takes inside JSON, on average."""
SCHEMA_BYTES = 60
"""What the schema of the reply says of each memory,"""
FRAME_BYTES = 900
"""and what else stands in the line of a request."""


class BatchPlan(Struct):
    """All that a job is to ask, and about what it takes."""

    questions: list[JobQuestion] = field(default_factory=list)
    asks: list[PackPrompt] = field(default_factory=list)
    """Pieces have no texts."""
    requests: list[RequestName] = field(default_factory=list)
    settled: list[tuple[JobQuestion, Judgment]] = field(default_factory=list)
    """Memories whose parts had all been judged, and they themselves not: no call is needed."""
    candidates: int = 0
    """Over all questions."""
    cached: int = 0
    to_judge: int = 0
    """Candidates that this plan asks about."""
    repeated: int = 0
    """Candidates of questions that show the judge what an earlier one of the list does: judged there."""
    elsewhere: int = 0
    """Candidates that a job under way is having judged."""
    input_tokens: int = 0
    output_tokens: int = 0
    bytes: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Replayed hit rate: the share of candidates that the cache had; None: there are none."""
        return self.cached / self.candidates if self.candidates else None


class _AskSize(NamedTuple):
    """About how large an ask is, without turn and rubric."""

    chars: int
    memories: int
    output: int


class _UnknownQuestion(NamedTuple):
    """The asks of a question of which nothing is known, and their sums."""

    pool: Sequence[Candidate]
    numbers: Sequence[int]
    size: _AskSize


class BatchPlanner:
    """Plans question after question; `plan` is what came of it so far."""

    def __init__(
        self,
        drafts: PromptDrafts,
        *,
        slots: Slots,
        texts: Texts,
        context: str = "task",
        under_way: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """slots, texts: of the judge's seat. context: `judge.context`. under_way: turn key -> contents."""
        self.plan = BatchPlan()
        self._drafts, self._slots, self._texts, self._context = drafts, slots, texts, context
        self._under_way = under_way or {}
        self._sizes: list[_AskSize] = []
        """By ask."""
        self._simple: dict[str, int] = {}
        """Ask of a pack without oversized memories, by the name of its prompt."""
        self._other: dict[tuple[str, ...], int] = {}
        """Any other ask, by its name and contents."""
        self._parts: dict[str, tuple[MemoryPart, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._whole: _UnknownQuestion | None = None
        self._keys: set[str] = set()

    def add(self, prepared: PreparedQuestion) -> None:
        """Plan one question. Raises StoreDamaged."""
        plan, pool = self.plan, prepared.pool
        question = _question(prepared, self._context)
        plan.questions.append(question)
        plan.candidates += question.candidates
        plan.cached += question.cached
        if question.turn_key in self._keys:
            plan.repeated += len(pool.misses)
            return
        self._keys.add(question.turn_key)
        others = self._under_way.get(question.turn_key, frozenset())
        ours = [miss for miss in pool.misses if miss.content_hash not in others] if others else pool.misses
        plan.elsewhere += len(pool.misses) - len(ours)
        plan.to_judge += len(ours)
        if ours is pool.candidates:
            if self._whole is None or self._whole.pool is not ours:
                numbers = self._asks(pool, ours, question)
                self._whole = _UnknownQuestion(ours, numbers, _sum_sizes(self._sizes[number] for number in numbers))
            self._request(question, self._whole.numbers, self._whole.size)
        else:
            numbers = self._asks(pool, ours, question)
            self._request(question, numbers, _sum_sizes(self._sizes[number] for number in numbers))

    def _request(self, question: JobQuestion, numbers: Sequence[int], size: _AskSize) -> None:
        plan, number = self.plan, question.number
        plan.requests.extend([(number, ask) for ask in numbers])
        frame = tokens.size(judge_rubric(), question.turn_text) + ASKED_CHARS
        chars = size.chars + len(numbers) * frame
        plan.input_tokens += round(chars / self._drafts.model.chars_per_token)
        plan.output_tokens += size.output
        plan.bytes += round(ESCAPED * chars) + SCHEMA_BYTES * size.memories + FRAME_BYTES * len(numbers)

    def _asks(self, pool: Pool, misses: Sequence[Candidate], question: JobQuestion) -> list[int]:
        """Return the numbers of the asks that these misses need; enters what no earlier question needed."""
        most = self._drafts.profile.tokens
        numbers: list[int] = []
        for pack in packs_to_send(misses, self._slots(pool), self._drafts.profile):
            name = pack.id or pack.members[0].content_hash
            if name in self._simple:
                numbers.append(self._simple[name])
            elif all(member.tokens <= most for member in pack.members):
                (ask,) = self._drafts.asks(pack, [_textless_piece(member) for member in pack.members])
                self._simple[name] = self._enter(ask, chars_of(pack.members, len(pack.members)))
                numbers.append(self._simple[name])
            else:
                numbers.extend(self._asks_in_parts(pack, pool.known, question))
        return numbers

    def _asks_in_parts(self, pack: Pack, known: Mapping[str, Judgment], question: JobQuestion) -> Iterator[int]:
        """Yield the asks of a pack with oversized memories: one for the others, one for each part."""
        members = {member.content_hash: member for member in pack.members}
        todo: list[MemoryPart] = []
        for member in pack.members:
            found = self._pieces(member)
            left = [piece for piece in found if piece.content_hash not in known]
            todo.extend(left)
            self.plan.to_judge -= not left
            if left or not found:
                continue
            judgment = score_of_parts(member.content_hash, [known[one.content_hash] for one in found])
            if isinstance(judgment, Judgment):
                self.plan.settled.append((question, judgment))
        for ask in self._drafts.asks(pack, todo):
            name = (ask.pack, *(piece.content_hash for piece in ask.pieces))
            if name not in self._other:
                asked = [members[piece.memory] for piece in ask.pieces]
                self._other[name] = self._enter(ask, chars_of(asked, len(asked)) // ask.pieces[0].parts)
            yield self._other[name]

    def _pieces(self, member: Candidate) -> tuple[MemoryPart, ...]:
        """Return what is judged of a memory, without texts; nothing where it left the store meanwhile."""
        if member.tokens <= self._drafts.profile.tokens:
            return (_textless_piece(member),)
        if member.content_hash not in self._parts:
            texts = self._texts([member])
            found = self._drafts.pieces_of(Pack("", (member,)), texts)
            self._parts[member.content_hash] = tuple(
                MemoryPart(piece.content_hash, "", "", "", "", piece.memory, piece.parts) for piece in found
            )
        return self._parts[member.content_hash]

    def _enter(self, ask: PackPrompt, chars: int) -> int:
        self.plan.asks.append(ask)
        count = len(ask.pieces)
        self._sizes.append(_AskSize(chars, count, self._drafts.expected_output(count)))
        return len(self.plan.asks) - 1


def _question(prepared: PreparedQuestion, context: str) -> JobQuestion:
    turn, pool = prepared.turn, prepared.pool
    return JobQuestion(
        number=prepared.number,
        name=prepared.question.id,
        turn=Turn(task=turn.task, errors=turn.errors, file=turn.file),
        shown=turn_block(turn, context=context) if context != "task" else "",
        turn_key=prepared.key,
        candidates=len(pool.candidates),
        cached=len(pool.candidates) - len(pool.misses),
    )


def _textless_piece(member: Candidate) -> MemoryPart:
    return MemoryPart(member.content_hash, "", "", "", "", member.content_hash)


def _sum_sizes(sizes: Iterable[_AskSize]) -> _AskSize:
    rows = list(sizes)
    return _AskSize(*(sum(row[place] for row in rows) for place in range(3)))


SAMPLED_QUESTIONS = 100


def exceeds_a_cap(seat: ModelJudgeFactory, drafts: PromptDrafts, plan: BatchPlan, caps: Iterable[CapLeft]) -> bool:
    """Whether the most that all requests may cost is above what a cap leaves; never, where no price is known."""
    least = min((cap.left_usd for cap in caps), default=None)
    if least is None or not plan.requests:
        return False
    most = _upper_bound_usd(seat, drafts, plan)
    return most is not None and most > least


def order_by_priority(plan: BatchPlan, promise: Mapping[str, float]) -> BatchPlan:
    """Number the asks anew, the most promising first. promise: by content hash of the memory."""
    each = [max(promise.get(piece.memory, 0.0) for piece in ask.pieces) for ask in plan.asks]
    order = sorted(range(len(plan.asks)), key=lambda number: -each[number])
    place = {number: at for at, number in enumerate(order)}
    requests = [(question, place[ask]) for question, ask in plan.requests]
    return replace(plan, asks=[plan.asks[number] for number in order], requests=requests)


def priority_of_memories(parts: PipelineParts, questions: Sequence[Question], found: ListMemories) -> dict[str, float]:
    """Return by content hash how much each memory promises over the questions, by words alone."""
    stride = -(-len(questions) // SAMPLED_QUESTIONS)
    promise: dict[str, float] = {}
    vectors = parts.store.vectors(TERM_EMBEDDER)
    for prepared in prepare_questions(parts, list(enumerate(questions))[::stride], found):
        misses = prepared.pool.misses
        guesses = lexical_priors(prepared.turn, misses, lambda: vectors)
        for miss in misses:
            promise[miss.content_hash] = promise.get(miss.content_hash, 0.0) + guesses[miss.id]
    return promise


def _upper_bound_usd(seat: ModelJudgeFactory, drafts: PromptDrafts, plan: BatchPlan) -> Decimal | None:
    """Bound the average request as the machine bounds each before it is sent, and multiply."""
    calls, ratio = len(plan.requests), drafts.model.chars_per_token
    caps = [drafts.output_cap(ask) for ask in plan.asks]
    output = ceil(sum(caps[ask] for _, ask in plan.requests) / calls)
    given = ceil(plan.input_tokens * ratio / min(tokens.UPPER_BOUND_CHARS_PER_TOKEN, ratio) / calls)
    each = request_bound_usd(seat.identity.provider, drafts.model.name, seat.host, given + BOUND_STEP_TOKENS, output)
    return None if each is None else each * calls
