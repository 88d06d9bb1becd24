"""The records of a report over a period of the ledger, and the figures a gate compares.
`docs/reference/json.md` documents the form.

Dollars are sums of the priced calls; the number of unpriced ones comes with them. A turn loads
none of it.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct, field

from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.records.calls import CounterfactualCost, Usage
from xscore.records.receipt import (
    NOTHING_JUDGED,
    Coverage,
    Expected,
    Latency,
    Selected,
    TurnFigures,
)
from xscore.records.reports import EvaluationLine
from xscore.store.call_rows import MOST_SECONDS


class ReportQuery(Struct, frozen=True, kw_only=True):
    """Which part of the ledger to report, and how."""

    since: float | None = None
    until: float | None = None
    turn_id: str = ""
    by: str = ""
    lines: int | None = None
    details: int = 0

    @property
    def period(self) -> tuple[float, float] | None:
        """Start and end (excluded) of the period in which the turns began; None: any time,
        which need not be valid."""
        if self.since is None and self.until is None:
            return None
        return self.since or 0.0, LATEST_TIMESTAMP if self.until is None else self.until


class TurnKey(NamedTuple):
    """A turn, or another caller, among several ledgers."""

    repo: str
    turn: str


class LedgerTurn(Struct, frozen=True):
    """A turn whose row passed the checks."""

    key: TurnKey
    at: float
    """Unix seconds."""
    task: str
    state: str
    figures: TurnFigures | None
    """The turn's figures; None if it has not finished, or they are damaged."""
    branch: str = ""
    """Branch that was checked out; empty if there was none, or it is unknown."""

    @property
    def command(self) -> str:
        """The command that asked; empty if the turn has not finished."""
        return self.figures.command if self.figures else ""

    @property
    def judge(self) -> str:
        """The judge of the turn; empty if it has not finished."""
        return self.figures.judge if self.figures else ""


class Spent(Struct, frozen=True, kw_only=True):
    """Calls, tokens and dollars of any set of attempts."""

    calls: int = 0
    attempts: int = 0
    rate_limited: int = 0
    """Attempts that ended in a 429."""
    failed: int = 0
    """Other attempts without an answer."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0
    estimated: int = 0
    otherwise: CounterfactualCost = field(default_factory=CounterfactualCost)


class Comparison(Struct, frozen=True, kw_only=True):
    """The cost of the same work in other ways; None: unknown."""

    actual_usd: Decimal
    without_cache_usd: Decimal | None
    """Cached and carried judgments at the average cost of a live judgment of the same judge:
    approximate."""
    without_packs_usd: Decimal | None
    without_prefix_cache_usd: Decimal | None
    by_batch_usd: Decimal | None


class Timing(Struct, frozen=True, kw_only=True):
    """How long one stage took."""

    of: str
    stage: str
    """A stage: for turns `index`, `pool`, `cache`, `judge`, `select`, `primary` or `total`; for
    calls their `Stage`."""
    kind: str
    """`live`, or `cached`: a turn that knew every score, or a call with a prefix from the host's
    cache."""
    count: int
    p50_s: float
    p95_s: float
    p99_s: float


class Group(Struct, frozen=True, kw_only=True):
    """One group of `--by`."""

    name: str
    turns: int
    spent: Spent
    coverage: Coverage = NOTHING_JUDGED
    """Coverage of the finished turns; zeros if the group is part of a turn (`stage`)."""
    kept: int = 0


class Accuracy(Struct, frozen=True, kw_only=True):
    """The estimate of judging against its actual cost, over turns with nothing left unjudged."""

    turns: int
    expected: Expected
    actual: Expected
    """What was spent. Its dollars exclude the host's prefix-cache discount, which no estimate
    assumes."""


class TurnLine(Struct, frozen=True, kw_only=True):
    """One turn on one line."""

    id: str
    at: float
    repository: str
    task: str
    command: str
    state: str
    """`running`, `unfinished` (its process is gone), `done`, `partial`, `failed`, `interrupted`, or
    `continued` (by a later turn)."""
    judge: str
    coverage: Coverage | None
    """Coverage; None, like the other figures, if the turn has not finished or they are
    damaged."""
    kept: int | None
    near: int | None
    threshold: float | None
    spent: Spent
    cost_by_model: dict[str, Decimal]
    latency: Latency | None
    expected: Expected | None


class ScoreHistogram(Struct, frozen=True, kw_only=True):
    """Final scores of one judge; different judges use different scales."""

    judge: str
    turns: int
    scores: tuple[int, ...]
    """Number of scores in each bin of 0.05."""
    threshold: float | None
    """Threshold of the turns; None where they differ."""


class OfflineTotals(Struct, frozen=True, kw_only=True):
    """Totals of lists of questions that were judged offline."""

    jobs: int = 0
    questions: int = 0
    candidates: int = 0
    cached: int = 0
    hit_rate: float | None = None
    """Replayed hit rate, `cached / candidates`; None if there were no candidates."""
    batch_calls: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced: int = 0
    saved_by_batch_usd: Decimal = Decimal(0)
    """The live price of batch calls minus their actual price, where both are known."""


class ExtractionTotals(Struct, frozen=True, kw_only=True):
    """What models were asked for facts of ended sessions, and what came of it.

    Calls and dollars are those of the period; facts are counted over all time.
    """

    spent: Spent
    proposed: int = 0
    kept: int = 0
    """Facts kept as new."""
    dropped: dict[str, int] = {}
    """Facts that no quote, schema or rule supports, by the reason."""


class TurnDetail(Struct, frozen=True, kw_only=True):
    """A turn's choices and near misses, from its receipt."""

    selected: tuple[Selected, ...]
    near_misses: tuple[Selected, ...]
    turn_id: str = ""
    cited: tuple[str, ...] | None = None
    """Ids of the selected memories that the answer cites or names; None if there is no
    answer."""


