"""Results of the smaller commands (estimate, explain, status, doctor), and what a turn reports while it runs."""

from decimal import Decimal
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.records.calls import RateLimits
from xscore.records.receipt import Selected
from xscore.records.turn import SessionInfo


class JudgeEstimate(Struct, frozen=True, kw_only=True):
    """Estimate of judging a turn."""

    candidates: int
    cached: int
    to_judge: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """None: unpriced. Prefix-cache discounts are not assumed."""
    seconds: float
    binding_limit: str
    """`latency`, a field of `limits`, or `none` when nothing is to be judged."""
    host: str
    limits: RateLimits = field(default_factory=RateLimits)
    """In force: set by the user or stated by the host, whichever is lower."""
    concurrency: int = 0
    """Calls in flight at most."""

    def __add__(self, other: "JudgeEstimate") -> "JudgeEstimate":
        """Add counts, dollars and seconds up; limits are those of the one that takes longer."""
        unpriced = self.cost_usd is None or other.cost_usd is None
        return replace(
            max(self, other, key=lambda one: one.seconds),
            candidates=self.candidates + other.candidates,
            cached=self.cached + other.cached,
            to_judge=self.to_judge + other.to_judge,
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=None if unpriced else (self.cost_usd or Decimal(0)) + (other.cost_usd or Decimal(0)),
            seconds=self.seconds + other.seconds,
        )


class PrimaryEstimate(Struct, frozen=True, kw_only=True):
    """Upper bound of the answering call."""

    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    host: str


class CapLeft(Struct, frozen=True, kw_only=True):
    """What is left of one cap on dollars."""

    of: str
    """`turn`, `run` (of an evaluation), `day` (UTC) or `repository`."""
    cap_usd: Decimal
    left_usd: Decimal
    """Less than 0 where a host charged more than a call could cost."""


class Estimate(Struct, frozen=True, kw_only=True):
    """Estimate of a turn, before anything is sent."""

    judge: JudgeEstimate
    primary: PrimaryEstimate | None
    by_kind: dict[str, int]
    """Tokens to judge, by kind."""
    by_folder: dict[str, int]
    """Tokens to judge, by top folder."""
    caps: tuple[CapLeft, ...] = ()
    """Of each cap that is set."""

    @property
    def cost_usd(self) -> Decimal | None:
        """Both stages together; None as soon as one is unpriced."""
        primary = self.primary.cost_usd if self.primary else Decimal(0)
        return None if self.judge.cost_usd is None or primary is None else self.judge.cost_usd + primary

    @property
    def binding(self) -> tuple[CapLeft, ...]:
        """The caps that leave less than the estimate; none where it is unpriced."""
        cost = self.cost_usd
        return () if cost is None else tuple(cap for cap in self.caps if cost > cap.left_usd)


class Explanation(Struct, frozen=True, kw_only=True):
    """Why one memory was or was not chosen in one turn."""

    turn_id: str
    task: str
    id: str
    path: str
    entity: str
    outcome: str
    """`selected`, `near_miss`, `below_threshold`, `over_quota`, `beyond_k`, `unjudged`, `out_of_scope` or
    `not_a_candidate`."""
    cause: str
    memory: Selected | None
    """Scores, boosts and reason; None where there is no judgment."""
    threshold: float
    top_k: int
    rank: int | None
    """1-based place among all judged candidates of the turn."""
    words: str
    """The same in a sentence or two."""


class StoreStatus(Struct, frozen=True, kw_only=True):
    """What a store holds."""

    root: str
    store: str
    store_id: str
    trusted: bool
    bytes: int
    files: int
    memories: int
    by_layer: dict[str, int]
    by_kind: dict[str, int]
    by_language: dict[str, int]
    edges: dict[str, int]
    judgments: int
    turns: int
    last_turn: str
    spent_usd: Decimal | None
    """All calls in the ledger; None as soon as one is unpriced."""
    spent_estimated: bool = False
    """The usage of one of them is our estimate."""


class DoctorFinding(Struct, frozen=True):
    """One line of the doctor."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All the doctor's findings."""

    findings: tuple[DoctorFinding, ...]
    """In the order to read them."""


class EffectiveSetting(Struct, frozen=True):
    """One effective setting and where it came from."""

    name: str
    value: str
    origin: str


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
    """None while unknown."""
    leaders: tuple[Leader, ...]
    """The provisional best by raw score, best first, at most K; cached ones among them."""


class Observer(Protocol):
    """Watches a turn. Every method returns at once, but for `confirm`."""

    def stage(self, name: str) -> None:
        """A stage begins: `index`, `pool`, `judge`, `select` or `primary`."""
        ...

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Judging is about to begin and will take a while."""
        ...

    def progress(self, progress: Progress) -> None:
        """Some judgments arrived."""
        ...

    def note(self, message: str) -> None:
        """Something the user should know."""
        ...

    def session(self, session: SessionInfo) -> None:
        """This working session continues."""
        ...

    def answer_text(self, piece: str) -> None:
        """A piece of the answer arrived."""
        ...

    @property
    def can_confirm(self) -> bool:
        """Whether `confirm` may be called; if not, only `max_usd` limits the turn."""
        ...

    def confirm(self, estimate: Estimate) -> bool:
        """Ask whether to continue although the estimate is above the confirmation limit."""
        ...


class SilentObserver:
    """Ignores everything and confirms; the default of the Python interface."""

    can_confirm = False

    def stage(self, name: str) -> None:
        """Ignore it."""

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Ignore it."""

    def progress(self, progress: Progress) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        """Ignore it."""

    def session(self, session: SessionInfo) -> None:
        """Ignore it."""

    def answer_text(self, piece: str) -> None:
        """Ignore it."""

    def confirm(self, estimate: Estimate) -> bool:
        """Agree: a program set its own `max_usd`."""
        return True
