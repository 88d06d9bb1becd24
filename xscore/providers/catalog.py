"""Declared settings of each model family: how a judge calls it, and how its host caches prefixes.

A model that is not listed gets cautious settings (small context, no reasoning field). Prices come
from genai-prices. Trade-off: the table ages, so it names families by the start of the model's name,
and a new member inherits.
"""

from msgspec import Struct
from msgspec.structs import replace

from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.records.judgment import DECISION_ORDER

MINUTE_S, HOUR_S = 60, 3_600


class CacheWrite(Struct, frozen=True):
    """One way in which a host keeps a marked prefix, at a price."""

    ttl_s: int
    """How long a prefix is kept after it was last used."""
    price_factor: float
    """Price of each token written, as a multiple of the plain input price."""


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Declared settings of one model family."""

    reasoning: str = ""
    """Lowest effort the model takes, in the vendor's words; empty if the field is not sent."""
    reasoning_reserve: int = 0
    """Output tokens to reserve for reasoning at that effort, for each call."""
    temperature: float | None = None
    """Temperature that a judge sends; None where the API has none or takes only its own."""
    context_tokens: int = 128_000
    """Tokens of the longest input."""
    max_output_tokens: int = 16_384
    cache_floor: int = 1_024
    """Shortest prefix that the host caches, in tokens."""
    cache_breakpoints: bool = False
    """Whether the host caches up to a marked place only (Claude; GPT-5.6 and later), and
    charges for writing."""
    cache_writes: tuple[CacheWrite, ...] = ()
    """How long a marked prefix may be kept, and what writing it costs; empty where the host caches
    by itself."""
    cache_read_factor: float = 0.1
    """Price of a token read from the cache, as a share of the plain input price."""
    order: str = "memory_first"
    """Order of the prompt: `memory_first` or `turn_first`."""
    pack_tokens: int = 5_000
    """Tokens of memories that share a prompt."""
    pack_size: int = 40
    """Memories that share a prompt; more where the host caches long prefixes only."""


UNKNOWN = ModelSettings(
    temperature=0.0,
    context_tokens=8_192,
    max_output_tokens=4_096,
    pack_tokens=2_500,
    pack_size=20,
)
"""A model that is not known. It judges less well by the position in a long prompt, as weak
models do: half as many memories share one."""

_MARKED = ModelSettings(
    reasoning="none",
    context_tokens=922_000,
    max_output_tokens=128_000,
    cache_breakpoints=True,
    cache_writes=(CacheWrite(30 * MINUTE_S, 1.25),),
)
_EFFORT_NONE = ModelSettings(
    reasoning="none", context_tokens=272_000, max_output_tokens=128_000
)
_EFFORT_MINIMAL = ModelSettings(
    reasoning="minimal",
    reasoning_reserve=512,
    context_tokens=272_000,
    max_output_tokens=128_000,
)
_EFFORT_LOW = ModelSettings(
    reasoning="low", reasoning_reserve=4_096, context_tokens=100_000, max_output_tokens=65_536
)

OPENAI_FAMILIES: tuple[tuple[str, ModelSettings], ...] = (
    ("gpt-6.1", replace(_MARKED, cache_read_factor=0.05)),
    ("gpt-6", _MARKED),
    ("gpt-5.9", _MARKED),
    ("gpt-5.8", _MARKED),
    ("gpt-5.7", _MARKED),
    ("gpt-5.6", _MARKED),
    ("gpt-5.", _EFFORT_NONE),
    ("gpt-5", _EFFORT_MINIMAL),
    (
        "gpt-oss",
        replace(
            UNKNOWN,
            reasoning="low",
            reasoning_reserve=2_048,
            context_tokens=100_000,
            max_output_tokens=16_384,
        ),
    ),
    (
        "gpt-4.1",
        ModelSettings(temperature=0.0, context_tokens=1_000_000, max_output_tokens=32_768),
    ),
    ("gpt-4o", ModelSettings(temperature=0.0, context_tokens=111_000)),
    ("o1", _EFFORT_LOW),
    ("o3", _EFFORT_LOW),
    ("o4", _EFFORT_LOW),
)
"""Start of the model's name in the OpenAI dialect -> settings; the first that fits holds.

Sources: the request types of the official SDK 3.54 (efforts, breakpoints) and the vendor's prompt
caching guide (1,024 tokens in steps of 128 before GPT-5.6; since then exactly at a breakpoint, kept
for 30 minutes, writes at 1.25 of the input price); genai-prices 0.2.3 for what reading costs.
"""

