"""How much each file shares of the words of a change: BM25 over the stored term vectors, by file.

The vectors of a file's memories are added up, so nothing is read or split again. Trade-off: a file
that the index keeps out has no words here, and only its history and its name speak for it.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from xscore.extensions.checking.records import Change
from xscore.records.memory import TermColumn
from xscore.store.term_vectors import FILE, NAME, TERM_ENTRY, query_terms, term_vector

SATURATION = 1.2
LENGTH_WEIGHT = 0.75
MOST_CHARS = 300_000
"""Of the changed lines that are read for words."""
MOST_TERMS = 2_000
SHOWN_WORDS = 4
Amounts = np.ndarray[tuple[int], np.dtype[np.float64]]
_ENTRY = np.dtype([("term", "<u4"), ("count", "u1"), ("fields", "u1")])
assert _ENTRY.itemsize == TERM_ENTRY.size


class WordsOfFiles(Struct, frozen=True):
    """Evidence of words; sequences by file, in the order that was asked for."""

    amounts: Sequence[float]
    """BM25 of the changed lines."""
    amounts_removed: Sequence[float]
    """The same of the removed lines alone."""
    rarest: Sequence[float]
    """The highest idf of a shared term, over that of a term that one file has: 0..1."""
    shared: Mapping[int, Sequence[str]]
    """The telling words that a file shares, by place; of the best files alone."""


def weigh_files(
    change: Change, paths: Sequence[str], path_of: Mapping[str, str], terms: TermColumn
) -> WordsOfFiles:
    """Weigh every file against the words of a change.

    path_of: memory id -> file.
    """
    place_of = {path: place for place, path in enumerate(paths)}
    owners = [place_of.get(path_of.get(id_, ""), -1) for id_ in terms.ids]
    sizes = np.asarray(terms.sizes, dtype=np.int64) // TERM_ENTRY.size
    entries = np.frombuffer(terms.entries, dtype=_ENTRY)
    owner = np.repeat(np.asarray(owners, dtype=np.int64), sizes)
    owned = owner >= 0
    entries, owner = entries[owned], owner[owned]
    lengths = np.bincount(owner, weights=entries["count"], minlength=len(paths)).astype(float)
    table = _FileTerms(entries, owner, lengths)
    removed = _term_counts(change, with_added=False)
    every = _term_counts(change, with_added=True)
    amounts, rarest, best_terms = table.weigh(every)
    amounts_removed, _, _ = table.weigh(removed)
    return WordsOfFiles(amounts, amounts_removed, rarest, _readable(change, best_terms))


def _term_counts(change: Change, *, with_added: bool) -> dict[int, int]:
    """Return the terms of the changed lines with their counts, the most frequent first."""
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


class _FileTerms(Struct, frozen=True):
    """The terms of all files; the arrays are parallel, an entry for each term of a memory."""

    entries: "np.ndarray[tuple[int], np.dtype[np.void]]"
    owner: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    """The place of the file."""
    lengths: Amounts
    """Terms of each file, repeats included; by place."""

    def weigh(
        self, counts: Mapping[int, int]
    ) -> tuple[Sequence[float], Sequence[float], dict[int, list[int]]]:
        """Return BM25, the rarest shared term, and the telling shared terms; by place."""
        files = len(self.lengths)
        nothing = [0.0] * files
        if not counts or not files:
            return nothing, nothing, {}
        hashes = np.array(sorted(counts), dtype=np.uint32)
        wanted = np.isin(self.entries["term"], hashes)
        hits, owner = self.entries[wanted], self.owner[wanted]
        column = np.searchsorted(hashes, hits["term"])
        # One number for a file and a term, so that the memories of a file are added up.
        pairs, pair_of = np.unique(owner * len(hashes) + column, return_inverse=True)
        frequency = np.bincount(pair_of, weights=hits["count"], minlength=len(pairs))
        is_named = np.bincount(pair_of, weights=(hits["fields"] & (NAME | FILE)) > 0)
        frequency += is_named > 0
        place, term = pairs // len(hashes), pairs % len(hashes)
        holders = np.bincount(term, minlength=len(hashes))
        idf = np.log1p((files - holders + 0.5) / (holders + 0.5))
        query = np.array([1 + math.log(max(counts[int(term)], 1)) for term in hashes])
        mean = float(self.lengths.mean()) or 1.0
        length = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * self.lengths / mean)
        amount = (idf * query)[term] * frequency / (frequency + length[place])
        amounts = np.bincount(place, weights=amount, minlength=files).astype(float)
        rarest = np.zeros(files)
        np.maximum.at(rarest, place, idf[term])
        rarest /= math.log1p((files - 0.5) / 1.5)
        return (
            amounts.tolist(),
            rarest.tolist(),
            _telling_terms(amounts, place, amount, hashes[term]),
        )


def _telling_terms(
    amounts: Amounts,
    place: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    amount: Amounts,
    term: "np.ndarray[tuple[int], np.dtype[np.uint32]]",
) -> dict[int, list[int]]:
    """Return the shared terms that weigh most, of the files that have most evidence."""
    telling: dict[int, list[int]] = {}
    for best in np.argsort(-amounts, kind="stable")[:100].tolist():
        of_file = np.flatnonzero(place == best)
        heaviest = of_file[np.argsort(-amount[of_file], kind="stable")[: 2 * SHOWN_WORDS]]
        telling[best] = term[heaviest].tolist()
    return telling


def _readable(change: Change, terms: Mapping[int, Sequence[int]]) -> dict[int, Sequence[str]]:
    """Return terms as words of the change."""
    word_of: dict[int, str] = {}
    for term in query_terms(_changed_text(change, with_added=True)):
        # Digits and the parts of hashes tell a reader nothing.
        if not term.joined and len(term.word) > 2 and not term.word.isdigit():
            word_of.setdefault(term.hash, term.word)
    words: dict[int, Sequence[str]] = {}
    for place, hashes in terms.items():
        words[place] = [word_of[term] for term in hashes if term in word_of][:SHOWN_WORDS]
    return words
