"""Results of the smaller commands: explain, history, status, doctor and erasure, and how lists
end."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct, field

from xscore.platform.clock import LATEST_TIMESTAMP
from xscore.platform.errors import ExitCode
from xscore.records.indexing import CommitCounts
from xscore.records.receipt import Coverage, Selected, StageUsage


class Explanation(Struct, frozen=True, kw_only=True):
    """Why one memory was or was not chosen in one turn."""

    turn_id: str
    task: str
    id: str
    path: str
    entity: str
    outcome: str
    """`selected`, `near_miss` (within 0.1), `below_threshold`, `over_quota`, `beyond_k`, `folded`,
    `unjudged`, `out_of_scope` or `not_a_candidate`."""
    cause: str
    memory: Selected | None
    threshold: float
    top_k: int
    rank: int | None
    words: str
    calibrated: str = ""
    """What the score and the cut meant on past commits; empty if the judge was not
    calibrated."""
    purpose: str = ""
    """What a model says that its class is for, or its file; empty if none was asked (`xscore
    batch purposes`)."""


class BackgroundStatus(Struct, frozen=True, kw_only=True):
    """The background process of a store."""

    pid: int | None = None
    """Process id of the background process; None if none runs."""
    doing: str = ""
    """What it does now; empty if it waits for something to do."""
    for_s: float = 0.0
    """Seconds since it began what it does."""
    watches: bool = False
    """Whether it is `xscore watch`, which stays until it is stopped."""
    problem: str = ""
    """The latest problem, in one line; empty if there is none."""


class HookFailure(Struct, frozen=True):
    """Why the last hook of a coding agent failed."""

    at: float
    event: str
    problem: str


class CalibrationLine(Struct, frozen=True):
    """What a judge's cut means."""

    judge: str
    """The judge, `provider:model`, as it was asked for."""
    at: float
    """Unix seconds at which it was measured."""
    says: str
    """What the calibration says, such as `0.63 ≈ recall 0.86 (0.79–0.92) on 120 past
    commits`."""


class SliceLine(Struct, frozen=True):
    """A group of files that belong together (`xscore graph slices`)."""

    folder: str
    """Folder of most of its files; empty: the root."""
    hub: str
    """The file with the strongest links within it."""
    files: int
    purpose: str = ""
    """What a model says that the folder is for; empty if none was asked."""


class SuggestedRepository(Struct, frozen=True):
    """Another repository on this machine that this one depends on."""

    name: str
    """Name that `--repo` takes."""
    manifest: str
    """The manifest in this repository that names it."""


class StoreStatus(Struct, frozen=True, kw_only=True):
    """What a store holds."""

    root: str
    branch: str = ""
    """Branch of this worktree; the commit if none is checked out; empty without git."""
    commit: str = ""
    """HEAD of this worktree; empty if it has none, or keeps its branches in another form than
    files."""
    store: str
    store_id: str
    trusted: bool
    bytes: int
    files: int
    files_left: int = 0
    """Files that the latest run has left to the next; 0: the index was complete."""
    kept_out: dict[str, int] = {}
    """Files that the latest run kept out of the index, by reason."""
    memories: int
    by_layer: dict[str, int]
    by_kind: dict[str, int]
    by_language: dict[str, int]
    without_grammar: tuple[str, ...] = ()
    """Languages whose files are read as text, because their grammar is missing or broken."""
    commits: CommitCounts = CommitCounts()
    edges: dict[str, int]
    judgments: int
    turns: int
    last_turn: str
    spent_usd: Decimal | None
    """Dollars of all calls in the ledger; None as soon as one is unpriced."""
    spent_estimated: bool = False
    background: BackgroundStatus = BackgroundStatus()

    calibrations: tuple[CalibrationLine, ...] = ()
    """Newest first; see `xscore eval calibrate`."""
    purposes: int = 0
    """Number of files, classes and folders of which a model has said what they are for."""
    slices: tuple[SliceLine, ...] = ()
    """The largest groups of files that link to each other; empty in a small repository."""
    facts_waiting: int = 0
    """Number of facts from sessions that wait for `xscore memory review`, without those of your
    own store."""
    hook_failure: HookFailure | None = None
    """The failure of the latest hook of a coding agent; None if it did not fail."""
    suggested: tuple[SuggestedRepository, ...] = ()
    """Other repositories that `--repo` could add to a turn."""


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


