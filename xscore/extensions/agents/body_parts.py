"""Which bodies an agent is likely to need whole, and which lines of the others.

A ranking by words is often wrong about one memory and right about its file, so a body is shown
whole only where it is short, scores high and is named by the task; for the others it shows the
first line and those with words of the task, with their numbers. Trade-off: what is meant but
has another name must be read by the agent itself.
"""

from xscore.platform.text import telling_lines
from xscore.records.memory import Kind
from xscore.records.receipt import Selected

WHOLE_SCORE = 0.35
"""Least score by words of a memory that is shown whole."""
WHOLE_BYTES = 1_000
"""Largest text that is shown whole."""
SHORT_BYTES = 300
"""Longest text that is no longer than its outline."""
OUTLINED_PLACES = 1
"""How many of the best memories have an outline where they are not shown whole."""
OUTLINE_LINES, LINE_CHARS = 6, 100
_PLACE_ONLY = frozenset({Kind.TEST, Kind.DOC, Kind.TEXT})
"""Kinds that are shown by place alone."""
_AGREES = ("name matches", "class or module name matches", "task names")


def is_likely_whole(memory: Selected, text: str) -> bool:
    """Whether an agent will need the whole text: a high score, a short text, and a name that the
    task shares."""
    agrees = any(phrase in memory.reason for phrase in _AGREES)
    return (
        memory.score >= WHOLE_SCORE
        and agrees
        and len(text.encode("utf-8", "replace")) <= WHOLE_BYTES
    )


def is_shown(memory: Selected, place: int, text: str) -> bool:
    """Whether a body is shown at all. place: from 0, by score."""
    if memory.kind in _PLACE_ONLY:
        return False
    return is_likely_whole(memory, text) or place < OUTLINED_PLACES


def outline(text: str, task: str, *, first_line: int) -> str:
    """Return the first line of a text and those that have most words of the task, with their
    numbers.

    first_line: the number of the text's first line in its file; 0 if it has none.
    """
    lines = text.split("\n")
    shown = telling_lines(lines, task, most=OUTLINE_LINES, only_hits=True)
    cut = [_cut(lines[at]) for at in shown]
    if first_line:
        cut = [f"{first_line + at}: {_cut(lines[at])}" for at in shown]
    return "\n".join(cut)


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    return f"{line[: LINE_CHARS - 1]}…"
