"""What makes two errors the same failure: their text without what differs from run to run.

Gone are colours, addresses, paths up to the file's name, times, durations, ids and numbers; what is left is hashed.
Trade-off: two failures that differ in a number alone count as one, and one whose message quotes other data each time
counts as many.
"""

import re

from xscore.hashing import digest

MAX_CHARS = 4_000
"""Of a long output its end counts, where tools print what failed."""

_NOISE = (
    (re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+(?=[\w.@+-])"), ""),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def normalised(text: str) -> str:
    """Return the text without what differs from run to run. Linear in its length."""
    text = text.strip()[-MAX_CHARS:]
    for pattern, mark in _NOISE:
        text = pattern.sub(mark, text)
    return text.strip().lower()


def signature(text: str) -> str:
    """Name the failure that this text tells of: 20 hex characters."""
    return digest("failure", normalised(text))[:20]
