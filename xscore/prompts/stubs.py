"""A class beside its methods: the stubs of those that the bundle also shows are taken out of it.

It reads no syntax, only lines. Trade-off: a stub that was written in another form than its signature stays, which costs
a line and loses nothing.
"""

import re
from collections.abc import Mapping, Sequence

from xscore.records import Kind, Memory

_OWNER = re.compile(r"(?:\.| > )(?:(?!\.| > ).)+\Z")
"""The last part of a qualified name."""

Signatures = Mapping[tuple[str, str], Sequence[str]]
"""(path, entity) of an owner -> signatures of its members that are shown."""


def signatures(memories: Sequence[Memory]) -> Signatures:
    """Collect the signatures of shown members by their owner."""
    found: dict[tuple[str, str], list[str]] = {}
    for memory in memories:
        owner = _OWNER.sub("", memory.entity)
        if owner != memory.entity and memory.facts.signature:
            found.setdefault((memory.path, owner), []).append(memory.facts.signature)
    return found


def without_carried(memory: Memory, text: str, shown: Signatures) -> str:
    """Return the text without the stubs of members that the bundle shows in full."""
    if memory.kind not in {Kind.CLASS, Kind.TEST, Kind.BLOCK}:
        return text
    return without_signatures(text, shown.get((memory.path, memory.entity.removeprefix("module:")), ()))


def without_signatures(text: str, stubs: Sequence[str]) -> str:
    """Take the one-line stubs of these members out of a class as the indexer shows it; each is taken out once."""
    lines = text.split("\n")
    for stub in stubs:
        wanted = [line.strip() for line in stub.split("\n") if line.strip()]
        place = _find(lines, wanted) if wanted else -1
        if place >= 0:
            del lines[place : place + len(wanted)]
    return "\n".join(lines)


def _find(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """Where a stub stands: the signature's lines, the last with nothing but a placeholder behind it."""
    for place in range(1, len(lines) - len(wanted) + 1):
        window = [line.strip() for line in lines[place : place + len(wanted)]]
        rest = window[-1].removeprefix(wanted[-1])
        if window[:-1] == list(wanted[:-1]) and window[-1].startswith(wanted[-1]) and not any(map(str.isalnum, rest)):
            return place
    return -1
