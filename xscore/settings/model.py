"""What all groups of settings have in common: frozen, strict about names, and the kinds of numbers that occur.

Settings of telemetry: who is told of turns.

Settings of money and time: what may be spent, and how much worse a figure may get.

Settings of what is judged offline or by many: batches at a vendor, questions that share a prompt, a shared server,
caches that move between machines.

Settings of the layers beside code: what is remembered, how it is fetched, vectors, the working session.

Every constant that changes an answer: its name, default, bounds and one sentence of meaning.

The settings reference is generated from here. It does not decide where a value comes from; `settings.load` does.
"""

from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator

REPOSITORY_MAY_SET: dict[str, Any] = {"repo": True}
"""Marks a setting that a repository's own file may set."""

Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(ge=1)]
Tolerance = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
"""A share by which something may grow."""
LayerName = Literal["session", "project", "user", "governance", "graph", "vector"]


class SettingsGroup(BaseModel):
    """A frozen group of settings; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class TelemetrySettings(SettingsGroup):
    """What leaves this machine beside the model calls: nothing, unless set."""

    otel: bool = Field(
        False,
        description="Send spans of turns, stages and calls, without any text, to the collector that the standard `OTEL_…` variables name (extra `otel`).",
    )


MOST_USD = 1_000_000
"""A larger cap is a slip of the hand, and its digits could fill memory."""
Dollars = Annotated[Decimal, Field(ge=0, le=MOST_USD, allow_inf_nan=False)]


class BudgetSettings(SettingsGroup):
    """What a turn may cost."""

    max_usd: Dollars | None = Field(
        Decimal("1.00"),
        description="Cap on one turn, in dollars, reserved before each send.",
    )
    max_usd_day: Dollars | None = Field(
        None,
        description="Cap on one day (UTC) of a repository, over all its turns and processes; unset: none.",
    )
    max_usd_repository: Dollars | None = Field(
        None,
        description="Cap on all that a repository's store has ever cost; unset: none.",
    )
    confirm_usd: Dollars = Field(
        Decimal("0.25"),
        description="On a terminal, ask before a turn whose estimate is above this.",
    )
    deadline_s: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds a turn may take, from the start of the command; what is not judged by then is unjudged.",
    )


class GateSettings(SettingsGroup):
    """How much worse than its baseline a figure may be before `xscore report --check` fails."""

    cost: Tolerance = Field(0.05, description="Share by which dollars may rise.", json_schema_extra=REPOSITORY_MAY_SET)
    calls: Tolerance = Field(0.05, description="Share by which calls may rise.", json_schema_extra=REPOSITORY_MAY_SET)
    tokens: Tolerance = Field(
        0.05,
        description="Share by which tokens of each kind may rise, in or out.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    coverage: Fraction = Field(
        0.0, description="By how much the share of judged candidates may fall.", json_schema_extra=REPOSITORY_MAY_SET
    )
    recall: Fraction = Field(
        0.02, description="By how much recall may fall, where both were measured.", json_schema_extra=REPOSITORY_MAY_SET
    )
    p95: Tolerance = Field(
        0.5,
        description="Share by which the p95 of a stage may rise before it is an alert.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    latency: Literal["alert", "fail", "off"] = Field(
        "alert",
        description="What a p95 beyond that does: name it, fail the check as well, or nothing.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    min_samples: Positive = Field(
        30, description="Fewer samples on either side make a p95 inconclusive.", json_schema_extra=REPOSITORY_MAY_SET
    )


Tenant = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class BatchSettings(SettingsGroup):
    """How lists of questions are judged."""

    max_requests: Positive | None = Field(
        None, description="Requests of one batch; unset: what the vendor takes (OpenAI 50,000, Anthropic 100,000)."
    )
    max_bytes: Positive | None = Field(
        None, description="Bytes of one batch; unset: what the vendor takes (OpenAI 200 MB, Anthropic 256 MB)."
    )
    enqueued_tokens: Positive | None = Field(
        None,
        description="Input tokens that may wait at the vendor, over all batches of this store; unset: no limit of our own.",
    )
    poll_s: float = Field(
        60.0, ge=0.05, le=86_400, allow_inf_nan=False, description="Seconds between two looks of `xscore batch wait`."
    )
    ray_address: str = Field(
        "local",
        description="Where `--engine ray` judges: `local`, a Ray of its own on this machine; `auto`, one that runs here; or a cluster's address.",
    )
    questions_a_call: int = Field(
        4, ge=1, le=16, description="Questions that share a prompt in `ask --batch`; 1: one question a call."
    )


class SharedSettings(SettingsGroup):
    """A server on which several processes and machines share judgments, limits and dollars."""

    url: SecretStr = Field(
        SecretStr(""),
        description="`redis://HOST` (extra `redis`) or `postgresql://HOST/DATABASE` (extra `postgres`); empty: nothing is shared.",
    )
    tenant: Tenant = Field(
        "default", description="Stands in every key on the server; tenants see nothing of each other."
    )
    require: bool = Field(
        False, description="Stop where the server cannot be reached, instead of going on with the local store alone."
    )
    timeout_s: float = Field(
        2.0, gt=0, le=60, allow_inf_nan=False, description="Deadline of one request to the server."
    )
    max_usd_day: Dollars | None = Field(
        None, description="Cap on one day (UTC) of the tenant, over all its processes and machines; unset: none."
    )


class CacheSettings(SettingsGroup):
    """The key that machines share, whose caches move between them."""

    key: SecretStr = Field(
        SecretStr(""),
        description="Signs exports of the cache, and tells whether an import is to be believed; `xscore cache key` prints one.",
    )
    key_file: Path | None = Field(
        None, description="A file of yours alone that holds the key instead; `--key-file` on the command line."
    )


SignalName = Literal["accept", "adoption", "reject", "override"]
Move = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class MemorySettings(SettingsGroup):
    """What is remembered beside code, for how long, and who may learn from it."""

    user_learning: bool = Field(
        True,
        description="Open your own store: preferences, and what holds in several projects. A repository may only switch it off.",
        json_schema_extra={"repo": "off"},
    )
    allow_pii: bool = Field(
        False, description="Keep e-mail addresses, phone numbers and postal addresses of configuration and notes."
    )
    decay_per_day: Weight = Field(0.01, description="λ of `base·exp(-λ·days)`, by which confidence fades unseen.")
    drop_importance: Fraction = Field(0.2, description="Memories less important than this are dropped when unused.")
    drop_days: float = Field(30.0, gt=0, description="Days without use after which they are.")
    archive_days: float = Field(180.0, gt=0, description="Days without use after which a memory is archived.")
    prune_days: float = Field(365.0, gt=0, description="Days without use after which an archived memory is erased.")
    high_importance: Fraction = Field(
        0.8, description="Memories at least so important are neither archived nor erased for their age."
    )
    inferred_confidence: Fraction = Field(0.6, description="Confidence with which an inferred memory starts.")
    weak_confidence: Fraction = Field(0.2, description="An inferred preference below this is archived.")
    feedback: dict[SignalName, Move] = Field(
        default={"accept": 0.1, "adoption": 0.05, "reject": -0.2, "override": -0.3},
        description="How far each signal moves the confidence of a memory, which stays in 0..1. A signal not named keeps its default.",
    )
    pattern_at: Positive = Field(3, description="Occurrences of a failure that make it a pattern.")
    promote_projects: Positive = Field(3, description="Projects in which a fact must hold to become the user's.")
    promote_support: Fraction = Field(0.5, description="Share of all projects in which it must hold as well.")
    drift_projects: Positive = Field(
        5, description="A preference unused in so many of the latest projects loses confidence."
    )
    drift_rate: float = Field(2.0, ge=1, le=100, description="So many times faster than one that is in use.")
    max_rows: dict[LayerName, Positive] = Field(
        default={"session": 20_000, "project": 5_000, "user": 2_000, "governance": 5_000},
        description="Most memories of a layer that is not the index's; the least valuable are archived first.",
    )
    max_bytes: dict[LayerName, Positive] = Field(
        default={"session": 64_000_000, "project": 8_000_000, "user": 4_000_000, "governance": 8_000_000},
        description="Most bytes of their text.",
    )

    @field_validator("max_rows", "max_bytes", "feedback", mode="before")
    @classmethod
    def _over_the_defaults(cls, given: object, info: ValidationInfo) -> object:
        default = cls.model_fields[str(info.field_name)].default
        return {**default, **given} if isinstance(given, dict) else given


class RoutingSettings(SettingsGroup):
    """How the layers are fetched, and what the bundle gives to each by the kind of task."""

    task_type: Literal["auto", "edit", "explain", "design", "refactor", "research"] = Field(
        "auto", description="Kind of task; `auto` reads it off the task."
    )
    strict: bool = Field(
        False, description="End a turn with an error where a layer cannot be read, instead of naming it."
    )
    deadline_ms: float = Field(
        50.0,
        gt=0,
        description="Deadline of one layer's fetch; a layer that misses it is named and fetched again without.",
    )


class EmbeddingSettings(SettingsGroup):
    """Vectors beside the built-in word hash: for ordering, near duplicates and merging; they decide nothing."""

    model: str = Field(
        "terms",
        description="`terms` (built in), `minilm:FOLDER` (extra `local`), or `openai:MODEL` for an embeddings endpoint.",
    )
    base_url: str = Field("", description="Host of the embeddings endpoint; empty: that of `openai.base_url`.")
    faiss_rows: Positive = Field(50_000, description="Vectors from which the FAISS extra is used where installed.")


class SessionSettings(SettingsGroup):
    """The working session and how it speaks."""

    persona: Literal["", "concise", "playful", "formal"] = Field("", description="Tone of the answer; empty: plain.")
    exchanges: int = Field(3, ge=0, le=50, description="Latest exchanges of the session that the answerer is shown.")


DEFAULT_JUDGE = "openai:gpt-6-luna"
"""Small, current: $0.10 / $0.01 cached / $0.50 per million tokens (genai-prices 0.2.3, November 2026)."""
DEFAULT_PRIMARY = "openai:gpt-6.1-sol"
"""Strong, current: $2.00 / $0.10 cached / $10.00 per million tokens (genai-prices 0.2.3, November 2026)."""
OTHER_JUDGES = ("anthropic:claude-haiku-5-5",)
"""Stand in for the default where it has no key and they have one; $0.10 / $0.01 cached / $0.50 per million tokens."""
OTHER_PRIMARIES = ("anthropic:claude-sonnet-5-5",)
"""Likewise; $2.00 / $0.10 cached / $10.00 per million tokens."""

Ceiled = Literal["session", "project", "user", "governance"]
"""Layers that could crowd out code and documents."""


class JudgeSettings(SettingsGroup):
    """Who judges, and how it is fed."""

    model: str = Field(
        DEFAULT_JUDGE,
        description="`provider:model` of the judge, `lexical`, or `scripted:FILE`. Unset, and with a key for Anthropic alone: `anthropic:claude-haiku-5-5`.",
    )
    pack_size: int | None = Field(
        None,
        ge=1,
        le=60,
        description="Memories a prompt; unset: 20, or 60 where the model's cache floor asks for it. 1: one prompt a memory.",
    )
    pack_tokens: int | None = Field(
        None, ge=200, description="Tokens a pack aims at; unset: 2,500, or 4,600 for a cache floor of 4,096."
    )
    order: Literal["memory_first", "turn_first"] | None = Field(
        None, description="Unset: as declared for the model. `memory_first` lets provider prefix caches serve the pack."
    )
    context: Literal["task", "full"] = Field(
        "task",
        description="What the judge sees of the turn: task and errors, or also file, diff and recent files (then part of the key).",
    )
    reasons: Literal["relevant", "all"] = Field(
        "relevant", description="Reasons for scores from `reasons_from`, or for all."
    )
    reasons_from: Fraction = Field(0.3, description="Lowest score that asks for a reason.")
    tests: Literal["cards", "full"] = Field(
        "cards", description="Show tests to the judge as purpose cards, or whole.", json_schema_extra=REPOSITORY_MAY_SET
    )
    concurrency: Positive | None = Field(
        None, description="Most calls in flight, found by trying from 16; unset: 64, or 4 for a loopback host."
    )
    rpm: Positive | None = Field(None, description="Requests a minute; unset: no limit of our own.")
    tpm: Positive | None = Field(None, description="Tokens a minute; unset: no limit of our own.")
    timeout_s: float = Field(
        60.0, gt=0, description="Deadline of one judging call; five times that for a loopback host."
    )
    attempts: int = Field(
        5,
        ge=1,
        le=20,
        description="Tries of one call before its candidates are unjudged; 429s do not count, of which it may meet 20.",
    )
    replay: bool = Field(
        False,
        description="Send nothing: what the cache does not hold stays unjudged. Needs no key (`--replay`).",
    )
    probe: bool = Field(
        True,
        description="Find out with one small call what a host that is not the vendor's own can do, the first time it judges.",
    )


class PrimarySettings(SettingsGroup):
    """Who answers."""

    model: str = Field(
        DEFAULT_PRIMARY,
        description="`provider:model` of the answering model. Unset, and with a key for Anthropic alone: `anthropic:claude-sonnet-5-5`.",
    )
    max_output_tokens: Positive = Field(8_000, description="Cap on the answer, reasoning included.")
    timeout_s: float = Field(300.0, gt=0, description="Deadline of the answering call.")
    reasoning: str = Field("", description="Reasoning effort in the vendor's words; empty: the vendor's default.")


class SelectionSettings(SettingsGroup):
    """What is kept."""

    threshold: Fraction = Field(
        0.7, description="Lowest final score that is kept (inclusive).", json_schema_extra=REPOSITORY_MAY_SET
    )
    lexical_threshold: Fraction = Field(
        0.5, description="The same for the lexical judge, whose scale is its own.", json_schema_extra=REPOSITORY_MAY_SET
    )
    top_k: Positive = Field(15, description="At most so many are kept.", json_schema_extra=REPOSITORY_MAY_SET)
    min_keep: int = Field(
        0,
        ge=0,
        description="Fill up from the near misses to this many, labelled below threshold.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    tests_share: Fraction = Field(
        1 / 3, description="Share of K that tests may take when more than K pass.", json_schema_extra=REPOSITORY_MAY_SET
    )


class BoostSettings(SettingsGroup):
    """What may be added to a raw score, from links and recency."""

    boosters: tuple[str, ...] = Field(
        ("dependency", "test_link", "recency", "locality"),
        description="Who may lift a score; a name beside these four is an entry point `xscore.boosters` of a package you installed.",
    )
    cap: Fraction = Field(
        0.15, description="Most that all boosts together may add.", json_schema_extra=REPOSITORY_MAY_SET
    )
    floor: Fraction = Field(
        0.4, description="Lowest raw score that is boosted at all.", json_schema_extra=REPOSITORY_MAY_SET
    )
    dependency: Fraction = Field(
        0.10,
        description="Called by a candidate whose raw score passes; damped by degree.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    dependent: Fraction = Field(
        0.05,
        description="Calls a candidate whose raw score passes; damped by degree.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    hub_degree: Positive = Field(
        10,
        description="Callers and callees an entity may have before its dependency boosts shrink.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    test_link: Fraction = Field(
        0.10,
        description="Subject of a passing test, or a test of what is being edited.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    recency: Fraction = Field(
        0.03,
        description="Modified lately; halves every `recency_half_life_days`.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    recency_half_life_days: float = Field(
        7.0, gt=0, description="Days after which the recency boost has halved.", json_schema_extra=REPOSITORY_MAY_SET
    )
    locality: Fraction = Field(
        0.03,
        description="Same file as the current one; half of it for the same folder.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )


class BundleSettings(SettingsGroup):
    """What the answering model is shown, and in which order."""

    max_tokens: Positive = Field(
        8_000,
        description="Token budget of `xscore context` and of the memories in the answer prompt.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    w_rel: Weight = Field(
        1.0, description="Weight of the final score in the order of the bundle.", json_schema_extra=REPOSITORY_MAY_SET
    )
    w_rec: Weight = Field(0.1, description="Weight of recency, exp(-λ·days).", json_schema_extra=REPOSITORY_MAY_SET)
    w_auth: Weight = Field(0.1, description="Weight of the layer's authority.", json_schema_extra=REPOSITORY_MAY_SET)
    w_conf: Weight = Field(0.05, description="Weight of confidence.", json_schema_extra=REPOSITORY_MAY_SET)
    w_imp: Weight = Field(0.05, description="Weight of importance.", json_schema_extra=REPOSITORY_MAY_SET)
    decay_per_day: Weight = Field(0.02, description="λ of the recency term.", json_schema_extra=REPOSITORY_MAY_SET)
    ceilings: dict[Ceiled, Fraction] = Field(
        default={"session": 0.40, "project": 0.20, "user": 0.10, "governance": 0.05},
        description="Share of the memory text a layer may take; what is left, unspent shares included, is for code and documents (graph, vector). A layer not named keeps its default.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    authority: dict[LayerName, Fraction] = Field(
        default={"session": 1.0, "project": 0.85, "user": 0.7, "governance": 0.6, "graph": 0.5, "vector": 0.4},
        description="Authority of each layer. A layer not named keeps its default.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )

    @field_validator("ceilings", "authority", mode="before")
    @classmethod
    def _over_the_defaults(cls, given: object, info: ValidationInfo) -> object:
        default = cls.model_fields[str(info.field_name)].default
        return {**default, **given} if isinstance(given, dict) else given


class IndexSettings(SettingsGroup):
    """Which files become memories."""

    include: tuple[str, ...] = Field(
        (),
        description="Globs (gitignore syntax) to index; empty: everything textual.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    exclude: tuple[str, ...] = Field(
        (),
        description="Globs (gitignore syntax) to keep out, beside the built-in ones.",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    max_file_bytes: int = Field(
        1_000_000, ge=1, le=1_000_000_000, description="Larger files stay out.", json_schema_extra=REPOSITORY_MAY_SET
    )
    max_line_chars: Positive = Field(
        5_000,
        description="Files with a longer line stay out (minified or generated).",
        json_schema_extra=REPOSITORY_MAY_SET,
    )
    window_lines: Positive = Field(60, description="Lines of a text window.", json_schema_extra=REPOSITORY_MAY_SET)
    git: bool = Field(True, description="Ask git for the files, the diff and recent changes.")
    workers: int | None = Field(
        None, ge=1, description="Parsing processes; unset: the processors, for large runs only."
    )


class OpenAISettings(SettingsGroup):
    """Where the OpenAI dialect goes."""

    base_url: str = Field(
        "https://api.openai.com/v1",
        description="Any server that speaks the dialect; `OPENAI_BASE_URL` in the environment.",
    )
    api_key: SecretStr = Field(
        SecretStr(""),
        description="From the environment: `OPENAI_API_KEY`, or the variable named in `api_key_env`. Never from a file.",
    )
    api_key_env: str = Field("OPENAI_API_KEY", description="Name of the environment variable that holds the key.")


class AnthropicSettings(SettingsGroup):
    """Where the Anthropic dialect goes."""

    base_url: str = Field(
        "https://api.anthropic.com",
        description="The host of the Anthropic dialect; `ANTHROPIC_BASE_URL` in the environment.",
    )
    api_key: SecretStr = Field(
        SecretStr(""),
        description="From the environment: `ANTHROPIC_API_KEY`, or the variable named in `api_key_env`. Never from a file.",
    )
    api_key_env: str = Field("ANTHROPIC_API_KEY", description="Name of the environment variable that holds the key.")


class StoreSettings(SettingsGroup):
    """Where the store is and whether to believe it."""

    trust: bool = Field(False, description="Accept a store made elsewhere (`XSCORE_TRUST_STORE=1`, for CI caches).")
    user_data_dir: Path | None = Field(
        None,
        description="Holds the per-user secret and user layer; unset: the platform's (`XSCORE_STORE_USER_DATA_DIR`).",
    )


class Settings(SettingsGroup):
    """All of it. `Settings()` is the defaults alone; `load` is what the command line uses."""

    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    primary: PrimarySettings = Field(default_factory=PrimarySettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    gates: GateSettings = Field(default_factory=GateSettings)
    selection: SelectionSettings = Field(default_factory=SelectionSettings)
    boosts: BoostSettings = Field(default_factory=BoostSettings)
    bundle: BundleSettings = Field(default_factory=BundleSettings)
    index: IndexSettings = Field(default_factory=IndexSettings)
    memory: MemorySettings = Field(default_factory=MemorySettings)
    routing: RoutingSettings = Field(default_factory=RoutingSettings)
    embedding: EmbeddingSettings = Field(default_factory=EmbeddingSettings)
    session: SessionSettings = Field(default_factory=SessionSettings)
    openai: OpenAISettings = Field(default_factory=OpenAISettings)
    anthropic: AnthropicSettings = Field(default_factory=AnthropicSettings)
    batch: BatchSettings = Field(default_factory=BatchSettings)
    shared: SharedSettings = Field(default_factory=SharedSettings)
    cache: CacheSettings = Field(default_factory=CacheSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
