"""BM25 over the stored term vectors, with extra weight for names and paths.

Robertson's BM25 with one addition: a term in a memory's name, owner or path adds a fixed share of
its idf, outside the saturation of the text. The weights were tuned on commits of 13 repositories
and on docstring questions (decision 0003). `scorer.lexical` turns this evidence into scores. Plain
Python without numpy: importing that takes longer than weighing 20,000 memories, since only those
with a word of the task are touched. Trade-off: a task of hundreds of words touches nearly all of
them, and takes several times as long.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest

from msgspec import Struct

from xscore.records.candidates import Candidate, TermColumn
from xscore.records.memory import PROSE_KINDS, Kind
from xscore.scorer.term_hits import TermHits, find_terms
from xscore.store.term_vectors import (
    FILE,
    FOLDER,
    HEADING,
    NAME,
    OWNER,
    WHOLE_NAME,
    QueryTerm,
    is_everyday,
)

SATURATION = 1.2
"""BM25's k1."""
LENGTH_WEIGHT = 0.4
"""BM25's b for a long task; it rises for short ones, up to `LENGTH_WEIGHT + LENGTH_SHORT / 4`."""
LENGTH_SHORT = 1.6
FIELDS = (
    (NAME, 0.35),
    (WHOLE_NAME, 0.1),
    (OWNER, 0.25),
    (FILE, 0.25),
    (FOLDER, 0.05),
    (HEADING, 0.05),
)
"""Share of a term's idf that each field adds, for a long task."""
FIELDS_SHORT = 4.0
"""Fields count (1 + this / number of words) times as much: short questions are mostly names."""
REPEATED = 0.3
"""A term that occurs n times in the task weighs 1 + this · ln n."""
FIRST_LINE = 1.0
"""Weight of a word in the first line of the task, which says what is wanted."""
JOINED = 0.3
"""Weight of a term joined from two neighboring words."""
SAME_FILE = 0.15
"""Share of the idf of words anywhere in its file, for a memory with evidence of its own."""
ENOUGH_WORDS = 3
BREADTH = 0.5
"""Evidence from fewer distinct words (or than the task has) is multiplied by this power of their
share."""
BEST_ASKED, ONE_OF = 8, 100
"""How many of the best memories tell whether a repository has what a question asks for: one of
every 100, at most 8. What a repository has appears in several places; what it lacks shares a few
words with one."""
HELD_SHORT, HELD_LONG = 0.44, 0.22
"""Share of the idf of a question that these memories hold on average where it counts in full: short
questions, long ones. Cross-validated by repository on questions about what is there and what is not
(decision 0036)."""
SHORT_UNTIL, LONG_FROM = 6, 12
"""Most words of a short question, and fewest of a long one; between them the share falls
evenly."""
UNHELD_FALLS = 3.0
"""Power of the held share of what is needed, by which all evidence of a question is multiplied."""
NAMED_LEAST = 0.75
"""Least share of its evidence kept by a memory whose whole name is in the question: it is
listed among the nearest, and mostly not chosen (decision 0036)."""
EVERYDAY_WEIGHT = 0.4
"""Share of its idf that an everyday word of a question keeps: `how long until a job is run?` is not
about `long`.
A commit message has few of them, and what it has says more."""
KIND_WEIGHTS = {
    Kind.CLASS: (0.75, ""),
    Kind.TEST: (0.6, "test tests testing pytest"),
    Kind.DOC: (
        0.6,
        "doc docs document documents documentation documented readme changelog guide tutorial",
    ),
    Kind.DOCUMENT: (
        0.6,
        "doc docs document documents documentation documented page pdf guide manual tutorial spec",
    ),
    Kind.CONFIG: (
        0.6,
        "config configs configuration configure setting settings toml yaml json ini ci workflow",
    ),
    Kind.BLOCK: (0.8, "constant constants global import imports module"),
}
"""Weight of evidence by kind, unless the task's first line has one of these words. Tests and
documents repeat the words of the code they are about, and a class those of its members, which have
their own memories; documents count in full where there is no code. Windows of text count in full:
they are the code of languages that have no grammar here."""
PLAIN_SATURATION, PLAIN_LENGTH = 1.5, 0.75
"""k1 and b of the plain BM25, as in most search engines."""
PLAIN_NAME, PLAIN_PATH = 3, 2
"""How often a term of the name and of the path counts in it."""
HALF = 0.68
HALF_BY_ASKED = 0.3
"""Exponent of half: the idf of all the task's words to this power, times that of a rare word
to the rest. Small pools, whose idf is small, are measured like large ones."""
HALF_BY_STRANGE = 0.5
"""Half grows by e to the power of this times the square of the share of the task that the pool has
never seen: one verb that the code lacks takes little, a question about something else nearly
all."""
CODE = frozenset({Kind.CLASS, Kind.FUNCTION, Kind.METHOD})
COMMON = 0.5
"""Largest share of all memories that a word of evidence may be in, unless the task has no
other."""
COMMON_LEAST = 10
"""Number of memories up to which a word is never common, however small the pool."""
IMAGINED = 50
"""Number of imagined memories without any of the words, so that idf works in a small pool."""


