"""Find the terms of a task in the term vectors of a pool.

Whole columns of bytes are compared first, since looking at each of a million entries in Python
would take a tenth of a second. What a term is worth is decided in `bm25`. Pure. Trade-off: vectors
are read as they are stored, so their form is known here too.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from zlib import adler32

from msgspec import Struct

from xscore.records.candidates import TERM_ENTRY, Candidate, TermColumn, id_of
from xscore.records.memory import Kind
from xscore.store.term_vectors import NAME

_NOT_OF_FILES = frozenset({Kind.COMMIT, Kind.DOCUMENT})
_IS_NAME = bytes(bool(marks & NAME) for marks in range(256))


class TermHits(Struct, frozen=True):
    """Which candidate has which term of the task: parallel lists, one entry per pair."""

    row: Sequence[int]
    term: Sequence[int]
    frequency: Sequence[int]
    fields: Sequence[int]
    lengths: Mapping[int, int]
    """Number of terms, repeats included, in each candidate that has one of the task's; by
    row."""
    name_words: Mapping[int, int]
    """Number of terms in the name of each candidate that has one of the task's in its name; by
    row."""
    mean_length: float
    """Mean length of all candidates, commits and fetched documents excepted."""
    pool: int
    """How many candidates there are, those excepted: they would change what words weigh in code,
    and with it the order of all else."""
    having: Sequence[int]
    """Number of candidates that have each term."""


def find_terms(
    candidates: Sequence[Candidate], vectors: TermColumn, hashes: Sequence[int]
) -> TermHits:
    """Return which candidate has which of these terms."""
    row_of = dict(zip(map(id_of, candidates), range(len(candidates)), strict=True))
    rows_by_place = list(map(row_of.get, vectors.ids))
    ends = list(accumulate(vectors.sizes))

    def length(place: int) -> int:
        start = ends[place - 1] if place else 0
        return sum_of(vectors.entries[start + 4 : ends[place] : TERM_ENTRY.size])

    rows: list[int] = []
    terms: list[int] = []
    counts: list[int] = []
    fields: list[int] = []
    lengths: dict[int, int] = {}
    name_words: dict[int, int] = {}
    for entry, term, count, marks in entries_of(vectors.entries, hashes):
        place = bisect_right(ends, entry * TERM_ENTRY.size)
        row = rows_by_place[place]
        if row is None:  # of a memory outside the scope, or of a duplicate
            continue
        rows.append(row)
        terms.append(term)
        counts.append(count)
        fields.append(marks)
        if row not in lengths:
            lengths[row] = length(place)
        if marks & NAME and row not in name_words:
            start = ends[place - 1] if place else 0
            fields_of_terms = vectors.entries[start + 5 : ends[place] : TERM_ENTRY.size]
            name_words[row] = fields_of_terms.translate(_IS_NAME).count(1)
    not_of_files = _rows_not_of_files(candidates)
    total = sum_of(vectors.entries[4 :: TERM_ENTRY.size])
    if not_of_files or None in rows_by_place:
        # The mean is that of the other candidates alone.
        for place, row in enumerate(rows_by_place):
            if row is None or row in not_of_files:
                total -= length(place)
    pool = len(candidates) - len(not_of_files)
    having = [0] * len(hashes)
    for row, term in zip(rows, terms, strict=True):
        having[term] += row not in not_of_files
    mean = total / max(1, pool)
    return TermHits(rows, terms, counts, fields, lengths, name_words, mean or 1.0, pool, having)


def _rows_not_of_files(candidates: Sequence[Candidate]) -> frozenset[int]:
    """Return the rows of the commits and of fetched documents; empty where there is nothing
    else."""
    kinds = [candidate.kind for candidate in candidates]
    # Looked for at once: many pools have none, and asking each takes four times as long.
    if not (Kind.COMMIT in kinds or Kind.DOCUMENT in kinds):
        return frozenset()
    not_of_files = frozenset([row for row, kind in enumerate(kinds) if kind in _NOT_OF_FILES])
    if len(not_of_files) < len(candidates):
        return not_of_files
    return frozenset()


def entries_of(entries: bytes, hashes: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, term, count in the text and field flags of the entries of these terms.

    Looking at each of a million entries would take a tenth of a second. So whole columns of bytes
    are compared first: an entry is likely if the two lowest bytes of its hash are those of some
    term.
    """
    term_of = {term: place for place, term in enumerate(hashes)}
    likely = -1
    for column in (0, 1):
        lowest = {term >> (8 * column) & 0xFF for term in hashes}
        is_wanted = bytes(byte in lowest for byte in range(256))
        likely &= int.from_bytes(
            entries[column :: TERM_ENTRY.size].translate(is_wanted), "little"
        )
    marks = likely.to_bytes(len(entries) // TERM_ENTRY.size, "little")
    entry = marks.find(1)
    while entry >= 0:
        term, count, fields = TERM_ENTRY.unpack_from(entries, entry * TERM_ENTRY.size)
        if term in term_of:
            yield entry, term_of[term], count, fields
        entry = marks.find(1, entry + 1)


def sum_of(data: bytes) -> int:
    """Return the sum of bytes.

    The lower half of an Adler-32 checksum is 1 more than it, modulo 65,521 (RFC 1950).
    """
    if len(data) <= 256:
        return (adler32(data) & 0xFFFF) - 1
    total = 0
    # At most 256 bytes at a time: their sum stays below the modulus.
    for start in range(0, len(data), 256):
        total += (adler32(data[start : start + 256]) & 0xFFFF) - 1
    return total
