"""A loopback server that adds up what it would charge, by its own price list, and a way to reach it
by name.

What a turn may spend is asserted here, at the one who is paid: not by the program's own account.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.prefix_cache import Tally
from tests.servers.proxy import ForwardProxy

VENDOR = "http://api.openai.com/v1"
"""A name with prices; only the proxy is ever connected to."""
JUDGE, ANSWERER = "gpt-4.1", "gpt-4.1"


GIVEN, CACHED, REPLIED = Decimal("2.00"), Decimal("0.50"), Decimal("8.00")
"""Dollars per million tokens of gpt-4.1: the vendor's price list at the time of genai-prices
0.2.3."""


class BillingServer(OpenAIServer):
    """Charges each reply that it makes, even one that never arrives."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.charges: list[Decimal] = []
        """Dollars of each call, in the order of replies."""

    @property
    def charged(self) -> Decimal:
        """Return its total charge."""
        return sum(self.charges, Decimal(0))

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return a chat completion, and record its price."""
        reply = super().envelope(body, content, tally, fault)
        usage = reply["usage"]
        input_tokens, cached = (
            usage["prompt_tokens"],
            usage["prompt_tokens_details"]["cached_tokens"],
        )
        dollars = (
            (input_tokens - cached) * GIVEN
            + cached * CACHED
            + usage["completion_tokens"] * REPLIED
        )
        self.charges.append(dollars / 1_000_000)
        return reply


@contextmanager
def vendor(server: OpenAIServer) -> Iterator[Mapping[str, str]]:
    """Return the environment in which the vendor's name leads to this server, so that its prices
    apply."""
    with ForwardProxy(server.host) as proxy:
        yield {
            "HTTP_PROXY": proxy.url,
            "NO_PROXY": "",
            "OPENAI_BASE_URL": VENDOR,
            "OPENAI_API_KEY": "sk-test-0123456789abcdef",
            "XSCORE_JUDGE_MODEL": f"openai:{JUDGE}",
            "XSCORE_PRIMARY_MODEL": f"openai:{ANSWERER}",
        }
