"""The 2,000 items that xscore and its peers judge, and what the server's scoring function says of
each.

Imports the standard library alone, because every program's own Python loads it. An item is known by
its number, which its text carries; the rest of the text is filler of the length of a usual
function.
"""

import random
import re
from hashlib import blake2b

COUNT = 2_000
RETRIES = 4
"""Retries of one call by each program itself: as many as xscore has by default."""
TASK = "Why does the upload queue drop its last batch when the limit is reached?"
NUMBERED = re.compile(r"def candidate_(\d{4})\(")
WORDS = (
    "batch",
    "limit",
    "queue",
    "upload",
    "part",
    "chunk",
    "total",
    "index",
    "retry",
    "state",
    "reader",
    "buffer",
)


def text(number: int) -> str:
    """Return a function of about 100 tokens, the same in every run."""
    words = random.Random(number)
    lines = [f"def candidate_{number:04}({words.choice(WORDS)}, {words.choice(WORDS)}_size):"]
    for _ in range(8):
        first, second, third = (words.choice(WORDS) for _ in range(3))
        lines.append(f"    {first}_{second} = {third}({first}, {words.randrange(1_000)})")
    return "\n".join([*lines, "    return None"])


def score(number: int) -> int:
    """Say what a judge is to find, 0..100: 80 to 95 for about one in 33, below 30 for the
    others."""
    drawn = int.from_bytes(blake2b(f"score {number}".encode(), digest_size=8).digest())
    return 80 + drawn % 16 if drawn // 100 % 33 == 0 else drawn % 30


def is_relevant(number: int) -> bool:
    """Say what a yes-or-no judge is to find."""
    return score(number) >= 70


def out_of_ten(number: int) -> int:
    """Say what a judge on a scale of 1 to 10 is to find."""
    return max(1, round(score(number) / 10))


def numbers_in(prompt: str) -> list[int]:
    """Return the candidates that a prompt shows, in its order."""
    return [int(digits) for digits in NUMBERED.findall(prompt)]
