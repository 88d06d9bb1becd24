"""Plan what a batch sends: misses -> packs -> asks -> requests, with asks shared between questions.

The packs are those of the live judge, so batch and live prompts are the same. Nothing is sent or written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from xscore.extensions.batch.job_rows import JobQuestion, RequestName
from xscore.pipeline.pool import Pool
from xscore.pipeline.question_list import PreparedQuestion
from xscore.prompts.judge import turn_block
from xscore.records.judgment import Judgment
from xscore.records.memory import Candidate
from xscore.records.turn import Turn
from xscore.scorer.drafts import PromptDrafts
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.repair import MemoryPart, PackPrompt, score_of_parts

Slots = Callable[[Pool], Mapping[str, tuple[str, int]]]


class BatchPlanner:
    """Plans one question at a time."""

    def __init__(self, drafts: PromptDrafts, *, slots: Slots, texts: Texts) -> None:
        """slots, texts: from the judge's factory."""
        self.asks: list[PackPrompt] = []
        self.requests: list[RequestName] = []
        self.settled: list[tuple[JobQuestion, Judgment]] = []
        """Memories whose parts had all been judged, and they themselves not: no call is needed."""
        self._drafts, self._slots, self._texts = drafts, slots, texts
        self._numbers: dict[tuple[str, ...], int] = {}
        """Asks by name; for a pack with oversized memories also by content."""
        self._parts: dict[str, tuple[MemoryPart, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._latest: tuple[Sequence[Candidate], Sequence[int]] = ((), ())
        """The latest misses and their asks: questions of which nothing is known have the same."""

    def add(self, question: JobQuestion, pool: Pool) -> None:
        """Plan requests for the misses of a question. Raises StoreDamaged."""
        before = len(self.settled)
        if self._latest[0] is not pool.misses:
            self._latest = pool.misses, list(self._asks(pool, question))
        self.requests.extend((question.number, ask) for ask in self._latest[1])
        if len(self.settled) > before:
            self._latest = (), ()  # what settles a memory belongs to this question alone

    def _asks(self, pool: Pool, question: JobQuestion) -> Iterator[int]:
        most = self._drafts.profile.tokens
        for pack in packs_to_send(pool.misses, self._slots(pool), self._drafts.profile):
            name = (pack.id or pack.members[0].content_hash,)
            if name not in self._numbers and any(member.tokens > most for member in pack.members):
                yield from self._asks_in_parts(pack, pool.known, question)
                continue
            if name not in self._numbers:
                (ask,) = self._drafts.asks(pack, [_textless_piece(member) for member in pack.members])
                self._enter(name, ask)
            yield self._numbers[name]

    def _asks_in_parts(self, pack: Pack, known: Mapping[str, Judgment], question: JobQuestion) -> Iterator[int]:
        """Yield the asks of a pack with oversized memories: one for the others, one for each part."""
        todo: list[MemoryPart] = []
        for member in pack.members:
            found = self._pieces(member)
            left = [piece for piece in found if piece.content_hash not in known]
            todo.extend(left)
            if left or not found:
                continue
            judgment = score_of_parts(member.content_hash, [known[one.content_hash] for one in found])
            if isinstance(judgment, Judgment):
                self.settled.append((question, judgment))
        for ask in self._drafts.asks(pack, todo):
            name = (ask.pack, *(piece.content_hash for piece in ask.pieces))
            if name not in self._numbers:
                self._enter(name, ask)
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

    def _enter(self, name: tuple[str, ...], ask: PackPrompt) -> None:
        self._numbers[name] = len(self.asks)
        self.asks.append(ask)


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
