"""Records of batches at a vendor and of jobs, and the results of their requests."""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from xscore.records.calls import Completion
from xscore.records.receipt import Coverage, StageUsage
from xscore.records.reports import list_exit_code

PURPOSES: Final = "purposes"
"""What a job writes that judges nothing (`batch purposes`)."""


class BatchLimits(Struct, frozen=True, kw_only=True):
    """The size limits of a batch; None: no limit."""

    requests: int
    bytes: int
    usd: Decimal | None = None


class VendorBatchState(StrEnum):
    """The state of a batch, in terms common to both vendors; the vendors' own follow."""

    WORKING = "working"
    """validating, in_progress, finalizing; in_progress."""
    CANCELLING = "cancelling"
    """cancelling; canceling."""
    ENDED = "ended"
    """completed, expired, cancelled; ended: existing results can be fetched."""
    FAILED = "failed"
    """failed: its input was refused, nothing ran, nothing is charged."""


class VendorBatch(Struct, frozen=True, kw_only=True):
    """A batch as reported by its vendor."""

    vendor_id: str
    state: VendorBatchState
    status: str
    mark: str = ""
    """Our name for the batch; empty if the vendor stores none, or it is not ours."""
    requests: int
    """Number of requests; 0 if the vendor has not said."""
    done: int = 0
    problem: str = ""
    is_queue_full: bool = False
    """Whether it failed because the vendor's queue is full: the same input can be sent
    later."""
    files: tuple[str, ...] = ()


class RequestOutcome(StrEnum):
    """The kinds of result of one request of an ended batch."""

    ANSWERED = "answered"
    REFUSED = "refused"
    ERRED = "erred"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class StoredBatchState(StrEnum):
    """How far we are with a batch, as its row says."""

    MARKED = "marked"
    """The batch has a mark, and may be at the vendor or not."""
    CREATED = "created"
    """The vendor has the batch."""
    ENDED = "ended"
    """The batch's results can be fetched."""
    COLLECTED = "collected"
    FAILED = "failed"
    """Nothing of the batch ran; its requests are planned again."""


class BatchResult(Struct, frozen=True, kw_only=True):
    """The result of one request."""

    custom_id: str
    """Id of the request; empty: a line that cannot be read."""
    outcome: RequestOutcome
    completion: Completion | None = None
    detail: str = ""
    """Why there is no answer; never the host's own text, which may repeat the prompt."""
    error_kind: str = ""
    """`XscoreError.kind`, for the repair ladder: `prompt_too_long`, say."""
    is_charged: bool = False
    """Whether the host counts it as answered although the reply is unreadable."""


class Batch(Struct, frozen=True):
    """One batch of a job as stored."""

    job: str
    number: int
    mark: str
    """Our name for the batch, sent to the vendor."""
    state: StoredBatchState
    marked_at: float
    """Unix seconds at which `create` was about to begin."""
    requests: int
    bytes: int
    input_tokens: int
    vendor_id: str = ""
    status: str = ""
    """The vendor's own word."""
    seen_at: float | None = None
    problem: str = ""
    waiting: int = 0
    """Requests without a result."""


class JobStatus(Struct, frozen=True, kw_only=True):
    """The progress of a job."""

    job: str
    command: str
    judge: str
    created_at: float
    ended_at: float | None
    writes: str = "judgments"
    """`judgments`, or `PURPOSES`."""
    questions: int
    candidates: int
    cached: int
    asked: int
    """Candidates in its requests; the other ones are judged for an equal question of the list,
    or by another job."""
    judged: int
    unjudged: dict[str, int]
    """Cause -> number of permanently unjudged candidates."""
    planned: int = 0
    sent: int = 0
    answered: int = 0
    lost: int = 0
    batches: tuple[Batch, ...]
    spent_usd: Decimal
    unpriced: int
    set_aside_usd: Decimal
    max_usd: Decimal | None
    held_back: str = ""
    """Why planned requests were not sent, in words; empty if all were."""
    over_budget: bool = False
    problem: str = ""
    """The vendor's problem in the latest pass; empty if there is none."""
    is_unusable: bool = False
    """Whether retrying will not help: a wrong key, an empty account."""
    remarks: tuple[str, ...] = ()

    @property
    def is_pending(self) -> bool:
        """Whether a later pass may have more to do."""
        return self.ended_at is None

    @property
    def waiting(self) -> int:
        """Candidates that may yet be judged."""
        if self.ended_at is not None:
            return 0
        return self.asked - self.judged - sum(self.unjudged.values())


def hit_rate(cached: int, candidates: int) -> float | None:
    """Return the replayed hit rate of a list; None if it has no candidates."""
    if candidates:
        return round(cached / candidates, 6)
    return None


class QuestionSummary(Struct, frozen=True):
    """The counts of one question."""

    id: str
    coverage: Coverage
    unjudged_by_cause: Mapping[str, int]
    kept: int
    best: str = ""
    """The first selected memory, as `path::entity`."""
    best_score: float | None = None


class ListReport(Struct, frozen=True, kw_only=True):
    """The result of a list."""

    job: str
    """The job, `b_…`; empty if nothing had to be paid, as with the lexical judge."""
    command: str
    judge: str
    by_model: bool = field(name="is_model")
    """Whether a model judged; if not, the scores compare words."""
    questions: int
    candidates: int
    cached: int
    coverage: Coverage
    unjudged_by_cause: dict[str, int]
    ended: str
    detail: str
    spent: StageUsage
    seconds: float
    workers: int
    """Number of judging actors; 1: this process."""
    lines: tuple[QuestionSummary, ...]
    out: str
    rows: int
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        return list_exit_code(self.coverage, self.ended)
