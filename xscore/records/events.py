"""What a turn reports while it runs, and who is told."""

from decimal import Decimal
from typing import TYPE_CHECKING, final

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.records.calls import RateLimits
from xscore.records.judgment import Outcome, Ranked
from xscore.records.memory import IndexReport
from xscore.records.receipt import Answer, add_costs
from xscore.records.turn import SessionInfo

if TYPE_CHECKING:
    from xscore.records.reports import Estimate


class JudgeEstimate(Struct, frozen=True, kw_only=True):
    """Estimate of judging a turn."""

    candidates: int = 0
    cached: int = 0
    to_judge: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    """None: unpriced. Prefix-cache discounts are not assumed."""
    seconds: float = 0.0
    binding_limit: str = "none"
    """`latency`, a field of `limits`, or `none` when nothing is to be judged."""
    host: str = "-"
    """`-`: none, as for a script."""
    limits: RateLimits = field(default_factory=RateLimits)
    concurrency: int = 0
    way: str = ""
    """`decisions`, `chat cold` (no prefix is cached), `chat warm` (every prefix is cached) or
    `lexical`."""
    cached_input_tokens: int = 0
    """Part of the input that a warm prefix cache serves."""
    judge: str = ""
    carried: int = 0
    """Judgments of earlier turns of the thread that this one takes over; `candidates = to_judge +
    cached + carried`."""
    is_assumed: bool = False
    """No call to this model was timed yet, so `seconds` is an assumption, and rather too long."""
    tariff: str = ""
    """Row of the price tables that it is priced by, `vendor/model`; empty: free or unpriced."""

    @property
    def sends_to(self) -> str:
        """The host that memories go to; empty if none are sent."""
        return self.host if self.calls and self.host != "-" else ""

    def __add__(self, other: "JudgeEstimate") -> "JudgeEstimate":
        """Sum counts, dollars and seconds; keep the limits of the slower one."""
        counts = ("candidates", "cached", "carried", "to_judge", "calls")
        summed = (*counts, "input_tokens", "cached_input_tokens", "output_tokens", "seconds")
        return replace(
            max(self, other, key=lambda one: one.seconds),
            **{name: getattr(self, name) + getattr(other, name) for name in summed},
            cost_usd=add_costs(self.cost_usd, other.cost_usd),
            is_assumed=self.is_assumed or other.is_assumed,
        )


class Leader(Struct, frozen=True):
    """A provisional best candidate."""

    path: str
    entity: str
    score: float


class Progress(Struct, frozen=True, kw_only=True):
    """Where the judging stands."""

    candidates: int
    cached: int
    judged: int
    unjudged: int
    calls: int
    cost_usd: Decimal | None
    elapsed_s: float
    seconds_left: float | None
    leaders: tuple[Leader, ...]
    """The provisional best by raw score, best first, at most K; cached ones among them."""
    settled: tuple[Outcome, ...] = ()
    """What was judged, or left unjudged, since the last report."""


class StageBegan(Struct, frozen=True):
    """A stage of the turn begins."""

    name: str
    """`index`, `pool`, `judge`, `select` or `primary`."""


class Note(Struct, frozen=True):
    """Something the user should know."""

    text: str


class Kept(Struct, frozen=True):
    """The choice is made."""

    ranked: tuple[Ranked, ...]
    """What goes into the context, best first."""


class AnswerText(Struct, frozen=True):
    """A piece of the answer arrived."""

    text: str


class IndexProgress(Struct, frozen=True):
    """How far an index run has come."""

    files: int
    """Files read so far."""
    of: int
    """Files to read in all."""
    elapsed_s: float

    @property
    def seconds_left(self) -> float:
        """How long the other files take at the rate so far."""
        return self.elapsed_s * (self.of - self.files) / max(1, self.files)


TurnEvent = (
    StageBegan
    | Note
    | SessionInfo
    | IndexProgress
    | IndexReport
    | JudgeEstimate
    | Progress
    | Kept
    | AnswerText
    | Answer
)
"""What a turn reports while it runs.

`SessionInfo`: the working session continues. `IndexReport`: the index is up to date.
`JudgeEstimate`: judging is about to begin and will take a while. `Progress`: some judgments
settled. `Answer`: the receipt, always last and only in a stream.
"""


class Observer:
    """Watches a turn; this one ignores everything and confirms. Only `confirm` may block."""

    @property
    def can_confirm(self) -> bool:
        """Whether `confirm` may be called; if not, only `max_usd` limits the turn."""
        return False

    def on(self, event: TurnEvent) -> None:
        """Take an event of the turn."""

    def confirm(self, estimate: "Estimate") -> bool:
        """Ask whether to continue although the estimate is above the confirmation limit."""
        return True

    @final
    def stage(self, name: str) -> None:
        """Report that a stage begins."""
        self.on(StageBegan(name))

    @final
    def note(self, message: str) -> None:
        """Report something the user should know."""
        self.on(Note(message))


class ForwardingObserver(Observer):
    """Forwards everything to another observer."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @property
    def can_confirm(self) -> bool:
        """Whether the other can be asked."""
        return self._observer.can_confirm

    def on(self, event: TurnEvent) -> None:
        """Forward it."""
        self._observer.on(event)

    def confirm(self, estimate: "Estimate") -> bool:
        """Ask the other."""
        return self._observer.confirm(estimate)
