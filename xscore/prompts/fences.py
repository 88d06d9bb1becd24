"""Keep quoted text inside its fence: repository text is data, even if it looks like our own tags.

Each prompt passes its tags; layouts are elsewhere. Trade-off: only our own tags are escaped, not
every `<`, because `&lt;` all over a C++ template costs tokens and is hard to read.
"""

import re
from functools import cache

from xscore.platform.patterns import compiled_late
from xscore.platform.text import BIDI, INVISIBLE

ANSWER_TAGS = (
    "code memory file header purpose left_out session exchange current_file diff errors task answer"
    " system system_context evidence past_answers governance facts session_summary checkpoint"
    " answer_manner"
)

_CONTROL = compiled_late(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CONTROL_BYTES = bytes(code for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n\r")
_IN_ATTRIBUTE = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": " ", "\r": " ", "\t": " "}
)


_UNSEEN = f"\u0300-\u036f\u2028\u2029\u202f{BIDI}{INVISIBLE}"
_OPENINGS = "<\uff1c\ufe64\u2039"
_OPENED = rf"[{_OPENINGS}][\s/\\\ufffd{_UNSEEN}]*([\w-](?:[\w-]|[{_UNSEEN}])*)"
"""Matches `<`, or a look-alike, and the name after it. Spaces, slashes, the replacement
character of `well_formed` and invisible or combining characters may be in between, the last
also inside the name.

It is compiled at first use. A pattern that names the tags, with the invisible ones between their
letters, takes 24 ms to compile, half of what a hook may take.
"""


@cache
def _tag_names(tags: str) -> re.Pattern[str]:
    """Return a pattern for these names, with a zero byte where there was something invisible."""
    names = "|".join("\0?".join(map(re.escape, tag)) for tag in tags.split())
    return re.compile(rf"(?:{names})\b", re.IGNORECASE)


def escape_tags(text: str, *, tags: str = ANSWER_TAGS) -> str:
    """Escape these tags and invalid characters, so that text can neither close its fence nor open a
    tag."""
    clean = well_formed(text)
    # Most code: ten times as fast as the search.
    if not any(opening in clean for opening in _OPENINGS):
        return clean

    def escape(opened: re.Match[str]) -> str:
        name = re.sub(f"[{_UNSEEN}]+", "\0", opened[1])
        if _tag_names(tags).match(name):
            return "&lt;" + opened[0][1:]
        return opened[0]

    return re.sub(_OPENED, escape, clean)


def escape_attribute(text: str) -> str:
    """Escape text for a double-quoted attribute, on one line."""
    return well_formed(text).translate(_IN_ATTRIBUTE)


def shorten_middle(text: str, limit: int) -> str:
    """Keep `limit` characters, a third from the start and the rest from the end, where errors say
    what failed."""
    if len(text) <= limit:
        return text
    head = limit // 3
    tail = limit - limit // 3
    return f"{text[:head]}\n[… {len(text) - limit} characters left out …]\n{text[-tail:]}"


def well_formed(text: str) -> str:
    """Replace control characters and lone surrogates, which neither UTF-8 nor a JSON body can
    carry."""
    data = text.encode("utf-8", "replace")
    # rarely: a search costs ten times as much.
    if len(data.translate(None, _CONTROL_BYTES)) < len(data):
        return _CONTROL.sub("\ufffd", data.decode("utf-8"))
    if text.isascii():
        return text
    return data.decode("utf-8")


def collapse_blanks(text: str) -> str:
    """Collapse runs of whitespace."""
    return " ".join(well_formed(text).split())
