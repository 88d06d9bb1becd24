"""How a bundle looks: XML fences for models, Markdown for people and chat windows, JSON for programs.

Every form shows each memory's id, so that an answer can cite it, and names what was left out. Purely layout: the order,
the headers and what fits are given.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xscore.prompts.fences import backticks, escape, escape_attribute, well_formed
from xscore.records import Kind, Memory

CODE_KINDS = frozenset({Kind.FUNCTION, Kind.METHOD, Kind.CLASS, Kind.TEST, Kind.BLOCK})
NAMED = 30
"""At most so many omitted memories are named; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One memory with what is shown of it."""

    memory: Memory
    score: float
    below_threshold: bool
    text: str
    header: str
    """Head of its file; empty where it was shown already."""
    tokens: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What a form lays out."""

    pieces: tuple[Piece, ...]
    omitted: tuple[Piece, ...]


def xml(layout: Layout) -> str:
    """`<code file= entity= score=>` for code and `<memory id= score=>` for the rest, each under a line with its id."""
    parts = []
    for piece in layout.pieces:
        memory = piece.memory
        if piece.header:
            parts.append(f'<header file="{escape_attribute(memory.path)}">\n{escape(piece.header)}\n</header>')
        if memory.kind in CODE_KINDS:
            named = f'file="{escape_attribute(memory.path)}" entity="{escape_attribute(memory.entity)}"'
            fence = f'<code {named} score="{piece.score:.2f}">', "</code>"
        else:
            fence = f'<memory id="{memory.id}" score="{piece.score:.2f}">', "</memory>"
        parts.append("\n".join([_caption(piece), fence[0], escape(piece.text).strip("\n"), fence[1]]))
    if layout.omitted:
        parts.append("<omitted>\n" + "\n".join(_omissions(layout.omitted)) + "\n</omitted>")
    return "\n".join(parts)


def markdown(layout: Layout) -> str:
    """A heading for each file, a caption and a fenced block for each memory."""
    parts, path = [], None
    for piece in layout.pieces:
        memory = piece.memory
        if memory.path != path or not path:
            path = memory.path
            parts.append(f"## {_one_line(path or memory.title)}")
        if piece.header:
            parts.append(_block(piece.header, memory.language))
        named = f" `{_one_line(memory.entity)}`" if memory.entity and memory.kind in CODE_KINDS else ""
        parts.append(f"{_caption(piece)}{named} score {piece.score:.2f}")
        parts.append(_block(piece.text.strip("\n"), memory.language if memory.kind in CODE_KINDS else "text"))
    if layout.omitted:
        parts.append("\n".join(["## Left out", "", *(f"- {line}" for line in _omissions(layout.omitted))]))
    return "\n\n".join(parts)


def as_json(layout: Layout) -> str:
    """`{schema, headers: {path: text}, memories: [...], omitted: [...]}`."""
    body = {
        "schema": 1,
        "headers": {piece.memory.path: well_formed(piece.header) for piece in layout.pieces if piece.header},
        "memories": [
            _named(piece) | {"score": round(piece.score, 6), "below_threshold": piece.below_threshold}
            | {"text": well_formed(piece.text)}
            for piece in layout.pieces
        ],
        "omitted": [_named(piece) | {"tokens": piece.tokens} for piece in layout.omitted],
    }  # fmt: skip
    return json.dumps(body, ensure_ascii=False, indent=1)


FORMS: dict[str, Callable[[Layout], str]] = {"xml": xml, "markdown": markdown, "json": as_json}


def _named(piece: Piece) -> dict[str, object]:
    memory = piece.memory
    return {
        "id": memory.id,
        "layer": memory.layer.value,
        "kind": memory.kind.value,
        "path": memory.path,
        "entity": well_formed(memory.entity),
        "start_line": memory.start_line,
        "end_line": memory.end_line,
        "language": memory.language,
    }


def _caption(piece: Piece) -> str:
    memory = piece.memory
    words = [f"[{memory.id}]", memory.kind.value]
    if memory.kind not in CODE_KINDS:
        words.append(_place(memory))
    if memory.start_line:
        words.append(f"lines {memory.start_line}-{memory.end_line}")
    if piece.below_threshold:
        words.append("(below the threshold)")
    return _one_line(" ".join(word for word in words if word))


def _omissions(omitted: Sequence[Piece]) -> list[str]:
    lines = ["Chosen as well, but too long for the token budget; ask for what you need:"]
    for piece in omitted[:NAMED]:
        memory = piece.memory
        where = f", lines {memory.start_line}-{memory.end_line}" if memory.start_line else ""
        lines.append(_one_line(f"[{memory.id}] {_place(memory)}{where}, about {piece.tokens:,} tokens"))
    if len(omitted) > NAMED:
        lines.append(f"and {len(omitted) - NAMED} more")
    return lines


def _place(memory: Memory) -> str:
    place = "::".join(part for part in (memory.path, memory.entity) if part)
    return escape(place or memory.title)


def _block(text: str, language: str) -> str:
    clean = well_formed(text)
    fence = backticks(clean)
    return f"{fence}{language}\n{clean}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(well_formed(text).split())
