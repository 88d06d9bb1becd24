"""Textual files that no grammar reads, as windows of lines whose borders move little when the text does.

A border falls on the start of a paragraph, and among those within reach on the one whose own line hashes lowest, so an
inserted line shifts the windows near it and no others. Imports are found by regular expressions here and only here:
where a grammar exists, its query finds them.
"""

import re
from collections.abc import Sequence

from xscore.hashing import digest
from xscore.indexer.modules import reference
from xscore.indexer.pieces import Piece, SourceFile, Use, numbered, trimmed
from xscore.records import CodeFacts, Kind

NAME_CHARS = 60
_IMPORTS = re.compile(
    r"""^\s*(?:
        \#\s*include\s*"([^"\n]+)"                  # C
      | (?:pub\s+)?mod\s+(\w+)\s*;                  # Rust
      | require_relative\s+["']([^"'\n]+)["']       # Ruby
      | (?:@import|@use)\s+["']([^"'\n]+)["']       # CSS
      | import\s+(?:static\s+)?([\w.]+)\s*;         # Java
      | (?:source|\.)\s+(\S+\.(?:ba|z)?sh)\b        # shell
    )""",
    re.MULTILINE | re.VERBOSE,
)
_PROSE = frozenset({"text", "restructuredtext", "markdown"})


def cut(source: SourceFile, *, kind: Kind = Kind.TEXT) -> list[Piece]:
    """Cut a whole file into windows."""
    lines = source.lines
    kind = Kind.DOC if source.language.name in _PROSE and kind is Kind.TEXT else kind
    spans = [
        span
        for start, end in split(lines, 0, len(lines) - 1, window=source.window_lines)
        if (span := trimmed(lines, start, end)) and span[0] <= span[1]
    ]
    names = numbered([name_of(lines, start, end) for start, end in spans])
    return [
        Piece(
            kind=kind,
            entity=name,
            start=start,
            end=end,
            text="\n".join(lines[start : end + 1]),
            title=name,
            facts=CodeFacts(imports=tuple(module for module, _ in _imports(lines, start, end))),
            uses=tuple(use for _, use in _imports(lines, start, end, source)),
        )
        for name, (start, end) in zip(names, spans, strict=True)
    ]


def split(lines: Sequence[str], start: int, end: int, *, window: int) -> list[tuple[int, int]]:
    """Cut rows start..end into runs of at most `window` rows, none left out."""
    runs = []
    while end - start + 1 > window:
        border = _border(lines, start, window)
        runs.append((start, border - 1))
        start = border
    runs.append((start, end))
    return runs


def name_of(lines: Sequence[str], start: int, end: int) -> str:
    """Name rows by their first telling line, so that the name survives edits further down."""
    for row in range(start, end + 1):
        words = " ".join(lines[row].split()).strip("#/*-=<>!;{}()[]\"' ")
        if len(words) > 1:
            return words[:NAME_CHARS].rstrip()
    return "lines"


def _border(lines: Sequence[str], start: int, window: int) -> int:
    """The row where the next window starts."""
    reach = range(start + max(1, window // 2), start + window + 1)
    paragraphs = [row for row in reach if lines[row].strip() and not lines[row - 1].strip()]
    flush = [row for row in paragraphs if not lines[row][0].isspace()]
    candidates = flush or paragraphs
    return min(candidates, key=lambda row: digest(lines[row])) if candidates else start + window


def _imports(lines: Sequence[str], start: int, end: int, source: SourceFile | None = None) -> list[tuple[str, Use]]:
    text = "\n".join(lines[start : end + 1])
    found = []
    for match in _IMPORTS.finditer(text):
        module = next(group for group in match.groups() if group)
        target = reference(module, path=source.path, separator="/", is_relative=True) if source else module
        found.append((module, Use(module.rpartition("/")[2].partition(".")[0], f"import:{target}")))
    return found
