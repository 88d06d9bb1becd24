"""Repository text on a terminal."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from xscore.platform.text import ellipsize, escape_controls, one_line, safe_json

BIDI = "\u202e\u2066"
anything = st.text(alphabet=st.characters(categories=None))


def test_escapes_are_shown_not_sent() -> None:
    """Colours, titles, overrides of direction and invalid code points are shown; lines and tabs stay."""
    hostile = f"a\x1b[31m\x1b]0;title\x07\rb\x9b2J{BIDI}c"
    assert escape_controls(hostile) == "a\\x1b[31m\\x1b]0;title\\x07\\x0db\\x9b2J\\u202e\\u2066c"
    assert escape_controls("a\u2028b\ufffec\ufdd0") == "a\\u2028b\\ufffec\\ufdd0"
    assert escape_controls("def f():\n\treturn 1\n") == "def f():\n\treturn 1\n"


@given(anything)
def test_one_line_is_one_line(text: str) -> None:
    """Any path or reason becomes one encodable line without control characters."""
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.encode("utf-8").decode("utf-8") == line
    assert not any(unicodedata.category(letter) == "Cc" for letter in line)


@given(anything, st.integers(min_value=1, max_value=40))
def test_brief_is_short(text: str, limit: int) -> None:
    """A text of any length becomes one harmless line of at most N characters, with a mark where it was cut."""
    line = ellipsize(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert line.encode("utf-8").decode("utf-8") == line
    assert ellipsize("w" * 41, 40) == "w" * 39 + "…"


@given(anything)
def test_json_survives_and_is_safe(text: str) -> None:
    """JSON round-trips and has no raw control character, on any terminal."""
    rendered = safe_json({"text": text})
    assert json.loads(rendered)["text"] == text
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in rendered if letter != "\n")
    assert json.loads(safe_json({"text": text}, ascii_only=True))["text"] == text
