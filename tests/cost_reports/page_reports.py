"""Hand-made reports for tests of the page: empty, one turn, a thousand, and hostile text."""

import random
from collections.abc import Sequence
from decimal import Decimal

from msgspec.structs import replace

from xscore.cost_reports.records import (
    Accuracy,
    Comparison,
    CostReport,
    Group,
    ScoreHistogram,
    Spent,
    Timing,
    TurnDetail,
    TurnLine,
)
from xscore.records.calls import CounterfactualCost, Usage
from xscore.records.judgment import Boost
from xscore.records.receipt import NOTHING_JUDGED, Coverage, Expected, Latency, Selected
from xscore.records.reports import EvaluationLine

NOON = 1_795_348_800.0
"""22 November 2026, 12:00 UTC."""
MODELS = (
    "openai:gpt-5-nano",
    "anthropic:claude-haiku-4-5",
    "openai:gpt-5",
    "openai:text-embedding-3-small",
)
SCORES = (
    48_210,
    21_005,
    9_811,
    5_020,
    3_012,
    2_007,
    1_290,
    801,
    640,
    410,
    355,
    290,
    255,
    210,
    190,
    170,
    140,
    90,
    61,
    17,
)
SPOKEN = (
    "the limiter waits for what a host says in its headers before it sends another call so a retry"
    " never lands inside the pause and the budget holds across processes that share one store on"
    " this machine"
)
PATHS = ("xscore/providers/limits.py", "xscore/costs/reservation.py", "docs/providers.md")
ENTITIES = ("TokenBucket.acquire", "Budget.reserve", "Limits > Stated by the host")
TASKS = (
    "why does the retry ignore Retry-After when the host answers 429 twice in a row?",
    "add a cap of dollars a day that all processes of a repository share",
    "the page of a report is empty on a telephone",
)
NASTY = (
    "<script>window.ran = 1</script>",
    "</script><img src=x onerror=alert(1)>",
    "</style><svg onload=alert(1)>",
    "\"'><a href=javascript:alert(1)>x</a>",
    '<td data-v="9">9</td><tr><th>',
    "]]> --> &lt;b&gt; &amp; {title} {0}",
    "\u202egnp.exe\u2066 \x00\x1b[2J\x9b \ud800",
    "w" * 5_000,
)

GUESS = Expected(
    calls=900, input_tokens=5_100_000, output_tokens=160_000, cost_usd=Decimal("2.51")
)
REAL = Expected(
    calls=931, input_tokens=4_890_000, output_tokens=171_000, cost_usd=Decimal("2.437")
)
EVALUATION = EvaluationLine(
    id="v_1",
    at=NOON - 4_000,
    questions="9f8e7d6c5b4a",
    judge=MODELS[0],
    cases=40,
    k=15,
    recall=0.93,
    precision=0.41,
    hit=0.98,
    reciprocal_rank=0.81,
    ndcg=0.86,
    candidates=41_000,
    unjudged=3,
)


def empty() -> CostReport:
    """Return the report of an empty ledger."""
    return CostReport(
        made_at=NOON,
        repositories=("shop",),
        since=None,
        until=None,
        turn_id="",
        turns_by_state={},
        turns_cached=0,
        coverage=NOTHING_JUDGED,
        unjudged_by_cause={},
        kept=0,
        near=0,
        scores=(0,) * 20,
        threshold=0.7,
        spent=Spent(),
        comparison=Comparison(
            actual_usd=Decimal(0),
            without_cache_usd=None,
            without_packs_usd=None,
            without_prefix_cache_usd=None,
            by_batch_usd=None,
        ),
        by_model=(),
        by="",
        groups=(),
        timings=(),
        accuracy=None,
        evaluations=(),
        turns=(),
    )


def report_of(turns: int, details: int = 50, seed: int = 5) -> CostReport:
    """Return a realistic, deterministic report of N turns over two weeks."""
    dice = random.Random(seed)
    lines = tuple(_turn(dice, index, turns) for index in range(turns))[::-1]
    chosen = tuple(
        TurnDetail(
            turn_id=line.id,
            selected=tuple(_memory(dice, 0.98 - 0.018 * place) for place in range(15)),
            near_misses=tuple(_memory(dice, 0.69 - 0.01 * place) for place in range(10)),
        )
        for line in lines[:details]
    )
    return with_turns(lines, chosen)


