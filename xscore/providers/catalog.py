"""What is declared of each model family: the settings a judge runs with, and how its host caches prefixes.

A model that is not listed gets cautious settings (small context, no reasoning field). It holds no prices; those come
from genai-prices for each call. The trade-off: the table ages, so it names families by the start of the model's name
and a new member inherits from its family.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Declared settings of one model family."""

    known: bool = True
    """False: nothing is declared for this model, these are the cautious defaults."""
    reasoning: str = ""
    """Lowest effort the model takes, in the vendor's words; empty: the field is not sent."""
    reasoning_reserve: int = 0
    """Output tokens to reserve for reasoning at that effort, a call."""
    temperature: float | None = None
    """What a judge sends; None where the API has none or takes only its own."""
    context_tokens: int = 128_000
    """Longest input."""
    max_output_tokens: int = 16_384
    cache_floor: int = 1_024
    """Shortest prefix that the host caches, in tokens."""
    cache_step: int = 128
    """Cached prefixes grow in such steps; 1: they end exactly at a breakpoint."""
    cache_breakpoints: bool = False
    """The host caches up to a marked place only (GPT-5.6 and later), and charges for writing."""
    order: str = "memory_first"
    """`memory_first` or `turn_first`."""


UNKNOWN = ModelSettings(known=False, temperature=0.0, context_tokens=8_192, max_output_tokens=4_096)

_MARKED = ModelSettings(
    reasoning="none",
    context_tokens=922_000,
    max_output_tokens=128_000,
    cache_step=1,
    cache_breakpoints=True,
)
_EFFORT_NONE = ModelSettings(reasoning="none", context_tokens=272_000, max_output_tokens=128_000)
_EFFORT_MINIMAL = ModelSettings(
    reasoning="minimal", reasoning_reserve=512, context_tokens=272_000, max_output_tokens=128_000
)
_EFFORT_LOW = ModelSettings(reasoning="low", reasoning_reserve=4_096, context_tokens=100_000, max_output_tokens=65_536)

FAMILIES: tuple[tuple[str, ModelSettings], ...] = (
    ("gpt-6", _MARKED),
    ("gpt-5.9", _MARKED),
    ("gpt-5.8", _MARKED),
    ("gpt-5.7", _MARKED),
    ("gpt-5.6", _MARKED),
    ("gpt-5.", _EFFORT_NONE),
    ("gpt-5", _EFFORT_MINIMAL),
    ("gpt-oss", ModelSettings(reasoning="low", reasoning_reserve=2_048, temperature=0.0, context_tokens=100_000)),
    ("gpt-4.1", ModelSettings(temperature=0.0, context_tokens=1_000_000, max_output_tokens=32_768)),
    ("gpt-4o", ModelSettings(temperature=0.0, context_tokens=111_000)),
    ("o1", _EFFORT_LOW),
    ("o3", _EFFORT_LOW),
    ("o4", _EFFORT_LOW),
)
"""Start of the model's name -> settings; the first that fits holds.

Sources: the request types of the official SDK 3.54 (efforts, breakpoints) and the vendor's prompt caching guide
(1,024 tokens in steps of 128 before GPT-5.6; since then exactly at a breakpoint, writes at 1.25 of the input price).
"""


def declared(provider: str, model: str) -> ModelSettings:
    """Return the settings of a model; a vendor prefix (`openai/gpt-6-luna`) is looked through."""
    if provider == "scripted":
        return ModelSettings(context_tokens=1_000_000, max_output_tokens=128_000)
    name = model.rsplit("/", 1)[-1].lower()
    return next((settings for start, settings in FAMILIES if name.startswith(start)), UNKNOWN)
