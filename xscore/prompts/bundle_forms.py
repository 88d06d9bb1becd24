"""How a bundle looks: XML fences for models, Markdown for people and chat windows, JSON for programs.

Every form shows each memory's id, so that an answer can cite it, and names what was left out. Purely layout: the order,
the sections, the headers and what fits are given. What we say of a memory stands outside its fence, right after its
kind and in parentheses, where no quoted text can come before it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from xscore.prompts.bundle_entry import SYSTEM_CONTEXT
from xscore.prompts.bundle_piece import CODE_KINDS, Layout, Piece, caption, omissions, one_line, remarks
from xscore.prompts.fact_tables import LEAST, Row, is_fact, is_shorter, table
from xscore.prompts.fences import block, escape, escape_attribute, well_formed
from xscore.prompts.memory_context import memory_context


def xml(layout: Layout) -> str:
    """`<code file= entity= score=>` for code and `<memory id= score=>` for the rest, each under a line with its id.

    They stand in `<system_context>` and `<evidence>`; short facts may share a TOON table in `<facts>`.
    """
    parts = []
    for is_system, pieces in _sections(layout):
        tag = "system_context" if is_system else "evidence"
        blocks: list[str] = []
        for run in _runs(pieces):
            fenced = "\n".join(map(_xml_piece, run))
            blocks.append(_tabled(run, fenced, lambda toon: f"<facts>\n{escape(toon)}\n</facts>"))
        parts.append("\n".join([f"<{tag}>", *blocks, f"</{tag}>"]))
    if layout.omitted:
        parts.append("<omitted>\n" + "\n".join(omissions(layout.omitted)) + "\n</omitted>")
    return "\n".join(parts)


def markdown(layout: Layout) -> str:
    """The two sections, in each a heading for each file, a caption and a fenced block for each memory."""
    parts = []
    for is_system, pieces in _sections(layout):
        parts.append("# System context" if is_system else "# Evidence")
        path = ""
        for run in _runs(pieces):
            heading = "" if is_fact(run[0].memory) else run[0].memory.path or run[0].memory.title
            if heading and (heading != path or not run[0].memory.path):
                parts.append(f"## {one_line(heading)}")
            path = run[0].memory.path
            fenced = "\n\n".join(map(_markdown_piece, run))
            parts.append(_tabled(run, fenced, lambda toon: block(toon, "toon")))
    if layout.omitted:
        parts.append("\n".join(["## Left out", "", *(f"- {line}" for line in omissions(layout.omitted))]))
    return "\n\n".join(parts)


def as_json(layout: Layout) -> str:
    """`{schema, headers: {path: text}, memories: [...], omitted: [...]}`."""
    body = {
        "schema": 1,
        "headers": {piece.memory.path: well_formed(piece.header) for piece in layout.pieces if piece.header},
        "memories": [
            _named(piece) | {"score": None if piece.score is None else round(piece.score, 6)}
            | {"below_threshold": piece.below_threshold, "text": well_formed(piece.text)}
            | {"section": "system_context" if piece.memory.layer in SYSTEM_CONTEXT else "evidence"}
            | {"told": well_formed(piece.told), "source": piece.memory.source.value}
            | {"alike": piece.alike, "settles": piece.settles, "detail_of": piece.summary}
            for piece in layout.pieces
        ],
        "omitted": [_named(piece) | {"tokens": piece.tokens} for piece in layout.omitted],
    }  # fmt: skip
    return json.dumps(body, ensure_ascii=False, indent=1)


FORMS: dict[str, Callable[[Layout], str]] = {
    "xml": xml,
    "markdown": markdown,
    "json": as_json,
    "memory": memory_context,
}


def _sections(layout: Layout) -> Iterator[tuple[bool, list[Piece]]]:
    """Yield whether it is system context, and its pieces; a section without pieces is left out."""
    for is_system, pieces in groupby(layout.pieces, key=lambda piece: piece.memory.layer in SYSTEM_CONTEXT):
        yield is_system, list(pieces)


def _runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield neighbouring facts together and everything else one by one."""
    for are_facts, run in groupby(pieces, key=lambda piece: is_fact(piece.memory)):
        if are_facts:
            yield list(run)
        else:
            yield from ([piece] for piece in run)


def _tabled(run: Sequence[Piece], fenced: str, frame: Callable[[str], str]) -> str:
    """Return the facts in a table where that is shorter, else as they are."""
    if len(run) < LEAST:
        return fenced
    framed = frame(table([_row(piece) for piece in run]))
    return framed if is_shorter(framed, fenced) else fenced


def _row(piece: Piece) -> Row:
    memory = piece.memory
    told = remarks(piece) + ("; below the threshold" if piece.below_threshold else "")
    return {
        "id": memory.id,
        "kind": memory.kind.value,
        "score": "" if piece.score is None else round(piece.score, 2),
        "told": one_line(told),
        "text": well_formed(piece.text).strip(),
    }


def _xml_piece(piece: Piece) -> str:
    memory = piece.memory
    parts = []
    if piece.header:
        parts.append(f'<header file="{escape_attribute(memory.path)}">\n{escape(piece.header)}\n</header>')
    score = "" if piece.score is None else f' score="{piece.score:.2f}"'
    if memory.kind in CODE_KINDS:
        named = f'file="{escape_attribute(memory.path)}" entity="{escape_attribute(memory.entity)}"'
        fence = f"<code {named}{score}>", "</code>"
    else:
        fence = f'<memory id="{memory.id}"{score}>', "</memory>"
    parts += [caption(piece), fence[0], escape(piece.text).strip("\n"), fence[1]]
    return "\n".join(parts)


def _markdown_piece(piece: Piece) -> str:
    memory = piece.memory
    parts = [block(piece.header, memory.language)] if piece.header else []
    entity = f" `{one_line(memory.entity)}`" if memory.entity and memory.kind in CODE_KINDS else ""
    score = "" if piece.score is None else f" score {piece.score:.2f}"
    parts.append(f"{caption(piece)}{entity}{score}")
    parts.append(block(piece.text.strip("\n"), memory.language if memory.kind in CODE_KINDS else "text"))
    return "\n\n".join(parts)


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
