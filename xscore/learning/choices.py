"""What a memory chooses, in few words: its first sentence, the value that is chosen in it, and the topic it is about.

`Use Prisma for the ORM, not TypeORM` chooses `Prisma`. Values are compared by their words, never by meaning, and
nothing that could tell two values apart is left out: a reason (because, since, so that) always is no part of one; what
something is used for and what was turned down are none only behind a verb that says what was chosen. Trade-off: two
sentences that say the same otherwise are two values, so a choice worded differently in each project is not promoted;
naming the value alone (`Prisma`) under a key is what is understood everywhere.
"""

import re
from dataclasses import dataclass

from xscore.records import Kind, Memory, Observation

VALUE_WORDS = 3
"""A value is a name of at most so many words; a longer one is a sentence that stands for itself."""
NAMED = frozenset({Kind.TECH_STACK, Kind.DECISION, Kind.PREFERENCE})
"""Kinds that choose something by its name."""

_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)[.!?](?=\s+[^a-z\s]|\s*\Z)|\n")
_LEAD = re.compile(
    r"(?:(?:we|i|user|this project|always|usually|typically|generally|explicitly|please|decided|decision)[:,]?\s+)*"
    r"(?:(?:use|uses|using|prefer|prefers|choose|chooses|chose|chosen|adopt|adopts|adopted|pick|picked|go with"
    r"|goes with|went with|is|are|to use)[:]?\s+)*",
    re.IGNORECASE,
)
_REASON = re.compile(r",?\s+(?:because|since|so that)\s.*", re.IGNORECASE | re.DOTALL)
_REST = re.compile(r"\s+for\s.*|,?\s+(?:not|rather than|instead of)\s.*", re.IGNORECASE | re.DOTALL)
_SPACE = re.compile(r"\s+")
_FOLDERS = re.compile(r"^(?:preference|decision|tech_stack|convention|pattern|stack|tool|user|project)s?[.:/]")


@dataclass(frozen=True, slots=True)
class Chosen:
    """An observation as it is compared: read once, however many memories it is compared with."""

    observed: Observation
    topic: str
    value: str
    """In its `normal` form."""


def chosen(observed: Observation) -> Chosen:
    """Read an observation."""
    return Chosen(observed, topic(observed.key), normal(observed.value))


def value(memory: Memory) -> str:
    """Return what a memory chooses; see `read_value`."""
    return read_value(memory.text.strip() or memory.title.strip())


def read_value(text: str) -> str:
    """Return what is chosen (`Prisma`), or the whole first sentence where that takes more than a few words."""
    sentence, before = _SPACE.sub(" ", _END.split(text, maxsplit=1)[0]).strip(), ""
    while sentence != before:
        before, sentence = sentence, _REASON.sub("", sentence, count=1).strip() or sentence
    name, before = sentence, ""
    while name != before:  # so that reading a choice off a choice gives that choice
        before = name
        rest = _LEAD.sub("", name, count=1)
        name = (_REST.sub("", rest, count=1) if rest != name else rest).strip(" \"'`.") or name
    return name if len(name.split()) <= VALUE_WORDS else sentence


def names_a_choice(memory: Memory) -> bool:
    """Whether its value is a name (`Prisma`), rather than a sentence or a rule."""
    return memory.kind in NAMED and len(value(memory).split()) <= VALUE_WORDS


def normal(text: str) -> str:
    """Return the form in which values are compared: case, spaces and closing punctuation do not matter."""
    return _SPACE.sub(" ", text).strip(" .!,;:\"'`").casefold()


def topic(key: str) -> str:
    """Return what a key is about: `preference.orm` and `ORM` are both `orm`; empty for no key."""
    return _FOLDERS.sub("", normal(key).replace(" ", "_"))
