"""How the loopback server scores a memory: by memory and turn, without a model."""

import re
from collections.abc import Callable, Mapping

from xscore.providers.scripted import ShownMemory

ScoringFunction = Callable[[ShownMemory, str], int | tuple[int, str]]
"""Memory and the text around the memories -> score 0..100, with or without a reason."""

_WORD = re.compile(r"[a-z]{3,}")


def words(text: str) -> set[str]:
    """Return the lower-case words of a text, with identifiers split."""
    return set(_WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))


def by_words(memory: ShownMemory, turn: str) -> tuple[int, str]:
    """Score by the share of the memory's name and path words, then text words, found in the
    turn."""
    task_words = words(turn)
    named = words(f"{memory.path} {memory.entity}")
    shared = sorted(named & task_words) or sorted(words(memory.text) & task_words)
    share = len(named & task_words) / max(1, len(named))
    score = min(100, round(100 * share) + 3 * len(words(memory.text) & task_words))
    return score, "shares " + ", ".join(shared[:5]) if shared else "shares nothing"


def table(scores: Mapping[str, int], *, default: int = 3) -> ScoringFunction:
    """Score by the first key contained in `path::entity` or the text."""

    def score(memory: ShownMemory, turn: str) -> tuple[int, str]:
        place = f"{memory.path}::{memory.entity}\n{memory.text}"
        key = next((key for key in scores if key in place), None)
        return (default, "not listed") if key is None else (scores[key], f"listed as {key}")

    return score
