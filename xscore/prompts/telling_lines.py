"""Which lines of a text say most about a task. Pure.

Words are compared by their first letters, so that `parses` finds `parsing`. Trade-off: nothing is weighed; a common
word counts like a rare one.
"""

import re
from collections.abc import Sequence

SAME_LETTERS = 5
LEAST_LETTERS = 4


def telling_lines(lines: Sequence[str], task: str, *, most: int, only_hits: bool = False) -> list[int]:
    """Return the numbers, from 0 and in order, of the first line and of those with most words of the task.

    only_hits: leave out lines without any word of it, but the first.
    """
    pattern = rf"\w{{{LEAST_LETTERS},}}"
    words = {word[:SAME_LETTERS] for word in re.findall(pattern, task.casefold())}
    hits = {at: sum(word in line.casefold() for word in words) for at, line in enumerate(lines)}
    best = sorted(hits, key=lambda at: (at > 0, -hits[at], at))[:most]
    return [at for at in sorted(best) if at == 0 or hits[at] or not only_hits]
