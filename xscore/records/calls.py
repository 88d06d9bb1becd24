"""What crosses the provider seam: a request, a completion, its usage, and the ledger's row of each attempt."""

from decimal import Decimal
from enum import StrEnum

from msgspec import Struct, field


class Stage(StrEnum):
    """What a call is for."""

    JUDGE = "judge"
    PRIMARY = "primary"
    PROBE = "probe"
    EMBED = "embed"


class Finish(StrEnum):
    """How a completion ended."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"


class Request(Struct, frozen=True, kw_only=True):
    """One prompt for one model, in the vendors' common terms; each dialect renders it its own way."""

    stage: Stage
    model: str
    system: str
    """Our instructions; never text from memories."""
    content: tuple[str, ...]
    """Parts of the one user message, in order; joined by a blank line where the dialect has no parts."""
    stable_parts: int = 0
    """Leading parts that are byte-identical over turns (for prefix caches)."""
    prefix_ttl_s: int = 0
    """How long a host that charges for it should cache the stable parts; 0: not."""
    reply_ids: tuple[str, ...] = ()
    """Ids that the reply must score; not empty: the reply is the judging object of `docs/internals/protocol.md`."""
    reply_questions: tuple[str, ...] = ()
    """Codes of the questions that share the prompt: each of the ids is scored for each of them. Empty: one turn."""
    max_output_tokens: int
    input_tokens: int
    """Our estimate of system and content."""
    reserved_input_tokens: int
    """An upper bound of it (chars / 2.5), reserved in limits and budget before the send."""
    cache_key: str = ""
    """Routes equal prefixes to one server where the vendor takes such a key."""
    reasoning: str = ""
    """Reasoning effort in the vendor's words; empty: not sent."""
    temperature: float | None = None
    candidates: int = 0
    """Judgments this call gives: a memory for each, or, where questions share it, a memory and a question."""
    frame_tokens: int = 0
    """What a prompt of its own would repeat for each judgment: rubric, turn and request, and where questions share the
    prompt, the memory."""
    timeout_s: float = 120.0
    """Deadline of one attempt, from send to last byte."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of a call or a sum of calls. Cached and cache-write are parts of the input, reasoning of the output."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Part of the cache writes: kept for an hour, at a price of its own."""
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class RateLimits(Struct, frozen=True):
    """Limits from a host's headers; None where not stated."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Input and output together."""
    input_tokens_per_minute: int | None = None
    """Where the host counts input apart; what its prefix cache serves is not counted."""
    output_tokens_per_minute: int | None = None


class ReplyForm(StrEnum):
    """How a judging reply is asked for, strongest first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TEXT = "text"


class Capability(Struct, frozen=True, kw_only=True):
    """What one host can do with one model."""

    provider: str
    host: str
    model: str
    probed_at: float
    """Unix seconds; 0: never probed, known from ordinary replies alone."""
    reply_form: ReplyForm = ReplyForm.JSON_SCHEMA
    """The strongest form that gave a readable reply."""
    without: tuple[str, ...] = ()
    """Names of request fields that the host refused."""
    reports_usage: bool = True
    reports_cached_tokens: bool = False
    context_tokens: int | None = None
    """Longest input, if the host states it."""
    reasoning_tokens: int = 0
    """Reasoning tokens a judgment that the probe cost."""
    limits: RateLimits = field(default_factory=RateLimits)


class ConcurrencyStep(Struct, frozen=True):
    """A change of how many calls may be in flight."""

    at_s: float
    """Seconds since the first call."""
    limit: int
    because: str
    """`start`, `doubled`, `grew`, `rate_limited`, `recovered`."""


class Traffic(Struct, frozen=True):
    """Calls to one host: its limits, and calls in flight over time."""

    limits: RateLimits = field(default_factory=RateLimits)
    """What the host stated so far."""
    concurrency: tuple[ConcurrencyStep, ...] = ()


class Completion(Struct, frozen=True, kw_only=True):
    """A model's whole reply."""

    text: str
    finish: Finish
    usage: Usage
    model: str
    """As the host names it in the reply."""
    usage_reported: bool = True
    """False where the host sent no usage and ours is the estimate."""
    limits: RateLimits = field(default_factory=RateLimits)


class CounterfactualCost(Struct, frozen=True, kw_only=True):
    """What one call would have cost otherwise; None: unknown."""

    without_prefix_cache: Decimal | None = None
    """Every input token at the plain price, nothing written to the host's cache."""
    without_packs: Decimal | None = None
    """One prompt a memory: what stands around the memories sent with each; about right."""
    by_batch: Decimal | None = None
    """The same tokens through the vendor's Batch API."""


class CallRecord(Struct, frozen=True, kw_only=True):
    """One attempt at one call, for the ledger. Failed attempts are recorded as well."""

    id: str
    turn_id: str
    stage: Stage
    provider: str
    host: str
    model: str
    started_at: float
    """Unix seconds."""
    duration_s: float
    outcome: str
    """`ok`, or the `kind` of the error."""
    candidates: int
    usage: Usage
    cost_usd: Decimal | None
    """None: unpriced."""
    estimated: bool
    """The usage is our estimate: the host sent none, or the call failed after it was sent."""
    otherwise: CounterfactualCost = field(default_factory=CounterfactualCost)
    chars: int = 0
    """Of the prompt, by `tokens.size`; the ledger learns the model's characters a token from them. 0: unknown."""
