"""The scores of a pool by words, and in words why each memory has its own.

A score is the probability of the learned judge (`learned_words`), lifted where the task names the
memory outright or an embedder finds it alike. Trade-off: what shares no word with the task scores
0, whatever it is linked to.
"""

import math
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from xscore.records.candidates import LAYERS_WITHOUT_FACTS, Candidate
from xscore.records.judgment import SCORED_LOWER, UNRELATED_WORDS_BELOW, USUAL_LEXICAL_THRESHOLD
from xscore.records.memory import FACT_KINDS, PRODUCT_CODE_KINDS
from xscore.scorer.bm25 import NAMED_LEAST, UNHELD_FALLS, LexicalEvidence, WeighedTerm
from xscore.scorer.learned_words import code_model, judge_shortlist, load_weights
from xscore.scorer.likeness_rank import lift_by_likeness
from xscore.scorer.mentions import NamedInTask
from xscore.scorer.weighed_pool import WeighedPool
from xscore.scorer.word_features import LINK_WORDS, Shortlist
from xscore.store.term_vectors import (
    FILE,
    FOLDER,
    NAME,
    OWNER,
    WHOLE_NAME,
    QueryTerm,
    without_overlaps,
)

if TYPE_CHECKING:
    from xscore.scorer.facts import FactScore
    from xscore.scorer.purpose_field import PurposeTerms

STALE = 0.75
"""Share of its score that a stale memory keeps: about one band of the rubric less, so that
certainty still passes."""
REASON_WORDS = 6
LEAST_ODDS = 2 / 3
"""Least odds by evidence that the best memory needs, in a pool without code, for a question to
be about something here."""
HELD_COUNTS, QUESTION_FROM = 5.0, 0.4
"""A question is about something here where the learned log odds, and this times the logarithm of
the share of what is needed that its best memories hold, reach this sum. Cross-validated by
repository on questions about what is there and what is not (decision 0042)."""
LINK_TOLD = 0.4
"""Log odds that a link must have added to be mentioned."""
BEST_OF_ABSENT = 1.2 * UNRELATED_WORDS_BELOW
"""The best score where nothing seems to be here: shown among the nearest, and not chosen."""
IN_SIGHT = 1.5
"""How many times the score of others is left to a name that was asked for."""
DOCUMENT_HELD = 0.75
"""Share of the idf of what is asked that a passage of a fetched document must hold to be chosen
where the code does not seem to have it (decision 0056)."""
STEEPNESS = 3.0
"""Power of the evidence in the odds of what has nothing but words."""
ODDS_AT_HALF = USUAL_LEXICAL_THRESHOLD / (1 - USUAL_LEXICAL_THRESHOLD)
"""Odds where the evidence is neither much nor little: just enough to be kept."""


