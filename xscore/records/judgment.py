"""What a judge says of a candidate: a score with its reason, or why there is none. There is no third thing."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from xscore.records.memory import Candidate


class Cause(StrEnum):
    """Why a candidate has no score."""

    BUDGET = "budget"
    """The dollar cap came first."""
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    REFUSED = "refused"
    """The model declined, alone in its prompt."""
    UNREADABLE = "unreadable"
    """No valid score after the whole repair ladder."""
    TOO_LONG = "too_long"
    """Not even its smallest part fits the model's context."""
    PROVIDER = "provider"
    """The provider failed after all retries, or stopped the run (quota, key, unknown model)."""


class Origin(StrEnum):
    """How a candidate came by its outcome this turn."""

    JUDGED = "judged"
    CACHED = "cached"
    CARRIED = "carried"
    """Taken over from an earlier turn of a continued thread."""
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Everything about a judge that may change its scores; two judges with equal identity share a cache."""

    provider: str
    host: str
    model: str
    reasoning: str
    prompt_version: str
    order: str
    """`memory_first` or `turn_first`."""
    packed: bool


@dataclass(frozen=True, slots=True)
class Judgment:
    """A valid score for one content. A score outside 0..1, or NaN, cannot exist."""

    content_hash: str
    score: float
    reason: str = ""
    pack: str = ""
    """The pack it was judged in (`packs.Pack.id`); empty: alone or lexical."""
    position: int = 0
    """Its place in that pack, from 0."""
    prior: float = 0.0
    """Lexical prior at the time of judging, 0..1; breaks ties."""

    def __post_init__(self) -> None:
        if not (isfinite(self.score) and 0.0 <= self.score <= 1.0):
            raise ValueError(f"a score lies in 0..1, not {self.score!r}")


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The honest absence of a score."""

    content_hash: str
    cause: Cause
    detail: str = ""


class Share(StrEnum):
    """Whose it is to judge a pack, among the processes at work on one store."""

    OURS = "ours"
    THEIRS = "theirs"
    """A living other process is paying for a content of it."""
    FREE = "free"
    """Nobody's, and not taken: enough was taken before it."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What came of claiming a pack."""

    share: Share
    known: Mapping[str, Judgment]
    """Contents of it that were judged meanwhile, by content hash; without reasons."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one candidate this turn."""

    candidate: Candidate
    result: Judgment | Unjudged
    origin: Origin

    def __post_init__(self) -> None:
        if isinstance(self.result, Unjudged) is not (self.origin is Origin.UNJUDGED):
            raise ValueError(
                f"outcome of {self.candidate.id} is {self.origin} but carries {type(self.result).__name__}"
            )
