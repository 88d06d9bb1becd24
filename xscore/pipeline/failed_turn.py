"""The receipt of a turn that ended in an error after it had called a model.

A stage that fails returns no record, so what it bought is read from the store: a judgment is
committed before the judge hands it on, and `turn.py` asks only when the turn's resources are
closed. Trade-off: what another model judged in the judge's place, in the very stage that failed,
counts as unjudged in this receipt; the next turn finds it in the store.
"""

from typing import TYPE_CHECKING

from xscore.pipeline.parts import PipelineParts, TurnOptions
from xscore.pipeline.pool import known_judgments
from xscore.pipeline.ranking import rank
from xscore.pipeline.receipt import make_receipt
from xscore.pipeline.turn_stages import Judged, PreparedTurn, StagesSoFar, TurnStages
from xscore.platform.errors import XscoreError
from xscore.records.judgment import Origin, Outcome, Unjudged, UnjudgedCause
from xscore.records.receipt import Answer, Latency
from xscore.store import turns

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources


def receipt_of_failed(
    parts: PipelineParts,
    options: TurnOptions,
    so_far: StagesSoFar,
    resources: "TurnResources",
    latency: Latency,
) -> Answer | None:
    """Return the receipt of what was done and paid for; None if the store cannot be read."""
    prepared = so_far.prepared
    try:
        judged = so_far.judged or _judged_by_store(parts, prepared)
        ranking = so_far.ranking or rank(
            parts, judged.outcomes, prepared.turn, finalists=judged.finalists
        )
        stages = TurnStages(
            prepared, judged, ranking, so_far.reasons, so_far.bundle, so_far.answered
        )
        return make_receipt(parts, options, stages, resources, latency)
    except XscoreError:
        return None


def _judged_by_store(parts: PipelineParts, prepared: PreparedTurn) -> Judged:
    """Return the outcomes that the store can account for; candidates without a stored judgment are
    unjudged. Raises StoreDamaged."""
    pool = prepared.pool
    # The first contact may have found another model under the judge's name; the turn's row says
    # under which key its judgments are kept.
    key = turns.judge_of(parts.store.connection, prepared.turn.id)
    stored = known_judgments(parts.store, prepared.key, key)
    outcomes: list[Outcome] = []
    for candidate in pool.candidates:
        hash_ = candidate.content_hash
        if hash_ in stored:
            origin = Origin.CACHED if hash_ in pool.known else Origin.JUDGED
            outcomes.append(Outcome(candidate, stored[hash_], origin))
        else:
            absent = Unjudged(
                hash_, UnjudgedCause.PROVIDER, "the turn ended before it was judged"
            )
            outcomes.append(Outcome(candidate, absent, Origin.UNJUDGED))
    return Judged(outcomes=tuple(outcomes), pool=pool, judge=parts.judge.identity)
