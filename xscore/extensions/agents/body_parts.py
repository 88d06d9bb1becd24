"""Which bodies an agent is likely to need whole, and which lines of the others.

A ranking by words is often wrong about one memory and right about its file, so a body is shown whole only where it is
short, scores high and is named by the task; of the others stand the first line and those that have words of the task,
with their numbers. Pure. Trade-off: what is meant but bears another name is read by the agent itself.
"""

from xscore.prompts.telling_lines import telling_lines
from xscore.records.receipt import Selected

WHOLE_SCORE = 0.75
"""Least score of a memory that is shown whole."""
WHOLE_BYTES = 1_000
"""Largest text that is shown whole."""
OUTLINED_PLACES = 2
"""How many of the best memories have an outline where they are not shown whole."""
OUTLINE_LINES, LINE_CHARS = 6, 100
_AGREES = ("name matches", "owner matches", "task names")


def is_likely_whole(one: Selected, text: str) -> bool:
    """Whether an agent will need the whole text: a high score, a short text, and a name that the task shares."""
    agrees = any(said in one.reason for said in _AGREES)
    return one.score >= WHOLE_SCORE and agrees and len(text.encode("utf-8", "replace")) <= WHOLE_BYTES


def outline(text: str, task: str, *, first_line: int) -> str:
    """Return the first line of a text and those that have most words of the task, with their numbers.

    first_line: the number of the text's first line in its file; 0: it has none.
    """
    lines = text.split("\n")
    shown = telling_lines(lines, task, most=OUTLINE_LINES, only_hits=True)
    cut = [(f"{first_line + at}: " if first_line else "") + lines[at][:LINE_CHARS] for at in shown]
    return "\n".join(cut)
