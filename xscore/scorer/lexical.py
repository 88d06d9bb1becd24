"""The judge without a model: scores every memory by the words it shares with the task, in
milliseconds.

score = e³ / (e³ + h³): e is the evidence of `bm25`, h grows with how much the task asks and with
the share of its words that the pool has never seen. Names in the task (`mentions`) and an
embedder's cosines count too. Scores depend on the whole pool and are never stored. Trade-off: it
knows words, not meaning.
"""

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from typing import ClassVar, Final

from xscore.records.judgment import (
    JudgeIdentity,
    Judgment,
    Unjudged,
    UnjudgedCause,
    lexical_identity,
)
from xscore.records.memory import BLOCK_NAME, Candidate, Kind, TermColumn
from xscore.records.turn import Turn
from xscore.scorer.bm25 import (
    FIRST_LINE,
    KIND_WEIGHTS,
    LexicalEvidence,
    WeighedTerm,
    weigh_candidates,
    weighs_tests_less,
)
from xscore.scorer.mentions import (
    Mentions,
    NamedInTask,
    find_mentions,
    find_named,
    is_question,
    without_frames,
)
from xscore.store.term_vectors import (
    FILE,
    FOLDER,
    NAME,
    OWNER,
    TERM_EMBEDDER,
    WHOLE_NAME,
    QueryTerm,
    query_terms,
    split_word,
)

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, as in its source."""
LIFT = 0.5
"""Most that likeness alone can score with the lexical judge. Set by hand; 0.3 and 0.7 measured the
same."""
LIFT_FROM = 0.35
"""Cosine from which likeness counts. Set by hand: the 99th percentile of questions and functions
was 0.45."""


def fuse_ranks(priors: Mapping[str, float], likeness: Mapping[str, float]) -> dict[str, float]:
    """Combine both orders into priors 0..1; without likeness, words alone decide."""
    if not likeness:
        return dict(priors)
    prior_of_matching = {memory: prior for memory, prior in priors.items() if prior > 0}
    by_words = _ranks(prior_of_matching)
    by_meaning = _ranks({memory: likeness[memory] for memory in priors if memory in likeness})
    best_possible = 2 / (RANK_CONSTANT + 1)
    fused: dict[str, float] = {}
    for memory in priors:
        fused[memory] = (_share(by_words, memory) + _share(by_meaning, memory)) / best_possible
    return fused


def lift_by_likeness(score: float, cosine: float) -> float:
    """Return a lexical score with likeness as evidence of its own, independent of the words."""
    strength = min(1.0, max(0.0, (cosine - LIFT_FROM) / (1 - LIFT_FROM)))
    return 1 - (1 - score) * (1 - LIFT * strength)


def _share(ranks: Mapping[str, int], memory: str) -> float:
    if memory not in ranks:
        return 0.0
    return 1 / (RANK_CONSTANT + ranks[memory])


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Return the rank of each from 1; equals share one."""
    ranks: dict[str, int] = {}
    best_first = sorted(scores.items(), key=lambda pair: -pair[1])
    last, rank = None, 0
    for place, (memory, score) in enumerate(best_first, start=1):
        if score != last:
            last, rank = score, place
        ranks[memory] = rank
    return ranks


TermVectors = Callable[[], Iterable[tuple[str, bytes]] | TermColumn]
"""Loads (memory id, term vector) pairs, as `store.vectors(TERM_EMBEDDER)` does; or those that were
read with a pool."""

TestsOf = Callable[[Iterable[str]], Iterable[str]]
"""Returns the ids of the tests of these memories."""

LEXICAL_IDENTITY: Final = lexical_identity(TERM_EMBEDDER)

REST = 0.7
"""Weight of a word in the rest of the task, or in the error text without its frames."""
GENERIC_FOLDERS = frozenset({"src", "lib", "packages", "crates", "apps", "pkg", "source", "python"})
"""Folders that hold a repository's package, and do not name it."""
MOST_TERMS = 400
"""Terms read of one task; more of a pasted log adds nothing."""

