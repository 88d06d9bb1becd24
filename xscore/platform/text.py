"""Format numbers for people, and make text safe to display.

Dollars, tokens, seconds, shares and times are formatted the same everywhere, rounded to two or three digits; the JSON
has the exact values. Control characters, bidirectional overrides, lone surrogates and noncharacters are escaped, so
that text from a repository cannot move the cursor, recolor or reorder the output. Stored text is never changed.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

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


ABOUT_A_DOLLAR, ABOUT_A_CENT = Decimal("0.9995"), Decimal("0.00995")
"""From here on an amount is shown with two, with three decimals."""
DASH = "–"
"""Shown for an unknown number."""


def format_dollars(amount: Decimal | None, *, estimated: bool = False) -> str:
    """`$0.0042`, `$1.26`; `~` before an estimate, `unpriced` where no price is known, `$0` where nothing is charged.

    Below a cent it keeps two significant digits.
    """
    if amount is None:
        return "unpriced"
    if amount == 0:
        return "$0"
    sign = "~$" if estimated else "$"
    if amount >= ABOUT_A_DOLLAR:
        return f"{sign}{amount:,.2f}"
    if amount >= ABOUT_A_CENT:
        return f"{sign}{amount:.3f}"
    return f"{sign}{round(amount, 1 - amount.adjusted()):f}"


def format_tokens(count: int) -> str:
    """`812`, `1.2k`, `98k`, `1.2M`, `3.4G`."""
    if count < 1_000:
        return str(count)
    thousands = round(count / 1_000, 1 if count < 9_950 else None)
    if thousands < 1_000:
        return f"{thousands:g}k"
    return f"{count / 1e6:.1f}M" if count < 999_950_000 else f"{count / 1e9:.1f}G"


def format_mean(amount: float) -> str:
    """`0.3`, `12.5`, `98k`: like tokens, with one decimal below 100."""
    return f"{amount:.1f}".removesuffix(".0") if amount < 99.95 else format_tokens(round(amount))


def format_seconds(duration: float) -> str:
    """`0.2 s`, `41 s`, `3 min 20 s`, `2 h 5 min`."""
    if duration < 10:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"


def format_duration(duration: float) -> str:
    """`3 ms`, `240 ms`, `4.1 s`, `3 min 20 s`; a dash if not finite."""
    if not isfinite(duration):
        return DASH
    return f"{duration * 1_000:.0f} ms" if duration < 0.9995 else format_seconds(duration)


def format_share(part: float, whole: float) -> str:
    """`97 %`, `0.4 %`; a dash if `whole` is 0. Never rounded to 0 % or 100 %."""
    if whole <= 0:
        return DASH
    percent = part / whole * 100
    if 0 < percent < 1 or 99 < percent < 100:
        return f"{min(max(percent, 0.1), 99.9):.1f} %"
    return f"{percent:.0f} %"


def format_difference(actual: float, expected: float) -> str:
    """`+4 %`, `−12 %` against `expected`; a dash if that is 0."""
    if expected <= 0:
        return DASH
    percent = round((actual / expected - 1) * 100)
    return f"{'−' if percent < 0 else '+'}{abs(percent):,} %" if percent else "0 %"


def format_time(at: float, form: str = "%Y-%m-%d %H:%M") -> str:
    """Unix seconds as UTC; a dash if outside the calendar."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return DASH


def format_bytes(count: int) -> str:
    """`812 B`, `4.1 kB`, `38 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1_000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:.1f} GB"


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
