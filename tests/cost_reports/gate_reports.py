"""Reports and figures made by hand, for the tests of gates."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from xscore.records import Coverage, Usage
from xscore.records.cost_report import (
    Comparison,
    CostReport,
    EvaluationLine,
    EvaluationRecall,
    GateFigures,
    Spent,
    StageP95,
    Timing,
)

USAGE = Usage(
    input_tokens=100_000, cached_input_tokens=40_000, cache_write_tokens=2_000, output_tokens=5_000, reasoning_tokens=10
)
SPENT = Spent(calls=60, attempts=61, rate_limited=1, usage=USAGE, cost_usd=Decimal("0.0213"))
COVERAGE = Coverage(1_000, 400, 590, 0, 10)
EVALUATION = EvaluationLine(
    id="v_1",
    at=1.0,
    questions="q1",
    judge="openai:gpt-6-luna",
    cases=5,
    k=15,
    recall=0.9,
    precision=0.2,
    hit=1.0,
    reciprocal_rank=0.8,
    ndcg=0.85,
    candidates=500,
    unjudged=0,
)
TIMING = Timing(of="call", stage="judge", kind="live", count=58, p50_s=0.1, p95_s=0.2, p99_s=0.3)
MEASURED = GateFigures(
    turns=4,
    coverage=COVERAGE,
    calls=60,
    attempts=61,
    usage=USAGE,
    cost_usd=Decimal("0.0213"),
    unpriced=0,
    recall=EvaluationRecall(questions="q1", judge="openai:gpt-6-luna", cases=5, k=15, recall=0.9),
    timings=(StageP95(of="call", stage="judge", kind="live", count=58, p95_s=0.2),),
)


def made(**changes: Any) -> CostReport:
    """A report whose figures are `MEASURED`, with some fields otherwise."""
    report = CostReport(
        made_at=2.0,
        repositories=("/shop",),
        since=None,
        until=None,
        turn_id="",
        turns_by_state={"done": 2, "partial": 1, "failed": 1, "running": 1},
        turns_cached=1,
        coverage=COVERAGE,
        unjudged_by_cause={"deadline": 10},
        kept=12,
        near=3,
        scores=(0,) * 20,
        threshold=0.7,
        spent=SPENT,
        comparison=Comparison(
            actual_usd=Decimal("0.0213"),
            without_cache_usd=None,
            without_packs_usd=None,
            without_prefix_cache_usd=None,
            by_batch_usd=None,
        ),
        by_model=(),
        by="",
        groups=(),
        timings=(TIMING,),
        accuracy=None,
        evaluations=(EVALUATION,),
        turns=(),
    )
    return replace(report, **changes)