class CostReport(Struct, frozen=True, kw_only=True):
    """The whole report."""

    made_at: float
    repositories: tuple[str, ...]
    since: float | None
    until: float | None
    turn_id: str
    turns_by_state: dict[str, int]
    turns_cached: int
    """Finished turns of a model judge that made no judging call and left nothing unjudged."""
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    kept: int
    near: int | None
    scores: tuple[int, ...]
    """Scores of the judge of the newest turn, as in the first of `histograms`."""
    threshold: float | None
    """Threshold of all turns with figures; None where they differ, or no turn has figures."""
    spent: Spent
    comparison: Comparison
    by_model: tuple[Group, ...]
    by: str
    groups: tuple[Group, ...]
    timings: tuple[Timing, ...]
    accuracy: Accuracy | None
    evaluations: tuple[EvaluationLine, ...]
    turns: tuple[TurnLine, ...]
    prefix_hit_rate: float | None = None
    """Share of the judging calls' input that hosts served from their prefix caches; None if
    there was no input."""
    details: tuple[TurnDetail, ...] = ()
    warnings: tuple[str, ...] = ()
    left_out: int = 0
    """Damaged rows of calls, turns, evaluations and jobs, which no figure includes."""
    offline: OfflineTotals = field(default_factory=OfflineTotals)
    histograms: tuple[ScoreHistogram, ...] = ()
    """One for each judge, the newest turn's first."""
    extraction: ExtractionTotals | None = None
    """Totals of extraction; None if no model was asked for facts, or the report is of one
    turn."""


Figure = Decimal | float | int
"""Dollars, seconds or a share, or a count."""


Count = Annotated[int, Meta(ge=0)]


class StageP95(Struct, frozen=True, kw_only=True):
    """The p95 of one stage, and its number of samples."""

    of: Literal["turn", "call"]
    stage: str
    kind: Literal["live", "cached"]
    count: Count
    p95_s: Annotated[float, Meta(ge=0, le=MOST_SECONDS)]


class EvaluationRecall(Struct, frozen=True, kw_only=True):
    """The recall of one evaluation: comparable only for the same questions, k and judge."""

    questions: str
    judge: str
    cases: Count
    k: Count
    recall: Annotated[float, Meta(ge=0, le=1)]


class GateFigures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures of a report that a baseline can hold; the bounds are those of a baseline that is
    read."""

    turns: Count
    """Ended turns, however they ended; one cut short by its budget counts."""
    coverage: Coverage
    calls: Count
    attempts: Count
    usage: Usage
    cost_usd: Decimal
    unpriced: Count
    recall: EvaluationRecall | None
    timings: tuple[StageP95, ...]
    left_out: int = 0
    """Damaged rows of the ledger, which no figure includes. It is not part of a baseline."""


class GateVerdict(StrEnum):
    """The verdict on one figure, in the order a reader looks for them."""

    FAILED = "failed"
    ALERT = "alert"
    BETTER = "better"
    HELD = "held"
    INCOMPARABLE = "incomparable"
    """The workload is another one, or the ledger is damaged."""
    INCONCLUSIVE = "inconclusive"
    """A figure is missing on one side, or there are too few samples."""


class GateLine(Struct, frozen=True):
    """One figure compared with its baseline."""

    what: str
    """Name of the figure: `dollars`, `calls`, `tokens in`, …; `p95 of judge calls, live`."""
    unit: str
    baseline: Figure | None
    now: Figure | None
    allowed: Figure | None
    """The worst passing value; None if nothing is compared."""
    verdict: GateVerdict
    note: str = ""


class GateReport(Struct, frozen=True, kw_only=True):
    """The whole check."""

    lines: tuple[GateLine, ...]

    def with_verdict(self, verdict: GateVerdict) -> tuple[GateLine, ...]:
        """Return the lines with this verdict."""
        return tuple(line for line in self.lines if line.verdict is verdict)

    @property
    def failed(self) -> tuple[GateLine, ...]:
        """Return the lines that fail the check."""
        return self.with_verdict(GateVerdict.FAILED)
