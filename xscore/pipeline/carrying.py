"""Decide what a follow-up judges under its new wording, and what it carries over from earlier turns
of its thread.

The likely part is judged again: what the turn before kept and nearly kept, the memories linked to
those, and those that fit the new words best. A text that the thread has never judged is always
judged, so edits need no rule of their own. All others keep the thread's newest judgment, which is
never stored as one of the new wording. Trade-off: a memory that only the new wording makes
relevant, without sharing words or a link with it, keeps its old score (see `--fresh`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from math import ceil

from msgspec.structs import replace

from xscore.cache.keys import judge_key
from xscore.pipeline.pool import Pool, ThreadPlan, known_judgments, stored_reasons
from xscore.pipeline.turn_stages import Judged
from xscore.platform.text import counted, join_sentences
from xscore.records.judgment import (
    JudgeIdentity,
    Judgment,
    Origin,
    Outcome,
    Unjudged,
    UnjudgedCause,
)
from xscore.records.receipt import CarriedFrom, CarriedOver
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.store.store import Store
from xscore.store.turns import Wording, shown_in_turn, wordings_of_thread

JUDGED_AGAIN = 0.19
"""Share of the pool that a follow-up judges again, in addition to what was kept and nearly
kept."""
LIKELIEST_SHARE = 0.1
"""Share of the pool that comes before linked memories, by words and earlier scores."""
EARLIER_SCORE_WEIGHT = 0.3
"""Weight of a memory's earlier score relative to its lexical prior (decision 0030)."""
MOST_STRONG = 500
"""Most memories that are judged again because an earlier wording scored them near the threshold or
above."""
MOST_LINKED = 0.05
"""Most of the pool that is judged again because it is linked to what was kept and nearly kept."""
WORTH_IT = 0.5
"""Largest share of what is missing that a follow-up judges in part; if it would judge more, it
judges all."""
LEFT_BY = {
    UnjudgedCause.BUDGET: "a cap was reached",
    UnjudgedCause.DEADLINE: "the deadline came first",
    UnjudgedCause.REPLAY: "a replay sends nothing",
}
"""Causes for which an earlier judgment is used instead: nothing was wrong with the memory or
the judge."""

FIRST_OF_ITS_THREAD = "this judge has judged none of it in this thread before"
MOSTLY_NEW = "most would have been judged again anyway"
CHEAP_ENOUGH = (
    "a full pass of a decision judge costs cents, so the likely part goes first and the rest"
    " follows"
)
LIKELY_PART = "a chat judge judges the likely part only; `--fresh` makes it judge all"


def with_thread(
    pool: Pool, store: Store, turn: Turn, *, key: str, judge: JudgeIdentity, near_from: float
) -> Pool:
    """Return the pool of a follow-up: what is to be sent, and its thread's judgments of the rest.
    Sends nothing.

    turn: completed, with its thread.
    key: its turn key.
    near_from: the lowest score that comes near a threshold.
    Raises StoreDamaged.
    """
    wordings = wordings_of_thread(
        store.connection, turn.thread, judge=judge_key(judge), other_than=key
    )
    earlier, judged_under = _earlier_judgments(store, wordings, judge_key(judge), pool)
    missing = frozenset({candidate.content_hash for candidate in pool.misses})
    if missing.isdisjoint(earlier):
        return replace(pool, thread=ThreadPlan(carry_mode="all", because=FIRST_OF_ITS_THREAD))
    priors = _priors(store, turn, pool)
    scores: dict[str, float] = {}
    for candidate in pool.candidates:
        if candidate.content_hash in earlier:
            scores[candidate.id] = earlier[candidate.content_hash].score
    shown = [*_shown_before(store, wordings), *_strong_before(scores, near_from)]
    likely = likely_memories(shown, _edges_of_each(store, shown), priors, scores)
    likely_hashes = {
        candidate.content_hash for candidate in pool.candidates if candidate.id in likely
    }
    # Sent before the rest, which can fall back on what an earlier turn of the thread judged.
    never_judged = missing - earlier.keys()
    first = missing & (likely_hashes | never_judged)
    plan = ThreadPlan(
        carry_mode="all",
        because="",
        spare={hash_: judgment for hash_, judgment in earlier.items() if hash_ in missing},
        wordings=judged_under,
        first=first,
        priors=priors,
    )
    if judge.is_decision:
        return replace(pool, thread=replace(plan, because=CHEAP_ENOUGH))
    if len(first) > WORTH_IT * len(missing):
        return replace(pool, thread=replace(plan, because=MOSTLY_NEW))
    return _judged_in_part(pool, plan)


def _judged_in_part(pool: Pool, plan: ThreadPlan) -> Pool:
    """Return the pool of which only the likely part is sent; the rest keeps its judgments."""
    carried: dict[str, Judgment] = {}
    spare: dict[str, Judgment] = {}
    for hash_, judgment in plan.spare.items():
        # What is sent again keeps its earlier judgment in case a cap comes first.
        kept_in = spare if hash_ in plan.first else carried
        kept_in[hash_] = judgment
    misses = tuple([miss for miss in pool.misses if miss.content_hash in plan.first])
    plan = replace(plan, carry_mode="part", because=LIKELY_PART, carried=carried, spare=spare)
    return replace(pool, misses=misses, thread=plan)


def _edges_of_each(store: Store, ids: Sequence[str]) -> "Counter[str]":
    """Count the edges between these memories and each memory at their ends."""
    edges_of = Counter[str]()
    for edge in store.edges_touching(ids):
        edges_of[edge.source] += 1
        edges_of[edge.target] += 1
    return edges_of


