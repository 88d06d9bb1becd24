"""Settings of the layers beside code: what is remembered, how it is fetched, vectors, the working session."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from xscore.settings.part import LayerName, Part, Positive, Share, Weight

SignalName = Literal["accept", "adoption", "reject", "override"]
Move = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class MemorySettings(Part):
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
    drop_importance: Share = Field(0.2, description="Memories less important than this are dropped when unused.")
    drop_days: float = Field(30.0, gt=0, description="Days without use after which they are.")
    archive_days: float = Field(180.0, gt=0, description="Days without use after which a memory is archived.")
    prune_days: float = Field(365.0, gt=0, description="Days without use after which an archived memory is erased.")
    high_importance: Share = Field(
        0.8, description="Memories at least so important are neither archived nor erased for their age."
    )
    inferred_confidence: Share = Field(0.6, description="Confidence with which an inferred memory starts.")
    weak_confidence: Share = Field(0.2, description="An inferred preference below this is archived.")
    feedback: dict[SignalName, Move] = Field(
        default={"accept": 0.1, "adoption": 0.05, "reject": -0.2, "override": -0.3},
        description="How far each signal moves the confidence of a memory, which stays in 0..1. A signal not named keeps its default.",
    )
    pattern_at: Positive = Field(3, description="Occurrences of a failure that make it a pattern.")
    promote_projects: Positive = Field(3, description="Projects in which a fact must hold to become the user's.")
    promote_support: Share = Field(0.5, description="Share of all projects in which it must hold as well.")
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


class RoutingSettings(Part):
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


class EmbeddingSettings(Part):
    """Vectors beside the built-in word hash: for ordering, near duplicates and merging; they decide nothing."""

    model: str = Field(
        "terms",
        description="`terms` (built in), `minilm:FOLDER` (extra `local`), or `openai:MODEL` for an embeddings endpoint.",
    )
    base_url: str = Field("", description="Host of the embeddings endpoint; empty: that of `openai.base_url`.")
    faiss_rows: Positive = Field(50_000, description="Vectors from which the FAISS extra is used where installed.")


class SessionSettings(Part):
    """The working session and how it speaks."""

    persona: Literal["", "concise", "playful", "formal"] = Field("", description="Tone of the answer; empty: plain.")
    exchanges: int = Field(3, ge=0, le=50, description="Latest exchanges of the session that the answerer is shown.")
