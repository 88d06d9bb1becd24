"""Read a judging prompt the way a judge does: which memories are shown, and what stands around them.

For providers that judge without a model (`scripted`, test servers). It is tolerant: it needs `<memory id="…" …>` blocks
only (and, of a prompt that questions share, `<question id="…">`), takes the path from an enclosing `<file path="…">`,
and does not check the prompt against the protocol.
"""

import re
from dataclasses import dataclass
from html import unescape

_TAG = re.compile(r"<file\b([^>]*)>|</file>|<memory\b([^>]*)>(.*?)</memory>", re.DOTALL)
_QUESTION = re.compile(r'<question id="([^"]*)">(.*?)</question>', re.DOTALL)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Shown:
    """One memory as a prompt shows it."""

    id: str
    kind: str
    path: str
    entity: str
    text: str


def shown_memories(prompt: str) -> tuple[Shown, ...]:
    """Return the memories of a prompt in order; equal ids are all returned."""
    path = ""
    found: list[Shown] = []
    for match in _TAG.finditer(prompt):
        if match[0].startswith("<file"):
            path = _attributes(match[1]).get("path", "")
        elif match[0] == "</file>":
            path = ""
        else:
            attributes = _attributes(match[2])
            entity = attributes.get("name", attributes.get("entity", ""))
            own_path = attributes.get("path", path)
            memory_id = attributes.get("id", "")
            found.append(Shown(memory_id, attributes.get("kind", ""), own_path, entity, match[3].strip("\n")))
    return tuple(found)


def shown_questions(prompt: str) -> dict[str, str]:
    """Return the questions that share a prompt, by code; none where it has one turn."""
    return dict(_QUESTION.findall(_TAG.sub(" ", prompt)))


def around_memories(prompt: str) -> str:
    """Return what stands outside the memory blocks: the turn, and the fences."""
    return _TAG.sub(" ", prompt)


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}
