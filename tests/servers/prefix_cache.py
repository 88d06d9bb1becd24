"""Count cached prompt prefixes as OpenAI does, so that tests can tell a warm turn's cost.

Two rules. Steps (before GPT-5.6): the longest prefix that was seen under the same
`prompt_cache_key`, from 1,024 tokens, in steps of 128. Breakpoints (GPT-5.6 and later): a prefix is
served only if a request marked exactly its end before; writes are counted. Tokens are characters /
4 of the rendered messages, which is stated and not o200k.
"""

import re
from hashlib import blake2b
from typing import Any

from msgspec import Struct

FLOOR_TOKENS = 1_024
STEP_TOKENS = 128
CHARS_PER_TOKEN = 4
_MARKED_MODEL = re.compile(r"gpt-(5\.[6-9]|[6-9])")


class Tally(Struct, frozen=True):
    """A prompt's tokens: all, served from the cache, written to it, and of those for an hour."""

    input_tokens: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0


def tokens(text: str) -> int:
    """Count tokens as this server does."""
    return -(-len(text) // CHARS_PER_TOKEN)


class PrefixCache:
    """Prefixes seen so far, by routing key."""

    def __init__(self) -> None:
        self._seen: dict[str, set[bytes]] = {}

    def account(self, body: dict[str, Any]) -> Tally:
        """Count this prompt, and remember it."""
        pieces = _pieces(body)
        prompt = "".join(text for text, _ in pieces)
        seen = self._seen.setdefault(str(body.get("prompt_cache_key", "")), set())
        if _MARKED_MODEL.search(str(body.get("model", ""))):
            return Tally(tokens(prompt), *self._at_breakpoints(seen, pieces, body))
        return Tally(tokens(prompt), self._in_steps(seen, prompt))

    def _in_steps(self, seen: set[bytes], prompt: str) -> int:
        cached = 0
        state = blake2b(digest_size=16)
        start = 0
        for end_tokens in range(FLOOR_TOKENS, len(prompt) // CHARS_PER_TOKEN + 1, STEP_TOKENS):
            state.update(prompt[start : end_tokens * CHARS_PER_TOKEN].encode())
            start = end_tokens * CHARS_PER_TOKEN
            digest = state.digest()
            if digest in seen:
                cached = end_tokens
            seen.add(digest)
        return cached

    def _at_breakpoints(
        self, seen: set[bytes], pieces: list[tuple[str, bool]], body: dict[str, Any]
    ) -> tuple[int, int]:
        marks: list[str] = []
        prefix = ""
        for text, marked in pieces:
            prefix += text
            if marked:
                marks.append(prefix)
        if body.get("prompt_cache_options", {}).get("mode", "implicit") == "implicit":
            marks.append(prefix)
        cached = longest = 0
        for mark in marks:
            size = tokens(mark)
            digest = blake2b(mark.encode(), digest_size=16).digest()
            if size < FLOOR_TOKENS:
                continue
            longest = max(longest, size)
            cached = max(cached, size) if digest in seen else cached
            seen.add(digest)
        return cached, longest - cached


def _pieces(body: dict[str, Any]) -> list[tuple[str, bool]]:
    pieces: list[tuple[str, bool]] = []
    for message in body.get("messages", []):
        pieces.append((f"<|{message['role']}|>", False))
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        pieces += [(part["text"], "prompt_cache_breakpoint" in part) for part in parts]
    return pieces


def prompt_text(body: dict[str, Any]) -> str:
    """Return the text of all messages except the system's."""
    return "".join(
        text
        for text, _ in _pieces(
            {"messages": [m for m in body["messages"] if m["role"] != "system"]}
        )
    )
