"""Collect the requests of a batch, question by question: which prompts the misses need.

Prompts are those of live calls, and questions without any judgment share them. It holds no text and
sends nothing. Trade-off: a memory whose parts are all known is asked for again, part by part.
"""

from collections.abc import Callable, Iterator, Sequence

from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_rows import (
    RequestName,
)
from xscore.pipeline.pool import Pool
from xscore.records.candidates import Candidate, Slots
from xscore.scorer.judge import Texts
from xscore.scorer.packs import Pack, packs_to_send
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.scorer.repair import MemoryPiece, PackPrompt

SlotsOf = Callable[[Pool], Slots]


class BatchPlanner:
    """Plans one question at a time."""

    def __init__(self, builder: PromptBuilder, *, slots: SlotsOf, texts: Texts) -> None:
        """Take the slots and texts of the judge."""
        self.prompts: list[PackPrompt] = []
        self.requests: list[RequestName] = []
        self._builder = builder
        self._slots = slots
        self._texts = texts
        self._numbers: dict[tuple[str, ...], int] = {}
        """Asks by name and contents."""
        self._parts: dict[str, tuple[MemoryPiece, ...]] = {}
        """Parts of oversized memories by content hash, without texts."""
        self._latest: tuple[Sequence[Candidate], Sequence[int]] = ((), ())
        """The latest misses and their prompts: questions without any judgment share them."""

    def add(self, number: int, pool: Pool) -> None:
        """Plan requests for the misses of a question. Raises StoreDamaged."""
        if self._latest[0] is not pool.misses:
            self._latest = pool.misses, list(self._prompt_numbers(pool))
        self.requests.extend((number, prompt) for prompt in self._latest[1])

    def _prompt_numbers(self, pool: Pool) -> Iterator[int]:
        for pack in packs_to_send(pool.misses, self._slots(pool), self._builder.profile):
            to_ask: list[MemoryPiece] = []
            for member in pack.members:
                pieces = self._pieces(member)
                unknown = [piece for piece in pieces if piece.content_hash not in pool.known]
                # A memory whose parts are all known has itself no judgment: its parts are asked
                # for again.
                to_ask += unknown or pieces
            for prompt in self._builder.prompts_of(pack, to_ask):
                name = (prompt.pack, *(piece.content_hash for piece in prompt.pieces))
                if name not in self._numbers:
                    self._numbers[name] = len(self.prompts)
                    self.prompts.append(prompt)
                yield self._numbers[name]

    def _pieces(self, member: Candidate) -> tuple[MemoryPiece, ...]:
        """Return the memory, or its parts to judge, without texts; empty if it is no longer
        stored."""
        if member.tokens <= self._builder.profile.tokens:
            return (job_rows.piece_without_text(member.content_hash),)
        if member.content_hash not in self._parts:
            pieces = self._builder.pieces_of(Pack("", (member,)), self._texts([member]))
            self._parts[member.content_hash] = tuple(
                job_rows.piece_without_text(piece.content_hash, piece.memory, piece.parts)
                for piece in pieces
            )
        return self._parts[member.content_hash]
