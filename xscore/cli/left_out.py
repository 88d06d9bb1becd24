"""What was taken out of a memory before it was kept, in words: secrets, e-mail addresses, phone numbers, addresses.

The door counts places and leaves a mark at each, so the marks say of what kind they were. Trade-off: where a memory
holds other marks too, as one that was redacted before, kinds cannot be told apart and only the number is said.
"""

import re
from collections import Counter

from xscore.records import Memory
from xscore.wording import counted

_MARK = re.compile(r"<(SECRET|PII):(\w+)>")
_WORDS = {
    "secret": ("secret", "secrets"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
    "address": ("postal address", "postal addresses"),
}


def left_out(count: int, *, of: Memory | None = None) -> str:
    """`1 secret and 1 e-mail address left out`, of so many places; without a memory, or in doubt, by number alone."""
    found = _marked(of) if of else Counter[str]()
    if found.total() != count:
        return f"{counted(count, 'secret or personal detail', 'secrets or personal details')} left out"
    parts = [counted(found[kind], *words) for kind, words in _WORDS.items() if found[kind]]
    return f"{', '.join(parts[:-1])} and {parts[-1]} left out" if len(parts) > 1 else f"{parts[0]} left out"


def _marked(memory: Memory) -> Counter[str]:
    """Count the marks, each place once: a title that is part of the text is no other place, nor is what a key names."""
    said = memory.particulars
    places = [memory.text, memory.key, *said.links, *said.paths]
    places += [memory.title] if memory.title.removesuffix("…") not in memory.text else []
    marks = [mark for place in places for mark in _MARK.finditer(place)]
    kinds = ("secret" if mark[1] == "SECRET" else mark[2] for mark in marks)
    return Counter(kind if kind in _WORDS else "address" for kind in kinds)
