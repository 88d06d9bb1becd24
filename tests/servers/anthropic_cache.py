"""Count cached prompt prefixes as Anthropic does: only up to `cache_control` marks, and only above
the model's minimum.

A mark at a prefix that was marked before and is not older than its time is read, and its time
begins again; any other marked prefix is written. Below the floor nothing happens, in silence.
Tokens are characters / 4, which is stated and not the vendor's count. Time is an argument: `passes`
makes prefixes old.
"""

import json
from hashlib import blake2b
from typing import Any

from tests.servers.prefix_cache import Tally, tokens

FLOORS = (
    ("claude-haiku-4", 4_096),
    ("claude-opus-4-7", 2_048),
    ("claude-sonnet-4", 1_024),
    ("claude-", 512),
)
"""Start of the model's name -> minimum; enough of the vendor's table for tests."""
TTL_S = {"5m": 300.0, "1h": 3_600.0}


class MarkedPrefixes:
    """Marked prefixes, with their expiry."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}
        self._now_s = 0.0

    def passes(self, seconds: float) -> None:
        """Let time pass for cached prefixes."""
        self._now_s += seconds

    def account(self, body: dict[str, Any]) -> Tally:
        """Count this prompt, and remember its marks."""
        floor = next(
            (floor for start, floor in FLOORS if str(body["model"]).startswith(start)), 1_024
        )
        prefix = json.dumps(
            [body["model"], body.get("thinking"), body.get("output_config")], sort_keys=True
        )
        head = len(prefix)
        read = longest = longest_1h = 0
        for text, mark in _blocks(body):
            prefix += text
            size = tokens(prefix[head:])
            if mark is None or size < floor:
                continue
            digest = blake2b(prefix.encode(), digest_size=16).digest()
            if self._until.get(digest, -1.0) >= self._now_s:
                read = size
            else:
                longest = size
                longest_1h = size if mark == "1h" else longest_1h
            self._until[digest] = self._now_s + TTL_S[mark]
        written = max(0, longest - read)
        return Tally(
            tokens(prefix[head:]), read, written, written if longest_1h == longest else 0
        )


def prompt_text(body: dict[str, Any]) -> str:
    """Return the text of the user's messages."""
    return "".join(
        text for message in body["messages"] for text, _ in _parts(message["content"])
    )


def _blocks(body: dict[str, Any]) -> list[tuple[str, str | None]]:
    blocks = _parts(body.get("system", ""))
    for message in body["messages"]:
        blocks += [(f"<|{message['role']}|>", None), *_parts(message["content"])]
    return blocks


def _parts(content: str | list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    """Return each text block with its mark's lifetime, None without one."""
    if isinstance(content, str):
        return [(content, None)]
    marks = [block.get("cache_control") for block in content]
    times = [None if mark is None else str(mark.get("ttl", "5m")) for mark in marks]
    return [(str(block["text"]), time) for block, time in zip(content, times, strict=True)]
