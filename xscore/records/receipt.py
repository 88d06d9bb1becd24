"""The receipt of a turn: what was judged, what was kept, what it cost; and the same turn in figures and in one line.

`docs/json.md` describes its public form.
"""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct, field

from xscore.platform.errors import BrokenReceipt
from xscore.records.calls import Traffic, Usage
from xscore.records.judgment import Boost
from xscore.records.turn import Routing, Scope, SessionInfo


class Coverage(Struct, frozen=True):
    """candidates = judged + cached + carried + unjudged, or this record cannot exist."""

    candidates: int
    judged: int
    cached: int
    carried: int
    unjudged: int

    def __post_init__(self) -> None:
        if self.candidates != self.judged + self.cached + self.carried + self.unjudged:
            raise BrokenReceipt(
                f"the receipt does not add up: {self}", hint="This is a bug of xscore; please report it."
            )


class JudgeInfo(Struct, frozen=True, kw_only=True):
    """The judge, and what it was shown beside the memories."""

    provider: str
    model: str
    host: str
    prompt_version: str
    order: str
    is_model: bool
    saw: tuple[str, ...]
    """Parts of the turn in the judging prompt: `task`, `errors`, and under full context `file`, `diff`, `recent`."""


class PrimaryInfo(Struct, frozen=True):
    """The answering model."""

    provider: str
    model: str


class UnjudgedSample(Struct, frozen=True):
    """One candidate without a score."""

    id: str
    path: str
    entity: str
    cause: str
    detail: str


class UnjudgedAccount(Struct, frozen=True):
    """Candidates without a score, counted by cause."""

    by_cause: dict[str, int]
    sample: tuple[UnjudgedSample, ...]
    """At most 20."""


class Selected(Struct, frozen=True, kw_only=True):
    """A memory in the context, or a near miss."""

    id: str
    layer: str
    kind: str
    path: str
    entity: str
    start_line: int
    end_line: int
    language: str
    raw_score: float
    boosts: tuple[Boost, ...]
    score: float
    reason: str
    cached: bool
    below_threshold: bool
    title: str = ""
    """One line, of a memory that belongs to no file."""
    is_stale: bool = False
    """Whether code that it cites has changed since."""


class StageUsage(Struct, frozen=True, kw_only=True):
    """Calls, tokens and money of one stage; retries are attempts, not calls."""

    calls: int = 0
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: Decimal | None = Decimal(0)
    """None as soon as one call is unpriced."""
    estimated: bool = False

    def __add__(self, other: "StageUsage") -> "StageUsage":
        unpriced = self.cost_usd is None or other.cost_usd is None
        return StageUsage(
            calls=self.calls + other.calls,
            attempts=self.attempts + other.attempts,
            usage=self.usage + other.usage,
            cost_usd=None if unpriced else (self.cost_usd or Decimal(0)) + (other.cost_usd or Decimal(0)),
            estimated=self.estimated or other.estimated,
        )


class Latency(Struct, frozen=True, kw_only=True):
    """Seconds by stage; `total` includes what no stage claims."""

    index: float = 0.0
    pool: float = 0.0
    cache: float = 0.0
    judge: float = 0.0
    select: float = 0.0
    primary: float = 0.0
    total: float = 0.0


class Answer(Struct, frozen=True, kw_only=True):
    """Result of `ask` and `context`: the answer where a model gave one, and the receipt."""

    turn_id: str
    task: str
    scope: Scope
    threshold: float
    top_k: int
    judge: JudgeInfo
    primary: PrimaryInfo | None
    partial: bool
    """True when candidates are unjudged."""
    warnings: tuple[str, ...]
    coverage: Coverage
    unjudged: UnjudgedAccount
    selected: tuple[Selected, ...]
    near_misses: tuple[Selected, ...]
    answer: str | None
    bundle: str | None
    """The chosen memories as text: of `context` always, of `ask` only without an answer."""
    judge_usage: StageUsage
    primary_usage: StageUsage | None
    latency: Latency
    probe_usage: StageUsage | None = None
    """Cost of probing the host; None without a probe."""
    embed_usage: StageUsage | None = None
    """Cost of vectors by an endpoint; None without one."""
    routing: Routing | None = None
    """The plan of the bundle, and what each layer contributed; None without a pool."""
    traffic: Traffic = field(default_factory=Traffic)
    """Limits that the judge's host stated, and calls in flight over time."""
    session: SessionInfo | None = None
    """How the session was resumed; its task is not stored with the receipt."""
    checkpoint: str = ""
    """Name of the checkpoint it continued from, or empty."""
    continues: str = ""
    """The turn that this one finished, or empty."""
    excluded_files: int = 0
    """Files excluded from the index; they are not candidates."""
    exit_code: int = 0
    """0, or the command's exit code although there is a receipt (1, 3, 4, 7, 130)."""


class ScoreLine(Struct, frozen=True):
    """One candidate's line of `--all-scores`."""

    id: str
    path: str
    entity: str
    layer: str
    kind: str
    outcome: str
    raw_score: float | None
    score: float | None
    reason: str
    cause: str


SCORE_BINS = 20
"""Final scores are counted in bins of 0.05; 1.0 falls in the last."""
NEAR_THRESHOLD = 0.1
"""A score less than this from the threshold is near it."""


class Expected(Struct, frozen=True, kw_only=True):
    """What judging was expected to take before it began."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """None: unpriced."""


class TurnFigures(Struct, frozen=True, kw_only=True):
    """One finished turn in numbers."""

    command: str
    """`ask`, `context`, `continue`, `eval`; empty: not known."""
    judge: str
    """`provider:model`, or `lexical`."""
    is_model: bool
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    kept: int
    threshold: float
    near: int | None
    """Scores near the threshold; None: not known, of a turn from before they were counted."""
    scores: tuple[int, ...]
    """Final scores by bin; empty: not known."""
    latency: Latency
    expected: Expected | None
    """None: nothing was judged by a model."""


class AnswerState(StrEnum):
    """Whether a turn's answer is stored."""

    KEPT = "kept"
    NONE = "none"
    """None was requested, or none came."""
    ERASED = "erased"


class ListedTurn(Struct, frozen=True, kw_only=True):
    """A turn as a list shows it."""

    id: str
    at: float
    """Unix seconds."""
    thread: str
    state: str
    """`running`, `unfinished` (its process is gone), `done`, `partial`, `failed`, `interrupted`."""
    command: str
    """`ask`, `context`, `continue`, `eval`; empty: not known."""
    judge: str
    """`provider:model`, or `lexical`; empty: it has no receipt."""
    task: str
    task_is_erased: bool
    answer: AnswerState
    coverage: Coverage | None
    """None: it has no receipt."""
    kept: int
    threshold: float
    spent: StageUsage = field(default_factory=StageUsage)
    """All its calls in the ledger."""
    total_s: float | None = None
    """None: it has no receipt."""
