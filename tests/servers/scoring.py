"""How the loopback server scores a memory: a function of the memory and the turn, without a model."""

import re
from collections.abc import Callable, Mapping

from xscore.providers.scripted import ShownMemory

ScoringFunction = Callable[[ShownMemory, str], int | tuple[int, str]]
"""Memory and what stands around the memories -> score 0..100, with a reason or without."""

_WORD = re.compile(r"[a-z]{3,}")


def words(text: str) -> set[str]:
    """Return the lower-case words of a text, with identifiers taken apart."""
    return set(_WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))


def by_words(memory: ShownMemory, turn: str) -> tuple[int, str]:
    """Score by the share of the memory's name and path words, then text words, that the turn has."""
    asked = words(turn)
    named = words(f"{memory.path} {memory.entity}")
    shared = sorted(named & asked) or sorted(words(memory.text) & asked)
    share = len(named & asked) / max(1, len(named))
    score = min(100, round(100 * share) + 3 * len(words(memory.text) & asked))
    return score, "shares " + ", ".join(shared[:5]) if shared else "shares nothing"


def table(scores: Mapping[str, int], *, default: int = 3) -> ScoringFunction:
    """Score by the first key that is part of `path::entity` or of the text."""

    def score(memory: ShownMemory, turn: str) -> tuple[int, str]:
        place = f"{memory.path}::{memory.entity}\n{memory.text}"
        key = next((key for key in scores if key in place), None)
        return (default, "not listed") if key is None else (scores[key], f"listed as {key}")

    return score
