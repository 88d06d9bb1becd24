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
"""Amount that means no evidence where a logarithm is taken."""

WORD_FEATURES = (
    "evidence_of_best",
    "evidence_rank",
    "plain_of_best",
    "plain_rank",
    "first_line_held",
    "distinct_words",
)
"""Features of a memory of any kind."""
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
"""Features that only code has: a name, a file, a length."""
_ENDS = {
    Relation.CALLS: ("best_callee", "best_caller"),
    Relation.BELONGS_TO: ("best_owner", "best_member"),
    Relation.REFERENCES: ("best_used", ""),
}
"""Relation -> the feature of its source, by what is at its target, and that of its target; may
be empty."""
LINK_WORDS = {
    "best_caller": "called by",
    "best_callee": "calls",
    "best_owner": "part of",
    "best_member": "has",
    "best_used": "uses",
}
"""Words for these links in a reason."""
LINK_FEATURES = tuple(LINK_WORDS)
"""Features of the evidence of the best memory at the other end of its links."""
AROUND_FEATURES = ("calls_made", "mean_linked")
"""Features of how many functions it calls, and of the evidence of all that is linked with it,
tests excepted."""
FEATURES = (*WORD_FEATURES, *PLACE_FEATURES, *LINK_FEATURES, *AROUND_FEATURES)
MAY_BE_NEGATIVE = frozenset(
    {
        "evidence_rank",
        "plain_rank",
        "distinct_words",
        "name_words",
        "size",
        "is_class",
        "calls_made",
    }
)
"""Features whose weights may be negative. All others are evidence: more of it never scores less."""

LinksOf = Callable[[Iterable[str]], Iterable[Edge]]
"""Returns the edges that touch these memories, as `Store.edges_touching` does."""


class Shortlist(Struct, frozen=True):
    """The memories that are looked at closely."""

    rows: Sequence[int]
    """Rows of the candidates: code by evidence, code that plain BM25 puts in front, then the
    others."""
    features: Sequence[Sequence[float]]
    """Features of each row, in the order of `FEATURES`."""
    linked: Mapping[int, Mapping[str, int]]
    """Row -> feature -> the row at the other end."""
    links: Mapping[int, int]
    """Row -> how many links it has, those with tests excepted."""
    best: float
    """The most evidence that code has; that of all kinds where no code has any."""


class _Links(Struct):
    """What is known about a memory's links."""

    best: dict[str, int] = {}
    """Feature -> the row with most evidence at the other end."""
    calls: int = 0
    linked: int = 0
    """Links with other memories, those with tests excepted."""
    amount: float = 0.0
    """Evidence at the other ends."""


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
    """Return the best of a pool with what is known about each.

    links: None: nothing is known about who calls whom.
    """
    rows, rank, plain_rank = _chosen_rows(candidates, evidence)
    held = _held_by_row(evidence, rows)
    links_of_rows = _links_of_rows(candidates, evidence.amounts, rows, links)
    files = _best_of_files(candidates, evidence.amounts, rows)
    best = _best_of_code(candidates, evidence.amounts, rows)
    best_plain = _best_of_code(candidates, evidence.plain, rows)
    asked_idf = max(evidence.asked, 1e-9)
    features: list[list[float]] = []
    for row in rows:
        candidate = candidates[row]
        in_memory = held[row]
        amount = max(evidence.amounts.get(row, 0.0), LEAST)
        plain = max(evidence.plain.get(row, 0.0), LEAST)
        name_words = evidence.hits.name_words.get(row, 0)
        next_in_file = _best_other(files[candidate.path], evidence.amounts.get(row, 0.0))
        linked = links_of_rows.get(row, _Links())
        mean_linked = linked.amount / linked.linked if linked.linked else 0.0
        by_link = _shares_by_link(evidence.amounts, linked, best)
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
                *by_link,
                math.log1p(linked.calls),
                mean_linked / best,
            ]
        )
    best_ends = {row: linked.best for row, linked in links_of_rows.items()}
    counts = {row: linked.linked for row, linked in links_of_rows.items()}
    return Shortlist(rows, features, best_ends, counts, best)


def _shares_by_link(amounts: Mapping[int, float], linked: _Links, best: float) -> list[float]:
    """Return, for each kind of link, what its best end holds as a share of the best memory's."""
    return [_share_of(amounts, linked.best.get(end), best) for end in LINK_FEATURES]


