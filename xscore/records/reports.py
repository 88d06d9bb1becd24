"""Results of the smaller commands (estimate, explain, status, doctor), and what a turn reports while it runs."""

from decimal import Decimal

from msgspec import Struct, field
from msgspec.structs import replace

from xscore.records.calls import RateLimits
from xscore.records.receipt import Selected, add_costs
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
    """`-`: none, as for a script."""
    limits: RateLimits = field(default_factory=RateLimits)
    concurrency: int = 0
    way: str = ""
    """`decisions`, `chat cold` (no prefix is cached), `chat warm` (every prefix is cached) or `lexical`."""
    cached_input_tokens: int = 0
    """Part of the input that a warm prefix cache serves."""
    judge: str = ""
    """`provider:model`."""
    carried: int = 0
    """Judgments of earlier turns of the thread that this one takes over; `candidates = to_judge + cached + carried`."""
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
    """Negative if a host charged more than was reserved."""


class Estimate(Struct, frozen=True, kw_only=True):
    """Estimate of a turn, before anything is sent."""

    judge: JudgeEstimate
    primary: PrimaryEstimate | None
    by_kind: dict[str, int]
    by_folder: dict[str, int]
    caps: tuple[CapLeft, ...] = ()
    ways: tuple[JudgeEstimate, ...] = ()
    """How these candidates could be judged, first as `judge` does. A way asks for what its own cache lacks."""

    @property
    def cost_usd(self) -> Decimal | None:
        """Both stages together; None as soon as one is unpriced."""
        return add_costs(self.judge.cost_usd, self.primary.cost_usd if self.primary else Decimal(0))

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
    threshold: float
    top_k: int
    rank: int | None
    words: str


class BackgroundStatus(Struct, frozen=True, kw_only=True):
    """The background process of a store."""

    pid: int | None = None
    """None: none runs."""
    doing: str = ""
    """Empty: it waits for something to do."""
    for_s: float = 0.0
    """Seconds since it began that."""
    watches: bool = False
    """It is `xscore watch`, which stays until it is stopped."""
    problem: str = ""
    """What went wrong last, in one line; empty: nothing."""


class HookFailure(Struct, frozen=True):
    """Why the last hook of a coding agent failed."""

    at: float
    """Unix seconds."""
    event: str
    problem: str


class StoreStatus(Struct, frozen=True, kw_only=True):
    """What a store holds."""

    root: str
    branch: str = ""
    """Of this worktree; the commit if none is checked out, empty without git."""
    commit: str = ""
    """HEAD of this worktree; empty if it has none, or keeps its branches in another form than files."""
    store: str
    store_id: str
    trusted: bool
    bytes: int
    files: int
    files_left: int = 0
    """Files that the latest run has left to the next; 0: the index was complete."""
    memories: int
    by_layer: dict[str, int]
    by_kind: dict[str, int]
    by_language: dict[str, int]
    without_grammar: tuple[str, ...] = ()
    """Languages whose files are read as text, because their grammar is not installed."""
    edges: dict[str, int]
    judgments: int
    turns: int
    last_turn: str
    spent_usd: Decimal | None
    """All calls in the ledger; None as soon as one is unpriced."""
    spent_estimated: bool = False
    background: BackgroundStatus = BackgroundStatus()

    hook_failure: HookFailure | None = None
    """None: the last hook of a coding agent did not fail."""


class DoctorFinding(Struct, frozen=True):
    """One line of the doctor."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All the doctor's findings."""

    findings: tuple[DoctorFinding, ...]


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
    leaders: tuple[Leader, ...]
    """The provisional best by raw score, best first, at most K; cached ones among them."""


class ErasureRequest(Struct, frozen=True, kw_only=True):
    """What a shared server is to erase: it knows contents and turns by hash alone."""

    contents: tuple[str, ...] = ()
    """Content hashes; their judgments go in every turn."""
    turns: tuple[tuple[str, str, int, tuple[str, ...]], ...] = ()
    """Turn key, judge key, sample and the contents whose judgments go there; no contents: all of them."""


class ServerErasure(Struct, frozen=True, kw_only=True):
    """What a shared server erased."""

    server: str
    """Its address without a password, and the tenant."""
    removed: int = 0
    """Judgments, with their reasons."""
    left: int | None = None
    """Judgments that were there when it was asked again; None: it was not."""
    problem: str = ""
    """Why it erased nothing; empty: it did."""


class Observer:
    """Watches a turn; this one ignores everything and confirms. Only `confirm` may block."""

    @property
    def can_confirm(self) -> bool:
        """Whether `confirm` may be called; if not, only `max_usd` limits the turn."""
        return False

    def stage(self, name: str) -> None:
        """A stage begins: `index`, `pool`, `judge`, `select` or `primary`."""

    def forecast(self, forecast: JudgeEstimate) -> None:
        """Judging is about to begin and will take a while."""

    def progress(self, progress: Progress) -> None:
        """Some judgments arrived."""

    def note(self, message: str) -> None:
        """Something the user should know."""

    def session(self, session: SessionInfo) -> None:
        """This working session continues."""

    def answer_text(self, piece: str) -> None:
        """A piece of the answer arrived."""

    def confirm(self, estimate: Estimate) -> bool:
        """Ask whether to continue although the estimate is above the confirmation limit."""
        return True