def with_turns(lines: Sequence[TurnLine], details: Sequence[TurnDetail] = ()) -> CostReport:
    """Return the report of these turns, newest first."""
    spent = _spent_on(lines)
    turns_of_ask = Group(
        name="ask",
        turns=len(lines),
        spent=spent,
        coverage=_coverage_of(lines),
        kept=15 * len(lines),
    )
    return replace(
        empty(),
        since=NOON - 14 * 86_400,
        turns_by_state={"done": max(len(lines) - 2, 0), "partial": 1, "failed": 1},
        turns_cached=len(lines) // 5,
        coverage=turns_of_ask.coverage,
        unjudged_by_cause={"budget": 31, "deadline": 12, "too_long": 2},
        kept=turns_of_ask.kept,
        near=4 * len(lines),
        scores=SCORES,
        histograms=(
            ScoreHistogram(judge=MODELS[0], turns=len(lines), scores=SCORES, threshold=0.7),
            ScoreHistogram(judge="lexical", turns=2, scores=SCORES[::-1], threshold=0.5),
        ),
        spent=spent,
        comparison=_compared(spent.cost_usd),
        by_model=tuple(
            Group(
                name=name,
                turns=len(lines),
                spent=replace(spent, calls=900 // at, cost_usd=spent.cost_usd / (at + 1)),
            )
            for at, name in enumerate(MODELS, start=1)
        ),
        by="command",
        groups=(turns_of_ask,),
        timings=timings(),
        accuracy=Accuracy(turns=max(len(lines) - 3, 1), expected=GUESS, actual=REAL),
        evaluations=(EVALUATION,),
        turns=tuple(lines),
        details=tuple(details),
        warnings=("2 rows of the ledger are damaged and left out: `xscore doctor`",),
    )


def _spent_on(lines: Sequence[TurnLine]) -> Spent:
    """Add up what turns took, of which some calls have no price or an estimated one."""
    total_usd = sum((line.spent.cost_usd for line in lines), Decimal(0))
    return Spent(
        calls=sum(line.spent.calls for line in lines),
        attempts=sum(line.spent.attempts for line in lines),
        rate_limited=sum(line.spent.rate_limited for line in lines),
        failed=sum(line.spent.failed for line in lines),
        usage=sum((line.spent.usage for line in lines), Usage()),
        cost_usd=total_usd,
        unpriced=2,
        estimated=7,
        otherwise=CounterfactualCost(
            without_prefix_cache=total_usd * 2,
            without_packs=total_usd * 4,
            by_batch=total_usd / 2,
        ),
    )


def _compared(total_usd: Decimal) -> Comparison:
    return Comparison(
        actual_usd=total_usd,
        without_cache_usd=total_usd * Decimal("2.7"),
        without_packs_usd=total_usd * 4,
        without_prefix_cache_usd=total_usd * 2,
        by_batch_usd=None,
    )


def _coverage_of(lines: Sequence[TurnLine]) -> Coverage:
    coverages = [line.coverage for line in lines if line.coverage]
    return Coverage(
        candidates=sum(of_turn.candidates for of_turn in coverages),
        judged=sum(of_turn.judged for of_turn in coverages),
        cached=sum(of_turn.cached for of_turn in coverages),
        carried=sum(of_turn.carried for of_turn in coverages),
        unjudged=sum(of_turn.unjudged for of_turn in coverages),
    )


def hostile(*texts: str) -> CostReport:
    """Return a report with these texts in every field that others can write."""
    first, second, third = (texts * 3)[:3]
    base = report_of(2, 0)
    lines = tuple(
        replace(
            line, task=first, repository=second, judge=third, cost_by_model={first: Decimal(1)}
        )
        for line in base.turns
    )
    chosen = memory(
        first,
        entity=second,
        path=third,
        kind=first,
        layer=second,
        title=third,
        below_threshold=True,
        is_stale=True,
        cached=True,
        boosts=(Boost(second, 0.05, third),),
    )
    details = tuple(
        TurnDetail(turn_id=line.id, selected=(chosen,), near_misses=(chosen,)) for line in lines
    )
    return replace(
        with_turns(lines, details),
        repositories=(first, second),
        warnings=(third,),
        by="repo",
        turn_id=second,
        groups=(Group(name=first, turns=1, spent=Spent(calls=1)),),
        by_model=(Group(name=third, turns=1, spent=Spent()),),
        unjudged_by_cause={first: 3},
        turns_by_state={second: 2},
        evaluations=(replace(base.evaluations[0], judge=second, questions=third),),
    )


def timings() -> tuple[Timing, ...]:
    """Return percentiles of each stage, live and cached."""
    live = {
        "index": 0.05,
        "pool": 0.03,
        "cache": 0.02,
        "judge": 6.0,
        "select": 0.004,
        "primary": 9.0,
        "total": 16.0,
    }
    cached = {
        "index": 0.04,
        "pool": 0.03,
        "cache": 0.02,
        "judge": 0.0,
        "select": 0.003,
        "total": 0.12,
    }
    rows = [("turn", stage, "live", p50) for stage, p50 in live.items()]
    rows += [("turn", stage, "cached", p50) for stage, p50 in cached.items()]
    rows += [
        ("call", "judge", "live", 1.2),
        ("call", "judge", "cached", 0.8),
        ("call", "primary", "live", 8.0),
        ("call", "probe", "live", 0.9),
    ]
    return tuple(
        Timing(
            of=of,
            stage=stage,
            kind=kind,
            count=412,
            p50_s=p50,
            p95_s=p50 * 2.1,
            p99_s=p50 * 3.4,
        )
        for of, stage, kind, p50 in rows
    )


def memory(reason: str = "it waits", **fields: object) -> Selected:
    """Return one chosen memory."""
    values: dict[str, object] = {
        "id": "m_1",
        "layer": "graph",
        "kind": "function",
        "path": PATHS[0],
        "entity": ENTITIES[0],
        "start_line": 12,
        "end_line": 40,
        "language": "python",
        "raw_score": 0.85,
        "boosts": (),
        "score": 0.9,
        "cached": False,
        "below_threshold": False,
        "threshold": 0.7,
    }
    return Selected(reason=reason, **{**values, **fields})  # type: ignore[arg-type]  # fields of the record, by name


def _turn(dice: random.Random, index: int, of: int) -> TurnLine:
    age = (of - index) / of * 14 * 86_400
    candidates = dice.randint(3_000, 3_400)
    cached = round(candidates * dice.choice((0.0, 0.9, 0.97, 1.0)))
    unjudged = dice.choice((0, 0, 0, 12)) if cached < candidates else 0
    judged = candidates - cached - unjudged
    by_model = {
        MODELS[0]: Decimal(judged) / 200_000,
        MODELS[2]: Decimal(dice.randint(9_000, 31_000)) / 1_000_000,
    }
    if index % 7 == 0:
        by_model[MODELS[1]] = Decimal("0.0123")
    limited = dice.choice((0, 0, 0, 3))
    calls = judged // 25 + 1
    usage = Usage(
        input_tokens=judged * 210 + 9_000,
        cached_input_tokens=judged * dice.randint(20, 120),
        output_tokens=judged * 9 + 500,
    )
    return TurnLine(
        id=f"t_{index:012x}",
        at=NOON - age,
        repository="shop",
        task=TASKS[index % len(TASKS)],
        command="ask",
        state="done" if not unjudged else "partial",
        judge=MODELS[0],
        coverage=Coverage(candidates, judged, cached, 0, unjudged),
        kept=15,
        near=4,
        threshold=0.7,
        spent=Spent(
            calls=calls,
            attempts=calls + limited + 1,
            rate_limited=limited,
            failed=1,
            usage=usage,
            cost_usd=sum(by_model.values(), Decimal(0)),
        ),
        cost_by_model=by_model,
        latency=Latency(judge=4.0, primary=7.0, total=dice.uniform(3, 21)),
        expected=None,
    )


def _memory(dice: random.Random, score: float) -> Selected:
    at, start = dice.randrange(len(PATHS)), dice.randint(1, 900)
    boosts = (
        Boost("dependency", 0.07, "called by TurnBudget.reserve, judged 0.93"),
        Boost("recency", 0.02, "changed 2 days ago"),
    )[: dice.choice((0, 1, 1, 2))]
    return memory(
        " ".join(dice.choices(SPOKEN.split(" "), k=15)),
        id=f"m_{dice.getrandbits(48):012x}",
        path=PATHS[at],
        entity=ENTITIES[at],
        start_line=start,
        end_line=start + 30,
        boosts=boosts,
        score=score,
        raw_score=max(score - sum(boost.amount for boost in boosts), 0.0),
        cached=dice.random() < 0.5,
        below_threshold=score < 0.7,
        is_stale=dice.random() < 0.05,
    )
