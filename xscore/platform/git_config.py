"""Read a few values out of the text of a git config file that anyone may have written. Runs no git,
opens no file.

Each line is looked at once, so the work grows with the text and with nothing else. It knows no
escapes, no continued lines and no included files. Trade-off: text that only looks like an
`[include]`, in a comment or a value, counts as one, because git reads what follows a header on the
same line, and missing one would not be safe.
"""

import re

from xscore.platform.patterns import compiled_late

_INCLUDE = compiled_late(r"\[include(?:if)?\b", re.IGNORECASE)
_LINE = compiled_late(r"\S[^\n]*")
"""Matches a line from its first character that is not a space."""


def includes_files(text: str) -> bool:
    """Whether a config file includes others."""
    # Most have no such word: nothing is compiled for them.
    return "include" in text.lower() and _INCLUDE.search(text) is not None


def config_values(text: str, name: str, *, section: str = "") -> list[str]:
    """Return the values of a name, in order, without their quotes.

    name: in lower case.
    section: only of this section, written as git does (`remote "origin"`); by default of any.
    """
    header = f"[{section}]"
    values: list[str] = []
    is_inside = not section
    for match in _LINE.finditer(text):
        line = match[0]
        if line.startswith("["):
            is_inside = not section or line.rstrip() == header
        elif is_inside:
            key, _, value = line.partition("=")
            if key.rstrip().lower() == name:
                values.append(value.strip().strip('"'))
    return values
