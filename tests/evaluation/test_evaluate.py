"""Evaluation: a judge put to questions, its figures summed up."""

from collections.abc import AsyncIterator, Sequence

from xscore.evaluation.evaluate import evaluate
from xscore.evaluation.metrics import Place
from xscore.evaluation.qrels import Case
from xscore.memory.likeness.terms import term_vector
from xscore.records import Candidate, Cause, JudgeIdentity, Judgment, Kind, Layer, Turn, Unjudged
from xscore.scorer.lexical import IDENTITY, LexicalJudge

TEXTS = {
    "commit_judgments": "write every judgment to the cache",
    "render_table": "draw rows and columns with borders",
    "parse_reply": "read the scores of a reply",
}
POOL = tuple(
    Candidate(name, name, Layer.GRAPH, Kind.FUNCTION, f"{name}.py", name, 1, 9, "python", 9, 0.0) for name in TEXTS
)
VECTORS = [(name, term_vector(text, path=f"{name}.py", entity=name)) for name, text in TEXTS.items()]
CASES = (
    Case("cache", "where are judgments written to the cache?", (Place("commit_judgments.py", "commit_judgments"),)),
    Case("table", "borders around the rows of a table", (Place("render_table.py", "render_table", 1, 9),)),
)


class _Silent:
    """A judge that never answers."""

    identity: JudgeIdentity = IDENTITY
    is_model = False
    elsewhere: frozenset[str] = frozenset()

    async def judge(self, turn: Turn, candidates: Sequence[Candidate]) -> AsyncIterator[Judgment | Unjudged]:
        for candidate in candidates:
            yield Unjudged(candidate.content_hash, Cause.PROVIDER)

    def remarks(self) -> tuple[str, ...]:
        """Say nothing."""
        return ()

    def stop(self, cause: Cause) -> None: ...


async def test_a_judge_that_is_right_scores_1() -> None:
    """Gold first and nothing else kept: every figure is full."""
    report = await evaluate(LexicalJudge(lambda: VECTORS), POOL, CASES, threshold=0.5)
    assert (report.recall, report.mrr, report.ndcg, report.hit) == (1, 1, 1, 1)
    assert (report.kept, report.empty, report.gold_kept, report.kept_precision) == (1, 0, 1, 1)
    assert [case.id for case in report.cases] == ["cache", "table"]


async def test_unjudged_candidates_are_counted_and_found_nowhere() -> None:
    """A judge that answers nothing keeps nothing, and the report says how many it left out (X06)."""
    report = await evaluate(_Silent(), POOL, CASES, threshold=0.5)
    assert report.unjudged == len(POOL) * len(CASES)
    assert (report.recall, report.mrr, report.kept, report.empty, report.kept_precision) == (0, 0, 0, 1, 0)


async def test_the_threshold_is_inclusive_and_k_is_a_cap() -> None:
    """At threshold 0 everything is kept, but never more than k."""
    report = await evaluate(LexicalJudge(lambda: VECTORS), POOL, CASES, threshold=0.0, k=2)
    assert report.kept == 2
