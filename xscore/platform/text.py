"""Make text safe to display and to hand to an agent, and join it to sentences.

Control characters, bidirectional overrides, lone surrogates and noncharacters are escaped, so that
text from a repository cannot move the cursor, recolor or reorder the output. Invisible characters
are escaped, too; an agent does not get them at all, since a model would read what a person looking
at the same text does not. Stored text is never changed, and neither is what a judge or an answering
model is asked.

Of the characters without a shape (Unicode's Default_Ignorable_Code_Point, and the marks of
interlinear annotation) text needs a few, and only directly after a character that they change: a
joiner in scripts that join letters (Persian, Hindi), a joiner or a variation selector after a
symbol (emoji), a selector in Mongolian. Those stay, one at a time, so that a run of them hides
nothing. Trade-offs: soft hyphens, ideographic variants and the flags of England, Scotland and Wales
are lost.
"""

import json
import re
from collections.abc import Sequence
from functools import cache

BIDI = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
"""Characters that reorder text, for a class of a pattern."""
_NO_LETTERS = "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters without a shape, for a class of a pattern."""
COMBINING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
"""Marks over, under and through the letter before them, for a class of a pattern."""
_SYMBOL = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff"
)
_JOINING = (
    "\u0620-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18af\u1900-\u1cff\ua800-\uabff\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
"""Arabic and the scripts next to it, those of South and South-East Asia, Mongolian, Adlam."""
_SOMETIMES_NEEDED = frozenset("\u200c\u200d\ufe0e\ufe0f\u180b\u180c\u180d\u180e\u180f")
_NEEDED = (
    rf"(?<=[{_SYMBOL}])[\ufe0e\ufe0f]?\u200d?|(?<=[#*0-9])\ufe0f|(?<=[{_JOINING}])[\u200c\u200d]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
"""Matches what text needs at the start of a run of invisible characters."""
_SEPARATORS = f"\x7f-\x9f\u2028\u2029{BIDI}"
_UNSAFE = f"[\x00-\x08\x0b-\x1f{_SEPARATORS}{_NO_LETTERS}{INVISIBLE}]+"
_UNSAFE_IN_LINE = f"[\x00-\x1f{_SEPARATORS}{_NO_LETTERS}{INVISIBLE}]+"
_UNSAFE_IN_JSON = f"[{_SEPARATORS}\ud800-\udfff{INVISIBLE}]+"
"""Patterns that are compiled at first use: each takes a third of a millisecond."""

KEY_TAIL = 4
SHORTEST_KEY_SHOWN = 12
"""Shortest key whose last characters are shown; those of a shorter one would reveal too
much."""


def escape_controls(text: str) -> str:
    """Escape the control and invisible characters of a block of text; line ends and tabs stay."""
    return re.sub(_UNSAFE, _escape, text)


PIECE_OVERLAP = 4
"""How many characters before a piece of text decide what it needs."""


def escape_piece(text: str, before: str) -> str:
    """Escape a piece of a block of text. before: the last `PIECE_OVERLAP` characters of the block
    so far."""
    before = before.replace("\r", " ")  # a line end here would change how it is escaped
    return escape_controls(before + text)[len(escape_controls(before)) :]


def without_invisible(text: str) -> str:
    """Remove invisible characters from a text that an agent reads; controls stay, to be
    escaped.

    Do this before tags are escaped: an invisible character within a tag would hide it from that.
    """
    if text.isascii():
        return text
    return re.sub(f"[{INVISIBLE}]+", _needed, text)


def without_invisible_values(value: object) -> object:
    """Remove invisible characters from every text of a JSON value."""
    if isinstance(value, str):
        return without_invisible(value)
    if isinstance(value, dict):
        visible: dict[str, object] = {}
        for name, part in value.items():
            visible[without_invisible(str(name))] = without_invisible_values(part)
        return visible
    if isinstance(value, list | tuple):
        return [without_invisible_values(part) for part in value]
    return value


def one_line(text: str) -> str:
    """Show a path, name or reason on one line, whatever it contains."""
    return re.sub(_UNSAFE_IN_LINE, _escape, " ".join(text.split("\n")))


def ellipsize(text: str, limit: int) -> str:
    """Show at most `limit` characters of a text on one line, with whitespace collapsed and an
    ellipsis if cut."""
    line = escape_controls(" ".join(text.split()))
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def mask_key(key: str) -> str:
    """Show only the end of a key, enough to tell two keys apart; `…` of one that is too short for
    that."""
    if not key:
        return ""
    if len(key) >= SHORTEST_KEY_SHOWN:
        return f"…{key[-KEY_TAIL:]}"
    return "…"


def safe_json(value: object, *, ascii_only: bool = False) -> str:
    """Render JSON in which every character is safe to display and encode."""
    return escape_in_json(json.dumps(value, ensure_ascii=ascii_only, indent=2, allow_nan=False))


def escape_in_json(text: str) -> str:
    """Escape what is unsafe to display in a JSON text; it still means the same."""
    return re.sub(_UNSAFE_IN_JSON, _escape_in_json, text)


def _needed(run: re.Match[str]) -> str:
    """Return what the text before a run of unsafe characters needs of its start; often nothing."""
    if run[0][0] not in _SOMETIMES_NEEDED:
        return ""
    needed = re.compile(_NEEDED).match(run.string, run.start())
    return needed[0] if needed else ""


def _escape(run: re.Match[str]) -> str:
    needed = _needed(run)
    text = run[0]
    # A carriage return before a line end is part of it.
    ending = ""
    if text[-1] == "\r" and run.string[run.end() : run.end() + 1] == "\n":
        ending = "\r"
    return needed + "".join(map(_escaped, text[len(needed) : len(text) - len(ending)])) + ending


@cache
def _escaped(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}"


def _escape_in_json(run: re.Match[str]) -> str:
    needed = _needed(run)
    return needed + "".join(map(_escaped_in_json, run[0][len(needed) :]))


@cache
def _escaped_in_json(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 file`, `1,024 files`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def join_sentences(*texts: str) -> str:
    """Join texts as sentences, adding missing periods; the last keeps its own ending."""
    sentences = list(filter(None, map(str.strip, texts)))
    for index, sentence in enumerate(sentences[:-1]):
        if sentence[-1] not in ".!?":
            sentences[index] = f"{sentence}."
    return " ".join(sentences)


def format_place(path: str, start_line: int = 0, end_line: int = 0) -> str:
    """`path:12-40`, safe for a terminal."""
    place = one_line(path)
    if end_line > start_line:
        return f"{place}:{start_line}-{end_line}"
    if start_line:
        return f"{place}:{start_line}"
    return place


def encodable_text(text: str) -> str:
    """Return text without lone surrogates, which neither a store nor a request can hold; each
    becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def readable_text(text: str) -> str:
    """Return text typed on the command line with bytes that are not UTF-8 replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_TELLING_WORD = re.compile(r"\w{4,}")
_SAME_LETTERS = 5


def telling_lines(
    lines: Sequence[str], task: str, *, most: int, only_hits: bool = False
) -> list[int]:
    """Return the numbers, from 0 and in order, of the first line and of those with most words of
    the task.

    Words are compared by their first letters, so that `parses` finds `parsing`. only_hits: leave
    out lines without any word of it, but the first.
    """
    words = {word[:_SAME_LETTERS] for word in _TELLING_WORD.findall(task.casefold())}
    hits = {at: sum(word in line.casefold() for word in words) for at, line in enumerate(lines)}
    best = sorted(hits, key=lambda at: (at > 0, -hits[at], at))[:most]
    return [at for at in sorted(best) if at == 0 or hits[at] or not only_hits]


def normalized_package(name: str) -> str:
    """Return the name of a package as packages are compared."""
    return name.lower().replace("_", "-")
