"""Plan a list of questions for a batch: misses -> packs -> asks -> requests, with asks shared between questions.

The packs are those of the live judge, so batch and live prompts are the same. Two questions that show the judge the
same are judged once, and what another job is having judged is left to it. Nothing is sent or written. Trade-off: sizes
are those in the store, so tokens and dollars are estimates; they are exact only once the input is rendered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from xscore.extensions.batch.job_rows import JobQuestion, RequestName
from xscore.pipeline.estimating import ASKED_CHARS, chars_of
from xscore.pipeline.pool import Pool
from xscore.pipeline.question_list import PreparedQuestion
from xscore.platform import tokens
from xscore.prompts.judge import judge_rubric, turn_block
from xscore.records.judgment import Judgment
from xscore.records.memory import Candidate
from xscore.records.turn import Turn
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.repair import MemoryPart, PackPrompt, score_of_parts

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
    requests: list[RequestName] = field(default_factory=list)
    settled: list[tuple[JobQuestion, Judgment]] = field(default_factory=list)
    """Memories whose parts had all been judged, and they themselves not: no call is needed."""
    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    repeated: int = 0
    """Candidates of questions that show the judge what an earlier one of the list does: judged there."""
    elsewhere: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    bytes: int = 0


class _AskSize(NamedTuple):
    """About how large asks are, without turn and rubric."""

    chars: int
    memories: int
    output: int


class BatchPlanner:
    """Plans one question at a time; `plan` is the plan so far."""

    def __init__(
        self,
        drafts: PromptDrafts,
        *,
        slots: Slots,
        texts: Texts,
        context: str = "task",
        under_way: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """slots, texts: from the judge's factory. context: `judge.context`. under_way: turn key -> contents."""
        self.plan = BatchPlan()
        self._drafts, self._slots, self._texts, self._context = drafts, slots, texts, context
        self._under_way = under_way or {}
        self._sizes: list[_AskSize] = []
        """By ask."""
        self._numbers: dict[tuple[str, ...], int] = {}
        """Asks by name; for a pack with oversized memories also by content."""
        self._parts: dict[str, tuple[MemoryPart, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._whole: tuple[Sequence[Candidate], Sequence[int], _AskSize] | None = None
        """The pool of which nothing is known, its asks and their sum."""
        self._keys: set[str] = set()

    def add(self, prepared: PreparedQuestion) -> None:
        """Plan one question. Raises StoreDamaged."""
        plan, pool = self.plan, prepared.pool
        question = job_question(prepared, context=self._context)
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
        if ours is pool.candidates and self._whole is not None and self._whole[0] is ours:
            _, numbers, size = self._whole
        else:
            numbers = self._asks(pool, ours, question)
            size = _AskSize(*(sum(self._sizes[number][place] for number in numbers) for place in range(3)))
        if ours is pool.candidates:
            self._whole = ours, numbers, size
        self._request(question, numbers, size)

    def _request(self, question: JobQuestion, numbers: Sequence[int], size: _AskSize) -> None:
        plan = self.plan
        plan.requests.extend([(question.number, ask) for ask in numbers])
        frame = tokens.size(judge_rubric(), question.turn_text) + ASKED_CHARS
        chars = size.chars + len(numbers) * frame
        plan.input_tokens += round(chars / self._drafts.model.chars_per_token)
        plan.output_tokens += size.output
        plan.bytes += round(ESCAPED * chars) + SCHEMA_BYTES * size.memories + FRAME_BYTES * len(numbers)

    def _asks(self, pool: Pool, misses: Sequence[Candidate], question: JobQuestion) -> list[int]:
        most = self._drafts.profile.tokens
        numbers: list[int] = []
        for pack in packs_to_send(misses, self._slots(pool), self._drafts.profile):
            name = (pack.id or pack.members[0].content_hash,)
            if name not in self._numbers and any(member.tokens > most for member in pack.members):
                numbers.extend(self._asks_in_parts(pack, pool.known, question))
                continue
            if name not in self._numbers:
                (ask,) = self._drafts.asks(pack, [_textless_piece(member) for member in pack.members])
                self._numbers[name] = self._enter(ask, chars_of(pack.members, len(pack.members)))
            numbers.append(self._numbers[name])
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
            if name not in self._numbers:
                asked = [members[piece.memory] for piece in ask.pieces]
                self._numbers[name] = self._enter(ask, chars_of(asked, len(asked)) // ask.pieces[0].parts)
            yield self._numbers[name]

    def _pieces(self, member: Candidate) -> tuple[MemoryPart, ...]:
        """Return the parts of a memory to judge, without texts; empty if it has left the store."""
        if member.tokens <= self._drafts.profile.tokens:
            return (_textless_piece(member),)
        if member.content_hash not in self._parts:
            found = self._drafts.pieces_of(Pack("", (member,)), self._texts([member]))
            self._parts[member.content_hash] = tuple(
                MemoryPart(piece.content_hash, "", "", "", "", piece.memory, piece.parts) for piece in found
            )
        return self._parts[member.content_hash]

    def _enter(self, ask: PackPrompt, chars: int) -> int:
        self.plan.asks.append(ask)
        count = len(ask.pieces)
        self._sizes.append(_AskSize(chars, count, self._drafts.expected_output(count)))
        return len(self.plan.asks) - 1


def job_question(prepared: PreparedQuestion, *, context: str = "task") -> JobQuestion:
    """Return a question as a job stores it. context: `judge.context`, which may store more than the task."""
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
