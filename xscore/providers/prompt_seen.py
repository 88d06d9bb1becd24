"""Whether a host read the whole prompt: its count of tokens against the text that was sent. Pure.

Servers cut in silence what their loaded context does not hold (Ollama past `num_ctx`, LM Studio in the middle), and a
judgment of memories that the model never saw is worse than none. Two signs: a context that is full to the brim, where
it is known, and text that would need more characters a token than text has. The ratio learned from a host's own usage
may make the second sign stricter, never laxer, because a host that cuts teaches a wrong one. It says nothing of what
was cut. Trade-off: where the context is not known, a cut of less than a third goes unseen.
"""

from xscore.records import Request
from xscore.tokens import MIXED, size

SEEN_AT_LEAST = 0.6
"""Share of the estimate that a whole prompt counts at least. Single texts are off by 11–23 %, and a large vocabulary
counts a quarter fewer tokens than the one estimates are made by; a prompt of many texts is off by less."""
SHORTEST_TOKENS = 400
"""Shorter prompts fit every context, and their estimates are the worst."""
BRIM_TOKENS = 8
"""A prompt that leaves no more of the context than this was cut to it: it leaves no room for a reply."""


def is_cut(request: Request, *, seen_tokens: int, context_tokens: int | None) -> bool:
    """Whether a host that counted so many tokens of this request has cut it. context_tokens: None: not known."""
    expected = max(request.input_tokens, size(request.system, *request.content) / MIXED)
    if expected < SHORTEST_TOKENS:
        return False
    is_brimful = context_tokens is not None and seen_tokens >= context_tokens - BRIM_TOKENS
    return is_brimful or seen_tokens < SEEN_AT_LEAST * expected
