"""Whether a host read the whole prompt: its count of tokens against the text that was sent. Pure.

Servers cut in silence what their loaded context does not hold (Ollama past `num_ctx`, LM Studio in the middle), and a
judgment of memories that the model never saw is worse than none. Two signs: a context that is full to the brim, where
it is known; and text that would need more characters a token than text has, as a whole or beyond the shortest prompt
of this host, whose count holds the host's own additions. The ratio learned from a host's usage makes that stricter,
never laxer, because a host that cuts teaches a wrong one. Trade-off: where the context is not known, a cut of less
than a third goes unseen.
"""

import re
from dataclasses import dataclass

from xscore.records import Request
from xscore.tokens import MIXED, size

SEEN_AT_LEAST = 0.65
"""Share of the estimate that a whole prompt counts at least. Single texts are off by 11–23 %, and a large vocabulary
counts a tenth fewer tokens than the one estimates are made by; a prompt of many texts is off by less."""
SHORTEST_TOKENS = 400
"""Shorter text fits every context, and its estimate is the worst."""
BRIM_TOKENS = 8
"""A prompt that leaves no more of the context than this was cut to it: it leaves no room for a reply."""

_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)
"""Runs of one character, such as rules and indentation, are a token or two however long they are."""
_INDENTATION = (" " * 16, " " * 8, " " * 4)
"""What most runs are; replacing them takes a tenth of the time that looking for every run does."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A prompt that a host read: what was sent, and what it counted."""

    chars: int
    tokens: int


def seen(request: Request, tokens: int) -> Seen:
    """Measure a prompt of which the host counted so many tokens."""
    return Seen(size(request.system, *request.content), tokens)


def is_cut(request: Request, found: Seen, *, context_tokens: int | None = None, shortest: Seen | None = None) -> bool:
    """Whether the host has cut this request. shortest: the shortest prompt that it has read; None: not known."""
    if found.chars / MIXED < SHORTEST_TOKENS:
        return False
    if context_tokens is not None and found.tokens >= context_tokens - BRIM_TOKENS:
        return True
    ratio = min(MIXED, found.chars / max(1, request.input_tokens))
    if not _is_too_dense(found, ratio, shortest):
        return False
    texts = (request.system, *request.content)
    for indentation in _INDENTATION:
        texts = tuple(text.replace(indentation, "   ") for text in texts)
    if not _is_too_dense(Seen(size(*texts), found.tokens), ratio, shortest):
        return False
    packed = size(*(_RUN.sub(r"\1\1\1", text) for text in texts))
    return _is_too_dense(Seen(packed, found.tokens), ratio, shortest)


def _is_too_dense(found: Seen, ratio: float, shortest: Seen | None) -> bool:
    """Whether so few tokens cannot hold so many characters, at this many characters a token and some grace."""
    most = ratio / SEEN_AT_LEAST
    if found.chars > most * found.tokens:
        return True
    if shortest is None:
        return False
    more, counted = found.chars - shortest.chars, found.tokens - shortest.tokens
    return more / MIXED >= SHORTEST_TOKENS and more > most * counted
