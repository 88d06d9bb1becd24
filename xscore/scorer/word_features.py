"""What the learned judge looks at in each memory: a short list of a pool, with a row of numbers for
each of its memories.

All are shares or logarithms of shares, so that a pool of 50 memories is described like one of
50,000, and a task of three words like one of three hundred. Links count by the evidence at their
other end: who calls a memory that the task names is likely meant too. Trade-off: only the best of a
pool are looked at this closely; the others keep the order of their evidence.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest

from msgspec import Struct

from xscore.records.candidates import Candidate
from xscore.records.memory import PRODUCT_CODE_KINDS, Edge, Kind, Relation
from xscore.scorer.bm25 import LexicalEvidence
from xscore.store.term_vectors import FILE, FOLDER, NAME, OWNER

BY_EVIDENCE, BY_PLAIN, OTHERS = 250, 150, 100
"""How many memories are on the short list: the best code by evidence and by plain BM25, and the
best of all others."""
LEAST = 1e-3
"""Stands for no evidence where a logarithm is taken."""

WORD_FEATURES = (
    "evidence_of_best",
    "evidence_rank",
    "plain_of_best",
    "plain_rank",
    "first_line_held",
    "distinct_words",
)
"""What a memory of any kind has."""
PLACE_FEATURES = (
    "name_share",
    "name_words",
    "owner_held",
    "file_name_held",
    "folder_held",
    "file_holds",
    "next_in_file",
    "size",
    "is_class",
)
"""What code has beside its words: a name, a file, a length."""
_LINKS = {
    (Relation.CALLS, True): "caller",
    (Relation.CALLS, False): "callee",
    (Relation.BELONGS_TO, False): "owner",
    (Relation.BELONGS_TO, True): "member",
    (Relation.REFERENCES, False): "used",
}
"""(relation, whether the edge comes in) -> what is at its other end."""
LINK_WORDS = {
    "best_caller": "called by",
    "best_callee": "calls",
    "best_owner": "part of",
    "best_member": "has",
    "best_used": "uses",
}
"""How a reason says them."""
LINK_FEATURES = tuple(f"best_{end}" for end in _LINKS.values())
"""The evidence of the best memory at the other end of its links."""
FEATURES = (*WORD_FEATURES, *PLACE_FEATURES, *LINK_FEATURES)

LinksOf = Callable[[Iterable[str]], Iterable[Edge]]
"""Returns the edges that touch these memories, as `Store.edges_touching` does."""


class Shortlist(Struct, frozen=True):
    """The memories that are looked at closely."""

    rows: Sequence[int]
    """Of the candidates: code by evidence, code that plain BM25 puts in front, then the others."""
    features: Sequence[Sequence[float]]
    """One for each row, in the order of `FEATURES`."""
    linked: Mapping[int, Mapping[str, int]]
    """Row -> feature -> the row at the other end."""
    best: float
    """The most evidence that code has; of all kinds where no code has any."""


class _Held(Struct):
    """Idf of what the task asks for that a memory has, by where; and how many."""

    first_line: float = 0.0
    owner: float = 0.0
    file_name: float = 0.0
    folder: float = 0.0
    distinct: int = 0
    in_name: int = 0


def shortlist_of(
    candidates: Sequence[Candidate], evidence: LexicalEvidence, links: LinksOf | None
) -> Shortlist:
    """Return the best of a pool with what is known of each.

    links: None: nothing is known of who calls whom.
    """
    of_code = _of_code(candidates, evidence.amounts)
    by_evidence = _best(of_code, BY_EVIDENCE)
    by_plain = _best({row: evidence.plain[row] for row in of_code}, BY_PLAIN)
    not_code = {row: amount for row, amount in evidence.amounts_here.items() if row not in of_code}
    beside = _best(not_code, OTHERS)
    rows = list(dict.fromkeys([*by_evidence, *by_plain, *beside]))
    held = _held_by_row(evidence, rows)
    ends = _best_ends(candidates, evidence.amounts, rows, links)
    files = _best_of_files(candidates, evidence.amounts, rows)
    best = _best_of_code(candidates, evidence.amounts, rows)
    best_plain = _best_of_code(candidates, evidence.plain, rows)
    rank = _ranks(by_evidence, evidence.amounts)
    plain_rank = _ranks(by_plain, evidence.plain)
    asked_idf = max(evidence.asked, 1e-9)
    features: list[list[float]] = []
    for row in rows:
        candidate, in_memory = candidates[row], held[row]
        amount = max(evidence.amounts.get(row, 0.0), LEAST)
        plain = max(evidence.plain.get(row, 0.0), LEAST)
        name_words = evidence.hits.name_words.get(row, 0)
        next_in_file = _best_other(files[candidate.path], evidence.amounts.get(row, 0.0))
        linked = ends.get(row, {})
        features.append(
            [
                math.log(amount / best),
                math.log1p(rank.get(row, BY_EVIDENCE)),
                math.log(plain / best_plain),
                math.log1p(plain_rank.get(row, BY_PLAIN)),
                in_memory.first_line / asked_idf,
                math.log1p(in_memory.distinct),
                in_memory.in_name / name_words if name_words else 0.0,
                math.log1p(name_words),
                in_memory.owner / asked_idf,
                in_memory.file_name / asked_idf,
                in_memory.folder / asked_idf,
                evidence.by_file.get(candidate.path, 0.0) / asked_idf,
                next_in_file / best,
                math.log(max(1, candidate.tokens)),
                float(candidate.kind is Kind.CLASS),
                *[_share_of(evidence.amounts, linked.get(name), best) for name in LINK_FEATURES],
            ]
        )
    return Shortlist(rows, features, ends, best)


def _best(amounts: Mapping[int, float], count: int) -> list[int]:
    """Return the rows with most, best first; equals in the order of the pool."""
    pairs = nlargest(count, [(amount, -row) for row, amount in amounts.items() if amount > 0])
    return [-negative for _, negative in pairs]


def _of_code(candidates: Sequence[Candidate], amounts: Mapping[int, float]) -> dict[int, float]:
    """Return the part that is code of the product."""
    return {
        row: amount for row, amount in amounts.items() if candidates[row].kind in PRODUCT_CODE_KINDS
    }


def _ranks(rows: Sequence[int], amounts: Mapping[int, float]) -> dict[int, int]:
    """Return the place of each row in its list, from 0; equals share one."""
    ranks: dict[int, int] = {}
    last, rank = 0.0, 0
    for place, row in enumerate(rows):
        if not math.isclose(amounts[row], last):
            last, rank = amounts[row], place
        ranks[row] = rank
    return ranks


def _share_of(amounts: Mapping[int, float], row: int | None, best: float) -> float:
    if row is None:
        return 0.0
    return amounts[row] / best


def _best_of_code(
    candidates: Sequence[Candidate], amounts: Mapping[int, float], rows: Sequence[int]
) -> float:
    """Return the most that code has; of all kinds where no code has any."""
    of_code = [amounts.get(row, 0.0) for row in rows if candidates[row].kind in PRODUCT_CODE_KINDS]
    best = max(of_code, default=0.0) or max([amounts.get(row, 0.0) for row in rows], default=0.0)
    return max(best, LEAST)


def _held_by_row(evidence: LexicalEvidence, rows: Sequence[int]) -> dict[int, _Held]:
    held_by_row = {row: _Held() for row in rows}
    worth, hits = evidence.terms, evidence.hits
    for row, term, marks in zip(hits.row, hits.term, hits.fields, strict=True):
        held = held_by_row.get(row)
        if held is None:
            continue
        asked_for = worth.asked_for[term]
        if worth.in_first_line[term]:
            held.first_line += asked_for
        held.distinct += not worth.joined[term]
        if not marks:
            continue
        if marks & NAME:
            held.in_name += 1
        if marks & OWNER:
            held.owner += asked_for
        if marks & FILE:
            held.file_name += asked_for
        if marks & FOLDER:
            held.folder += asked_for
    return held_by_row


def _best_of_files(
    candidates: Sequence[Candidate], amounts: Mapping[int, float], rows: Sequence[int]
) -> dict[str, tuple[float, float]]:
    """Return the most and the second most evidence within each file, by path."""
    best: dict[str, tuple[float, float]] = {}
    for row in rows:
        path, amount = candidates[row].path, amounts.get(row, 0.0)
        first, second = best.get(path, (0.0, 0.0))
        if amount > first:
            best[path] = (amount, first)
        else:
            best[path] = (first, max(second, amount))
    # Memories without a file have none in common.
    if "" in best:
        best[""] = (0.0, 0.0)
    return best


def _best_other(best_of_file: tuple[float, float], amount: float) -> float:
    """Return the most evidence in a file beside that of a memory with this amount."""
    first, second = best_of_file
    return second if first == amount else first


def _best_ends(
    candidates: Sequence[Candidate],
    amounts: Mapping[int, float],
    rows: Sequence[int],
    links: LinksOf | None,
) -> dict[int, dict[str, int]]:
    """Return the row with most evidence at the other end of each kind of link, by row and
    feature."""
    if links is None or not rows:
        return {}
    listed = {row for row in rows if candidates[row].layer.is_indexed}
    row_of: dict[str, int] = {}
    for row in amounts:
        row_of[candidates[row].id] = row
        for duplicate in candidates[row].duplicates:
            row_of[duplicate] = row
    ends: dict[int, dict[str, int]] = {}
    for edge in links([candidates[row].id for row in listed]):
        source, target = row_of.get(edge.source), row_of.get(edge.target)
        if source is None or target is None or source == target:
            continue
        for row, end_row, comes_in in ((source, target, False), (target, source, True)):
            end = _LINKS.get((edge.relation, comes_in))
            if end is None or row not in listed:
                continue
            best_of_row = ends.setdefault(row, {})
            feature = f"best_{end}"
            if amounts[end_row] > amounts.get(best_of_row.get(feature, -1), 0.0):
                best_of_row[feature] = end_row
    return ends
