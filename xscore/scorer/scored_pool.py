"""The scores of a pool by words, and in words why each memory has its own.

A score is the probability of the learned judge (`learned_words`), lifted where the task names the
memory outright or an embedder finds it alike. Trade-off: what shares no word with the task scores
0, whatever it is linked to.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from xscore.records.judgment import UNRELATED_WORDS_BELOW, USUAL_LEXICAL_THRESHOLD
from xscore.records.memory import Candidate
from xscore.scorer.bm25 import NAMED_LEAST, UNHELD_FALLS, LexicalEvidence
from xscore.scorer.learned_words import judge_shortlist
from xscore.scorer.likeness_rank import lift_by_likeness
from xscore.scorer.weighed_pool import WeighedPool
from xscore.store.term_vectors import FILE, FOLDER, NAME, OWNER, WHOLE_NAME, QueryTerm

STALE = 0.75
"""Share of its score that a stale memory keeps: about one band of the rubric less, so that
certainty passes still."""
REASON_WORDS = 6
STEEPNESS = 3.0
"""Power of the evidence in the odds of what has nothing but words."""
ODDS_AT_HALF = USUAL_LEXICAL_THRESHOLD / (1 - USUAL_LEXICAL_THRESHOLD)
"""Their odds where the evidence is neither much nor little: just enough to be kept."""


class ScoredPool:
    """A weighed pool with a score for each memory, and the reasons."""

    def __init__(
        self,
        weighed: WeighedPool,
        *,
        likeness: Mapping[str, float] | None = None,
        stale: frozenset[str] = frozenset(),
    ) -> None:
        self.candidates, self.evidence = weighed.candidates, weighed.evidence
        self.terms, self.named = weighed.terms, weighed.named
        self.shortlist = weighed.shortlist
        self.stale = stale
        self.likeness = likeness or {}
        self.is_here = True
        listed: dict[int, float] = {}
        if weighed.has_code:
            learned = judge_shortlist(self.candidates, self.evidence, self.shortlist)
            self.is_here = learned.is_here
            for row, probability in zip(self.shortlist.rows, learned.probabilities, strict=True):
                if self.candidates[row].layer.is_indexed:
                    listed[row] = probability
        self.scores = _scores(self.candidates, self.evidence, listed)
        if not self.is_here:
            self._shrink_absent(listed)
        self._shrink_unheld()
        for row, candidate in enumerate(self.candidates if self.named else ()):
            if candidate.id in self.named:
                strength = self.named[candidate.id].strength
                self.scores[row] = 1 - (1 - self.scores[row]) * (1 - strength)
        if self.likeness:
            for row, score in enumerate(self.scores):
                self.scores[row] = lift_by_likeness(score, self._cosine(row))
        if stale:
            for row, candidate in enumerate(self.candidates):
                if candidate.id in stale:
                    self.scores[row] *= STALE

    def _shrink_absent(self, listed: Mapping[int, float]) -> None:
        """Leave what comes from files in its order, with the best where scores begin to be
        related."""
        best = max(listed.values(), default=0.0)
        share = min(1.0, UNRELATED_WORDS_BELOW / max(best, UNRELATED_WORDS_BELOW))
        for row in self.evidence.amounts:
            if self.candidates[row].layer.is_indexed:
                self.scores[row] *= share

    def _shrink_unheld(self) -> None:
        """Shrink all scores where the best memories hold little of what a question asks."""
        held, needed = self.evidence.held, self.evidence.needed
        if held >= needed:
            return
        kept_share = (held / needed) ** UNHELD_FALLS
        # A name that was asked for stays in sight, whatever unknown words stand beside it.
        named: set[int] = set()
        hits = self.evidence.hits
        for row, term, marks in zip(hits.row, hits.term, hits.fields, strict=True):
            if marks & WHOLE_NAME and self.evidence.terms.evidence[term] > 0:
                named.add(row)
        for row in self.evidence.amounts:
            share = max(kept_share, NAMED_LEAST) if row in named else kept_share
            score = self.scores[row]
            self.scores[row] = score * share / (1 - score + score * share)

    def _cosine(self, row: int) -> float:
        return self.likeness.get(self.candidates[row].id, 0.0)

    def reasons(self, least: float) -> dict[int, str]:
        """Return why each memory from this score up has it, by row."""
        reasons: dict[int, str] = {}
        for row, score in enumerate(self.scores):
            if score >= least and self._has_reason(row):
                reasons[row] = self.reason(row)
        return reasons

    def _has_reason(self, row: int) -> bool:
        # Most memories share no word with the task.
        return self.scores[row] > 0 or self.candidates[row].id in self.stale

    def reason(self, row: int) -> str:
        """Say in words which evidence made the score."""
        fields: dict[str, list[QueryTerm]] = {}
        for hit in self._hits.get(row, ()):
            term = self.terms[self.evidence.hits.term[hit]].term
            fields.setdefault(_field(self.evidence.hits.fields[hit]), []).append(term)
        candidate = self.candidates[row]
        reasons: list[str] = []
        if candidate.id in self.stale:
            reasons.append("stale, what it cites has changed")
        if candidate.id in self.named:
            reasons += self.named[candidate.id].words[:2]
        for field in _FIELD_ORDER:
            if field in fields:
                words = _words_of(fields[field])[:REASON_WORDS]
                reasons.append(f"{field} {', '.join(words)}")
        cosine = self._cosine(row)
        if lift_by_likeness(0.0, cosine) > 0:
            reasons.append(f"likeness {cosine:.2f}")
        if not self.is_here and candidate.layer.is_indexed:
            reasons.append("scores less: what is asked does not seem to be here")
        elif self.evidence.held < self.evidence.needed:
            reasons.append(why_less(self.evidence.held, self.evidence.needed))
        return "; ".join(reasons)

    @cached_property
    def _hits(self) -> dict[int, list[int]]:
        hits_of_row: dict[int, list[int]] = {}
        for hit, row in enumerate(self.evidence.hits.row):
            hits_of_row.setdefault(row, []).append(hit)
        return hits_of_row


def why_less(held: float, needed: float) -> str:
    """Say how much of a question the best memories hold, and how much would do."""
    # Rounded apart: the same figure twice would explain nothing.
    held_percent = math.floor(100 * held)
    needed_percent = math.ceil(round(100 * needed, 6))
    return f"scores less: the best hold {held_percent}% of what is asked, not {needed_percent}%"


def _words_of(terms: Sequence[QueryTerm]) -> list[str]:
    """Return terms as words of the task, each once.

    `JavaScript` is not also `java` and `script`, nor do `make` and `requests` stand again as `make
    requests`.
    """
    single = {term.word for term in terms if not term.joined}
    compounds = [term.word for term in terms if term.share == 1.0]
    words = []
    for term in terms:
        # A share below 1: the task has it only as a part of a compound.
        is_part = term.share < 1.0 and any(term.word in compound for compound in compounds)
        is_repeated = term.joined and single.issuperset(term.word.split())
        if not (is_part or is_repeated):
            words.append(term.word)
    return words


_FIELD_ORDER = ("name matches", "class or module name matches", "path matches", "text has")


def _field(marks: int) -> str:
    if marks & NAME:
        return "name matches"
    if marks & OWNER:
        return "class or module name matches"
    if marks & (FILE | FOLDER):
        return "path matches"
    return "text has"


def _scores(
    candidates: Sequence[Candidate], evidence: LexicalEvidence, listed: Mapping[int, float]
) -> list[float]:
    """Return the score of each candidate.

    listed: the probability of each row of the short list; the others score less than any of them,
        in the order of their evidence. What is stated in words alone, and all of a pool without
        code, scores by its evidence: none of it was among what the model was trained on.
    """
    scores = [0.0] * len(candidates)
    least = min(listed.values(), default=0.0)
    most = max(evidence.amounts.values(), default=0.0) or 1.0
    for row, amount in evidence.amounts.items():
        if row in listed:
            scores[row] = listed[row]
        elif candidates[row].layer.is_indexed and listed:
            scores[row] = least * amount / most
        else:
            odds = ODDS_AT_HALF * (amount / evidence.half) ** STEEPNESS
            scores[row] = odds / (1 + odds)
    return scores
