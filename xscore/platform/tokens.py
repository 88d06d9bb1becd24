"""Estimate the tokens of a text from its length alone.

Ratios measured against the o200k vocabulary; a single text is off by 11–23 %, sums by far less.
Actual usage corrects them per model (`costs.ledger.learned_chars_per_token`). Trade-off: no
vocabulary is loaded or downloaded.
"""

from math import ceil

UPPER_BOUND_CHARS_PER_TOKEN = 2.5
"""Characters per token for reservations; text with fewer is rare."""

PYTHON = 3.9
PROSE = 4.2
SCRIPT = 3.75
OTHER = 3.0
MIXED = 3.7
"""Characters per token of a whole judging prompt, until the model's own ratio is learned."""

REPLY_FRAME = 12
"""Typical tokens of a judging reply apart from its scores and reasons: braces and names."""

_SCRIPTS = ("javascript", "typescript", "tsx", "jsx", "json")
_BY_LANGUAGE = {"python": PYTHON, "markdown": PROSE} | dict.fromkeys(_SCRIPTS, SCRIPT)
_CODE_KINDS = frozenset({"", "function", "method", "class", "test", "block", "config", "text"})


def size(*texts: str) -> int:
    """Count UTF-8 bytes: equal to characters for ASCII, and an upper bound where a character is
    several tokens."""
    count = 0
    for text in texts:
        count += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return count


def chars_per_token(kind: str, language: str = "") -> float:
    """Return the expected characters per token of a memory of this kind (`records.Kind`) and
    language."""
    return _BY_LANGUAGE.get(language, OTHER if kind in _CODE_KINDS else PROSE)


def estimate(chars: int, *, kind: str = "", language: str = "") -> int:
    """Return the expected tokens of a text of `chars` characters, rounded up."""
    return ceil(chars / chars_per_token(kind, language))


def upper_bound(chars: int) -> int:
    """Return a number of tokens that a text of `chars` characters rarely exceeds; for
    reservations."""
    return ceil(chars / UPPER_BOUND_CHARS_PER_TOKEN)