class WeighedTerm(Struct, frozen=True):
    """A term of the task with its weight by position (1 in the first line)."""

    term: QueryTerm
    weight: float


class LexicalEvidence(Struct, frozen=True):
    """Evidence of the pool for one task. Rows are candidates in the given order."""

    amounts: dict[int, float]
    """Evidence in units of idf, by row; a row that is missing shares no word with the task."""
    asked: float
    """Total idf of the task's words, including those missing from the pool, everyday words
    excepted."""
    strange: float
    """Share of `asked` missing from the pool, 0..1."""
    pool: int
    """Number of candidates and imagined memories."""
    hits: TermHits
    by_file: Mapping[str, float]
    """Idf of the task's terms that occur anywhere in a file, by path."""
    plain: Mapping[int, float]
    """BM25 with name and path as repeated words, by row: a second opinion of the same words."""
    terms: "TermWorth"
    half: float
    """Evidence that is neither much nor little for this task in a pool of this size."""
    words: int
    """Distinct words that the task asks for."""
    held: float = 1.0
    """Share of what the task asks that the best memories hold on average."""
    needed: float = 0.0
    """Share of what the task asks at which all evidence counts in full; 0 for an
    instruction."""
    documents: frozenset[int] = frozenset()
    """Rows of fetched documents, which say nothing about what the repository has."""

    @property
    def amounts_here(self) -> Mapping[int, float]:
        """The amounts of what is not a fetched document."""
        if not self.documents:
            return self.amounts
        return {
            row: amount for row, amount in self.amounts.items() if row not in self.documents
        }


class TermWorth(Struct, frozen=True):
    """What each term of a task is worth; sequences by term."""

    evidence: Sequence[float]
    """The idf, times the term's weight; less for a joined one."""
    asked_for: Sequence[float]
    """The idf of what the task asks for; 0 for the other terms."""
    joined: Sequence[bool]
    in_first_line: Sequence[bool]


class _TermWeights(Struct, frozen=True):
    """What the terms of a task are worth in one pool; sequences by term."""

    idf: Sequence[float]
    """The idf, times the term's weight; 0 if the word is too common to be evidence."""
    counted: Sequence[bool]
    """Whether it is a word that the task asks for: not joined, and no everyday word that the pool
    lacks."""
    joined: Sequence[bool]
    asked: float
    strange: float

    @property
    def evidence(self) -> list[float]:
        """What each term adds: a joined one less."""
        return [
            idf * JOINED if joined else idf
            for idf, joined in zip(self.idf, self.joined, strict=True)
        ]

    @property
    def asked_for(self) -> list[float]:
        """The idf of what the task asks for; 0 of the others."""
        return [
            idf if counted else 0.0 for idf, counted in zip(self.idf, self.counted, strict=True)
        ]


def rarity(count: int, pool: int) -> float:
    """Return the idf of a term that this many of a pool have."""
    return math.log1p((pool - count + 0.5) / (count + 0.5))


