"""Parse TOML that anyone may have written, in work that is bounded beforehand.

`tomllib` copies all parts of a dotted name for each of them, and walks a header's parts again for
each key below it, so 92 kB can take it 20 seconds. Here one pass over the lines refuses such a text
first. A name at the beginning of a line is read exactly; of others, inside inline tables, only the
dots of their line are counted, since a string over several lines may hide where one begins.
Trade-off: a line inside such a string that looks like a long dotted name is refused.
"""

import re
from typing import Any

from xscore.platform.patterns import compiled_late

MOST_PARTS = 12
"""Most dotted parts of the name of a header or a key."""
MOST_DOTS = 2_000
"""Most dots in one line, values included."""
MOST_ITEMS = 20_000
"""Most line ends, commas, equals signs, dots and backslashes in all."""
_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_NAME = compiled_late(
    rf"^[ \t]*+\[{{0,2}}[ \t]*+(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}", re.MULTILINE
)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises ValueError, also for a text that would take too much work to
    parse."""
    _check_work(text)
    import tomllib  # most commands have nothing to parse

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _check_work(text: str) -> None:
    if sum(map(text.count, "\n,=.\\")) > MOST_ITEMS:
        raise ValueError(
            f"it has more than {MOST_ITEMS:,} lines, values, dots and escapes in all"
        )
    long_name = _LONG_NAME.search(text)
    if long_name is not None:
        line = text.count("\n", 0, long_name.start()) + 1
        raise ValueError(f"line {line} has a name of more than {MOST_PARTS} dotted parts")
    for number, line_text in enumerate(text.split("\n"), 1):
        if line_text.count(".") > MOST_DOTS:
            raise ValueError(f"line {number} has more than {MOST_DOTS:,} dots")
