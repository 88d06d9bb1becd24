"""One more field of the words of a memory: what a model says that its file is for.

A term of the task in that line adds a share of its idf to the evidence of all code of the file, as
a term in the name of the file does. It was chosen on commits: of the share and of the lines to use
(of files, classes, folders) the best of the other repositories (decision 0057). A line may be that
of an earlier state of the file: it still says what the file is for.
Trade-off: a pool in which few files have a line puts those in front.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from xscore.records.candidates import Candidate
from xscore.records.memory import PRODUCT_CODE_KINDS
from xscore.scorer.bm25 import LexicalEvidence, WeighedTerm
from xscore.store.term_vectors import QueryTerm, text_terms

PURPOSE_SHARE = 1.0
"""Share of a term's idf."""

PurposeTerms = Mapping[str, tuple[QueryTerm, ...]]
"""Path -> the terms of the task that the purpose of that file has."""


def find_purpose_terms(
    purposes: Mapping[str, str], terms: Sequence[WeighedTerm]
) -> PurposeTerms:
    """Return the terms of the task in each purpose that has any. purposes: by path."""
    term_of_hash = {weighed.term.hash: weighed.term for weighed in terms}
    terms_of_path: dict[str, tuple[QueryTerm, ...]] = {}
    for path, line in purposes.items():
        shared = text_terms(line) & term_of_hash.keys()
        if shared:
            # In order, since the sum of floats depends on it.
            terms_of_path[path] = tuple(
                [term_of_hash[term_hash] for term_hash in sorted(shared)]
            )
    return terms_of_path


def with_purposes(
    candidates: Sequence[Candidate],
    evidence: LexicalEvidence,
    terms: Sequence[WeighedTerm],
    purpose_terms: PurposeTerms,
) -> LexicalEvidence:
    """Return the evidence with what the purposes of files add to their code."""
    idf_of_hash: dict[int, float] = {}
    for weighed, idf in zip(terms, evidence.terms.evidence, strict=True):
        idf_of_hash[weighed.term.hash] = idf
    added: dict[str, float] = {}
    for path, shared in purpose_terms.items():
        added[path] = PURPOSE_SHARE * sum([idf_of_hash[term.hash] for term in shared])
    amounts = dict(evidence.amounts)
    plain = dict(evidence.plain)
    for row, candidate in enumerate(candidates):
        amount = added.get(candidate.path, 0.0)
        if amount and candidate.kind in PRODUCT_CODE_KINDS:
            amounts[row] = amounts.get(row, 0.0) + amount
            plain.setdefault(row, 0.0)
    return replace(evidence, amounts=amounts, plain=plain)