def weigh_candidates(
    candidates: Sequence[Candidate],
    vectors: TermColumn,
    terms: Sequence[WeighedTerm],
    *,
    is_question: bool = False,
) -> LexicalEvidence:
    """Return the evidence of every candidate. A candidate without a vector has none.

    is_question: the task asks whether or where something is, so it may be nowhere.
    """
    hits = find_terms(candidates, vectors, [weighed.term.hash for weighed in terms])
    weights = _weigh_terms(hits, terms, is_question=is_question)
    words = sum(weights.counted)
    evidence = weights.evidence
    amounts = _amounts(hits, evidence, words=words)
    by_file = _in_file(candidates, hits, evidence)
    breadth = _breadth(hits, _counted_shares(terms, weights))
    worth = _kind_weights(candidates, terms)
    for row, amount in amounts.items():
        if amount > 0:
            candidate = candidates[row]
            with_file = amount + SAME_FILE * by_file.get(candidate.path, 0.0)
            amounts[row] = with_file * breadth[row] * worth.get(_kind_of(candidate), 1.0)
    documents = frozenset([row for row in amounts if candidates[row].kind is Kind.DOCUMENT])
    held, needed = 1.0, 0.0
    if any(amount > 0 for amount in amounts.values()):
        held = _held_share(amounts.keys() - documents, amounts, hits, weights)
        needed = _needed(words) if is_question else 0.0
    asked_for = TermWorth(
        evidence,
        weights.asked_for,
        weights.joined,
        [weighed.weight >= FIRST_LINE for weighed in terms],
    )
    return LexicalEvidence(
        amounts=amounts,
        asked=weights.asked,
        strange=weights.strange,
        pool=hits.pool + IMAGINED,
        hits=hits,
        by_file=by_file,
        plain=_plain(candidates, hits, evidence, worth),
        terms=asked_for,
        half=_half(weights, hits.pool + IMAGINED),
        words=words,
        held=held,
        needed=needed,
        documents=documents,
    )


def _counted_shares(terms: Sequence[WeighedTerm], weights: _TermWeights) -> list[float]:
    """Return the share of each term in its word, by term; 0 of those that do not count."""
    shares = [0.0] * len(terms)
    for number, weighed in enumerate(terms):
        if weights.counted[number]:
            shares[number] = weighed.term.share
    return shares


def _half(weights: _TermWeights, pool: int) -> float:
    """Return the evidence that is neither much nor little.

    It grows with what is asked and with the pool, and where the pool lacks what is asked.
    """
    by_words: float = max(weights.asked, 1e-9) ** HALF_BY_ASKED
    by_pool: float = math.log1p(pool) ** (1 - HALF_BY_ASKED)
    return HALF * by_words * by_pool * math.exp(HALF_BY_STRANGE * weights.strange**2)


def _weigh_terms(
    hits: TermHits, terms: Sequence[WeighedTerm], *, is_question: bool
) -> _TermWeights:
    have = hits.having
    pool = hits.pool + IMAGINED
    common_above = max(COMMON * hits.pool, COMMON_LEAST)
    # An everyday word is not what a task is about, even where its other words are everywhere.
    has_telling = any(
        0 < count <= common_above and not is_everyday(weighed.term.word)
        for weighed, count in zip(terms, have, strict=True)
    )
    idf: list[float] = []
    counted: list[bool] = []
    for weighed, count in zip(terms, have, strict=True):
        repeats = 1 + REPEATED * math.log(weighed.term.count)
        amount = rarity(count, pool) * repeats * weighed.weight
        is_everyday_word = is_everyday(weighed.term.word)
        if is_everyday_word and is_question:
            amount *= EVERYDAY_WEIGHT
        if has_telling and count > common_above:
            amount = 0.0
        idf.append(amount)
        counted.append(not weighed.term.joined and (count > 0 or not is_everyday_word))
    asked_idf = missing_idf = 0.0
    for amount, is_asked, count in zip(idf, counted, have, strict=True):
        if not is_asked:
            continue
        asked_idf += amount
        if not count:
            missing_idf += amount
    joined = [weighed.term.joined for weighed in terms]
    strange = missing_idf / asked_idf if asked_idf else 0.0
    return _TermWeights(idf, counted, joined, asked_idf, strange)


def _amounts(hits: TermHits, idf: Sequence[float], *, words: int) -> dict[int, float]:
    """Return the evidence of each candidate's own words, by row."""
    short = 1 / max(4, words)
    length = LENGTH_WEIGHT + LENGTH_SHORT * short
    fixed = SATURATION * (1 - length)
    by_length = SATURATION * length / hits.mean_length
    field_weight = 1 + FIELDS_SHORT * short
    in_fields: dict[int, float] = {}
    for marks in set(hits.fields):
        in_fields[marks] = field_weight * sum(share for mark, share in FIELDS if marks & mark)
    amounts: dict[int, float] = {}
    for row, term, count, marks in zip(
        hits.row, hits.term, hits.frequency, hits.fields, strict=True
    ):
        frequency = count + bool(marks & NAME)
        saturated = frequency / (frequency + fixed + by_length * hits.lengths[row])
        amounts[row] = amounts.get(row, 0.0) + idf[term] * (saturated + in_fields[marks])
    return amounts


