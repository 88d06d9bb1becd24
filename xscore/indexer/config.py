"""Configuration cut into blocks: a top-level table or key with the comments that explain it.

Neighbouring one-line keys share a block; a block longer than a window is cut where its own keys begin. INI has no
grammar here: its sections are found by their brackets. Trade-off: keys below the second level name nothing.
"""

import re
from collections.abc import Sequence

from xscore.indexer.pieces import Piece, SourceFile, numbered, trimmed
from xscore.indexer.syntax import Definition, Syntax
from xscore.indexer.windows import name_of, split
from xscore.records import CodeFacts, Kind

SMALL_ROWS = 3
"""Blocks of up to this many rows are joined with their neighbours."""
JOINED_ROWS = 20
"""Up to this size."""
_INI_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_COMMENT = re.compile(r"\s*(#|//|;|/\*|\*)")
_NAME_CHARS = 80

Block = tuple[str, int, int]
"""Name, first row, last row."""


def cut(source: SourceFile, found: Syntax | None) -> list[Piece]:
    """Cut a file into blocks; rows before, between and after the keys go with their neighbours."""
    lines = source.lines
    keys = _keys(found) if found is not None else _ini_keys(lines)
    blocks = [part for block in _joined(_spread(keys, lines)) for part in _parts(block, lines, found, source)]
    names = numbered([name for name, _, _ in blocks])
    return [
        Piece(
            kind=Kind.CONFIG,
            entity=name,
            start=start,
            end=end,
            text="\n".join(lines[start : end + 1]),
            title=name,
            facts=CodeFacts(docstring=_comments(lines[start : end + 1])),
        )
        for name, (_, start, end) in zip(names, blocks, strict=True)
    ]


def _keys(found: Syntax) -> list[Block]:
    return [(_name(d), d.start, d.end) for d in found.definitions if d.kind == "section"]


def _name(definition: Definition) -> str:
    name = definition.name.strip().strip("\"'")
    return " ".join(name.split())[:_NAME_CHARS] or "element"


def _ini_keys(lines: Sequence[str]) -> list[Block]:
    rows = [(row, match[1].strip()) for row, line in enumerate(lines) if (match := _INI_SECTION.match(line))]
    ends = [*(row - 1 for row, _ in rows[1:]), len(lines) - 1]
    return [(name, row, end) for (row, name), end in zip(rows, ends, strict=False)]


def _spread(keys: Sequence[Block], lines: Sequence[str]) -> list[Block]:
    """Stretch the keys so that together they cover the file; comments right above a key go with it."""
    if not keys:
        start, end = trimmed(lines, 0, len(lines) - 1)
        return [(name_of(lines, start, end), start, end)] if start <= end else []
    starts = [_with_comments(row, lines) for _, row, _ in keys]
    starts[0] = 0
    ends = [start - 1 for start in starts[1:]] + [len(lines) - 1]
    spread: list[Block] = []
    for (name, _, _), start, end in zip(keys, starts, ends, strict=True):
        first, last = trimmed(lines, start, end)
        if first <= last:
            spread.append((name, first, last))
    return spread


def _with_comments(row: int, lines: Sequence[str]) -> int:
    while row > 0 and _COMMENT.match(lines[row - 1]):
        row -= 1
    return row


def _joined(blocks: Sequence[Block]) -> list[Block]:
    """Join neighbouring small blocks; the first names them."""
    joined: list[Block] = []
    small = False
    for name, start, end in blocks:
        is_small = end - start < SMALL_ROWS
        if joined and small and is_small and end - joined[-1][1] < JOINED_ROWS:
            joined[-1] = (joined[-1][0], joined[-1][1], end)
        else:
            joined.append((name, start, end))
        small = is_small
    return joined


def _parts(block: Block, lines: Sequence[str], found: Syntax | None, source: SourceFile) -> list[Block]:
    name, start, end = block
    if end - start < source.window_lines:
        return [block]
    inner = [d for d in (found.definitions if found else ()) if d.kind == "subsection" and start < d.start <= end]
    if not inner:
        return [(name, *trimmed(lines, a, b)) for a, b in split(lines, start, end, window=source.window_lines)]
    rows = sorted({_with_comments(d.start, lines) for d in inner} - {start})
    named = {_with_comments(d.start, lines): f"{name}.{_name(d)}" for d in inner}
    cuts = [start, *rows]
    pieces = [
        (named.get(a, name), *trimmed(lines, a, b)) for a, b in zip(cuts, [*(r - 1 for r in rows), end], strict=True)
    ]
    joined = _joined([piece for piece in pieces if piece[1] <= piece[2]])
    return [(n, *trimmed(lines, x, y)) for n, a, b in joined for x, y in split(lines, a, b, window=source.window_lines)]


def _comments(lines: Sequence[str]) -> str:
    said = [re.sub(r"^\s*(#+|//+|;+|/\*+|\*+/?)\s?", "", line).rstrip("*/ ") for line in lines if _COMMENT.match(line)]
    return "\n".join(line for line in said if line)
