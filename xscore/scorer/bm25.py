"""BM25 over the stored term vectors, with extra weight for names and paths.

Robertson's BM25 with one addition: a term in a memory's name, owner or path adds a fixed share of its idf, outside the
saturation of the text. The weights were tuned on commits of 13 repositories and on docstring questions (decision 0003).
`scorer.lexical` turns this evidence into scores. Trade-off: the whole pool is held in numpy arrays, 6 bytes per
distinct term of a memory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from xscore.records.memory import Candidate, Kind
from xscore.store.term_vectors import EVERYDAY, FILE, FOLDER, HEADING, NAME, OWNER, TERM_ENTRY, WHOLE_NAME, QueryTerm

Floats = NDArray[np.float64]

SATURATION = 1.2
"""BM25's k1."""
LENGTH_WEIGHT = 0.4
"""BM25's b for a long task; it rises for short ones, up to `LENGTH_WEIGHT + LENGTH_SHORT / 4`."""
LENGTH_SHORT = 1.6
FIELDS = ((NAME, 0.35), (WHOLE_NAME, 0.1), (OWNER, 0.25), (FILE, 0.25), (FOLDER, 0.05), (HEADING, 0.05))
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
"""Share of the idf of words anywhere in its file, for a memory with own evidence."""
ENOUGH_WORDS = 3
BREADTH = 0.5
"""Evidence from fewer distinct words (or than the task has) is multiplied by this power of their share."""
FIELD, FIELD_OF = 8, 100
"""How many of the best memories tell whether a repository has what a question asks for: one of every 100, at most 8.
What a repository has is dealt with in several places; what it lacks shares a few words with one."""
HELD_SHORT, HELD_LONG = 0.44, 0.22
"""Share of the idf of a question that these memories hold on average where it counts in full: short questions, long
ones. Cross-validated by repository on questions about what is there and what is not (decision 0036)."""
SHORT_UNTIL, LONG_FROM = 6, 12
"""A question of at most so many words is short, of so many long; between them the share falls evenly."""
UNHELD_FALLS = 3.0
"""Power of the missing share by which all evidence shrinks."""
NAMED_LEAST = 0.75
"""Least share of its evidence that a memory keeps whose whole name the question says. Measured on questions about what
is nowhere (decision 0036): 0.9 kept something for one more of 52."""
KIND_WEIGHTS = {
    Kind.CLASS: (0.75, ""),
    Kind.TEST: (0.6, "test tests testing pytest"),
    Kind.DOC: (0.6, "doc docs document documents documentation documented readme changelog guide tutorial"),
    Kind.CONFIG: (0.6, "config configs configuration configure setting settings toml yaml json ini ci workflow"),
    Kind.BLOCK: (0.8, "constant constants global import imports module"),
}
"""Weight of evidence by kind, unless the task's first line has one of these words. Tests and documents repeat the words
of the code they are about, and a class those of its members, which have their own memories; documents count in full
where there is no code. Windows of text count in full: they are the code of languages that have no grammar here."""
CODE = frozenset({Kind.CLASS, Kind.FUNCTION, Kind.METHOD})
COMMON = 0.5
"""A word that stands in more than this share of all memories is no evidence, unless the task has no other."""
COMMON_LEAST = 10
"""A word that no more memories than this have is never common, however small the pool."""
IMAGINED = 50
"""Number of imagined memories without any of the words, so that idf works in a small pool."""


class WeighedTerm(Struct, frozen=True):
    """A term of the task with its weight by position (1 in the first line)."""

    term: QueryTerm
    weight: float


class TermHits(Struct, frozen=True):
    """Which candidate has which term of the task: parallel arrays, one entry per pair."""

    row: NDArray[np.intp]
    term: NDArray[np.intp]
    frequency: Floats
    fields: NDArray[np.uint8]
    lengths: Floats
    """Terms in each candidate, repeats included; by row."""


class LexicalEvidence(Struct, frozen=True):
    """Evidence of the pool for one task. Rows are candidates in the given order."""

    amounts: Floats
    """Evidence of each candidate, in units of idf; 0 without a word of the task."""
    asked: float
    """Total idf of the task's words, including those missing from the pool, everyday words excepted."""
    strange: float
    """Share of `asked` missing from the pool, 0..1."""
    pool: int
    """Candidates and imagined memories."""
    hits: TermHits
    held: float = 1.0
    """Share of what a question asks that the best memories hold on average."""
    needed: float = 0.0
    """The same where all evidence counts in full; 0 of an instruction."""


