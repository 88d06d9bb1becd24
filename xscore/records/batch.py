"""Records of lists and batches: questions, batches at a vendor, and what became of their requests.

Import it by name where it is used: a turn needs none of it.
"""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct, field

from xscore.records.calls import Completion


class Question(Struct, frozen=True, kw_only=True):
    """One line of a list of questions."""

    id: str
    """Of its own within the list."""
    task: str
    file: str = ""
    """The file it is asked in; empty: none."""
    errors: str = ""


class QuestionList(Struct, frozen=True):
    """A list of questions: at least one, each with an id of its own."""

    all: tuple[Question, ...]
    digest: str
    """Equal lists, equal digest."""


class BatchLimits(Struct, frozen=True, kw_only=True):
    """How much one batch may hold, and how much may wait at the vendor."""

    requests: int
    bytes: int
    """Of the whole input, as it is sent."""
    enqueued_tokens: int | None = None
    """Input tokens of all batches that have not ended; None: no such limit is known."""


class BatchState(StrEnum):
    """How far a vendor is with a batch, in common terms."""

    WORKING = "working"
    """validating, in_progress, finalizing; in_progress"""
    CANCELLING = "cancelling"
    """cancelling; canceling"""
    ENDED = "ended"
    """completed, expired, cancelled; ended: what there is of results can be fetched."""
    FAILED = "failed"
    """failed: its input was refused, nothing was run, nothing is charged."""


class VendorBatch(Struct, frozen=True, kw_only=True):
    """A batch as its vendor shows it."""

    vendor_id: str
    state: BatchState
    status: str
    """The vendor's own word."""
    mark: str = ""
    """Our name for it; empty where the vendor keeps none, or it is not ours."""
    created_at: float
    """Unix seconds, by the vendor's clock."""
    requests: int
    """0: not told (yet)."""
    done: int = 0
    failed: int = 0
    problem: str = ""
    """Why it failed, in words."""
    tells: tuple[str, ...] = ()
    """Kinds of errors (`XscoreError.kind`) that apply to one that failed; `rate_limited`: too much waits at the vendor,
    and the same input fits later."""
    files: tuple[str, ...] = ()
    """Of results and of errors, where the vendor keeps files."""
    file_id: str = ""
    """Of its input, where the vendor keeps files."""


class RequestOutcome(StrEnum):
    """What became of one request of a batch that ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The host will not take this request: it was not run and is not charged."""
    ERRED = "erred"
    """The host failed; the same request may be asked again."""
    EXPIRED = "expired"
    """It was not run in time and is not charged."""
    CANCELLED = "cancelled"
    """It was not run and is not charged."""


class BatchResult(Struct, frozen=True, kw_only=True):
    """What became of one request."""

    custom_id: str
    """Empty: a line that cannot be read, whosever it is."""
    fate: RequestOutcome
    completion: Completion | None = None
    """Of an answered one."""
    detail: str = ""
    """Of one without an answer: why; never in the host's own sentences, which may repeat the prompt."""
    tells: tuple[str, ...] = field(default=())
    """Kinds of errors (`XscoreError.kind`) that apply, for the repair ladder: `prompt_too_long`, say."""
    is_charged: bool = False
    """Of one without an answer: the host counts it as answered, though nothing of it can be read."""


class BatchStatus(Struct, frozen=True, kw_only=True):
    """One batch of a job, as the store knows it."""

    number: int
    """From 1."""
    mark: str
    """Our name for it, and the beginning of every custom_id."""
    vendor_id: str
    """Empty: the vendor has not told one."""
    state: str
    """`marked`, `created`, `ended`, `collected`, `failed`."""
    status: str
    """The vendor's word, as last seen."""
    seen_at: float | None
    requests: int
    waiting: int
    """Of these, those without a result."""
    marked_at: float
    problem: str = ""


class JobStatus(Struct, frozen=True, kw_only=True):
    """How far a job is."""

    job: str
    command: str
    """`submit`, `run`, `rescore`"""
    judge: str
    """`provider:model`"""
    created_at: float
    ended_at: float | None
    """None: there is something to send or to fetch."""
    questions: int
    candidates: int
    """Over all questions, when it was planned."""
    cached: int
    """Of these, what the cache had."""
    asked: int
    """What its requests ask for; the rest is left to an equal question of the list, or to another job."""
    judged: int
    """Of what is asked."""
    unjudged: dict[str, int]
    """Cause -> how many are lost for good."""
    planned: int
    """Requests that wait to be sent."""
    sent: int
    """Requests at the vendor."""
    answered: int
    lost: int
    batches: tuple[BatchStatus, ...]
    spent_usd: Decimal
    """Priced calls alone."""
    unpriced: int
    """Answered calls that have no price."""
    set_aside_usd: Decimal
    max_usd: Decimal | None
    held_back: str = ""
    """Why what is planned was not sent, in words: `budget: …`, `enqueued tokens: …`; empty: nothing is held back."""
    over_budget: bool = False
    """A cap holds back what is planned."""
    problem: str = ""
    """What the vendor's Batch API said when it was looked at last; empty: nothing was wrong."""
    is_unusable: bool = False
    """That will be no better later: a wrong key, an empty account."""
    remarks: tuple[str, ...] = ()
    """What was wrong with replies or ids in this pass."""

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
