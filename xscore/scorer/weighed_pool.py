"""A pool weighed against a task: words, names that the task says outright, and the short list.

What is trained and what judges both begin here. Trade-off: the whole pool is walked for each task,
since what a word is worth depends on all who have it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from xscore.records.candidates import Candidate, TermColumn
from xscore.records.memory import BLOCK_NAME, PRODUCT_CODE_KINDS, Kind, tested_name
from xscore.records.turn import Turn
from xscore.scorer.bm25 import (
    KIND_WEIGHTS,
    LexicalEvidence,
    WeighedTerm,
    weigh_candidates,
    weighs_tests_less,
)
from xscore.scorer.mentions import Mentions, NamedInTask, find_mentions, find_named, is_question
from xscore.scorer.task_words import own_name_of, task_terms
from xscore.scorer.word_features import LinksOf, Shortlist, shortlist_of
from xscore.store.term_vectors import WHOLE_NAME, split_word

if TYPE_CHECKING:
    from xscore.scorer.purpose_field import PurposeTerms

TermVectors = Callable[[], Iterable[tuple[str, bytes]] | TermColumn]
"""Loads (memory id, term vector) pairs, as `store.term_vectors()` does; or those that were
read with a pool."""

Purposes = Callable[[], Mapping[str, str]]
"""Returns what a model says that each file is for, by path, as `Store.purposes` does."""
TestsOf = Callable[[Iterable[str]], Iterable[str]]
"""Returns the ids of the tests of these memories."""


class WeighedPool:
    """A pool weighed against one turn: the evidence of each memory, and what its best have."""

    def __init__(
        self,
        turn: Turn,
        candidates: Sequence[Candidate],
        vectors: TermVectors,
        *,
        tests_of: TestsOf | None = None,
        links: LinksOf | None = None,
        purposes: Purposes | None = None,
    ) -> None:
        self.candidates: Sequence[Candidate] = candidates
        self.terms: Sequence[WeighedTerm] = task_terms(turn, own_name=own_name_of(candidates))
        mentions = find_mentions(turn.task, turn.errors)
        asks = is_question(turn.task)
        self.task: str = turn.task
        loaded = vectors()
        column = loaded if isinstance(loaded, TermColumn) else TermColumn.of_pairs(loaded)
        self.column: TermColumn = column
        self.evidence: LexicalEvidence = weigh_candidates(
            candidates, column, self.terms, is_question=asks
        )
        self.named: Mapping[str, NamedInTask] = {}
        if mentions != Mentions():
            defining = self._defining(mentions.names)
            self.named = find_named(mentions, candidates, defining=defining)
        if self.named:
            # A task that names what it is about is about its tests too.
            for row in self._tests_of_named(tests_of):
                if row in self.evidence.amounts:
                    self.evidence.amounts[row] /= KIND_WEIGHTS[Kind.TEST][0]
        self.shortlist: Shortlist = shortlist_of(candidates, self.evidence, links)
        self.purpose_terms: PurposeTerms = {}
        """The terms of the task in the purpose of a file, by path."""
        self.by_words_alone: tuple[LexicalEvidence, Shortlist] = (self.evidence, self.shortlist)
        """Evidence without purposes. It tells whether anything here is about the task: with
        purposes, tasks of other repositories are taken for its own (decision 0057)."""
        lines = purposes() if purposes is not None else {}
        if lines:
            # Most stores have none: a model writes them when it is asked to.
            from xscore.scorer.purpose_field import find_purpose_terms, with_purposes

            self.purpose_terms = find_purpose_terms(lines, self.terms)
            self.evidence = with_purposes(
                candidates, self.evidence, self.terms, self.purpose_terms
            )
            self.shortlist = shortlist_of(candidates, self.evidence, links)
        self.has_code: bool = any(
            candidates[row].kind in PRODUCT_CODE_KINDS for row in self.shortlist.rows
        )

    @property
    def names_as_written(self) -> dict[str, str]:
        """The names in the task (`StopAsyncIteration`), by their words in lower case."""
        names = re.findall(r"[A-Za-z]\w{0,80}", self.task)
        return {name.lower(): name for name in names if not name[1:].islower()}

    def _defining(self, names: Iterable[str]) -> dict[str, list[Candidate]]:
        """Return the blocks that define a value of each name, which their own made-up names do not
        say."""
        name_of_hash: dict[int, str] = {}
        last_names = dict.fromkeys(name.rpartition(".")[2] for name in names)
        for last_name in last_names:
            # Its last term is that of the whole name.
            for _, term_hash in split_word(last_name)[-1:]:
                name_of_hash[term_hash] = last_name
        hits = self.evidence.hits
        blocks_of_name: dict[str, list[Candidate]] = {}
        for row, number, marks in sorted(zip(hits.row, hits.term, hits.fields, strict=True)):
            defined_name = name_of_hash.get(self.terms[number].term.hash)
            if defined_name is None or not marks & WHOLE_NAME:
                continue
            candidate = self.candidates[row]
            if candidate.entity.startswith(BLOCK_NAME):
                blocks_of_name.setdefault(defined_name, []).append(candidate)
        return blocks_of_name

    def _tests_of_named(self, tests_of: TestsOf | None) -> list[int]:
        """Return the rows of the tests of what the task names, if tests do not count in full
        anyway."""
        if not weighs_tests_less(self.terms):
            return []
        named_ids: list[str] = []
        stems: set[str] = set()
        for candidate in self.candidates:
            if candidate.id in self.named and self.named[candidate.id].in_task:
                named_ids.append(candidate.id)
                file_name = candidate.path.rpartition("/")[2]
                stems.add(file_name.partition(".")[0])
        test_ids: set[str] = set()
        if tests_of and named_ids:
            test_ids.update(tests_of(named_ids))
        rows: list[int] = []
        for row, candidate in enumerate(self.candidates):
            if candidate.kind is not Kind.TEST:
                continue
            if candidate.id in test_ids or tested_name(candidate.path) in stems:
                rows.append(row)
        return rows