_FRAME = re.compile(
    r"(\bhow\b[^.?!\n]*?)(?<!\bthe)\s+work(?:s|ed|ing)?"
    r"(?=\s*(?:[.?!,;:]|$)|\s+(?:when|if|in|inside|on|for|with|under)\b)",
    re.I | re.M,
)
"""`how does X work?`: the verb belongs to the question, not to what it is about."""
_FLAG = re.compile(r"(?<![\w-])--\w+(?:-\w+)+")
"""An option of several words: `--no-ignore` is `no_ignore` in code."""

STEEPNESS = 3.0
HALF = 0.68
"""Scale of h; set so that the default threshold stands at 0.5."""
HALF_BY_ASKED = 0.3
"""h is the idf of all the task's words to this power, times that of a rare word to the rest: small
pools, whose idf is small, are measured like large ones."""
HALF_BY_STRANGE = 0.5
"""h grows by e to the power of this times the square of the share of the task that the pool has
never seen: one verb that the code lacks takes little, a question about something else nearly
all."""

STALE = 0.75
"""Share of its score that a stale memory keeps: about one band of the rubric less, so that
certainty passes still."""
REASON_WORDS = 6


class LexicalJudge:
    """Scores memories by shared words. Every output says that no model judged."""

    judged_elsewhere: frozenset[str] = frozenset()
    usd_shares: ClassVar[Mapping[str, Decimal | None]] = {}

    def __init__(
        self,
        vectors: TermVectors,
        *,
        reasons_from: float = 0.3,
        likeness: Mapping[str, float] | None = None,
        identity: JudgeIdentity = LEXICAL_IDENTITY,
        remarks: tuple[str, ...] = (),
        stale: frozenset[str] = frozenset(),
        tests_of: TestsOf | None = None,
    ) -> None:
        """Take what is known of the memories beside their words.

        likeness: cosine with the task by memory id, of an embedder that the identity names; None:
            words alone.
        stale: ids of memories whose cited code has changed.
        tests_of: finds the tests of named memories; None: tests are known by the names of their
            files alone.
        """
        self.identity = identity
        self._vectors = vectors
        self._reasons_from = reasons_from
        self._likeness = likeness or {}
        self._remarks = remarks
        self._stale = stale
        self._tests_of = tests_of

    async def judge(
        self, turn: Turn, candidates: Sequence[Candidate]
    ) -> AsyncIterator[Judgment | Unjudged]:
        """Yield one judgment for each candidate, best first; a reason from `reasons_from` up."""
        for judgment in self.judgments(turn, candidates):
            yield judgment

    def warnings(self) -> tuple[str, ...]:
        """Say what there was to say before it began: it has no replies."""
        return self._remarks

    def stop(self, cause: UnjudgedCause) -> None:
        """Do nothing: it has finished before anyone can ask."""

    def judgments(self, turn: Turn, candidates: Sequence[Candidate]) -> Iterator[Judgment]:
        """Return the same without a loop of events.

        A content hash that several candidates share is judged once.
        """
        judgments = self.judge_all(turn, candidates)
        judgments.sort(key=lambda judgment: -judgment.score)
        seen: set[str] = set()
        for judgment in judgments:
            if judgment.content_hash not in seen:
                seen.add(judgment.content_hash)
                yield judgment

    def judge_all(self, turn: Turn, candidates: Sequence[Candidate]) -> list[Judgment]:
        """Return one judgment for each candidate, in their order."""
        scored = _ScoredPool(
            turn,
            candidates,
            self._vectors,
            likeness=self._likeness,
            stale=self._stale,
            tests_of=self._tests_of,
        )
        reasons = scored.reasons(self._reasons_from)
        reason_of_row = [""] * len(candidates)
        for row, reason in reasons.items():
            reason_of_row[row] = reason
        hashes = [candidate.content_hash for candidate in candidates]
        scores = scored.scores
        # Made by `zip`: a loop takes three times as long, and every prompt waits for each memory of
        # the pool. The score is its own prior.
        rows = zip(hashes, scores, reason_of_row, repeat(""), repeat(0), scores, repeat(()))
        return Judgment.from_rows(list(rows))


def lexical_priors(
    turn: Turn, candidates: Sequence[Candidate], vectors: TermVectors
) -> dict[str, float]:
    """Return the lexical score of each candidate by id, 0..1: the order in which a model judge
    reads its packs."""
    scored = _ScoredPool(turn, candidates, vectors)
    ids = [candidate.id for candidate in candidates]
    return dict(zip(ids, scored.scores, strict=True))


