"""What crosses the provider seam: a request, a completion, its usage, and the ledger's row of each
attempt."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Self

from msgspec import Meta, Struct, field


class Stage(StrEnum):
    """What a call is for: its name in the ledger and in JSON, its words on pages, and the part of a
    turn that makes it.

    A new member is in every sum: the ledger, the caps, receipts and reports go through all stages.
    """

    words: str
    """What such a call is for, as pages say it."""
    part: str
    """The field of `Latency` whose span is the parent of its span; empty: no turn makes such
    calls. Those of `primary` have their most tokens in `pipeline.answering.MOST_TOKENS`."""

    def __new__(cls, value: str, words: str = "", part: str | None = None) -> Self:
        """Make a member; the defaults are for type checkers, who read `Stage(value)` as
        this."""
        assert words and part is not None, f"{value} lacks its words, or its part of a turn"
        member = str.__new__(cls, value)
        member._value_ = value
        member.words = words
        member.part = part
        return member

    JUDGE = "judge", "judging", "judge"
    PRIMARY = "primary", "the answer", "primary"
    PROBE = "probe", "trying out the host", "judge"
    EMBED = "embed", "embedding", "judge"
    REASON = "reason", "reasons", "judge"
    """A chat model gives reasons for what a decision model chose."""
    GRADE = "grade", "grading answers", ""
    """A model says which of two answers helps more (`eval probe --grade`)."""
    COMPRESS = "compress", "summaries", ""
    """A model summarizes old turns of an agent's session (`session compress --model`)."""
    EXTRACT = "extract", "facts of sessions", ""
    """A model gives the facts of a session that is over (`memory.extractor`)."""
    PURPOSE = "purpose", "purposes of files", ""
    """A model writes lines of purpose for files, classes and folders (`batch purposes`)."""

    @property
    def operation(self) -> str:
        """What the field calls such a call: `embeddings` or `chat`."""
        return "embeddings" if self is Stage.EMBED else "chat"


class Answerer(Struct, frozen=True):
    """The model that answers."""

    provider: str
    model: str
    host: str


class Finish(StrEnum):
    """How a completion ended."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"


class DecisionForm(StrEnum):
    """What a decision model is asked of each memory."""

    PREDICATE = "predicate"
    """The question is whether a memory is needed; the probability is the score."""
    SCORE = "score"
    """The question is how much a memory is needed, on five levels; the expected value is the
    score."""


class DecisionWire(StrEnum):
    """The shapes of requests to decision models (`providers.decision_wires`).

    Each is also the provider's name of any server that speaks it.
    """

    DECISIONS = "decisions"
    """OpenAI's dialect: a list of questions, and of answers in their order."""
    SYSTEM_ONE = "systemone"
    """TypeSafe's dialect: questions and answers by name."""


class Request(Struct, frozen=True, kw_only=True):
    """One prompt for one model, in the vendors' common terms; each dialect renders it its own
    way."""

    stage: Stage
    model: str
    system: str
    content: tuple[str, ...]
    """Parts of the one user message, in order; joined by a blank line where the dialect has no
    parts."""
    stable_parts: int = 0
    """Leading parts that are byte-identical over turns (for prefix caches)."""
    prefix_ttl_s: int = 0
    """How long a host that charges for it should cache the stable parts; 0: not at all."""
    reply_ids: tuple[str, ...] = ()
    """Ids that the reply must score; not empty: the reply is the judging object of
    `docs/internals/protocol.md`."""
    reply_questions: tuple[str, ...] = ()
    """Codes of the questions that share the prompt: every id is scored for every question. Empty:
    one turn."""
    decision: DecisionForm | None = None
    """The form of a decision model, for which `content` is the turn and a question for each of
    `reply_ids`, and `system` the rubric; None: a chat model."""
    levels: tuple[str, ...] = ()
    """Levels of a question that rates, lowest first."""
    max_output_tokens: int
    input_tokens: int
    reserved_input_tokens: int
    """An upper bound of the input tokens (chars / 2.5), reserved in limits and budget before the
    send."""
    cache_key: str = ""
    """Key of calls that begin with the same bytes, which a host routes to the same prefix
    cache; empty: none."""
    reasoning: str = ""
    """The reasoning effort to ask for; empty: the model's default."""
    temperature: float | None = None
    """None: not sent, since the model takes none or its default is wanted."""
    candidates: int = 0
    """Judgments this call returns: one per memory or, if questions share the prompt, per memory and
    question."""
    frame_tokens: int = 0
    """Tokens that separate prompts would repeat per judgment: rubric, turn and request, and the
    memory if the prompt is shared."""
    timeout_s: float = 120.0


DECLINED = "refused"
"""Text in `Completion.text` in place of an answer that a decision model declined."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of a call or a sum of calls.

    Cached and cache-write are parts of the input, reasoning of the output.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Part of the cache writes that is kept for an hour, at a separate price."""
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            **{
                name: getattr(self, name) + getattr(other, name)
                for name in self.__struct_fields__
            }
        )


Limit = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]