def weigh_candidates(
    candidates: Sequence[Candidate],
    vectors: Mapping[str, bytes],
    terms: Sequence[WeighedTerm],
    *,
    is_question: bool = False,
) -> LexicalEvidence:
    """Return the evidence of every candidate. A candidate without a vector has none.

    is_question: the task asks whether or where something is, so it may be nowhere.
    """
    hits = _find(candidates, vectors, [weighed.term.hash for weighed in terms])
    pool = len(candidates) + IMAGINED
    joined = np.array([weighed.term.joined for weighed in terms], dtype=bool)
    repeats = np.array([1 + REPEATED * math.log(weighed.term.count) for weighed in terms])
    weights = repeats * [weighed.weight for weighed in terms]
    have = np.bincount(hits.term, minlength=len(terms))
    everyday = np.array([weighed.term.word in EVERYDAY for weighed in terms], dtype=bool)
    counted = ~joined & ~(everyday & (have == 0))
    idf = np.log1p((pool - have + 0.5) / (have + 0.5)) * weights
    common = have > max(COMMON * len(candidates), COMMON_LEAST)
    if (~common & (have > 0)).any():
        idf[common] = 0.0
    asked = float(idf[counted].sum())
    words = int(counted.sum())
    amounts = _amounts(hits, idf * np.where(joined, JOINED, 1.0), words=words)
    amounts += SAME_FILE * _in_file(candidates, hits, idf * np.where(joined, JOINED, 1.0)) * (amounts > 0)
    shares = np.array([weighed.term.share for weighed in terms]) * counted
    amounts *= _breadth(hits, shares, len(candidates)) * _by_kind(candidates, terms)
    held, needed = 1.0, 0.0
    if is_question and (amounts > 0).any():
        held = _held(hits, idf * counted, amounts) / asked if asked else 1.0
        needed = _needed(words)
        left = min(1.0, held / needed) ** UNHELD_FALLS
        # A name that was asked for stays in sight, whatever unknown words stand beside it.
        is_named = _is_named(hits, idf, len(candidates))
        amounts *= np.where(is_named, max(left, NAMED_LEAST), left)
    strange = float(idf[counted & (have == 0)].sum()) / asked if asked else 0.0
    return LexicalEvidence(amounts, asked, strange, pool, hits, held, needed)


def _find(candidates: Sequence[Candidate], vectors: Mapping[str, bytes], hashes: Sequence[int]) -> TermHits:
    blobs = [vectors.get(candidate.id, b"") for candidate in candidates]
    sizes = np.fromiter(map(len, blobs), dtype=np.intp, count=len(blobs)) // TERM_ENTRY.size
    entries = np.frombuffer(b"".join(blobs), dtype=[("hash", "<u4"), ("frequency", "u1"), ("fields", "u1")])
    ends = np.cumsum(sizes)
    lengths = np.diff(np.concatenate([[0], np.cumsum(entries["frequency"], dtype=np.float64)])[ends], prepend=0.0)
    hashed = np.ascontiguousarray(entries["hash"])
    order = np.argsort(np.array(hashes, dtype=np.uint32))
    wanted = np.array(hashes, dtype=np.uint32)[order]
    likely = np.zeros(1 << 16, dtype=bool)
    likely[wanted & 0xFFFF] = True
    at = np.flatnonzero(likely[hashed & 0xFFFF])
    place = np.minimum(np.searchsorted(wanted, hashed[at]), max(0, len(wanted) - 1))
    right = wanted[place] == hashed[at] if len(wanted) else np.zeros(0, dtype=bool)
    at, place = at[right], place[right]
    return TermHits(
        row=np.searchsorted(ends, at, side="right"),
        term=order[place],
        frequency=entries["frequency"][at].astype(np.float64),
        fields=entries["fields"][at],
        lengths=lengths,
    )


