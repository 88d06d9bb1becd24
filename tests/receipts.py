"""A plain receipt and a chosen memory; tests replace fields."""

from decimal import Decimal

from xscore.records.calls import Stage
from xscore.records.receipt import (
    Answer,
    Coverage,
    JudgeInfo,
    Latency,
    Selected,
    StageUsage,
    UnjudgedAccount,
)
from xscore.records.turn import Scope

CHOSEN = Selected(
    id="m_1",
    layer="graph",
    kind="function",
    path="a.py",
    entity="f",
    start_line=1,
    end_line=2,
    language="python",
    raw_score=0.9,
    boosts=(),
    score=0.9,
    reason="",
    cached=False,
    threshold=0.7,
    below_threshold=False,
)
ANSWER = Answer(
    turn_id="t_1",
    task="x",
    scope=Scope(),
    threshold=0.7,
    top_k=15,
    judge=JudgeInfo(
        provider="openai",
        model="m",
        host="h",
        prompt_version="1",
        order="memory_first",
        by_model=True,
        saw=("task",),
    ),
    primary=None,
    partial=False,
    warnings=(),
    coverage=Coverage(3, 1, 2, 0, 0),
    unjudged=UnjudgedAccount({}, ()),
    selected=(),
    near_misses=(),
    answer=None,
    bundle=None,
    usage={Stage.JUDGE: StageUsage(calls=1, attempts=1, cost_usd=Decimal("0.000000001"))},
    latency=Latency(total=1.5),
)
