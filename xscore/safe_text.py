"""Text that is safe to look at: nothing out of a repository may move a cursor, recolour or reorder what is read.

Control characters (C0, DEL, C1), separators of lines that are none, bidirectional overrides, lone surrogates and code
points that are no characters are shown as escapes, on a terminal and on a page. It changes what is seen, never what is
stored; piped data keeps its bytes.
"""

import re

_BIDI = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
_NO_LETTERS = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{_NO_LETTERS}]")
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_BIDI}{_NO_LETTERS}]")
_UNSAFE_IN_JSON = re.compile(f"[\x7f-\x9f\u2028\u2029{_BIDI}\ud800-\udfff]")


def visible(text: str) -> str:
    """Show control characters of a block of text as escapes; line ends and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """Show a path, name or reason on one line, whatever it contains."""
    return _UNSAFE_IN_LINE.sub(_escape, " ".join(text.split("\n")))


def brief(text: str, limit: int) -> str:
    """Show at most `limit` characters of a text on one line, spaces run together; an ellipsis stands for the rest."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def json_text(value: object, *, ascii_only: bool = False) -> str:
    """Render JSON whose every character is safe to show and to encode."""
    import json

    text = json.dumps(value, ensure_ascii=ascii_only, indent=2, allow_nan=False)
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