def _earlier_judgments(
    store: Store, wordings: Sequence[Wording], judge: str, pool: Pool
) -> tuple[dict[str, Judgment], dict[str, Wording]]:
    """Return the thread's newest judgment of each candidate, and the wording that it was given
    under.

    Candidates that this wording has judged are among them: a turn that is continued ranks as it did
    at first.
    """
    open_hashes = {candidate.content_hash for candidate in pool.candidates}
    earlier: dict[str, Judgment] = {}
    judged_under: dict[str, Wording] = {}
    for wording in wordings:
        if not open_hashes:
            break
        for hash_, judgment in known_judgments(store, wording.key, judge).items():
            if hash_ in open_hashes:
                open_hashes.remove(hash_)
                earlier[hash_] = judgment
                judged_under[hash_] = wording
    return earlier, judged_under


def _priors(store: Store, turn: Turn, pool: Pool) -> Mapping[str, float]:
    return lexical_priors(turn, pool.candidates, store.term_vectors, purposes=store.purposes)


def _strong_before(scores: Mapping[str, float], near_from: float) -> list[str]:
    """Return the ids of the best that reached `near_from`.

    They come in addition to what the latest receipt shows, which may be missing after a kill,
    or be of a narrower scope.
    """
    strong = [id_ for id_, score in scores.items() if score >= near_from]
    return sorted(strong, key=lambda id_: -scores[id_])[:MOST_STRONG]


def _shown_before(store: Store, wordings: Sequence[Wording]) -> Sequence[str]:
    """Return what the latest turn that has a receipt kept and nearly kept, by memory id."""
    receipts = (shown_in_turn(store.connection, wording.turn_id) for wording in wordings)
    return next(filter(None, receipts), [])


def likely_memories(
    shown: Sequence[str],
    ties: "Counter[str]",
    priors: Mapping[str, float],
    scores: Mapping[str, float],
) -> AbstractSet[str]:
    """Return the ids of memories likely to be relevant under the new wording: a fifth of the pool,
    and all of `shown`.

    shown: ids that the turn before kept and nearly kept.
    ties: number of edges between those and each memory.
    priors: lexical score of each memory of the pool.
    scores: earlier judgments, 0..1 by memory id.
    """
    in_pool = len(priors)
    shown = list(dict.fromkeys(id_ for id_ in shown if id_ in priors))
    promise: dict[str, float] = {}
    for id_, prior in priors.items():
        hope = prior + EARLIER_SCORE_WEIGHT * scores.get(id_, 0.0)
        if hope:
            promise[id_] = hope
    fitting = sorted(promise, key=promise.__getitem__, reverse=True)
    likeliest = ceil(LIKELIEST_SHARE * in_pool)
    linked = [id_ for id_, _ in ties.most_common() if id_ in priors]
    linked = linked[: ceil(MOST_LINKED * in_pool)]
    in_order = dict.fromkeys([*shown, *fitting[:likeliest], *linked, *fitting[likeliest:]])
    judged_again = max(len(shown), ceil(JUDGED_AGAIN * in_pool))
    return set(islice(in_order, judged_again))


def with_earlier(judged: Judged, turn: Turn) -> Judged:
    """Use earlier judgments for what a cap or the deadline left unjudged, and warn about it."""
    if judged.pool.thread:
        spare = judged.pool.thread.spare
    else:
        spare = {}
    outcomes: list[Outcome] = []
    unreached_causes: list[UnjudgedCause] = []
    for outcome in judged.outcomes:
        absent = outcome.result
        earlier = spare.get(outcome.candidate.content_hash)
        if earlier and isinstance(absent, Unjudged) and absent.cause in LEFT_BY:
            unreached_causes.append(absent.cause)
            outcomes.append(Outcome(outcome.candidate, earlier, Origin.CARRIED))
        else:
            outcomes.append(outcome)
    warnings = list(judged.warnings)
    for cause, number in Counter(unreached_causes).items():
        memories_keep = counted(number, "memory keeps", "memories keep")
        warning = f"{LEFT_BY[cause]}: {memories_keep} the judgment of an earlier wording"
        warnings.append(join_sentences(warning, f"`xscore continue {turn.id}` judges them."))
    return replace(
        judged,
        outcomes=tuple(outcomes),
        unreached_causes=tuple(unreached_causes),
        warnings=tuple(warnings),
    )


def carried_over(
    pool: Pool, outcomes: Sequence[Outcome], turn: Turn, *, left_unjudged: int
) -> CarriedOver:
    """Count what was carried over, by the turn that judged it. turn: `continues` names the one it
    finishes, if any."""
    own_wording = Wording(turn.continues, "", turn.task)
    memories_of = Counter[Wording]()
    for outcome in outcomes:
        if outcome.origin is Origin.CARRIED:
            memories_of[pool.wording_of(outcome) or own_wording] += 1
    under = [
        CarriedFrom(turn_id=wording.turn_id, task=wording.task, memories=count)
        for wording, count in memories_of.most_common()
    ]
    carry_mode = because = ""
    if pool.thread:
        carry_mode = pool.thread.carry_mode
        because = pool.thread.because
    return CarriedOver(way=carry_mode, because=because, left=left_unjudged, under=tuple(under))


def carried_reasons(
    pool: Pool, store: Store, judge: str, hashes: Sequence[str]
) -> dict[str, str]:
    """Return the reasons that came with carried judgments, by content hash."""
    reasons = dict[str, str]()
    plan = pool.thread
    by_key: dict[str, list[str]] = {}
    for hash_ in hashes:
        if plan and hash_ in plan.wordings and hash_ not in pool.known:
            by_key.setdefault(plan.wordings[hash_].key, []).append(hash_)
    for key, carried_hashes in by_key.items():
        reasons |= stored_reasons(store, key, [judge], carried_hashes)
    return reasons
