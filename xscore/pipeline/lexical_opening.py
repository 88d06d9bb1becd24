"""Opens the judge without a model: it needs no key, and its only calls are those of an embedder.

Trade-off: its scores depend on the whole pool, so none is ever stored.
"""

from typing import TYPE_CHECKING

from xscore.pipeline.judge_description import JudgeDescription, Scale
from xscore.pipeline.likeness import find_likeness
from xscore.pipeline.pool import PooledTurn
from xscore.scorer.lexical import LexicalJudge
from xscore.store.memory_rows import stale_memory_ids
from xscore.store.term_vectors import term_vector

if TYPE_CHECKING:
    from collections.abc import Callable

    from xscore.pipeline.resources import TurnResources
    from xscore.scorer.cosine_judge import CosineJudge


async def open_lexical_judge(
    judge: JudgeDescription, resources: "TurnResources", pooled: PooledTurn
) -> "LexicalJudge | CosineJudge":
    """Return the judge; it uses the resources only for the embedder's likeness scores."""
    if judge.items is not None:
        return _over_items(judge, judge.items, pooled)
    is_baseline = judge.scale is Scale.COSINE
    meaning = await find_likeness(
        pooled.turn,
        judge.settings,
        store=judge.store,
        resources=resources,
        needs_all=is_baseline,
    )
    if is_baseline:
        from xscore.scorer.cosine_judge import CosineJudge  # only in an evaluation

        return CosineJudge(meaning.cosines, identity=judge.identity, remarks=meaning.warnings)
    return LexicalJudge(
        judge.store.term_vectors,
        reasons_from=judge.settings.judge.reasons_from,
        likeness=meaning.cosines,
        identity=judge.identity,
        remarks=meaning.warnings,
        stale=stale_memory_ids(judge.store.connection),
        tests_of=judge.store.tests_of,
        links=judge.store.edges_touching,
        purposes=judge.store.purposes,
    )


def _over_items(
    judge: JudgeDescription, text_of: "Callable[[str], str]", pooled: PooledTurn
) -> LexicalJudge:
    vectors = [
        (item.id, term_vector(text_of(item.id), path="", entity=""))
        for item in pooled.pool.candidates
    ]
    return LexicalJudge(lambda: vectors, reasons_from=judge.settings.judge.reasons_from)