class ScoredPool:
    """A weighed pool with a score for each memory, and the reasons."""

    def __init__(
        self,
        weighed: WeighedPool,
        *,
        likeness: Mapping[str, float] | None = None,
        stale: frozenset[str] = frozenset(),
    ) -> None:
        self.candidates: Sequence[Candidate] = weighed.candidates
        self.evidence: LexicalEvidence = weighed.evidence
        self._names = weighed.names_as_written
        self._task = weighed.task
        self.terms: Sequence[WeighedTerm] = weighed.terms
        self.named: Mapping[str, NamedInTask] = weighed.named
        self.shortlist: Shortlist = weighed.shortlist
        self.purpose_terms: PurposeTerms = weighed.purpose_terms
        self.stale: frozenset[str] = stale
        self.likeness: Mapping[str, float] = likeness or {}
        listed: dict[int, float] = {}
        log_odds_here: float | None = None
        if weighed.has_code:
            learned = judge_shortlist(self.candidates, self.evidence, self.shortlist)
            log_odds_here = learned.log_odds_here
            if weighed.purpose_terms:
                log_odds_here = self._log_odds_by_words_alone(weighed)
            for row, probability in zip(
                self.shortlist.rows, learned.probabilities, strict=True
            ):
                if self.candidates[row].is_of_files:
                    listed[row] = probability
        named_rows = self._rows_named()
        self.is_here: bool = is_about_pool(self.evidence, log_odds_here, named_rows)
        self.scores: list[float] = _scores(self.candidates, self.evidence, listed)
        self.held_by_document: dict[int, float] = {}
        """Share of the question's words that a passage contains, where nothing here seems to be
        meant."""
        if not self.is_here:
            self._shrink(named_rows)
            self._score_documents()
        self._lift_named()
        self.remarks_of_facts: dict[int, str] = {}
        self._score_facts(weighed)
        self._lift()

    def _log_odds_by_words_alone(self, weighed: WeighedPool) -> float | None:
        """Return the log odds that anything is here as they are without purposes; None: no memory
        shares a word with the task."""
        evidence, shortlist = weighed.by_words_alone
        if not shortlist.rows:
            return None
        return judge_shortlist(self.candidates, evidence, shortlist).log_odds_here

    def _score_facts(self, weighed: WeighedPool) -> None:
        """Score what was stated in a sentence by evidence of its own."""
        rows: list[int] = []
        for row, candidate in enumerate(self.candidates):
            # The layer tells most of a pool: asked here, in half the time.
            if candidate.layer not in LAYERS_WITHOUT_FACTS and candidate.is_fact:
                rows.append(row)
        facts: Mapping[int, FactScore] = {}
        if rows:
            # Many stores hold nothing that was said.
            from xscore.scorer.facts import score_facts

            facts = score_facts(
                weighed.task,
                self.candidates,
                rows,
                weighed.column,
                terms=self.terms,
                hits=self.evidence.hits,
            )
        for row, fact in facts.items():
            self.scores[row] = fact.score
            if fact.remark:
                self.remarks_of_facts[row] = fact.remark

    def _rows_named(self) -> frozenset[int]:
        """Return the rows whose whole name is in the task."""
        hits = self.evidence.hits
        worth = self.evidence.terms.evidence
        rows = zip(hits.row, hits.term, hits.fields, strict=True)
        return frozenset(
            row for row, term, marks in rows if marks & WHOLE_NAME and worth[term] > 0
        )

    def _lift_named(self) -> None:
        """Lift what the task names outright."""
        for row, candidate in enumerate(self.candidates if self.named else ()):
            if candidate.id in self.named:
                strength = self.named[candidate.id].strength
                self.scores[row] = 1 - (1 - self.scores[row]) * (1 - strength)

    def _lift(self) -> None:
        """Lift what an embedder finds alike, and lower what is stale."""
        if self.likeness:
            for row, score in enumerate(self.scores):
                self.scores[row] = lift_by_likeness(score, self._cosine(row))
        for row, candidate in enumerate(self.candidates if self.stale else ()):
            if candidate.id in self.stale:
                self.scores[row] *= STALE

    def _shrink(self, named_rows: Set[int]) -> None:
        """Leave all in its order, the best just above what is unrelated."""
        best = max(self.scores, default=0.0)
        share = min(1.0, BEST_OF_ABSENT / max(best, BEST_OF_ABSENT))
        for row in self.evidence.amounts:
            # What an instruction finds among statements and documents is not about the code.
            if not (self.evidence.needed or self.candidates[row].is_of_files):
                continue
            # A name that was asked for stays in sight, and is mostly not chosen.
            self.scores[row] *= share * (IN_SIGHT if row in named_rows else 1.0)

    def _score_documents(self) -> None:
        """Score the passages of fetched documents that hold most of what is asked.

        One passage answers a question, while of code several memories hold enough of it; and words
        that the code lacks say nothing against a page that has them.
        """
        documents = self.evidence.documents
        if not documents or not self.evidence.asked:
            return
        held = dict.fromkeys(documents, 0.0)
        hits = self.evidence.hits
        asked_for = self.evidence.terms.asked_for
        for row, term in zip(hits.row, hits.term, strict=True):
            if row in documents:
                held[row] += asked_for[term]
        for row, amount in held.items():
            share = amount / self.evidence.asked
            self.held_by_document[row] = share
            if share >= DOCUMENT_HELD:
                odds = ODDS_AT_HALF * (share / DOCUMENT_HELD) ** STEEPNESS
                self.scores[row] = max(self.scores[row], odds / (1 + odds))

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
        worth = self.evidence.terms.evidence
        for hit in self._hits.get(row, ()):
            number = self.evidence.hits.term[hit]
            # What is in most memories is not evidence, and tells nothing.
            if not worth[number]:
                continue
            term = self.terms[number].term
            fields.setdefault(_field(self.evidence.hits.fields[hit]), []).append(term)
        candidate = self.candidates[row]
        reasons: list[str] = []
        if candidate.id in self.stale:
            reasons.append("stale, what it cites has changed")
        if candidate.id in self.named:
            reasons += self.named[candidate.id].words[:2]
        for field in _FIELD_ORDER:
            if field in fields:
                words = [
                    self._spelled(word)
                    for word in _words_of(fields[field], self._task)[:REASON_WORDS]
                ]
                reasons.append(f"{field} {', '.join(words)}")
        reasons += self._reason_of_purpose(candidate)
        reasons += self._reason_of_links(row)
        if row in self.remarks_of_facts:
            reasons.append(self.remarks_of_facts[row])
        cosine = self._cosine(row)
        if lift_by_likeness(0.0, cosine) > 0:
            reasons.append(f"likeness {cosine:.2f}")
        reasons += self._reason_of_less(row, candidate)
        return "; ".join(reasons)

    def _reason_of_less(self, row: int, candidate: Candidate) -> list[str]:
        """Say why it is scored lower where nothing here seems to be meant."""
        if row in self.held_by_document:
            return _why_document_less(self.held_by_document[row])
        if self.is_here or candidate.is_fact:
            return []
        return [why_less(self.evidence.held, self.evidence.needed)]

    def _reason_of_purpose(self, candidate: Candidate) -> list[str]:
        """Name the words of the task that are in its file's purpose."""
        shared = self.purpose_terms.get(candidate.path, ())
        if not shared or candidate.kind not in PRODUCT_CODE_KINDS:
            return []
        words = [self._spelled(word) for word in _words_of(shared, self._task)[:REASON_WORDS]]
        return [f"purpose of its file mentions {', '.join(words)}"]

    def _spelled(self, word: str) -> str:
        """Return a word as the task has it, if that is a name: `StopAsyncIteration`."""
        return self._names.get(word, word)

    def _reason_of_links(self, row: int) -> list[str]:
        """Say which link counted most for a memory, if any counted much."""
        weights = code_model(load_weights(), self.evidence.words).weights
        counted: list[tuple[float, int, str]] = []
        for feature, linked_row in self.shortlist.linked.get(row, {}).items():
            share = self.evidence.amounts[linked_row] / self.shortlist.best
            # It counts by itself, and in what all its links have on average.
            weight = (
                weights.get(feature, 0.0) + weights["mean_linked"] / self.shortlist.links[row]
            )
            counted.append((weight * share, linked_row, feature))
        strength, linked_row, feature = max(counted, default=(0.0, 0, ""))
        if strength < LINK_TOLD:
            return []
        linked = self.candidates[linked_row]
        name = linked.entity or linked.path
        evidence = (
            "which the task names"
            if linked.id in self.named
            else "which shares words with the task"
        )
        return [f"{LINK_WORDS[feature]} {name}, {evidence}"]

    @cached_property
    def _hits(self) -> dict[int, list[int]]:
        hits_of_row: dict[int, list[int]] = {}
        for hit, row in enumerate(self.evidence.hits.row):
            hits_of_row.setdefault(row, []).append(hit)
        return hits_of_row


