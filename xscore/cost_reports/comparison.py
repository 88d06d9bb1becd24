"""What the same would have cost otherwise, and how near the expectations of judging came.

Without packs, without the host's prefix cache and by batch are sums of what each call noted of itself when it was
priced. Without our own cache is about right: a cached judgment is put at what a live one by the same judge has cost on
average, in the stretch, else in the whole ledger. What cannot be known is None, never a guess of zero.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from xscore.cost_reports.tables import LedgerTurn, TurnKey
from xscore.platform import money
from xscore.records import CounterfactualCost, Expected, Stage
from xscore.records.cost_report import Accuracy, Comparison, Spent
from xscore.store.turn_history import MOST_PICODOLLARS

if TYPE_CHECKING:
    import polars as pl


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


def compare_costs(
    judging: Mapping[TurnKey, Spent],
    stages: Mapping[str, Spent],
    turns: Sequence[LedgerTurn],
    ledgers: Sequence[sqlite3.Connection],
) -> Comparison:
    """Compare what was paid with other ways. judging: by turn, of its own judge; stages: all calls, by stage."""
    actual = sum((one.cost_usd for one in stages.values()), Decimal(0))
    return Comparison(
        actual_usd=actual,
        without_cache_usd=_without_cache(actual, judging, turns, ledgers),
        without_packs_usd=_counterfactual_cost(stages, lambda way: way.without_packs),
        without_prefix_cache_usd=_counterfactual_cost(stages, lambda way: way.without_prefix_cache),
        by_batch_usd=_counterfactual_cost(stages, lambda way: way.by_batch, only=Stage.JUDGE),
    )


def estimate_accuracy(judging: Mapping[TurnKey, Spent], turns: Sequence[LedgerTurn]) -> Accuracy | None:
    """Set the expectations of turns that were judged to their end, by calls, beside what judging them took.

    No expectation assumes a discount of the host's prefix cache, so dollars are those without it.
    """
    pairs = []
    for turn in turns:
        figures, taken = turn.row.figures, judging.get(turn.key)
        if figures and figures.expected and figures.expected.calls and taken and not figures.coverage.unjudged:
            pairs.append((figures.expected, taken))
    if not pairs:
        return None
    expected_usd, actual_usd = _both_priced(pairs)
    return Accuracy(
        turns=len(pairs),
        expected=Expected(
            calls=sum(expected.calls for expected, _ in pairs),
            input_tokens=sum(expected.input_tokens for expected, _ in pairs),
            output_tokens=sum(expected.output_tokens for expected, _ in pairs),
            cost_usd=expected_usd,
        ),
        actual=Expected(
            calls=sum(taken.calls for _, taken in pairs),
            input_tokens=sum(taken.usage.input_tokens for _, taken in pairs),
            output_tokens=sum(taken.usage.output_tokens for _, taken in pairs),
            cost_usd=actual_usd,
        ),
    )


def _both_priced(pairs: Sequence[tuple[Expected, Spent]]) -> tuple[Decimal | None, Decimal | None]:
    """Add up expected dollars and those without prefix caching; None both where one of them is not known."""
    expected_usd, actual_usd = Decimal(0), Decimal(0)
    for expected, taken in pairs:
        plain = taken.otherwise.without_prefix_cache
        if expected.cost_usd is None or plain is None or taken.unpriced:
            return None, None
        expected_usd += expected.cost_usd
        actual_usd += plain
    return expected_usd, actual_usd


def _counterfactual_cost(
    stages: Mapping[str, Spent], way: Callable[[CounterfactualCost], Decimal | None], *, only: Stage | None = None
) -> Decimal | None:
    """Add up what calls would have cost; those that do not know it, or are of another stage, count as they were."""
    whole, is_known = Decimal(0), not any(one.attempts for one in stages.values())
    for stage, one in stages.items():
        other = way(one.otherwise) if only in (None, stage) else None
        is_known = is_known or other is not None
        whole += one.cost_usd if other is None else other
    return whole if is_known else None


def _without_cache(
    actual: Decimal,
    judging: Mapping[TurnKey, Spent],
    turns: Sequence[LedgerTurn],
    ledgers: Sequence[sqlite3.Connection],
) -> Decimal | None:
    saved: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    paid: dict[str, Decimal] = defaultdict(Decimal)
    unpriced: Counter[str] = Counter()
    for turn in turns:
        figures = turn.row.figures
        if figures is None or not figures.is_model:
            continue
        taken = judging.get(turn.key, Spent())
        saved[figures.judge] += figures.coverage.cached + figures.coverage.carried
        judged[figures.judge] += figures.coverage.judged if turn.key in judging else 0
        paid[figures.judge] += taken.cost_usd
        unpriced[figures.judge] += taken.unpriced
    whole = actual
    for judge, count in saved.items():
        if count:
            known = judged[judge] and not unpriced[judge]
            each = paid[judge] / judged[judge] if known else _of_the_whole_ledger(judge, ledgers)
            if each is None:
                return None
            whole += count * each
    return whole


def _of_the_whole_ledger(judge: str, ledgers: Sequence[sqlite3.Connection]) -> Decimal | None:
    """Return what a judgment by this judge has cost on average; None where it has judged nothing that has a price."""
    provider, _, model = judge.partition(":")
    judged, paid = 0, 0
    for connection in ledgers:
        count, amount, unpriced = connection.execute(_JUDGED_AND_PAID, (judge, provider, model)).fetchone()
        if unpriced:
            return None
        judged, paid = judged + count, paid + amount
    return money.dollars_of_picodollars(paid) / judged if judged else None


def judging_of(calls: "pl.DataFrame", turns: Sequence[LedgerTurn]) -> "pl.DataFrame":
    """Return the judging calls that a turn made to its own judge."""
    import polars as pl

    own = pl.DataFrame(
        [(*turn.key, turn.judge) for turn in turns],
        schema={"number": pl.Int32, "turn_id": pl.String, "key": pl.String},
        orient="row",
    )
    return calls.filter(pl.col("stage") == str(Stage.JUDGE)).join(own, on=["number", "turn_id", "key"], how="semi")
