"""The hosts of decision models: where they are, which wire they speak, and what one request may
hold.

A new host needs a row here, and the names of its variables in `settings.load.DECISION_VENDORS` and
in `hosts`; every wire has a row of its own, for any server that speaks it. Sources, read in
November 2026: the OpenAI SDK 3.54 (1-400 questions), TypeSafe's SDK 0.7.5 and its models page (64k
tokens a request, state and longest question 32k, 250,000 tokens a second, 1,200 requests a minute),
Perplexity's quickstart (System One's form at `/v1/decisions`, 128 questions, 262,144 tokens),
Fireworks' reference (OpenAI's form), genai-prices 0.2.3 for names. No host publishes its tokenizer,
so a request is filled to 70 % of what it may hold, by our estimate. Trade-off: limits declared here
age; what a host states in a reply or refuses outranks them.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from xscore.platform.errors import UsageError
from xscore.providers.hosts import vendor_access
from xscore.records.calls import DecisionWire, RateLimits
from xscore.settings.hosts import HostAccess

if TYPE_CHECKING:
    from xscore.settings import Settings

FILL_SHARE = 0.7
"""Share of a request's tokens that we fill; estimates of single texts are off by 11-23 %."""
MOST_OFF = 1.25
"""Most tokens that a host counts for each one of our estimate."""
MOST_TOKENS = 25_000
"""Most tokens of one request: many middle-sized requests end sooner than few long ones."""
MOST_QUESTIONS = 400
STATE_TOKENS = 2_000
"""Tokens set aside for the rubric and a usual turn."""
MOST_STATE_CHARS = 48_000
"""Longest turn, which is read with every question."""
STATE_CHARS_PER_TOKEN = 2.5
"""Characters per token of a turn so long that it must be shortened: logs and traces have more
tokens than prose."""
SECOND_BURST_S = 0.13
"""Seconds of tokens that may be sent at once: these hosts count tokens by the second, so
requests are spaced."""
LONGEST_QUESTION = 4_000
"""Most tokens of one memory; a larger one is judged in parts."""


class DecisionHost(Struct, frozen=True, kw_only=True):
    """What is declared of one host."""

    wire: DecisionWire
    vendor: str = ""
    """Domain of the vendor; empty: the host of the base URL."""
    base_url: str = ""
    """Usual base URL; empty: the user must name one."""
    path: str = ""
    """Path after the base URL; empty: `/` and the wire's own name."""
    base_path: str = "/v1"
    """Path that is added to a base URL without one: the host's routes begin with it."""
    model: str = ""
    """The model that `provider` alone means: a pinned version."""
    request_tokens: int = 64_000
    questions: int = MOST_QUESTIONS
    limits: RateLimits = RateLimits()

    @property
    def route(self) -> str:
        """The path of a request, from the base URL."""
        return self.path or f"/{self.wire.value}"

    @property
    def base_url_ends(self) -> str:
        """How a base URL ends, for hints."""
        if self.base_path:
            return f"with {self.base_path}"
        return f"without {self.route}"

    @property
    def fill_tokens(self) -> int:
        """Tokens of questions that one request is filled with."""
        return max(500, min(MOST_TOKENS, int(self.request_tokens * FILL_SHARE)) - STATE_TOKENS)

    @property
    def state_chars(self) -> int:
        """The longest turn that fits in a request with its questions; a longer one is
        shortened."""
        tokens_left = self.request_tokens - self.fill_tokens * MOST_OFF
        return min(MOST_STATE_CHARS, int(tokens_left * STATE_CHARS_PER_TOKEN))


DECISIONS_OF_OPENAI, CHAT_OF_OPENAI = "openai-decisions", "openai-chat"
"""Names of the two ways to OpenAI's models; plain `openai` is the one that `judge.wire`
says."""

DECISION_HOSTS: dict[str, DecisionHost] = {
    DECISIONS_OF_OPENAI: DecisionHost(
        wire=DecisionWire.DECISIONS,
        vendor="openai.com",
        base_url="https://api.openai.com/v1",
        model="gpt-6-luna",
        request_tokens=272_000,
    ),
    "typesafe": DecisionHost(
        wire=DecisionWire.SYSTEM_ONE,
        vendor="typesafe.ai",
        base_url="https://api.typesafe.ai",
        model="jev-1.14.0",
        # 92 % of 250,000 tokens a second: nine full requests fit into any second, and ten never
        # fall into one
        limits=RateLimits(requests_per_minute=1_200, tokens_per_minute=13_800_000),
    ),
    "perplexity": DecisionHost(
        wire=DecisionWire.SYSTEM_ONE,
        vendor="perplexity.ai",
        base_url="https://api.perplexity.ai",
        path="/decisions",
        model="pplx-decider-v1.2",
        request_tokens=262_144,
        questions=128,
    ),
    "openrouter": DecisionHost(
        wire=DecisionWire.SYSTEM_ONE,
        vendor="openrouter.ai",
        base_url="https://openrouter.ai/api/v1",
        model="typesafe/jev-1.14",
    ),
    "fireworks": DecisionHost(
        wire=DecisionWire.DECISIONS,
        vendor="fireworks.ai",
        base_url="https://api.fireworks.ai/inference/v1",
    ),
    # Any server of the user's own that speaks a wire, under the wire's name, at `<NAME>_BASE_URL`.
    **{str(wire): DecisionHost(wire=wire) for wire in DecisionWire},
    DecisionWire.SYSTEM_ONE: DecisionHost(wire=DecisionWire.SYSTEM_ONE, request_tokens=32_000),
    "llama": DecisionHost(wire=DecisionWire.SYSTEM_ONE, request_tokens=8_192, questions=32),
}
"""Provider -> its host. `llama` is a file that a server of our own serves."""


def base_url_setting(name: str) -> str:
    """Return where the base URL of this host is set."""
    if name == DECISIONS_OF_OPENAI:
        return "openai.base_url"
    return f"{name.upper()}_BASE_URL"


def decision_access(name: str, settings: "Settings") -> HostAccess:
    """Return base URL and key of a host; a base URL without a path gets the `base_path` of its
    host.

    Raises UsageError where a host of the user's own has no base URL.
    """
    declared = DECISION_HOSTS[name]
    if name == DECISIONS_OF_OPENAI:
        access = vendor_access(settings, "openai")
    else:
        access = settings.decisions.hosts.get(name) or HostAccess(
            "", api_key_env=f"{name.upper()}_API_KEY"
        )
    base_url = (access.base_url or declared.base_url).rstrip("/")
    if not base_url:
        raise UsageError(
            f"`{name}` names a wire but no host",
            hint=f"Set {base_url_setting(name)} in the environment, such as http://localhost:11434/v1.",
        )
    return HostAccess(
        base_url if urlsplit(base_url).path else f"{base_url}{declared.base_path}",
        access.api_key,
        access.api_key_env,
    )
