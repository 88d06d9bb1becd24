"""Every constant that changes an answer: its name, default, bounds and one sentence of meaning.

The settings reference is generated from here. It does not decide where a value comes from; `settings.load` does.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from xscore.settings.layers import EmbeddingSettings, MemorySettings, RoutingSettings, SessionSettings
from xscore.settings.offline import BatchSettings, CacheSettings, SharedSettings
from xscore.settings.part import REPO, LayerName, Part, Positive, Share, Weight
from xscore.settings.spending import BudgetSettings, GateSettings
from xscore.settings.telemetry import TelemetrySettings

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


class JudgeSettings(Part):
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
    reasons_from: Share = Field(0.3, description="Lowest score that asks for a reason.")
    tests: Literal["cards", "full"] = Field(
        "cards", description="Show tests to the judge as purpose cards, or whole.", json_schema_extra=REPO
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


class PrimarySettings(Part):
    """Who answers."""

    model: str = Field(
        DEFAULT_PRIMARY,
        description="`provider:model` of the answering model. Unset, and with a key for Anthropic alone: `anthropic:claude-sonnet-5-5`.",
    )
    max_output_tokens: Positive = Field(8_000, description="Cap on the answer, reasoning included.")
    timeout_s: float = Field(300.0, gt=0, description="Deadline of the answering call.")
    reasoning: str = Field("", description="Reasoning effort in the vendor's words; empty: the vendor's default.")


class SelectionSettings(Part):
    """What is kept."""

    threshold: Share = Field(0.7, description="Lowest final score that is kept (inclusive).", json_schema_extra=REPO)
    lexical_threshold: Share = Field(
        0.5, description="The same for the lexical judge, whose scale is its own.", json_schema_extra=REPO
    )
    top_k: Positive = Field(15, description="At most so many are kept.", json_schema_extra=REPO)
    min_keep: int = Field(
        0,
        ge=0,
        description="Fill up from the near misses to this many, labelled below threshold.",
        json_schema_extra=REPO,
    )
    tests_share: Share = Field(
        1 / 3, description="Share of K that tests may take when more than K pass.", json_schema_extra=REPO
    )


class BoostSettings(Part):
    """What may be added to a raw score, from links and recency."""

    boosters: tuple[str, ...] = Field(
        ("dependency", "test_link", "recency", "locality"),
        description="Who may lift a score; a name beside these four is an entry point `xscore.boosters` of a package you installed.",
    )
    cap: Share = Field(0.15, description="Most that all boosts together may add.", json_schema_extra=REPO)
    floor: Share = Field(0.4, description="Lowest raw score that is boosted at all.", json_schema_extra=REPO)
    dependency: Share = Field(
        0.10, description="Called by a candidate whose raw score passes; damped by degree.", json_schema_extra=REPO
    )
    dependent: Share = Field(
        0.05, description="Calls a candidate whose raw score passes; damped by degree.", json_schema_extra=REPO
    )
    hub_degree: Positive = Field(
        10,
        description="Callers and callees an entity may have before its dependency boosts shrink.",
        json_schema_extra=REPO,
    )
    test_link: Share = Field(
        0.10, description="Subject of a passing test, or a test of what is being edited.", json_schema_extra=REPO
    )
    recency: Share = Field(
        0.03, description="Modified lately; halves every `recency_half_life_days`.", json_schema_extra=REPO
    )
    recency_half_life_days: float = Field(
        7.0, gt=0, description="Days after which the recency boost has halved.", json_schema_extra=REPO
    )
    locality: Share = Field(
        0.03, description="Same file as the current one; half of it for the same folder.", json_schema_extra=REPO
    )


class BundleSettings(Part):
    """What the answering model is shown, and in which order."""

    max_tokens: Positive = Field(
        8_000,
        description="Token budget of `xscore context` and of the memories in the answer prompt.",
        json_schema_extra=REPO,
    )
    w_rel: Weight = Field(
        1.0, description="Weight of the final score in the order of the bundle.", json_schema_extra=REPO
    )
    w_rec: Weight = Field(0.1, description="Weight of recency, exp(-λ·days).", json_schema_extra=REPO)
    w_auth: Weight = Field(0.1, description="Weight of the layer's authority.", json_schema_extra=REPO)
    w_conf: Weight = Field(0.05, description="Weight of confidence.", json_schema_extra=REPO)
    w_imp: Weight = Field(0.05, description="Weight of importance.", json_schema_extra=REPO)
    decay_per_day: Weight = Field(0.02, description="λ of the recency term.", json_schema_extra=REPO)
    ceilings: dict[Ceiled, Share] = Field(
        default={"session": 0.40, "project": 0.20, "user": 0.10, "governance": 0.05},
        description="Share of the memory text a layer may take; what is left, unspent shares included, is for code and documents (graph, vector). A layer not named keeps its default.",
        json_schema_extra=REPO,
    )
    authority: dict[LayerName, Share] = Field(
        default={"session": 1.0, "project": 0.85, "user": 0.7, "governance": 0.6, "graph": 0.5, "vector": 0.4},
        description="Authority of each layer. A layer not named keeps its default.",
        json_schema_extra=REPO,
    )

    @field_validator("ceilings", "authority", mode="before")
    @classmethod
    def _over_the_defaults(cls, given: object, info: ValidationInfo) -> object:
        default = cls.model_fields[str(info.field_name)].default
        return {**default, **given} if isinstance(given, dict) else given


class IndexSettings(Part):
    """Which files become memories."""

    include: tuple[str, ...] = Field(
        (), description="Globs (gitignore syntax) to index; empty: everything textual.", json_schema_extra=REPO
    )
    exclude: tuple[str, ...] = Field(
        (), description="Globs (gitignore syntax) to keep out, beside the built-in ones.", json_schema_extra=REPO
    )
    max_file_bytes: int = Field(
        1_000_000, ge=1, le=1_000_000_000, description="Larger files stay out.", json_schema_extra=REPO
    )
    max_line_chars: Positive = Field(
        5_000, description="Files with a longer line stay out (minified or generated).", json_schema_extra=REPO
    )
    window_lines: Positive = Field(60, description="Lines of a text window.", json_schema_extra=REPO)
    git: bool = Field(True, description="Ask git for the files, the diff and recent changes.")
    workers: int | None = Field(
        None, ge=1, description="Parsing processes; unset: the processors, for large runs only."
    )


class OpenAISettings(Part):
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


class AnthropicSettings(Part):
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


class StoreSettings(Part):
    """Where the store is and whether to believe it."""

    trust: bool = Field(False, description="Accept a store made elsewhere (`XSCORE_TRUST_STORE=1`, for CI caches).")
    user_data_dir: Path | None = Field(
        None,
        description="Holds the per-user secret and user layer; unset: the platform's (`XSCORE_STORE_USER_DATA_DIR`).",
    )


class Settings(Part):
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
