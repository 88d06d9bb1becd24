"""Dialogs made from templates: planted facts that should be kept, and traps that should not.

Each plant and each trap is about a thing with a made-up name, so that what is kept can be told by
the name alone. A plant says how a strong model would put it; a trap says what a careless one would
make of it. Nothing is random but the order, which a seed fixes.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

Turn = tuple[str, str]
"""What the user said, and what the agent said."""


class Planted(Struct, frozen=True):
    """A fact, or a trap, on its way into a dialog."""

    name: str
    """The made-up name it is about."""
    shape: str
    turns: tuple[Turn, ...]
    kind: str
    text: str
    """The text as a model puts it."""
    quote: str
    is_trap: bool = False


class Dialog(Struct, frozen=True):
    """A session with what is planted in it."""

    number: int
    turns: tuple[Turn, ...]
    planted: tuple[Planted, ...]


_SYLLABLES = (
    "kor vex tal mir dun zep lor quin bas fen rud sol nar yek pim gor hul tev wim jas".split()
)

_TEMPLATES = json.loads(Path(__file__).with_name("planted.json").read_text("utf-8"))
"""Plants: what the user and the agent say, the fact as a model puts it, its quote. Traps: turns,
the wrong fact, its quote. `{n}` is the name."""

_NOISE: tuple[Turn, ...] = (
    ("Can you look at the failing import?", "The import works now; a name was misspelt."),
    ("Thanks, run the tests again please.", "All 212 tests pass."),
    ("Add a docstring to the parser.", "I added one and ran the formatter."),
    ("What does this function return?", "It returns a list of the rows that match."),
    ("Make the error message shorter.", "The message is one sentence now."),
)


def names() -> Iterator[str]:
    """Yield made-up names, no two alike."""
    for first in _SYLLABLES:
        for second in _SYLLABLES:
            if first != second:
                yield f"{first}{second}"


def plants(count: int) -> list[Planted]:
    """Return so many facts, by turns in each shape."""
    planted_items: list[Planted] = []
    named = names()
    templates: list[dict[str, str]] = _TEMPLATES["plants"]
    for number in range(count):
        template = templates[number % len(templates)]
        name = next(named)
        filled = {key: value.replace("{n}", name) for key, value in template.items()}
        turn = (filled["user"], filled["agent"])
        kind = filled["kind"]
        planted_items.append(
            Planted(name, kind, (turn,), kind, filled["text"], filled["quote"])
        )
    return planted_items


def traps(count: int) -> list[Planted]:
    """Return so many traps, by turns in each shape."""
    planted_items: list[Planted] = []
    # Another letter at the end, so that no trap has the name of a plant.
    named = (f"{name}x" for name in names())
    templates: list[dict[str, Any]] = _TEMPLATES["traps"]
    for number in range(count):
        template = templates[number % len(templates)]
        name = next(named)
        turns: list[Turn] = []
        for task, answer in template["turns"]:
            turns.append((task.replace("{n}", name), answer.replace("{n}", name)))
        wrong = template["text"].replace("{n}", name)
        quote = template["quote"].replace("{n}", name)
        shape, kind = template["shape"], template["kind"]
        planted_items.append(
            Planted(name, shape, tuple(turns), kind, wrong, quote, is_trap=True)
        )
    return planted_items


def dialogs(planted: list[Planted], *, size: int = 4, seed: int = 7) -> list[Dialog]:
    """Return sessions that hold so many of these size, between turns about nothing."""
    mixed = list(planted)
    random.Random(seed).shuffle(mixed)
    sessions: list[Dialog] = []
    for number, start in enumerate(range(0, len(mixed), size)):
        turns: list[Turn] = []
        of_dialog = mixed[start : start + size]
        for place, item in enumerate(of_dialog):
            turns += item.turns
            # What takes back what was just said must not reach a plant of its neighbour.
            turns += [_NOISE[(number + place) % len(_NOISE)], _NOISE[place % len(_NOISE)]]
        sessions.append(Dialog(number, tuple(turns), tuple(of_dialog)))
    return sessions
