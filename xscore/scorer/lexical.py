"""The judge without a model: scores every memory by the words it shares with the task, in
milliseconds.

A score is the probability that a commit about this task would change the memory, by a model trained
on past commits (`learned_words`): words, names, files and links are its evidence. Names in the task
(`mentions`) and an embedder's cosines count too. Scores depend on the whole pool and are never
stored. Trade-off: it knows words, not meaning.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Final

from xscore.records.candidates import Candidate, content_hash_of
from xscore.records.judgment import (
    UNRELATED_WORDS_BELOW,
    JudgeIdentity,
    Judgment,
    Unjudged,
    UnjudgedCause,
    lexical_identity,
)
from xscore.records.turn import Turn
from xscore.scorer.scored_pool import ScoredPool
from xscore.scorer.weighed_pool import Purposes, TermVectors, TestsOf, WeighedPool
from xscore.scorer.word_features import LinksOf
from xscore.store.term_vectors import TERM_EMBEDDER

LEXICAL_IDENTITY: Final = lexical_identity(TERM_EMBEDDER)


REASONS_FROM = UNRELATED_WORDS_BELOW
"""Lowest score with a reason, wherever a model's reasons begin."""


class LexicalJudge:
    """Scores memories by shared words. Every output says that no model judged."""

    judged_elsewhere: frozenset[str] = frozenset()
    usd_shares: ClassVar[Mapping[str, Decimal | None]] = {}

    def __init__(
        self,
        vectors: TermVectors,
        *,
        reasons_from: float = 0.3,
        likeness: Mapping[str, float] | None = None,
        identity: JudgeIdentity = LEXICAL_IDENTITY,
        remarks: tuple[str, ...] = (),
        stale: frozenset[str] = frozenset(),
        tests_of: TestsOf | None = None,
        links: LinksOf | None = None,
        purposes: Purposes | None = None,
    ) -> None:
        """Take what is known about the memories in addition to their words.

        likeness: cosine with the task by memory id, of an embedder that the identity names; None:
            words alone.
        stale: ids of memories whose cited code has changed.
        tests_of: finds the tests of named memories; None: tests are known by the names of their
            files alone.
        links: finds who calls whom among memories; None if nothing is known about that.
        purposes: what a model says that files are for; None if nothing is known about that.
        """
        self.identity = identity
        self._vectors = vectors
        self._reasons_from = reasons_from
        self._likeness = likeness or {}
        self._remarks = remarks
        self._stale = stale
        self._tests_of = tests_of
        self._links = links
        self._purposes = purposes

    async def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[Judgment | Unjudged]:
        """Yield one judgment for each candidate, best first; a reason from `reasons_from` up."""
        for judgment in self.judgments(turn, candidates):
            yield judgment

    def warnings(self) -> tuple[str, ...]:
        """Say what there was to say before it began: it has no replies."""
        return self._remarks

    def stop(self, cause: UnjudgedCause) -> None:
        """Do nothing: it has finished before anyone can ask."""

    def judgments(self, turn: Turn, candidates: Sequence[Candidate]) -> Iterator[Judgment]:
        """Return the same without a loop of events.

        A content hash that several candidates share is judged once.
        """
        judgments = self.judge_all(turn, candidates)
        judgments.sort(key=lambda judgment: -judgment.score)
        seen: set[str] = set()
        for judgment in judgments:
            if judgment.content_hash not in seen:
                seen.add(judgment.content_hash)
                yield judgment

    def judge_all(self, turn: Turn, candidates: Sequence[Candidate]) -> list[Judgment]:
        """Return one judgment for each candidate, in their order."""
        weighed = WeighedPool(
            turn,
            candidates,
            self._vectors,
            tests_of=self._tests_of,
            links=self._links,
            purposes=self._purposes,
        )
        scored = ScoredPool(weighed, likeness=self._likeness, stale=self._stale)
        reasons = scored.reasons(min(self._reasons_from, REASONS_FROM))
        reason_of_row = [""] * len(candidates)
        for row, reason in reasons.items():
            reason_of_row[row] = reason
        hashes = list(map(content_hash_of, candidates))
        scores = scored.scores
        # The score is its own prior.
        return Judgment.from_columns(hashes, scores, reasons=reason_of_row, priors=scores)


def lexical_priors(
    turn: Turn,
    candidates: Sequence[Candidate],
    vectors: TermVectors,
    *,
    purposes: Purposes | None = None,
) -> dict[str, float]:
    """Return the lexical score of each candidate by id, 0..1: the order in which a model judge
    reads its packs."""
    scored = ScoredPool(WeighedPool(turn, candidates, vectors, purposes=purposes))
    ids = [candidate.id for candidate in candidates]
    return dict(zip(ids, scored.scores, strict=True))