class RateLimits(Struct, frozen=True):
    """Limits from a host's headers; None where not stated."""

    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    input_tokens_per_minute: Limit | None = None
    """Limit of input tokens, if the host limits input separately; tokens from its prefix cache
    do not count."""
    output_tokens_per_minute: Limit | None = None

    def __bool__(self) -> bool:
        """Whether any limit is known."""
        return self != RateLimits()

    def in_words(self) -> str:
        """`500 requests, 200,000 tokens`: each limit that is known; empty if none is."""
        named = (
            (name.removesuffix("_per_minute").replace("_", " "), name)
            for name in self.__struct_fields__
        )
        return ", ".join(
            f"{getattr(self, name):,} {words}" for words, name in named if getattr(self, name)
        )


class ReplyForm(StrEnum):
    """How a judging reply is asked for, strongest first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TEXT = "text"


MOST_RENAMED = 2
"""How often a model may be renamed in the life of a `Capability`: one that moves on is renamed
once."""


class Capability(Struct, frozen=True, kw_only=True):
    """What one host can do with one model."""

    provider: str
    host: str
    model: str
    probed_at: Annotated[float, Meta(ge=0)]
    """Unix seconds; 0: never probed, learned from ordinary replies."""
    reply_form: ReplyForm = ReplyForm.JSON_SCHEMA
    """The strongest form that gave a readable reply."""
    without: tuple[str, ...] = ()
    """Request fields that the host refuses; `decisions`: it has no decisions route."""
    reports_usage: bool = True
    reports_cached_tokens: bool = False
    context_tokens: Limit | None = None
    reasoning_tokens: Annotated[int, Meta(ge=0)] = 0
    """Reasoning tokens per judgment in the probe."""
    answered_by: str = ""
    """The model that a decision host named in its latest reply, where `model` may be a moving
    alias."""
    renamed: Annotated[int, Meta(ge=0)] = 0
    """How often that name has changed since the probe."""
    limits: RateLimits = field(default_factory=RateLimits)
    shared_form_failed_at: Annotated[float, Meta(ge=0)] = 0.0
    """Unix seconds at which the model gave no usable score to prompts that questions share; 0:
    never seen."""

    @property
    def has_no_steady_name(self) -> bool:
        """Whether the host names now this model and now that, so that its names tell no judge from
        another."""
        return self.renamed >= MOST_RENAMED

    @property
    def judge(self) -> str:
        """The model whose judgments these are, as the host names it; empty: the one asked
        for."""
        return "" if self.has_no_steady_name else self.answered_by


class ConcurrencyStep(Struct, frozen=True):
    """A change of how many calls may be in flight."""

    at_s: float
    limit: int
    because: str
    """Why the limit is what it is: `start`, `doubled`, `grew`, `rate_limited` or
    `recovered`."""


class Traffic(Struct, frozen=True):
    """Calls to one host: its limits, and calls in flight over time."""

    limits: RateLimits = field(default_factory=RateLimits)
    concurrency: tuple[ConcurrencyStep, ...] = ()


class Completion(Struct, frozen=True, kw_only=True):
    """A model's whole reply."""

    text: str
    finish: Finish
    usage: Usage
    model: str
    usage_reported: bool = True
    """Whether the host sent its usage; if not, ours is the estimate."""
    limits: RateLimits = field(default_factory=RateLimits)
    cost_usd: Decimal | None = None
    """Dollars of the call; None: unpriced, or not metered."""


class CounterfactualCost(Struct, frozen=True, kw_only=True):
    """What one call would have cost otherwise; None: unknown."""

    without_prefix_cache: Decimal | None = None
    """The cost with every input token at the plain price, and nothing written to the host's
    cache."""
    without_packs: Decimal | None = None
    """The cost of one prompt per memory, each repeating the text around the memories;
    approximate."""
    by_batch: Decimal | None = None


class CallRecord(Struct, frozen=True, kw_only=True):
    """One attempt at one call, for the ledger. Failed attempts are recorded as well."""

    id: str
    turn_id: str
    stage: Stage
    provider: str
    host: str
    model: str
    started_at: float
    duration_s: float
    outcome: str
    """`ok`, or the `kind` of the error."""
    candidates: int
    usage: Usage
    cost_usd: Decimal | None
    estimated: bool
    """Whether the usage is our estimate: the host sent none, or the call failed after it was
    sent."""
    otherwise: CounterfactualCost = field(default_factory=CounterfactualCost)
    chars: int = 0
    """Size of the prompt by `tokens.size`; the ledger learns the model's characters a token
    from it. 0: unknown."""


EXCHANGE = "exchange"
"""The operation that exchanges a team's memories."""


class ServerCall(Struct, frozen=True, kw_only=True):
    """One request to a shared server: when and how it ended, and nothing of what it was about."""

    system: str
    """`redis` or `postgresql`."""
    operation: str
    """`claim`, `store_judgments`, `take`, `exchange`, …"""
    host: str
    """`name:port`."""
    started_at: float
    """Unix seconds."""
    duration_s: float
    error: str = ""
    """The `kind` of the error, or `cancelled`; empty: the server answered."""