def is_about_pool(
    evidence: LexicalEvidence, log_odds_here: float | None, named_rows: Set[int]
) -> bool:
    """Return whether a task is about something in a pool.

    log_odds_here: those of the learned judge; None if the pool has no code.
    """
    is_question = evidence.needed > 0
    if log_odds_here is None:
        return not is_question or holds_enough(evidence, named_rows)
    if not is_question:
        return log_odds_here >= load_weights().present_from
    share = min(1.0, evidence.held / evidence.needed)
    # Nothing held has no logarithm, and answers nothing.
    return share > 0 and log_odds_here + HELD_COUNTS * math.log(share) >= QUESTION_FROM


def holds_enough(evidence: LexicalEvidence, named_rows: Set[int]) -> bool:
    """Return whether a pool has what a question asks for: its best memories hold enough of it.

    A memory whose whole name is in the question counts with most of its evidence in any case.
    """
    share = min(1.0, evidence.held / evidence.needed) ** UNHELD_FALLS
    best_amount = 0.0
    for row, amount in evidence.amounts_here.items():
        kept_share = max(share, NAMED_LEAST) if row in named_rows else share
        best_amount = max(best_amount, amount * kept_share)
    odds: float = (best_amount / evidence.half) ** STEEPNESS
    return odds >= LEAST_ODDS


def why_less(held: float, needed: float) -> str:
    """Say that the pool does not seem to have what is asked; for a question, how much of it the
    best memories hold, and how much is usual."""
    if held >= needed:
        return f"{SCORED_LOWER}the task does not seem to be about anything here"
    # Rounded apart: the same figure twice would explain nothing.
    held_percent = math.floor(100 * held)
    needed_percent = math.ceil(round(100 * needed, 6))
    held_words = f"the best matches hold only {held_percent}% of the question's words"
    return f"{SCORED_LOWER}{held_words} ({needed_percent}% is usual)"


def _why_document_less(held: float) -> list[str]:
    if held >= DOCUMENT_HELD:
        return []
    held_words = f"it holds only {math.floor(100 * held)}% of the question's words"
    return [f"{SCORED_LOWER}{held_words} ({math.ceil(100 * DOCUMENT_HELD)}% is enough)"]


def _words_of(terms: Sequence[QueryTerm], task: str) -> list[str]:
    """Return terms as words of the task, each once.

    `JavaScript` is not also `java` and `script`, nor do `make` and `requests` occur again as
    `make requests`.
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
    return without_overlaps(words, task)


_FIELD_ORDER = ("name matches", "class or module name matches", "path matches", "text mentions")


def _field(marks: int) -> str:
    if marks & NAME:
        return "name matches"
    if marks & OWNER:
        return "class or module name matches"
    if marks & (FILE | FOLDER):
        return "path matches"
    return "text mentions"


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
    best_amount = max(evidence.amounts.values(), default=0.0) or 1.0
    for row, amount in evidence.amounts.items():
        if row in listed:
            scores[row] = listed[row]
        elif candidates[row].is_of_files and listed:
            scores[row] = least * amount / best_amount
        else:
            odds = (amount / evidence.half) ** STEEPNESS
            # Statements have a threshold of their own, which is half.
            if candidates[row].kind not in FACT_KINDS:
                odds *= ODDS_AT_HALF
            scores[row] = odds / (1 + odds)
    return scores