class ErasureRequest(Struct, frozen=True, kw_only=True):
    """What a shared server is to erase: it knows contents and turns by hash alone."""

    contents: tuple[str, ...] = ()
    """Content hashes whose judgments are removed from every turn."""
    turns: tuple[tuple[str, str, int, tuple[str, ...]], ...] = ()
    """Turn key, judge key, sample, and the contents whose judgments are removed there; no
    contents: all of them."""
    memories: tuple[str, ...] = ()
    """Ids of memories, and names of checkpoints (`checkpoint NAME`), that were sent to a
    team."""


class ServerErasure(Struct, frozen=True, kw_only=True):
    """What a shared server erased."""

    server: str
    """Address of the server without a password, and the tenant."""
    removed: int = 0
    """Number of judgments with their reasons that were removed, or of memories that a team was
    sent."""
    left: int | None = None
    """How many were there when the server was asked again; None if it was not asked."""
    problem: str = ""
    """Why the server erased nothing; empty if it did."""
    is_team: bool = False
    """Whether the server holds memories of a team, rather than judgments."""
    is_vectors: bool = False
    """Whether the server holds vectors, rather than judgments."""

    @property
    def noun(self) -> str:
        """What it holds, in the singular."""
        if self.is_vectors:
            return "vector"
        return "entry" if self.is_team else "judgment"

    @property
    def plural(self) -> str:
        """What it holds."""
        if self.is_vectors:
            return "vectors"
        return "entries" if self.is_team else "judgments"


class AnswerState(StrEnum):
    """Whether a turn's answer is stored."""

    KEPT = "kept"
    NONE = "none"
    ERASED = "erased"


class ListedTurn(Struct, frozen=True, kw_only=True):
    """A turn as a list shows it."""

    id: str
    at: float
    thread: str
    state: str
    """State of the turn: `running`, `unfinished` (its process is gone), `done`, `partial`,
    `failed`, `interrupted` or `continued`."""
    command: str
    judge: str
    task: str
    task_is_erased: bool
    answer: AnswerState
    coverage: Coverage | None
    kept: int
    threshold: float
    spent: StageUsage = field(default_factory=StageUsage)
    total_s: float | None = None


class EvaluationLine(Struct, frozen=True, kw_only=True):
    """One evaluation of a judge. Raises ValueError for counts below 0 and shares outside 0..1."""

    id: str
    at: float
    questions: str
    judge: str
    cases: int
    k: int
    recall: float
    precision: float
    hit: float
    reciprocal_rank: float
    ndcg: float
    candidates: int
    unjudged: int

    def __post_init__(self) -> None:
        if min(self.cases, self.k, self.candidates, self.unjudged) < 0:
            raise ValueError("a count is negative")
        shares = (self.recall, self.precision, self.hit, self.reciprocal_rank, self.ndcg)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("a share is outside 0..1")
        if not 0 <= self.at <= LATEST_TIMESTAMP:
            raise ValueError("its time is impossible")


_LIST_ENDS = {
    "interrupted": ExitCode.INTERRUPTED,
    "budget": ExitCode.BUDGET,
    "provider": ExitCode.NOTHING_JUDGED,
    "deadline": ExitCode.PARTLY,
    "store": ExitCode.STORE,
}


def list_exit_code(coverage: Coverage, ended: str) -> int:
    """Return what a list of questions ends with. ended: why it ended early; empty if it did
    not."""
    early = _LIST_ENDS.get(ended)
    if early:
        return early
    if coverage.unjudged == coverage.candidates > 0:
        return ExitCode.NOTHING_JUDGED
    if coverage.unjudged > 0:
        return ExitCode.PARTLY
    return ExitCode.DONE
