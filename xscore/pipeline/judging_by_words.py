"""Judge a pool by words alone: at once, without an event loop, resources, or anything sent.

A turn whose judge asks an embedder, or shares with a server, goes the way of a model
(`live_judging`). Trade-off: it cannot be cut short. Where the deadline has come before, nothing is
judged; Ctrl-C ends the turn without a receipt.
"""

from collections.abc import Sequence
from heapq import nlargest
from time import monotonic

from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.pool import PooledTurn
from xscore.pipeline.turn_clock import Deadline
from xscore.records.candidates import Candidate, TermColumn
from xscore.records.events import Leader, Progress
from xscore.records.judgment import (
    STOP_DETAILS,
    UNRELATED_WORDS_BELOW,
    Judgment,
    Origin,
    Outcome,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import StageUsage
from xscore.records.turn import Turn
from xscore.scorer.lexical import LexicalJudge
from xscore.store.memory_rows import stale_memory_ids


def lexical_outcomes(
    parts: PipelineParts,
    turn: Turn,
    candidates: Sequence[Candidate],
    *,
    terms: TermColumn | None = None,
    reasons_from: float = 0.0,
) -> tuple[Outcome, ...]:
    """Score candidates by their words, without a model, an embedder or the network.

    terms: the term vectors; None: read them.
    """
    judge = LexicalJudge(
        lambda: parts.store.term_vectors() if terms is None else terms,
        reasons_from=reasons_from,
        stale=stale_memory_ids(parts.store.connection),
        tests_of=parts.store.tests_of,
        links=parts.store.edges_touching,
        purposes=parts.store.purposes,
    )
    return tuple(Outcome.from_judgments(candidates, judge.judge_all(turn, candidates)))


def judge_by_words(
    parts: PipelineParts, pooled: PooledTurn, deadline: Deadline
) -> tuple[Outcome, ...]:
    """Judge the whole pool of a turn, and report it once."""
    began = monotonic()
    candidates = pooled.pool.candidates
    if not deadline.judging_left_s():
        return _too_late(candidates)
    least = parts.settings.judge.reasons_from
    outcomes = lexical_outcomes(
        parts, pooled.turn, candidates, terms=pooled.pool.terms, reasons_from=least
    )
    related = [
        (judgment.score, judgment.content_hash, candidate)
        for candidate, judgment, _ in outcomes
        if isinstance(judgment, Judgment) and judgment.score >= UNRELATED_WORDS_BELOW
    ]
    best = nlargest(parts.settings.selection.top_k, related)
    leaders = [
        Leader(candidate.path, candidate.entity or candidate.kind, score)
        for score, _, candidate in best
    ]
    spent = StageUsage()
    parts.observer.on(
        Progress(
            candidates=len(candidates),
            cached=0,
            judged=len(candidates),
            unjudged=0,
            calls=spent.calls,
            cost_usd=spent.cost_usd,
            elapsed_s=monotonic() - began,
            seconds_left=0.0,
            leaders=tuple(leaders),
            settled=outcomes,
        )
    )
    return outcomes


def _too_late(candidates: Sequence[Candidate]) -> tuple[Outcome, ...]:
    """Return outcomes that say that the deadline came first."""
    cause = UnjudgedCause.DEADLINE
    outcomes: list[Outcome] = []
    for candidate in candidates:
        absent = Unjudged(candidate.content_hash, cause, STOP_DETAILS[cause])
        outcomes.append(Outcome(candidate, absent, Origin.UNJUDGED))
    return tuple(outcomes)