def _plain(
    candidates: Sequence[Candidate],
    hits: TermHits,
    idf: Sequence[float],
    worth: Mapping[Kind, float],
) -> dict[int, float]:
    """Return plain BM25 of each candidate with a term, by row, weighed by kind."""
    fixed = PLAIN_SATURATION * (1 - PLAIN_LENGTH)
    by_length = PLAIN_SATURATION * PLAIN_LENGTH / hits.mean_length
    repeats: dict[int, int] = {}
    for marks in set(hits.fields):
        in_path = PLAIN_PATH * bool(marks & (FILE | FOLDER))
        repeats[marks] = PLAIN_NAME * bool(marks & NAME) + in_path
    norms = {row: fixed + by_length * length for row, length in hits.lengths.items()}
    sums = dict.fromkeys(norms, 0.0)
    for row, term, count, marks in zip(
        hits.row, hits.term, hits.frequency, hits.fields, strict=True
    ):
        frequency = count + repeats[marks]
        sums[row] += idf[term] * frequency / (frequency + norms[row])
    for row in sums:
        share = worth.get(_kind_of(candidates[row]), 1.0)
        if share != 1.0:
            sums[row] *= share
    return sums


def _in_file(
    candidates: Sequence[Candidate], hits: TermHits, idf: Sequence[float]
) -> dict[str, float]:
    """Return the idf of the terms that the memories of each file have, by path."""
    terms_of: dict[str, set[int]] = {}
    for row, term in zip(hits.row, hits.term, strict=True):
        terms_of.setdefault(candidates[row].path, set()).add(term)
    # Memories without a file have none in common.
    terms_of.pop("", None)
    idf_by_path: dict[str, float] = {}
    for path, terms in terms_of.items():
        # In order, since the sum of floats depends on it.
        idf_by_path[path] = sum([idf[term] for term in sorted(terms)])
    return idf_by_path


def _breadth(hits: TermHits, shares: Sequence[float]) -> dict[int, float]:
    """Return what few distinct words take from the evidence, 0..1 by row."""
    words: dict[int, float] = {}
    for row, term in zip(hits.row, hits.term, strict=True):
        words[row] = words.get(row, 0.0) + shares[term]
    enough = max(1, min(ENOUGH_WORDS, sum(share == 1 for share in shares)))
    return {row: (min(count, enough) / enough) ** BREADTH for row, count in words.items()}


def _held_share(
    rows: Collection[int], amounts: Mapping[int, float], hits: TermHits, weights: _TermWeights
) -> float:
    """Return the share of a question's idf that the memories with most evidence hold on average."""
    if not weights.asked:
        return 1.0
    size = min(BEST_ASKED, max(1, hits.pool // ONE_OF))
    # Commits too: a question about the history is answered there.
    best = set(nsmallest(size, rows, key=lambda row: (-amounts[row], row)))
    asked_for = weights.asked_for
    held = 0.0
    for row, term in zip(hits.row, hits.term, strict=True):
        if row in best:
            held += asked_for[term]
    return held / size / weights.asked


def _needed(words: int) -> float:
    """Return the share of a question that must be held; no memory holds all of a long one."""
    is_long = min(1.0, max(0.0, (words - SHORT_UNTIL) / (LONG_FROM - SHORT_UNTIL)))
    return HELD_SHORT + (HELD_LONG - HELD_SHORT) * is_long


def weighs_tests_less(terms: Iterable[WeighedTerm]) -> bool:
    """Return whether tests count less for a task: its first line has no word for them."""
    return _first_words(terms).isdisjoint(KIND_WEIGHTS[Kind.TEST][1].split())


def _first_words(terms: Iterable[WeighedTerm]) -> set[str]:
    return {weighed.term.word for weighed in terms if weighed.weight >= FIRST_LINE}


def _kind_weights(
    candidates: Sequence[Candidate], terms: Iterable[WeighedTerm]
) -> dict[Kind, float]:
    """Return what the evidence of each kind is worth; 1 of a kind that is missing."""
    first_words = _first_words(terms)
    worth: dict[Kind, float] = {}
    for kind, (share, words) in KIND_WEIGHTS.items():
        if first_words.isdisjoint(words.split()):
            worth[kind] = share
    if CODE.isdisjoint([candidate.kind for candidate in candidates]):
        for kind in PROSE_KINDS:
            worth.pop(kind, None)
    return worth


def _kind_of(candidate: Candidate) -> Kind:
    """Return the kind that a candidate counts as: `.gitignore` lists names of everything and is
    about none of it."""
    if candidate.kind is Kind.TEXT and candidate.path.rpartition("/")[2].startswith("."):
        return Kind.CONFIG
    return candidate.kind