_CLAUDE = ModelSettings(
    context_tokens=1_000_000,
    max_output_tokens=128_000,
    cache_breakpoints=True,
    cache_writes=(CacheWrite(5 * MINUTE_S, 1.25), CacheWrite(HOUR_S, 2.0)),
)
"""A model that does not think unless it is asked to; its API has no temperature."""
_SHORT = replace(_CLAUDE, context_tokens=200_000, max_output_tokens=64_000)
_UNTHINKING = replace(_CLAUDE, reasoning="disabled", cache_floor=512)
_THINKING = replace(_CLAUDE, reasoning="low", reasoning_reserve=4_096, cache_floor=512)
"""A model that always reasons; the effort says how much."""

CLAUDE_FAMILIES: tuple[tuple[str, ModelSettings], ...] = (
    ("claude-haiku-5", _UNTHINKING),
    (
        "claude-sonnet-5-5",
        replace(_UNTHINKING, reasoning="between_tools", cache_read_factor=0.05),
    ),
    ("claude-sonnet-5", replace(_UNTHINKING, cache_floor=1_024)),
    ("claude-opus-5-5", replace(_THINKING, cache_read_factor=0.05)),
    ("claude-opus-5", _UNTHINKING),
    ("claude-fable-5-", replace(_THINKING, cache_read_factor=0.025)),
    ("claude-mythos-5-", replace(_THINKING, cache_read_factor=0.025)),
    ("claude-fable", _THINKING),
    ("claude-mythos-preview", replace(_THINKING, cache_floor=4_096, pack_size=60)),
    ("claude-mythos", _THINKING),
    ("claude-opus-4-8", _CLAUDE),
    ("claude-opus-4-7", replace(_CLAUDE, cache_floor=2_048)),
    ("claude-opus-4-6", replace(_CLAUDE, cache_floor=4_096, pack_size=60)),
    ("claude-sonnet-4-6", _CLAUDE),
    ("claude-haiku-4", replace(_SHORT, cache_floor=4_096, pack_size=60)),
    ("claude-opus-4-5", replace(_SHORT, cache_floor=4_096, pack_size=60)),
    ("claude-sonnet-4", _SHORT),
    ("claude-opus-4", replace(_SHORT, max_output_tokens=32_000)),
)
"""Start of the model's name in the Anthropic dialect -> settings; the first that fits holds.

Sources: the vendor's pages of each model, its prompt caching guide (floors; 5 minutes at 1.25 of
the input price, an hour at 2) and its migration guides to Opus 5, Opus 5.5, Sonnet 5.5 and Haiku
5.5 (which `thinking` each takes), read in November 2026; the SDK 2.12 for the words; genai-prices
0.2.3 for what reading costs.
"""


FAMILIES = {"anthropic": CLAUDE_FAMILIES, "openai": OPENAI_FAMILIES}
"""Vendor -> its families. A provider that is none is taken to speak the OpenAI dialect."""


def vendor_by_family(model: str) -> str:
    """Return the provider of a bare model name by its family; empty where no family fits."""
    for name, families in FAMILIES.items():
        if any(model.startswith(start) for start, _ in families):
            return name
    return ""


def model_settings(provider: str, model: str) -> ModelSettings:
    """Return the settings of a model; a vendor prefix (`openai/gpt-6-luna`) is looked through.

    The same model has other settings in another dialect, since each has words of its own for them.
    """
    if provider in DECISION_HOSTS:
        return ModelSettings(
            context_tokens=DECISION_HOSTS[provider].request_tokens, order=DECISION_ORDER
        )
    if provider == "scripted":
        return replace(
            UNKNOWN, temperature=None, context_tokens=1_000_000, max_output_tokens=128_000
        )
    name = model.rsplit("/", 1)[-1].lower()
    families = FAMILIES.get(provider, OPENAI_FAMILIES)
    return next((settings for start, settings in families if name.startswith(start)), UNKNOWN)