def _chosen_rows(
    candidates: Sequence[Candidate], evidence: LexicalEvidence
) -> tuple[list[int], dict[int, int], dict[int, int]]:
    """Return the rows of the short list, and the ranks of those of code by all evidence and by
    plain words."""
    of_code = _of_code(candidates, evidence.amounts)
    by_evidence = _best(of_code, BY_EVIDENCE)
    by_plain = _best({row: evidence.plain[row] for row in of_code}, BY_PLAIN)
    not_code = {
        row: amount for row, amount in evidence.amounts_here.items() if row not in of_code
    }
    best_others = _best(not_code, OTHERS)
    rows = list(dict.fromkeys([*by_evidence, *by_plain, *best_others]))
    return rows, _ranks(by_evidence, evidence.amounts), _ranks(by_plain, evidence.plain)


def _best(amounts: Mapping[int, float], count: int) -> list[int]:
    """Return the rows with most, best first; equals in the order of the pool."""
    pairs = nlargest(count, [(amount, -row) for row, amount in amounts.items() if amount > 0])
    return [-negative for _, negative in pairs]


def _of_code(candidates: Sequence[Candidate], amounts: Mapping[int, float]) -> dict[int, float]:
    """Return the part that is code of the product."""
    return {
        row: amount
        for row, amount in amounts.items()
        if candidates[row].kind in PRODUCT_CODE_KINDS
    }


def _ranks(rows: Sequence[int], amounts: Mapping[int, float]) -> dict[int, int]:
    """Return the place of each row in its list, from 0; equals share one."""
    ranks: dict[int, int] = {}
    last, rank = 0.0, 0
    for place, row in enumerate(rows):
        if not math.isclose(amounts[row], last):
            last = amounts[row]
            rank = place
        ranks[row] = rank
    return ranks


def _share_of(amounts: Mapping[int, float], row: int | None, best: float) -> float:
    if row is None:
        return 0.0
    return amounts[row] / best


def _best_of_code(
    candidates: Sequence[Candidate], amounts: Mapping[int, float], rows: Sequence[int]
) -> float:
    """Return the most that code has; that of all kinds where no code has any."""
    of_code = [
        amounts.get(row, 0.0) for row in rows if candidates[row].kind in PRODUCT_CODE_KINDS
    ]
    best = max(of_code, default=0.0) or max(
        [amounts.get(row, 0.0) for row in rows], default=0.0
    )
    return max(best, LEAST)


def _held_by_row(evidence: LexicalEvidence, rows: Sequence[int]) -> dict[int, _Held]:
    held_by_row = {row: _Held() for row in rows}
    worth = evidence.terms
    hits = evidence.hits
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
        path = candidates[row].path
        amount = amounts.get(row, 0.0)
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
    """Return the most evidence in a file, leaving out that of a memory with this amount."""
    first, second = best_of_file
    return second if first == amount else first


def _links_of_rows(
    candidates: Sequence[Candidate],
    amounts: Mapping[int, float],
    rows: Sequence[int],
    links: LinksOf | None,
) -> dict[int, _Links]:
    """Return what is known about the links of each row."""
    if links is None or not rows:
        return {}
    listed = {row for row in rows if candidates[row].layer.is_indexed}
    row_of: dict[str, int] = {}
    for row in amounts:
        row_of[candidates[row].id] = row
        for duplicate in candidates[row].duplicates:
            row_of[duplicate] = row
    links_of_rows = {row: _Links() for row in listed}
    for edge in links([candidates[row].id for row in listed]):
        # Most links are those of tests.
        if edge.relation is Relation.TESTS:
            continue
        source = row_of.get(edge.source)
        target = row_of.get(edge.target)
        if source == target:
            continue
        of_source, of_target = _ENDS.get(edge.relation, ("", ""))
        if source in links_of_rows:
            links_of_rows[source].calls += edge.relation is Relation.CALLS
            _add_link(links_of_rows[source], of_source, target, amounts)
        if target in links_of_rows:
            _add_link(links_of_rows[target], of_target, source, amounts)
    return links_of_rows


def _add_link(
    links: _Links, feature: str, end_row: int | None, amounts: Mapping[int, float]
) -> None:
    """Count a link of a memory.

    feature: that of the best memory at such an end; may be empty.
    end_row: what is at the other end; None if it shares no word with the task.
    """
    links.linked += 1
    if end_row is None:
        return
    amount = amounts[end_row]
    links.amount += amount
    if feature and amount > amounts.get(links.best.get(feature, -1), 0.0):
        links.best[feature] = end_row
