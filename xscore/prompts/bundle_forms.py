"""How a bundle looks: XML fences for models, Markdown for people, JSON for programs, numbered
memories for agents.

Every form shows each memory's id, so that an answer can cite it, and names what was left out.
Order, sections, headers and selection are given. Three or more short facts in a row become one TOON
table if that is shorter than separate fences (docs/internals/decisions/0014-toon.md); `toon-format`
is loaded only then. Trade-off: a table is slightly harder to read.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from xscore.platform import tokens
from xscore.prompts.bundle_headings import HEADINGS, LeftOutCause
from xscore.prompts.bundle_parts import (
    PURPOSES_NOTE,
    BundleLayout,
    BundlePiece,
    Section,
    piece_caption,
    piece_heading,
    piece_remarks,
    purpose_lines,
)
from xscore.prompts.fences import collapse_blanks, escape_attribute, escape_tags, well_formed
from xscore.prompts.left_out import (
    LeftOut,
    in_order,
    left_out_lines,
    name_within,
)
from xscore.records.candidates import Candidate
from xscore.records.memory import CODE_KINDS, Kind, Memory

FACT_KINDS = frozenset({Kind.PREFERENCE, Kind.CONVENTION, Kind.TECH_STACK, Kind.TODO})
MIN_TABLE_ROWS = 3
"""Fewest facts that are put in a table."""
MAX_FACT_CHARS = 400
"""Longest fact in a table."""


def is_fact(memory: Memory) -> bool:
    """Whether this memory may be a table row: a fact, without a file, and short."""
    return memory.kind in FACT_KINDS and not memory.path and len(memory.text) <= MAX_FACT_CHARS


def render_memory_context(layout: BundleLayout) -> str:
    """Return `[1] (decision, 0.95) …` per memory, then branch, files and decision history; empty
    without any."""
    if not (layout.pieces or layout.left_out):
        return ""
    parts = ["## Semantic Memory Context", *filter(None, [layout.extras.remark])]
    for number, piece in enumerate(layout.pieces, start=1):
        parts.append(_memory(number, piece))
    if names := _names(layout):
        parts.append("\n".join(f"- {line}" for line in names))
    repository = _repository(layout)
    if repository:
        parts.append("\n".join(["## Repository Context", "", *repository]))
    extras = layout.extras
    for heading, entries in (
        ("## Known Failure Patterns", extras.failure_patterns),
        ("## Decision History", extras.history),
    ):
        if entries:
            lines = [f"- {collapse_blanks(entry)}" for entry in entries]
            parts.append("\n".join([heading, "", *lines]))
    return "\n\n".join(parts)


def _names(layout: BundleLayout) -> list[str]:
    return left_out_lines(layout.left_out, layout.left_out_tokens)


def _memory(number: int, piece: BundlePiece) -> str:
    memory = piece.memory
    score = "detail" if piece.score is None else f"{piece.score:.2f}"
    lines = ""
    if memory.start_line:
        lines = f" lines {memory.start_line}-{memory.end_line}"
    below = ""
    if piece.entry.below_threshold:
        below = " (~ below the threshold)"
    why = ""
    if piece.entry.reason:
        why = f"; why: {piece.entry.reason}"
    remarks = f"[{memory.id}] {piece_remarks(piece)}{why}"
    first = f"[{number}] ({memory.kind.value}, {score}) {piece_heading(piece)}{lines}{below}"
    captions = [collapse_blanks(first), collapse_blanks(remarks)]
    return "\n".join(
        [*captions, *_purpose_block(piece), *_header_block(piece), _text_block(piece)]
    )


def _purpose_block(piece: BundlePiece) -> list[str]:
    if not piece.purposes:
        return []
    return ["\n".join([f"> {line}" for line in (f"({PURPOSES_NOTE})", *purpose_lines(piece))])]


def _header_block(piece: BundlePiece) -> list[str]:
    if piece.header:
        return [_markdown_block(piece.header, piece.memory.language)]
    return []


def _text_block(piece: BundlePiece) -> str:
    language = "text"
    if piece.memory.kind in CODE_KINDS:
        language = piece.memory.language
    return _markdown_block(piece.text.strip("\n"), language)


def _repository(layout: BundleLayout) -> Sequence[str]:
    """Return the branch with its commit, and the files of the memories."""
    extras = layout.extras
    lines = []
    if extras.branch:
        commit = f" ({extras.commit})" if extras.commit else ""
        lines.append(f"Branch: {collapse_blanks(extras.branch)}{commit}")
    paths = dict.fromkeys(piece.memory.path for piece in layout.pieces)
    # Memories without a file have an empty path.
    paths.pop("", None)
    if paths:
        lines.append("Relevant files:")
        lines += [f"- {collapse_blanks(path)}" for path in paths]
    return lines


def _remark(layout: BundleLayout) -> list[str]:
    """Return the remark on the ranking, unless nothing is shown that it could be about."""
    is_about_something = bool(layout.pieces or layout.left_out)
    if layout.extras.remark and is_about_something:
        return [layout.extras.remark]
    return []


def render_xml(layout: BundleLayout) -> str:
    """Return `<code file= entity= score=>` for code and `<memory id= score=>` for the rest, each
    under its caption.

    They are in a tag for their section; short facts may share a TOON table in `<facts>`.
    """
    parts = _remark(layout)
    for tag, pieces in _sections(layout):
        blocks: list[str] = []
        for run in _runs(pieces):
            fenced = "\n".join(map(_xml_piece, run))
            blocks.append(_tabled(run, fenced, _facts_tag))
        parts.append("\n".join([f"<{tag}>", *blocks, f"</{tag}>"]))
    for name, lines in (("governance", layout.governance()), ("left_out", _names(layout))):
        if lines:
            parts.append("\n".join([f"<{name}>", *lines, f"</{name}>"]))
    return "\n".join(parts)


def _facts_tag(toon: str) -> str:
    return f"<facts>\n{escape_tags(toon)}\n</facts>"


def render_markdown(layout: BundleLayout) -> str:
    """Return the sections with a heading per file, and a caption and fenced block per memory."""
    parts = _remark(layout)
    for section, pieces in _sections(layout):
        parts.append(f"# {section.replace('_', ' ').capitalize()}")
        path = ""
        for run in _runs(pieces):
            memory = run[0].memory
            heading = "" if is_fact(memory) else memory.path or memory.title
            # Memories of the same file share one heading.
            if heading and (heading != path or not memory.path):
                parts.append(f"## {collapse_blanks(heading)}")
            path = memory.path
            fenced = "\n\n".join(map(_markdown_piece, run))
            parts.append(_tabled(run, fenced, lambda toon: _markdown_block(toon, "toon")))
    governance = layout.governance()
    names = _names(layout)
    if governance:
        parts.append("\n".join(["# Governance", "", *governance]))
    if names:
        headings = HEADINGS.values()
        lines = ["# Left out"]
        for line in names:
            lines.append(f"\n{line}\n" if line in headings else f"- {line}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_json(layout: BundleLayout) -> str:
    """`{schema, headers: {path: text}, purposes: {path: [line]}, memories: [...], left_out: [...],
    …}`, one memory a line."""
    memories = list(map(_memory_object, layout.pieces))
    named, by_id = _rows_and_ids(layout)
    extras = layout.extras
    headers: dict[str, str] = {}
    purposes: dict[str, list[str]] = {}
    for piece in layout.pieces:
        if piece.header:
            headers[piece.memory.path] = well_formed(piece.header)
        if piece.purposes:
            purposes[piece.memory.path] = [well_formed(line) for line in piece.purposes]
    governance = {"failure_patterns": extras.failure_patterns, "decisions": extras.decisions}
    parts = {
        "schema": "1",
        "remark": _json(extras.remark),
        "headers": _json(headers),
        "purposes": _json(purposes),
        "memories": _json_lines(memories),
        "governance": _json(governance),
        "left_out": _json_lines(named),
        "left_out_unnamed": str(len(layout.left_out) - len(named)),
        "left_out_ids": _json(by_id),
    }
    return "{" + ",\n".join(f'"{name}": {value}' for name, value in parts.items()) + "}"


def _memory_object(piece: BundlePiece) -> dict[str, object]:
    entry = piece.entry
    return {
        **_named(entry.memory),
        "score": None if piece.score is None else round(piece.score, 6),
        "below_threshold": entry.below_threshold,
        "text": well_formed(piece.text),
        "section": entry.section,
        "reason": well_formed(entry.reason),
        "in_part": piece.in_part,
        "told": well_formed(piece_remarks(piece)),
        "source": piece.memory.source.value,
        "alike": entry.alike,
        "settles": entry.settles,
        "detail_of": entry.summary,
    }


def _rows_and_ids(layout: BundleLayout) -> tuple[list[dict[str, object]], list[str]]:
    """Return what was left out as rows, and of what finds no room so the ids of all that passed, if
    these fit.

    Where not all rows fit, names come before reasons, and half of the budget is for ids.
    """
    left_out = in_order(layout.left_out)
    budget = layout.left_out_tokens
    rows = list(map(_row_of, left_out))
    if sum(map(_row_tokens, rows)) <= budget:
        return rows, []
    row_tokens: dict[str, int] = {}
    for left_memory, row in zip(left_out, rows, strict=True):
        row["reason"] = ""
        row_tokens[left_memory.candidate.id] = _row_tokens(row)

    def id_tokens(left_memory: LeftOut) -> int:
        return tokens.estimate(len(left_memory.candidate.id) + 4)

    for_rows = budget // 2
    named = name_within(left_out, for_rows, size=lambda memory: row_tokens[memory.candidate.id])
    unnamed = left_out[len(named) :]
    passed = [memory for memory in unnamed if memory.cause is not LeftOutCause.BELOW]
    by_id = name_within(passed, budget - for_rows, size=id_tokens)
    return rows[: len(named)], [memory.candidate.id for memory in by_id]


def _row_of(left_memory: LeftOut) -> dict[str, object]:
    return {
        **_named(left_memory.candidate),
        "tokens": left_memory.tokens,
        "score": round(left_memory.score, 6),
        "cause": left_memory.cause.name.lower(),
        "reason": well_formed(left_memory.reason),
    }


def _row_tokens(row: dict[str, object]) -> int:
    return tokens.estimate(len(_json(row)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _json_lines(values: Sequence[object]) -> str:
    return "[" + ",\n ".join(map(_json, values)) + "]"


FORMS: dict[str, Callable[[BundleLayout], str]] = {
    "xml": render_xml,
    "markdown": render_markdown,
    "json": render_json,
    "memory": render_memory_context,
}


def _sections(layout: BundleLayout) -> Iterator[tuple[Section, list[BundlePiece]]]:
    """Yield the sections that have pieces."""
    for section, pieces in groupby(layout.pieces, key=lambda piece: piece.entry.section):
        yield section, list(pieces)


def _runs(pieces: Sequence[BundlePiece]) -> Iterator[list[BundlePiece]]:
    """Yield consecutive facts together and everything else one by one."""
    for are_facts, run in groupby(pieces, key=lambda piece: is_fact(piece.memory)):
        if are_facts:
            yield list(run)
        else:
            for piece in run:
                yield [piece]


def _tabled(run: Sequence[BundlePiece], fenced: str, frame: Callable[[str], str]) -> str:
    """Return the facts as a TOON table (`facts[3]{id,kind,…}:` and a line each) if that is
    shorter."""
    if len(run) < MIN_TABLE_ROWS:
        return fenced
    import toon_format  # few bundles hold a table

    framed = frame(toon_format.dumps({"facts": list(map(_row, run))}))
    is_shorter = tokens.estimate(tokens.size(framed)) < tokens.estimate(tokens.size(fenced))
    if is_shorter:
        return framed
    return fenced


def _row(piece: BundlePiece) -> dict[str, str | float]:
    remarks = piece_remarks(piece)
    if piece.entry.below_threshold:
        remarks += "; ~ below the threshold"
    return {
        "id": piece.memory.id,
        "kind": piece.memory.kind.value,
        "score": "" if piece.score is None else round(piece.score, 2),
        "told": collapse_blanks(remarks),
        "text": well_formed(piece.text).strip(),
    }


def _xml_piece(piece: BundlePiece) -> str:
    memory = piece.memory
    parts = []
    file = escape_attribute(memory.path)
    if piece.purposes:
        note = escape_attribute(PURPOSES_NOTE)
        parts += [f'<purpose file="{file}" note="{note}">', *purpose_lines(piece), "</purpose>"]
    if piece.header:
        parts += [f'<header file="{file}">', escape_tags(piece.header), "</header>"]
    score = "" if piece.score is None else f' score="{piece.score:.2f}"'
    if memory.kind in CODE_KINDS:
        entity = escape_attribute(memory.entity)
        begin = f'<code file="{file}" entity="{entity}"{score}>'
        end = "</code>"
    else:
        begin = f'<memory id="{memory.id}"{score}>'
        end = "</memory>"
    parts += [piece_caption(piece), begin, escape_tags(piece.text).strip("\n"), end]
    return "\n".join(parts)


def _markdown_piece(piece: BundlePiece) -> str:
    memory = piece.memory
    entity = ""
    if memory.entity and memory.kind in CODE_KINDS:
        entity = f"; `{collapse_blanks(memory.entity)}`"
    score = "" if piece.score is None else f"; score {piece.score:.2f}"
    caption = f"{piece_caption(piece)}{entity}{score}"
    return "\n\n".join(
        [*_purpose_block(piece), *_header_block(piece), caption, _text_block(piece)]
    )


def _named(memory: Memory | Candidate) -> dict[str, object]:
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


def _markdown_block(text: str, language: str) -> str:
    """Return text as a fenced block of Markdown, with a fence longer than any run of backticks in
    it."""
    clean = well_formed(text)
    longest_run = max(map(len, re.findall("`{3,}", clean)), default=0)
    fence = "`" * max(3, longest_run + 1)
    return f"{fence}{language}\n{clean}\n{fence}"
