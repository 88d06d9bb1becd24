"""The marks by which a compressed session says who spoke, and how words that look like one are
told apart.

A user pastes pages and an agent repeats them, so a line of theirs may read `[9] User: …`. Such a
line gets a backslash before it, wherever the mark begins a line; everything else stays word for
word. Trade-off: marks in other words or another language are not recognized, and neither are they
ours.
"""

import re

from xscore.platform.text import BIDI, INVISIBLE

HEADER = "A session of"
BULKS, TOPICS = "Earlier turns, in brief", "Later turns, shortened"
CURRENT, STANDS = "Latest turns", "Where the work stands"
COMMANDS, NAMES = "Commands that were run:", "Names that came up:"
SAME_WORDS, SAME_OUTPUT = "(the same words as in [", "(output as in ["
LAST_REQUEST, EARLIER_REQUEST = "The user's last request", "The request before it:"
OPEN_ENDS, FILES = "Open ends:", "Files in work:"
FAILED, LAST_WORDS, CHECKS = (
    "Tried and failed:",
    "The agent's last words:",
    "Checks that passed:",
)
_LINE_START = rf"(?:\A|(?<=[\n\r\x85\u2028\u2029]))(?=[ \t\ufffd{BIDI}{INVISIBLE}]*"
_BLANKS = rf"[\s{BIDI}{INVISIBLE}]*"
_TURN = (
    rf"[\[\uff3b]{_BLANKS}\d+{_BLANKS}(?:[-\u2013]{_BLANKS}\d+{_BLANKS})?[\]\uff3d]{_BLANKS}"
    r"(?:User|Agent|Summary)\b"
)
_GAP = r"\[\u2026 [\d,]+ lines? \u2026\]"
_OF_TURNS = (HEADER, COMMANDS, NAMES, SAME_WORDS, SAME_OUTPUT, LAST_REQUEST)
_OF_FRONTIER = (LAST_REQUEST, EARLIER_REQUEST, OPEN_ENDS, FILES, FAILED, LAST_WORDS, CHECKS)


def _pattern(words: tuple[str, ...]) -> str:
    headings = "|".join(map(re.escape, (BULKS, TOPICS, CURRENT, STANDS)))
    plain = "|".join(map(re.escape, words))
    return rf"{_LINE_START}(?:{_TURN}|{_GAP}|#+\s*(?:{headings})|{plain}))"


def escape_marks(text: str) -> str:
    """Mark the lines of what was said, run or printed that look like marks of this text."""
    return re.sub(_pattern(_OF_TURNS), r"\\", text, flags=re.IGNORECASE)


def escape_frontier_marks(text: str) -> str:
    """Mark the lines of a request that look like headings of the frontier."""
    return re.sub(_pattern(_OF_FRONTIER), r"\\", text, flags=re.IGNORECASE)
