"""How much each file shares of the words of a change: BM25 over the stored term vectors, by file.

The vectors of a file's memories are added up, so nothing is read or split again. Plain Python:
numpy is not part of a plain install. Trade-off: a file that the index keeps out has no words here,
and only its history and its name speak for it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from msgspec import Struct

from xscore.extensions.checking.records import Change
from xscore.records.candidates import TERM_ENTRY, TermColumn
from xscore.scorer.bm25 import rarity
from xscore.scorer.term_hits import sum_of
from xscore.store.term_vectors import FILE, NAME, query_terms, term_vector

SATURATION = 1.2
LENGTH_WEIGHT = 0.75
MOST_CHARS = 300_000
"""Most characters of the changed lines that are read for words."""
MOST_TERMS = 2_000
SHOWN_WORDS = 4
SHOWN_FILES = 50
"""How many of the best files may be asked for their words."""


class WordsOfFiles(Struct, frozen=True):
    """Evidence of words, by path; a file that shares no word is missing."""

    amounts: Mapping[str, float]
    """BM25 of each file for the changed lines."""
    amounts_removed: Mapping[str, float]
    """BM25 of each file for the removed lines alone."""
    rarest: Mapping[str, float]
    """The highest idf of a shared term, divided by that of a term that one file has: 0..1."""
    shared: Mapping[str, Sequence[str]]
    """The telling words that a file shares; for the best files only."""


def weigh_files(
    change: Change, paths: Sequence[str], path_of: Mapping[str, str], terms: TermColumn
) -> WordsOfFiles:
    """Weigh these files against the words of a change.

    path_of: memory id -> file.
    """
    every = _term_counts(change, with_added=True)
    table = _FileTerms(frozenset(paths), every.keys())
    for id_, entries in _vectors(terms):
        path = path_of.get(id_, "")
        if path in table.paths:
            table.add(path, entries)
    amounts = table.weigh(every)
    removed = table.weigh(_term_counts(change, with_added=False))
    best = sorted(amounts, key=lambda path: (-amounts[path], path))[:SHOWN_FILES]
    words = _readable(change, {path: table.telling_terms(path, every) for path in best})
    return WordsOfFiles(amounts, removed, table.rarest(), words)


def _vectors(terms: TermColumn) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the vector of each memory."""
    start = 0
    for id_, size in zip(terms.ids, terms.sizes, strict=True):
        yield id_, terms.entries[start : start + size]
        start += size


def _term_counts(change: Change, *, with_added: bool) -> dict[int, int]:
    """Return the terms of the changed lines with their counts, the most frequent alone."""
    counts: dict[int, int] = {}
    vector = term_vector(_changed_text(change, with_added=with_added), path="", entity="")
    for term, count, _ in TERM_ENTRY.iter_unpack(vector):
        counts[term] = count
    most_first = sorted(counts, key=lambda term: (-counts[term], term))
    return {term: counts[term] for term in most_first[:MOST_TERMS]}


def _changed_text(change: Change, *, with_added: bool) -> str:
    lines: list[str] = []
    for file in change.files:
        lines += file.removed
        if with_added:
            lines += file.added
    return "\n".join(lines)[:MOST_CHARS]


class _FileTerms:
    """Which terms of a change each file has, and how often."""

    def __init__(self, paths: frozenset[str], terms: AbstractSet[int]) -> None:
        self.paths = paths
        self._terms = frozenset(terms)
        self._counts: dict[str, dict[int, int]] = {}
        self._named: dict[str, set[int]] = {}
        self._lengths: dict[str, int] = dict.fromkeys(sorted(paths), 0)

    def add(self, path: str, entries: bytes) -> None:
        """Add the vector of one memory of a file."""
        self._lengths[path] += sum_of(entries[4 :: TERM_ENTRY.size])
        for term, count, fields in TERM_ENTRY.iter_unpack(entries):
            if term in self._terms:
                counts = self._counts.setdefault(path, {})
                counts[term] = counts.get(term, 0) + count
                if fields & (NAME | FILE):
                    self._named.setdefault(path, set()).add(term)

    @cached_property
    def idf(self) -> Mapping[int, float]:
        """What each term is worth, by how many files have it. Asked for when all are added."""
        holders: dict[int, int] = {}
        for counts in self._counts.values():
            for term in counts:
                holders[term] = holders.get(term, 0) + 1
        idf: dict[int, float] = {}
        for term, count in holders.items():
            idf[term] = rarity(count, len(self.paths))
        return idf

    @cached_property
    def _mean_length(self) -> float:
        return sum(self._lengths.values()) / max(len(self._lengths), 1) or 1.0

    def weigh(self, query: Mapping[int, int]) -> dict[str, float]:
        """Return BM25 of the files that have a term of the query, by path."""
        amounts: dict[str, float] = {}
        for path in self._counts:
            amount = sum(self._amounts(path, query).values())
            if amount > 0:
                amounts[path] = amount
        return amounts

    def _amounts(self, path: str, query: Mapping[int, int]) -> dict[int, float]:
        """Return what each shared term adds."""
        length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * self._lengths[path] / self._mean_length
        named = self._named.get(path, set())
        amounts: dict[int, float] = {}
        for term, count in self._counts[path].items():
            if term in query:
                # A word of a name counts as said once more.
                frequency = count + (term in named)
                repeats = 1 + math.log(max(query[term], 1))
                saturated = frequency / (frequency + SATURATION * length)
                amounts[term] = self.idf[term] * repeats * saturated
        return amounts

    def rarest(self) -> dict[str, float]:
        """Return the highest idf of a shared term, as a share of the highest there can be."""
        highest = math.log1p(max(len(self.paths) - 0.5, 0.5) / 1.5)
        rarest: dict[str, float] = {}
        for path, counts in self._counts.items():
            rarest[path] = max(self.idf[term] for term in counts) / highest
        return rarest

    def telling_terms(self, path: str, query: Mapping[int, int]) -> list[int]:
        """Return the shared terms of a file, those that weigh most first."""
        amounts = self._amounts(path, query)
        return sorted(amounts, key=lambda term: (-amounts[term], term))[: 2 * SHOWN_WORDS]


def _readable(change: Change, terms: Mapping[str, Sequence[int]]) -> dict[str, Sequence[str]]:
    """Return terms as words of the change."""
    word_of: dict[int, str] = {}
    for term in query_terms(_changed_text(change, with_added=True)):
        # Digits and the parts of hashes tell a reader nothing.
        if not term.joined and len(term.word) > 2 and not term.word.isdigit():
            word_of.setdefault(term.hash, term.word)
    words: dict[str, Sequence[str]] = {}
    for path, hashes in terms.items():
        words[path] = [word_of[term] for term in hashes if term in word_of][:SHOWN_WORDS]
    return words