class _ScoredPool:
    """A pool scored against one turn."""

    def __init__(
        self,
        turn: Turn,
        candidates: Sequence[Candidate],
        vectors: TermVectors,
        *,
        likeness: Mapping[str, float] | None = None,
        stale: frozenset[str] = frozenset(),
        tests_of: TestsOf | None = None,
    ) -> None:
        self.candidates = candidates
        self.stale = stale
        self.likeness = likeness or {}
        self.terms = _terms(turn, own_name=_own_name(candidates))
        mentions = find_mentions(turn.task, turn.errors)
        asks = is_question(turn.task)
        loaded = vectors()
        column = loaded if isinstance(loaded, TermColumn) else TermColumn.of_pairs(loaded)
        self.evidence = weigh_candidates(candidates, column, self.terms, is_question=asks)
        self.named: Mapping[str, NamedInTask] = {}
        if mentions != Mentions():
            defining = self._defining(mentions.names)
            self.named = find_named(mentions, candidates, defining=defining)
        if self.named:
            # A task that names what it is about is about its tests too.
            for row in self._tests_of_named(tests_of):
                if row in self.evidence.amounts:
                    self.evidence.amounts[row] /= KIND_WEIGHTS[Kind.TEST][0]
        self.scores = _scores(self.evidence, candidates, self.named)
        self.remarks_of_facts: dict[int, str] = {}
        self._score_facts(turn.task, column)
        if self.likeness:
            for row, score in enumerate(self.scores):
                self.scores[row] = lift_by_likeness(score, self._cosine(row))
        if stale:
            for row, candidate in enumerate(candidates):
                if candidate.id in stale:
                    self.scores[row] *= STALE

    def _score_facts(self, task: str, column: TermColumn) -> None:
        """Score what was stated in a sentence by evidence of its own."""
        rows = [row for row, candidate in enumerate(self.candidates) if candidate.is_fact]
        if not rows:
            return
        # Only for a pool with facts.
        from xscore.scorer.facts import score_facts

        facts = score_facts(
            task, self.candidates, rows, column, terms=self.terms, hits=self.evidence.hits
        )
        for row, fact in facts.items():
            self.scores[row] = fact.score
            if fact.remark:
                self.remarks_of_facts[row] = fact.remark

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
        # Only for a task that names a memory, and does not speak of tests.
        from xscore.store.written_rows import tested_name

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

    def _cosine(self, row: int) -> float:
        return self.likeness.get(self.candidates[row].id, 0.0)

    def reasons(self, least: float) -> dict[int, str]:
        """Return why each memory from this score up has it, by row."""
        reasons: dict[int, str] = {}
        for row, score in enumerate(self.scores):
            if score >= least and self._has_reason(row):
                reasons[row] = self.reason(row)
        return reasons

    def _has_reason(self, row: int) -> bool:
        # Most memories share no word with the task.
        return self.scores[row] > 0 or self.candidates[row].id in self.stale

    def reason(self, row: int) -> str:
        """Say in words which evidence made the score."""
        fields: dict[str, list[QueryTerm]] = {}
        for hit in self._hits.get(row, ()):
            term = self.terms[self.evidence.hits.term[hit]].term
            fields.setdefault(_field(self.evidence.hits.fields[hit]), []).append(term)
        candidate = self.candidates[row]
        reasons: list[str] = []
        if candidate.id in self.stale:
            reasons.append("stale, what it cites has changed")
        if candidate.id in self.named:
            reasons += self.named[candidate.id].words[:2]
        for field in _FIELD_ORDER:
            if field in fields:
                words = _words_of(fields[field])[:REASON_WORDS]
                reasons.append(f"{field} {', '.join(words)}")
        if row in self.remarks_of_facts:
            reasons.append(self.remarks_of_facts[row])
        cosine = self._cosine(row)
        if lift_by_likeness(0.0, cosine) > 0:
            reasons.append(f"likeness {cosine:.2f}")
        if self.evidence.held < self.evidence.needed and not candidate.is_fact:
            reasons.append(why_less(self.evidence.held, self.evidence.needed))
        return "; ".join(reasons)

    @cached_property
    def _hits(self) -> dict[int, list[int]]:
        hits_of_row: dict[int, list[int]] = {}
        for hit, row in enumerate(self.evidence.hits.row):
            hits_of_row.setdefault(row, []).append(hit)
        return hits_of_row


