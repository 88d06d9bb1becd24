"""What a model judge is shown of the memories, in which packs, and the most promising first.

The items of a list have their texts and nothing else: no lasting packs, no order.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import pack_profile
from xscore.pipeline.likeness import Likeness, find_likeness
from xscore.pipeline.pool import Pool
from xscore.records.candidates import Candidate, Slots
from xscore.records.turn import Turn
from xscore.scorer.lexical import lexical_priors
from xscore.scorer.likeness_rank import fuse_ranks, lift_by_likeness
from xscore.scorer.packs import Pack, packs_to_send

if TYPE_CHECKING:
    from xscore.pipeline.resources import TurnResources


def judged_texts(judge: JudgeDescription, candidates: Sequence[Candidate]) -> Mapping[str, str]:
    """Load the texts that the judge is shown: candidate id -> text."""
    if judge.items is not None:
        return {candidate.id: judge.items(candidate.id) for candidate in candidates}
    return judge.store.texts(candidates, tests=judge.settings.judge.tests)


def pack_slots(judge: JudgeDescription, pool: Pool) -> Slots:
    """Return the place of every memory of the pool in a pack, and store what is new of it."""
    if judge.items is not None or judge.slots is None:
        return {}
    # What a follow-up judges is a small part of the pool: it would leave these packs nearly empty.
    if pool.thread is not None and pool.thread.carried:
        return {}
    return judge.slots.of(pool.all_candidates, pack_profile(judge), judge.store)


def packs_of(judge: JudgeDescription, pool: Pool) -> list[Pack]:
    """Return what is to be sent, in packs."""
    return packs_to_send(pool.misses, pack_slots(judge, pool), pack_profile(judge))


class JudgingPriors(Struct, frozen=True):
    """What is known about memories before a model is asked, 0..1 by memory id."""

    words: Mapping[str, float] = {}
    """The score of the judge without a model, stored with each judgment and joined to it."""
    order: Mapping[str, float] = {}
    """What the order of judging goes by."""
    warnings: tuple[str, ...] = ()


async def judging_priors(
    judge: JudgeDescription, resources: "TurnResources", turn: Turn, pool: Pool
) -> JudgingPriors:
    """Return what words and an embedder say about the memories of a pool."""
    if judge.items is not None:
        return JudgingPriors()
    # A thread has worked them out already, to tell what a follow-up judges first.
    words = pool.thread.priors if pool.thread else {}
    if not words:
        # Computed over the whole pool: the score of a memory is the same in every scope of a
        # question.
        everything = pool.all_candidates
        words = lexical_priors(
            turn, everything, judge.store.term_vectors, purposes=judge.store.purposes
        )
    meaning = await find_likeness(turn, judge.settings, store=judge.store, resources=resources)
    order = fuse_ranks(words, meaning.cosines)
    if meaning.cosines:
        words = {id_: _lifted(score, id_, meaning) for id_, score in words.items()}
    return JudgingPriors(words, order, meaning.warnings)


def _lifted(score: float, id_: str, meaning: Likeness) -> float:
    return lift_by_likeness(score, meaning.cosines.get(id_, 0.0))
