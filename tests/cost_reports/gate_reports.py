"""Hand-made reports and figures for the tests of gates."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from tests.cost_reports.page_reports import empty
from xscore.cost_reports.records import (
    CostReport,
    EvaluationRecall,
    GateFigures,
    Spent,
    StageP95,
    Timing,
)
from xscore.records.calls import Usage
from xscore.records.receipt import Coverage
from xscore.records.reports import EvaluationLine

USAGE = Usage(
    input_tokens=100_000,
    cached_input_tokens=40_000,
    cache_write_tokens=2_000,
    output_tokens=5_000,
    reasoning_tokens=10,
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
TIMING = Timing(
    of="call", stage="judge", kind="live", count=58, p50_s=0.1, p95_s=0.2, p99_s=0.3
)
MEASURED = GateFigures(
    turns=4,
    coverage=COVERAGE,
    calls=60,
    attempts=61,
    usage=USAGE,
    cost_usd=Decimal("0.0213"),
    unpriced=0,
    recall=EvaluationRecall(
        questions="q1", judge="openai:gpt-6-luna", cases=5, k=15, recall=0.9
    ),
    timings=(StageP95(of="call", stage="judge", kind="live", count=58, p95_s=0.2),),
)


def made(**changes: Any) -> CostReport:
    """A report with the figures `MEASURED`, some fields replaced."""
    states = {"done": 2, "partial": 1, "failed": 1, "running": 1}
    return replace(
        empty(),
        **{
            "turns_by_state": states,
            "coverage": COVERAGE,
            "spent": SPENT,
            "timings": (TIMING,),
            "evaluations": (EVALUATION,),
            **changes,
        },
    )