def why_less(held: float, needed: float) -> str:
    """Say how much of a question the best memories hold, and how much would do."""
    # Rounded apart: the same figure twice would explain nothing.
    held_percent = math.floor(100 * held)
    needed_percent = math.ceil(round(100 * needed, 6))
    return f"scores less: the best hold {held_percent}% of what is asked, not {needed_percent}%"


def _words_of(terms: Sequence[QueryTerm]) -> list[str]:
    """Return terms as words of the task, each once.

    `JavaScript` is not also `java` and `script`, nor do `make` and `requests` stand again as `make
    requests`.
    """
    single = {term.word for term in terms if not term.joined}
    compounds = [term.word for term in terms if term.share == 1.0]
    words = []
    for term in terms:
        # A share below 1: the task has it only as a part of a compound.
        is_part = term.share < 1.0 and any(term.word in compound for compound in compounds)
        is_repeated = term.joined and single.issuperset(term.word.split())
        if not (is_part or is_repeated):
            words.append(term.word)
    return words


_FIELD_ORDER = ("name matches", "class or module name matches", "path matches", "text has")


def _field(marks: int) -> str:
    if marks & NAME:
        return "name matches"
    if marks & OWNER:
        return "class or module name matches"
    if marks & (FILE | FOLDER):
        return "path matches"
    return "text has"


def _terms(turn: Turn, *, own_name: Set[int]) -> list[WeighedTerm]:
    """Return the task's terms by weight. own_name: hashes of the repository's own name."""
    task = _FRAME.sub(r"\1", turn.task.strip())
    task = _FLAG.sub(lambda flag: flag[0][2:].replace("-", "_"), task)
    first = {term.hash for term in query_terms(task.partition("\n")[0])}
    terms = query_terms(without_frames(f"{task}\n{turn.errors}"))[:MOST_TERMS]
    # Its own name stands everywhere in a repository; a task of nothing else still has to find
    # something.
    telling = [term for term in terms if term.hash not in own_name] or terms
    return [WeighedTerm(term, FIRST_LINE if term.hash in first else REST) for term in telling]


def _own_name(candidates: Sequence[Candidate]) -> Set[int]:
    """Return the terms of the repository's own name.

    It is the README's title where that is one word, or the word of it that names a package's
    folder.
    """
    paths = {candidate.path for candidate in candidates}  # of many memories few are different
    readmes = {path for path in paths if path[:6].upper() == "README"}
    if not readmes:
        return frozenset()
    titles: set[str] = set()
    for candidate in candidates:
        if candidate.path in readmes:
            titles.add(candidate.entity.partition(" > ")[0])
    folders = set[str]()
    for path in paths:
        folder, _, rest = path.partition("/")
        if folder in GENERIC_FOLDERS:
            folder = rest.partition("/")[0]
        folders.add(folder.lower())
    hashes = set[int]()
    for title in titles:
        words = re.findall(r"\w+", title)
        if len(words) > 1:
            words = [word for word in words if word.lower() in folders]
        for word in words:
            hashes.update(term for _, term in split_word(word))
    return hashes


def _scores(
    evidence: LexicalEvidence, candidates: Sequence[Candidate], named: Mapping[str, NamedInTask]
) -> list[float]:
    rare_idf = math.log1p(evidence.pool)
    half = HALF * evidence.asked**HALF_BY_ASKED * rare_idf ** (1 - HALF_BY_ASKED)
    half *= math.exp(HALF_BY_STRANGE * evidence.strange**2)
    half_cubed = max(half, 1e-9) ** STEEPNESS
    scores = [0.0] * len(candidates)
    for row, amount in evidence.amounts.items():
        cubed = amount**STEEPNESS
        scores[row] = cubed / (cubed + half_cubed)
    if named:
        for row, candidate in enumerate(candidates):
            if candidate.id in named:
                scores[row] = 1 - (1 - scores[row]) * (1 - named[candidate.id].strength)
    return scores
