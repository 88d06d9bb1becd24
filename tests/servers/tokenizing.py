"""A loopback vendor that counts with a real tokenizer, of a GGUF served by llama.cpp, instead of by
length.

So an estimate is held against what a model really counts, and not against a ratio of our own.
Nothing is cached, since an estimate assumes no discount.
"""

import json
import urllib.request
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tests.servers.billing import BillingServer
from tests.servers.prefix_cache import Tally

Count = Callable[[str], int]
MESSAGE_TOKENS = 5
"""The chat template's tokens around one message: begin, role, line end, end, line end."""


def counting(address: str) -> Count:
    """Return a token counter using the model served at this address."""

    @lru_cache(maxsize=64)
    def count(text: str) -> int:
        body = json.dumps({"content": text}).encode()
        request = urllib.request.Request(
            f"{address}/tokenize", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            reply: Mapping[str, list[int]] = json.load(response)
        return len(reply["tokens"])

    return count


class TokenizingServer(BillingServer):
    """Counts prompt and reply with a real tokenizer."""

    def __init__(self, count: Count, **settings: Any) -> None:
        super().__init__(**settings)
        self._count = count

    def count(self, text: str) -> int:
        """Count the tokens of a reply."""
        return self._count(text)

    def account(self, body: dict[str, Any]) -> Tally:
        """Count a prompt, message by message; nothing is cached."""
        input_tokens = 0
        for message in body["messages"]:
            content = message.get("content") or ""
            parts = (
                [content] if isinstance(content, str) else [part["text"] for part in content]
            )
            input_tokens += MESSAGE_TOKENS + sum(map(self._count, parts))
        return Tally(input_tokens)
