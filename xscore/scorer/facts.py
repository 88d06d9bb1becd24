"""Scores of short stated facts: names first, then how much of the task a fact holds.

A decision or preference is a sentence or two. It shares a word with most tasks, so the evidence
that ranks code either floods them or drowns them. What counts is whether the task names the fact's
subject: by its key or an alias, in any inflection, or one slip of the keyboard away. Words that
a name explains say little about other facts. Without a name a fact must hold most of what is
asked, or several of its rarer words (decision 0045). `scorer.lexical` calls `score_facts` at
one place. Pure. Trade-off: a fact whose key is not a word of any task, and that has no alias,
is found by its text alone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from xscore.records.candidates import TERM_ENTRY, Candidate, TermColumn
from xscore.scorer.bm25 import IMAGINED, WeighedTerm, rarity
from xscore.scorer.term_hits import TermHits
from xscore.store.term_vectors import (
    STOPWORDS,
    WHOLE_NAME,
    is_everyday,
    phrase_hash,
    split_word,
    task_words,
)

NAMED = 0.8
"""Strength of a fact whose whole key or alias is in the task."""
MISTYPED = 0.65
"""Strength of a fact whose whole key or alias is in the task but for one slip of the
keyboard."""
EXPLAINED = 0.25
"""Share of its idf that a word keeps for other facts where it is in the whole name of one."""
EVERYDAY = 0.3
"""Share of its idf that an everyday word keeps."""
HELD_HALF = 0.55
"""Share of what is asked at which a fact's text alone scores half."""
WORDS_HALF = 3.0
"""Number of words that only this fact has at which its text alone scores half, however long the
task."""
STEEPNESS = 4.0
FEWEST_INFERRED_WORDS = 2
"""Words of the task that an inferred fact must hold to be found by its text alone. Nobody chose to
say it, and its text quotes commands and paths, which share one word with many a task."""
LONGEST_NAME = 6
"""Most words of a name that is looked for as one."""
MOST_NAMING_WORDS = 400
"""Words at the start of a task in which names are looked for; more of a pasted log adds nothing."""
SHORTEST_TYPED, MOST_TYPED = 6, 6
"""Letters of the shortest word in which a slip is looked for, and in how many words of a task."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_IS_WHOLE_NAME = bytes(bool(marks & WHOLE_NAME) for marks in range(256))


class _NamedFacts(Struct, frozen=True):
    """Which facts a task names."""

    strengths: Mapping[int, float]
    """Strength by row."""
    explained: AbstractSet[int]
    """Terms of the words that name these facts."""
    mistyped: Mapping[int, str]
    """The word in which a slip was taken back, by row."""


class _HeldWord(Struct, frozen=True):
    """A word of the task in a fact."""

    row: int
    number: int
    """Number of the term."""


class FactScore(Struct, frozen=True):
    """The score of a fact, 0..1, and what its words do not say about it."""

    score: float
    remark: str = ""


def score_facts(
    task: str,
    candidates: Sequence[Candidate],
    rows: Sequence[int],
    column: TermColumn,
    *,
    terms: Sequence[WeighedTerm],
    hits: TermHits,
) -> dict[int, FactScore]:
    """Return the score of every fact by row.

    rows: those of the facts among the candidates.
    terms, hits: the words of the task, and where the pool has them.
    """
    names = _whole_names(column, {candidates[row].id: row for row in rows})
    strange = _strange_words(terms, hits, frozenset(rows))
    named = _find_named(task_words(task)[:MOST_NAMING_WORDS], names, strange)
    held_words = _held_words(terms, hits, frozenset(rows))
    idf = _idf(terms, hits, held_words, facts=len(rows))
    by_text = _text_strengths(terms, idf, held_words, named, facts=len(rows))
    barely_held = _barely_held(candidates, rows, held_words)
    scores: dict[int, FactScore] = {}
    for row in rows:
        strength_of_text = 0.0 if row in barely_held else by_text.get(row, 0.0)
        score = 1 - (1 - named.strengths.get(row, 0.0)) * (1 - strength_of_text)
        remark = ""
        if row in named.mistyped:
            remark = f"name matches, except for one letter of {named.mistyped[row]}"
        scores[row] = FactScore(score, remark)
    return scores


def _whole_names(column: TermColumn, row_of: Mapping[str, int]) -> dict[int, list[int]]:
    """Return the rows of the facts that have a term as a whole name, by term."""
    rows_of_term: dict[int, list[int]] = {}
    start = 0
    for id_, size in zip(column.ids, column.sizes, strict=True):
        end = start + size
        row = row_of.get(id_)
        if row is not None:
            for term in _terms_marked_whole(column.entries[start:end]):
                rows_of_term.setdefault(term, []).append(row)
        start = end
    return rows_of_term


def _terms_marked_whole(vector: bytes) -> Iterator[int]:
    marks = vector[TERM_ENTRY.size - 1 :: TERM_ENTRY.size].translate(_IS_WHOLE_NAME)
    entry = marks.find(1)
    while entry >= 0:
        term, _, _ = TERM_ENTRY.unpack_from(vector, entry * TERM_ENTRY.size)
        yield term
        entry = marks.find(1, entry + 1)


def _find_named(
    words: Sequence[str], names: Mapping[int, Sequence[int]], strange: AbstractSet[str]
) -> _NamedFacts:
    """Return which facts the words of a task name.

    names: rows by the term of a whole name.
    strange: words in which slips are looked for, in lower case.
    """
    strengths: dict[int, float] = {}
    explained: set[int] = set()
    word_of_row: dict[int, str] = {}
    for phrase in _phrases(words):
        term = phrase_hash(phrase)
        if term is not None and term in names:
            strengths.update(dict.fromkeys(names[term], NAMED))
            explained.update(_terms_of(phrase))
    mistyped = dict.fromkeys([word.lower() for word in words if word.lower() in strange])
    for word in list(mistyped)[:MOST_TYPED]:
        for row in _rows_of_slip(word, names):
            if row not in strengths:
                strengths[row] = MISTYPED
                word_of_row[row] = word
    return _NamedFacts(strengths, explained, word_of_row)


def _phrases(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield every run of words that may be a name."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + LONGEST_NAME, len(words)) + 1):
            phrase = words[start:end]
            if len(phrase) > 1 or phrase[0].lower() not in STOPWORDS:
                yield phrase


def _terms_of(phrase: Iterable[str]) -> Iterator[int]:
    for word in phrase:
        for _, term in split_word(word):
            yield term


def _strange_words(
    terms: Sequence[WeighedTerm], hits: TermHits, facts: AbstractSet[int]
) -> set[str]:
    """Return the words of the task that are long enough to be mistyped, and that occur nowhere but
    in facts, whose owner may have mistyped them."""
    numbers = {
        number for row, number in zip(hits.row, hits.term, strict=True) if row not in facts
    }
    strange: set[str] = set()
    for number, weighed in enumerate(terms):
        word = weighed.term.word
        is_plain = word.isascii() and word.isalpha() and len(word) >= SHORTEST_TYPED
        if number not in numbers and is_plain and not is_everyday(word):
            strange.add(word)
    return strange


def _rows_of_slip(word: str, names: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the facts that have a name one slip away from a word."""
    rows: set[int] = set()
    for variant in slips(word):
        term = phrase_hash([variant])
        if term is not None and term in names:
            rows.update(names[term])
    return rows


