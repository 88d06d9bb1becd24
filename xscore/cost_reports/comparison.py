"""What the same work would have cost in other ways, and how close the estimates of judging came.

The costs without packs, without the host's prefix cache and by batch are sums of what was noted with each call when it
was priced. The cost without our own cache is approximate: a cached judgment counts as much as a live one by the same
judge has cost on average, in the period, else in the whole ledger. What cannot be known is None, never zero.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from msgspec.structs import replace

from xscore.cost_reports.records import Accuracy, Comparison, Spent
from xscore.cost_reports.tables import LedgerTurn, sum_coverage
from xscore.platform import money
from xscore.records.calls import CounterfactualCost, Stage
from xscore.records.receipt import NOTHING_EXPECTED, Expected
from xscore.store.call_rows import MOST_PICODOLLARS

_IS_AMOUNT = f"typeof(cost) = 'integer' AND cost BETWEEN 0 AND {MOST_PICODOLLARS - 1}"
_JUDGED_AND_PAID = f"""
    WITH judging AS (
        SELECT turn_id, sum(cost) FILTER (WHERE {_IS_AMOUNT}) AS paid, count(*) - count(cost) AS unpriced FROM call
        WHERE turn_id IN (SELECT turn_id FROM turn_figures WHERE judge = ? AND judged > 0)
        AND stage = 'judge' AND provider = ? AND model = ?
        GROUP BY turn_id HAVING min(cost IS NULL OR ({_IS_AMOUNT}))
    )
    SELECT coalesce(sum(judged), 0), coalesce(sum(paid), 0), coalesce(sum(unpriced), 0)
    FROM judging JOIN turn_figures USING (turn_id) WHERE judged BETWEEN 1 AND 1000000000
"""
"""Of turns whose calls can all be believed: a turn without them would make judging look free."""
Judging = Mapping[tuple[str, ...], Spent]
"""Turn -> what judging it took of its own judge."""


def compare_costs(
    judging: Judging,
    stages: Mapping[str, Spent],
    turns: Sequence[LedgerTurn],
    ledgers: Iterable[sqlite3.Connection],
) -> Comparison:
    """Compare what was paid with other ways. stages: all calls, by stage."""
    actual = sum((one.cost_usd for one in stages.values()), Decimal(0))
    return Comparison(
        actual_usd=actual,
        without_cache_usd=_without_cache(actual, judging, turns, ledgers),
        without_packs_usd=_counterfactual_cost(stages, lambda way: way.without_packs),
        without_prefix_cache_usd=_counterfactual_cost(stages, lambda way: way.without_prefix_cache),
        by_batch_usd=_counterfactual_cost(stages, lambda way: way.by_batch, only=Stage.JUDGE),
    )


def _counterfactual_cost(
    stages: Mapping[str, Spent], way: Callable[[CounterfactualCost], Decimal | None], *, only: Stage | None = None
) -> Decimal | None:
    """Add up what calls would have cost; calls without that figure, or of another stage, count at their real cost."""
    whole, is_known = Decimal(0), not any(one.attempts for one in stages.values())
    for stage, one in stages.items():
        other = way(one.otherwise) if only in (None, stage) else None
        is_known = is_known or other is not None
        whole += one.cost_usd if other is None else other
    return whole if is_known else None


def _without_cache(
    actual: Decimal, judging: Judging, turns: Sequence[LedgerTurn], ledgers: Iterable[sqlite3.Connection]
) -> Decimal | None:
    by_judge: dict[str, list[LedgerTurn]] = defaultdict(list)
    for turn in turns:
        if turn.figures and turn.figures.is_model:
            by_judge[turn.judge].append(turn)
    whole = actual
    for judge, own in by_judge.items():
        coverage = sum_coverage(own)
        saved = coverage.cached + coverage.carried
        if not saved:
            continue
        asking = [turn for turn in own if turn.key in judging]
        paid, judged = [judging[turn.key] for turn in asking], sum_coverage(asking).judged
        if judged and not any(one.unpriced for one in paid):
            each: Decimal | None = sum((one.cost_usd for one in paid), Decimal(0)) / judged
        else:
            each = _average_of_all_times(judge, ledgers)
        if each is None:
            return None
        whole += saved * each
    return whole


def _average_of_all_times(judge: str, ledgers: Iterable[sqlite3.Connection]) -> Decimal | None:
    """Return what a judgment by this judge has cost on average; None where it has judged nothing that has a price."""
    provider, _, model = judge.partition(":")
    judged, paid = 0, 0
    for connection in ledgers:
        count, amount, unpriced = connection.execute(_JUDGED_AND_PAID, (judge, provider, model)).fetchone()
        if unpriced:
            return None
        judged, paid = judged + count, paid + amount
    return money.dollars_of_picodollars(paid) / judged if judged else None


def estimate_accuracy(judging: Judging, turns: Sequence[LedgerTurn]) -> Accuracy | None:
    """Compare estimates with what judging took, over turns that made calls and left nothing unjudged.

    No estimate assumes the discount of a host's prefix cache, so the dollars are those without it.
    """
    expected, actual, count = NOTHING_EXPECTED, NOTHING_EXPECTED, 0
    for turn in turns:
        figures, taken = turn.figures, judging.get(turn.key)
        if not (figures and figures.expected and figures.expected.calls and taken) or figures.coverage.unjudged:
            continue
        expected, count = expected + figures.expected, count + 1
        actual += Expected(
            calls=taken.calls,
            input_tokens=taken.usage.input_tokens,
            output_tokens=taken.usage.output_tokens,
            cost_usd=None if taken.unpriced else taken.otherwise.without_prefix_cache,
        )
    if not count:
        return None
    if expected.cost_usd is None or actual.cost_usd is None:  # sums of different turns cannot be compared
        expected, actual = (replace(side, cost_usd=None) for side in (expected, actual))
    return Accuracy(turns=count, expected=expected, actual=actual)
