"""Make text safe to display, and join it to sentences.

Control characters, bidirectional overrides, lone surrogates and noncharacters are escaped, so that text from a
repository cannot move the cursor, recolor or reorder the output. Stored text is never changed.
"""

import re

_BIDI = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_NO_LETTERS = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
_UNSAFE = f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{_NO_LETTERS}]"
_UNSAFE_IN_LINE = f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{_NO_LETTERS}]"
_UNSAFE_IN_JSON = f"[\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]"
"""Patterns, compiled at first use: each takes a third of a millisecond."""

KEY_TAIL = 4
SHORTEST_KEY_SHOWN = 12
"""The last characters of a shorter key would reveal too much."""


def escape_controls(text: str) -> str:
    """Escape the control characters of a block of text; line ends and tabs stay."""
    return re.sub(_UNSAFE, _escape, text)


def one_line(text: str) -> str:
    """Show a path, name or reason on one line, whatever it contains."""
    return re.sub(_UNSAFE_IN_LINE, _escape, " ".join(text.split("\n")))


def ellipsize(text: str, limit: int) -> str:
    """Show at most `limit` characters of a text on one line, with whitespace collapsed and an ellipsis if cut."""
    line = escape_controls(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def mask_key(key: str) -> str:
    """Show only the end of a key, enough to tell two keys apart; `…` of one that is too short for that."""
    if not key:
        return ""
    return f"…{key[-KEY_TAIL:]}" if len(key) >= SHORTEST_KEY_SHOWN else "…"


def safe_json(value: object, *, ascii_only: bool = False) -> str:
    """Render JSON in which every character is safe to display and encode."""
    import json

    text = json.dumps(value, ensure_ascii=ascii_only, indent=2, allow_nan=False)
    return re.sub(_UNSAFE_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 file`, `1,024 files`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def join_sentences(*texts: str) -> str:
    """Join texts as sentences, adding missing periods; the last keeps its own ending."""
    *firsts, last = [one.strip() for one in texts if one.strip()] or [""]
    return " ".join([*(one if one[-1] in ".!?" else f"{one}." for one in firsts), last])


def format_place(path: str, start_line: int = 0, end_line: int = 0) -> str:
    """`path:12-40`, safe for a terminal."""
    lines = f":{start_line}-{end_line}" if end_line > start_line else f":{start_line}" if start_line else ""
    return one_line(path) + lines


def encodable_text(text: str) -> str:
    """Return text without lone surrogates, which neither a store nor a request can hold; each becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def readable_text(text: str) -> str:
    """Return text typed on the command line with bytes that are not UTF-8 replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