def slips(word: str) -> Iterator[str]:
    """Yield what was meant by a word in which one letter is too many, missing, wrong, or swapped
    with the next.

    The first letter is taken to be right.
    """
    for at in range(1, len(word) + 1):
        head = word[:at]
        tail = word[at:]
        for letter in _LETTERS:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]


def _held_words(
    terms: Sequence[WeighedTerm], hits: TermHits, rows: AbstractSet[int]
) -> list[_HeldWord]:
    """Return which facts have which words of the task; joined words are not words."""
    held: list[_HeldWord] = []
    for row, number in zip(hits.row, hits.term, strict=True):
        if row in rows and not terms[number].term.joined:
            held.append(_HeldWord(row, number))
    return held


def _barely_held(
    candidates: Sequence[Candidate], rows: Sequence[int], held_words: Sequence[_HeldWord]
) -> set[int]:
    """Return the inferred facts whose text holds too few words of the task to speak for them."""
    words_of_row = Counter(word.row for word in held_words)
    return {
        row
        for row in rows
        if candidates[row].is_inferred and words_of_row[row] < FEWEST_INFERRED_WORDS
    }


def _idf(
    terms: Sequence[WeighedTerm], hits: TermHits, held: Sequence[_HeldWord], *, facts: int
) -> list[float]:
    """Return how rare each word is, by term: among the facts and in the whole pool, whichever says
    less."""
    in_facts = [0] * len(terms)
    for word in held:
        in_facts[word.number] += 1
    idf: list[float] = []
    for number, weighed in enumerate(terms):
        least = min(
            rarity(in_facts[number], facts + IMAGINED),
            rarity(hits.having[number], hits.pool + IMAGINED),
        )
        amount = least * weighed.term.share
        idf.append(amount * EVERYDAY if is_everyday(weighed.term.word) else amount)
    return idf


def _text_strengths(
    terms: Sequence[WeighedTerm],
    idf: Sequence[float],
    held_words: Sequence[_HeldWord],
    named: _NamedFacts,
    *,
    facts: int,
) -> dict[int, float]:
    """Return how strongly the words of each fact speak for it, by row."""
    numbers = {word.number for word in held_words}
    asked_idf = 0.0
    for number, weighed in enumerate(terms):
        # An everyday word that no fact has is not what is asked for.
        is_asked = number in numbers or not is_everyday(weighed.term.word)
        if is_asked and not weighed.term.joined:
            asked_idf += idf[number]
    amounts: dict[int, float] = {}
    for word in held_words:
        amount = idf[word.number]
        if word.row not in named.strengths and terms[word.number].term.hash in named.explained:
            amount *= EXPLAINED
        amounts[word.row] = amounts.get(word.row, 0.0) + amount
    of_one_fact = rarity(1, facts + IMAGINED)
    strengths: dict[int, float] = {}
    for row, amount in amounts.items():
        share = 0.0
        if asked_idf:
            share = _half_at(HELD_HALF, min(1.0, amount / asked_idf))
        strengths[row] = max(share, _half_at(WORDS_HALF, amount / of_one_fact))
    return strengths


def _half_at(half: float, amount: float) -> float:
    """Return a strength 0..1 that is a half at this amount."""
    if amount > 0:
        return 1 / (1 + math.pow(half / amount, STEEPNESS))
    return 0.0