def _amounts(hits: TermHits, idf: Floats, *, words: int) -> Floats:
    short = 1 / max(4, words)
    mean = hits.lengths.mean() if hits.lengths.any() else 1.0
    length = LENGTH_WEIGHT + LENGTH_SHORT * short
    slack = SATURATION * (1 - length + length * hits.lengths / mean)
    named = (hits.fields & NAME) > 0
    frequency = hits.frequency + named
    fields = sum((share * ((hits.fields & mark) > 0) for mark, share in FIELDS), np.zeros(len(named)))
    each = frequency / (frequency + slack[hits.row]) + fields * (1 + FIELDS_SHORT * short)
    return _summed(hits.row, idf[hits.term] * each, len(hits.lengths))


def _in_file(candidates: Sequence[Candidate], hits: TermHits, idf: Floats) -> Floats:
    """Return, for each candidate, the idf of the terms that some memory of its file has."""
    numbers: dict[str, int] = {}
    file = np.array([numbers.setdefault(candidate.path, len(numbers)) for candidate in candidates], dtype=np.intp)
    pairs = np.unique(file[hits.row] * len(idf) + hits.term)
    terms = max(1, len(idf))
    covered = _summed(pairs // terms, idf[pairs % terms], len(numbers))
    has_file = np.array([bool(candidate.path) for candidate in candidates], dtype=bool)
    return np.where(has_file, covered[file], 0.0)


def _breadth(hits: TermHits, shares: Floats, pool: int) -> Floats:
    words = _summed(hits.row, shares[hits.term], pool)
    enough = max(1, min(ENOUGH_WORDS, int((shares == 1).sum())))
    breadth: Floats = (np.minimum(words, enough) / enough) ** BREADTH
    return breadth


def _held(hits: TermHits, idf: Floats, amounts: Floats) -> float:
    """Return the idf of the question that the memories with most evidence hold on average."""
    size = min(FIELD, max(1, len(amounts) // FIELD_OF))
    best = np.argsort(-amounts, kind="stable")[:size]
    held = _summed(hits.row, idf[hits.term], len(amounts))
    return float(held[best].mean())


def _needed(words: int) -> float:
    """Return the share of a question that must be held; a long one never stands in one memory whole."""
    is_long = min(1.0, max(0.0, (words - SHORT_UNTIL) / (LONG_FROM - SHORT_UNTIL)))
    return HELD_SHORT + (HELD_LONG - HELD_SHORT) * is_long


def _is_named(hits: TermHits, idf: Floats, pool: int) -> NDArray[np.bool_]:
    """Return, for each candidate, whether its whole name is a word of the task that is evidence."""
    in_name = ((hits.fields & WHOLE_NAME) > 0) & (idf[hits.term] > 0)
    return np.bincount(hits.row[in_name], minlength=pool) > 0


def weighs_tests_less(terms: Iterable[WeighedTerm]) -> bool:
    """Return whether tests count less for a task: its first line has no word for them."""
    return _first_words(terms).isdisjoint(KIND_WEIGHTS[Kind.TEST][1].split())


def _first_words(terms: Iterable[WeighedTerm]) -> set[str]:
    return {weighed.term.word for weighed in terms if weighed.weight >= FIRST_LINE}


def _by_kind(candidates: Sequence[Candidate], terms: Iterable[WeighedTerm]) -> Floats:
    asked = _first_words(terms)
    worth = {kind: share for kind, (share, words) in KIND_WEIGHTS.items() if asked.isdisjoint(words.split())}
    if CODE.isdisjoint(candidate.kind for candidate in candidates):
        worth.pop(Kind.DOC, None)
    by_kind = np.array([worth.get(candidate.kind, 1.0) for candidate in candidates])
    settings = worth.get(Kind.CONFIG, 1.0)
    for row, candidate in enumerate(candidates if settings < 1 else ()):
        # `.gitignore` lists names of everything and is about none of it.
        if candidate.kind is Kind.TEXT and candidate.path.rpartition("/")[2].startswith("."):
            by_kind[row] = settings
    return by_kind


def _summed(place: NDArray[np.intp], weights: NDArray[Any], size: int) -> Floats:
    summed: Floats = np.bincount(place, weights=weights, minlength=size).astype(np.float64)  # of nothing: integers
    return summed
