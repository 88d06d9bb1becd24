"""Prompts of one shape: rendered by the dialect once, then put together from their pieces.

Prompts that ask for the same ids differ in their memories, the name of their pack and the turn alone; the line of a
batch in its custom_id beside. So one body of a shape is rendered, with random marks in these places, and cut there.
What no mark stands for (model, schema, limits, rubric) is the dialect's own, byte for byte. Trade-off: a dialect that
would not pass text through unchanged could not be used so; it is refused, not guessed at.
"""

import json
import re
import secrets
from dataclasses import dataclass, replace

from xscore import tokens
from xscore.errors import XscoreError
from xscore.prompts.judge import PackEntry, pack_block
from xscore.providers.batch_host import BatchHost
from xscore.records import Request
from xscore.scorer.draft import Drafts
from xscore.scorer.repair import Ask


@dataclass(frozen=True, slots=True)
class Prompt:
    """An ask, rendered but for custom_id and turn."""

    around: tuple[bytes, ...]
    """What stands before, between and after those two."""
    id_first: bool
    chars: int
    output: int

    def line(self, custom_id: bytes, turn: bytes) -> bytes:
        """Return the line of one request."""
        first, second = (custom_id, turn) if self.id_first else (turn, custom_id)
        return b"".join((self.around[0], first, self.around[1], second, self.around[2]))


_MARKS = ("id", "pack", "key", "turn")


@dataclass(frozen=True, slots=True)
class Shape:
    """A body of a dialect with marks in the places in which prompts of its shape differ."""

    literals: tuple[bytes, ...]
    order: tuple[str, ...]
    """Of the marks between them."""
    chars: int
    """Of the prompt without memories and turn."""
    output: int

    def prompt(self, block: str, pack: str) -> Prompt:
        """Put the memories and the name of their pack in."""
        filled = {"pack": inside_json(block), "key": inside_json(pack)}
        around, given = [self.literals[0]], []
        for name, literal in zip(self.order, self.literals[1:], strict=True):
            if name in filled:
                around[-1] += filled[name] + literal
            else:
                given.append(name)
                around.append(literal)
        return Prompt(tuple(around), given[0] == "id", self.chars + tokens.size(block), self.output)


def shape_of(drafts: Drafts, host: BatchHost, ask: Ask, ids: tuple[str, ...]) -> Shape:
    """Have the dialect render one body of this shape. Raises XscoreError where it is not as it was asked for."""
    word = secrets.token_hex(16)
    marks = {name: f"xs{word}{name}" for name in _MARKS}
    request = _marked(drafts, ask, ids, marks)
    line = host.line(marks["id"], host.body(request))
    found = re.compile(f"xs{word}({'|'.join(_MARKS)})".encode())
    literals, names = re.split(found, line)[::2], tuple(name.decode() for name in re.split(found, line)[1::2])
    expected = sorted(_MARKS if marks["key"].encode() in line else set(_MARKS) - {"key"})
    if sorted(names) != expected or not line.endswith(b"\n"):
        raise XscoreError(f"{host.name} does not pass a prompt on as it is", hint="Please report it.")
    frame = request.system, *(re.sub("|".join(marks.values()), "", part) for part in request.content)
    return Shape(tuple(literals), names, tokens.size(*frame), request.max_output_tokens)


def _marked(drafts: Drafts, ask: Ask, ids: tuple[str, ...], marks: dict[str, str]) -> Request:
    """Draft this ask as the live judge does, with marks in place of memories, name and turn."""
    request, dealt = drafts.request(ask, marks["turn"])
    entries = [
        PackEntry(code, one.kind, one.path, one.entity, one.text) for code, one in zip(dealt, ask.pieces, strict=True)
    ]
    block = pack_block(entries)
    content = tuple(part.replace(block, marks["pack"], 1) for part in request.content)
    return replace(request, content=content, cache_key=marks["key"] if request.cache_key else "", reply_ids=ids)


def inside_json(text: str) -> bytes:
    """Write text as it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
