"""What a memory claims, in few words: its first sentence, what is chosen in it, and the topic it speaks of. Pure.

`use Prisma for the ORM, not TypeORM` claims that sentence and chooses `Prisma`. Claims are compared by their words,
never by meaning. Trade-off: two sentences that say the same otherwise are two claims, so a choice worded differently
in each project is not promoted; naming the value alone (`Prisma`) under a key is what is understood everywhere.
"""

import re

from xscore.records import Kind, Memory

VALUE_WORDS = 3
"""A choice is named by at most so many words; a longer sentence stands for itself."""

_CHOICES = frozenset({Kind.TECH_STACK, Kind.DECISION, Kind.PREFERENCE})
_END = re.compile(r"[.!?;](?=\s|\Z)|\n")
_LEAD = re.compile(
    r"(?:(?:we|i|user|this project|always|usually|typically|generally|explicitly|please|decided|decision)[:,]?\s+)*"
    r"(?:(?:use|uses|using|prefer|prefers|choose|chooses|chose|chosen|adopt|adopts|adopted|pick|picked|go with"
    r"|goes with|went with|is|are|to use)[:]?\s+)*",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"\s*(?:,|\(|:|--|—)\s*.*|\s+(?:not|rather than|instead of|over|because|since|as|for|in|on|with|when)\s.*",
    re.IGNORECASE | re.DOTALL,
)
_SPACE = re.compile(r"\s+")
_FOLDERS = re.compile(r"^(?:preference|decision|tech_stack|convention|pattern|stack|tool|user|project)s?[.:/]")


def claim(memory: Memory) -> str:
    """Return the first sentence of a memory, in one line and without its full stop."""
    text = memory.text.strip() or memory.title.strip()
    return _SPACE.sub(" ", _END.split(text, maxsplit=1)[0]).strip()


def value(memory: Memory) -> str:
    """Return what is chosen (`Prisma`), or the whole claim where that takes more than a few words."""
    whole = claim(memory)
    chosen, before = whole, ""
    while chosen != before:  # so that reading a choice off a choice gives that choice
        before = chosen
        chosen = _LEAD.sub("", chosen, count=1) or chosen
        chosen = _ASIDE.sub("", chosen, count=1).strip(" \"'`.") or chosen
    return chosen if chosen and len(chosen.split()) <= VALUE_WORDS else whole


def names_a_choice(memory: Memory) -> bool:
    """Whether its value is a name (`Prisma`), rather than a sentence or a rule."""
    return memory.kind in _CHOICES and len(value(memory).split()) <= VALUE_WORDS


def normal(text: str) -> str:
    """Return the form in which claims are compared: case, spaces and closing punctuation do not matter."""
    return _SPACE.sub(" ", text).strip(" .!,;:\"'`").casefold()


def topic(key: str) -> str:
    """Return what a key is about: `preference.orm` and `ORM` are both `orm`; empty for no key."""
    return _FOLDERS.sub("", normal(key).replace(" ", "_"))
