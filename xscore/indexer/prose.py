"""Prose cut into sections by heading; a section's text ends where the next heading stands.

Markdown headings come from the grammar (so a `#` inside a code fence is none), those of reStructuredText from their
underlines. Names that prose writes as code become uses that may link to entities and files.
"""

import re
from collections.abc import Sequence

from xscore.indexer.pieces import Piece, SourceFile, Use, numbered, trimmed
from xscore.indexer.syntax import Syntax
from xscore.indexer.windows import name_of
from xscore.records import Kind

MAX_REFERENCES = 50
"""Names that one section may refer to."""
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}\s*\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?!#)")
_SETEXT = re.compile(r" {0,3}([=-])\1*\s*\Z")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_NAMED = re.compile(r"`{1,2}([^`\n]{2,120})`{1,2}")
_IDENTIFIER = re.compile(r"~?[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?\Z")
_PATH = re.compile(r"(?<![\w/.:])(?:\./)?((?:[\w.-]+/)+[\w.-]+\.\w{1,5}|[\w-]+\.(?:py|js|ts|tsx|toml|ya?ml|json|md))\b")
_LINK = re.compile(r"\]\(([^)#?\s]+)")

_HEADING_CHARS = 120

Heading = tuple[int, int, str]
"""Row, level, words."""


def cut(source: SourceFile, found: Syntax | None) -> list[Piece]:
    """Cut a file into its sections, long ones into parts."""
    lines = source.lines
    headings = _markdown(found, lines) if found is not None else _restructured(lines)
    spans = _sections(lines, headings, source.window_lines)
    names = numbered([name for name, _, _ in spans])
    return [
        Piece(
            kind=Kind.DOC,
            entity=name,
            start=start,
            end=end,
            text="\n".join(lines[start : end + 1]),
            title=name,
            uses=tuple(references("\n".join(lines[start : end + 1]))),
        )
        for name, (_, start, end) in zip(names, spans, strict=True)
    ]


def references(text: str) -> list[Use]:
    """Entities and files that a text names as code, as links or as paths."""
    uses: dict[Use, None] = {}
    for written in _NAMED.findall(text):
        name = written.strip().removeprefix("~")
        if _IDENTIFIER.match(name):
            parts = re.split(r"\.|::|#", name.removesuffix("()"))
            uses.setdefault(Use(parts[-1], f"doc:{parts[-2]}" if len(parts) > 1 else "doc:", True))
    for path in [*_PATH.findall(text), *_LINK.findall(text)]:
        if "://" not in path:
            place = path.removeprefix("./").lstrip("/")
            uses.setdefault(Use(place.rpartition("/")[2], f"path:{place}", True))
    return list(uses)[:MAX_REFERENCES]


def _sections(lines: Sequence[str], headings: Sequence[Heading], window: int) -> list[tuple[str, int, int]]:
    """(name, first row, last row) of every part of the file that is not blank."""
    spans: list[tuple[str, int, int]] = []
    trail: list[Heading] = []
    first = headings[0][0] if headings else len(lines)
    spans += _parts(lines, name_of(lines, 0, max(first - 1, 0)), 0, first - 1, window)
    pending = -1
    for index, heading in enumerate(headings):
        row, level, _ = heading
        trail = [*(h for h in trail if h[1] < level), heading]
        end = headings[index + 1][0] - 1 if index + 1 < len(headings) else len(lines) - 1
        start = row if pending < 0 else pending
        bare = not any(line.strip() for line in lines[row + 1 : end + 1])
        if bare and index + 1 < len(headings) and headings[index + 1][1] > level:
            pending = start  # a heading with nothing of its own opens its first subsection
            continue
        pending = -1
        spans += _parts(lines, " > ".join(words for _, _, words in trail), start, end, window)
    return spans


def _parts(lines: Sequence[str], name: str, start: int, end: int, window: int) -> list[tuple[str, int, int]]:
    parts = []
    while end - start + 1 > window:
        border = _border(lines, start, window)
        parts.append((name, *trimmed(lines, start, border - 1)))
        start = border
    parts.append((name, *trimmed(lines, start, end)))
    return [part for part in parts if part[1] <= part[2]]


def _border(lines: Sequence[str], start: int, window: int) -> int:
    """Where to cut a long section: at the last paragraph outside a code fence that still fits."""
    fenced, best = False, start + window
    for row in range(start, start + window + 1):
        if row > start + window // 3 and not fenced and lines[row].strip() and not lines[row - 1].strip():
            best = row
        if _FENCE.match(lines[row]):
            fenced = not fenced
    return best


def _markdown(found: Syntax, lines: Sequence[str]) -> list[Heading]:
    headings: list[Heading] = []
    for d in found.definitions:
        marks, underline = _ATX.match(lines[d.start]), _SETEXT.match(lines[d.end])
        if marks:
            level, words = len(marks[1]), lines[d.start].strip().strip("#")
        elif underline and d.end > d.start:
            level, words = (1 if underline[1] == "=" else 2), " ".join(lines[d.start : d.end])
        else:
            continue  # inside a quotation or a list
        headings.append((d.start, level, " ".join(words.split())[:_HEADING_CHARS] or "untitled"))
    return headings


def _restructured(lines: Sequence[str]) -> list[Heading]:
    headings: list[Heading] = []
    marks: list[str] = []
    for row in range(1, len(lines)):
        underline, title = _UNDERLINE.match(lines[row]), lines[row - 1]
        is_title = title.strip() and not title[0].isspace() and not _UNDERLINE.match(title)
        if not underline or not is_title or len(lines[row].rstrip()) < len(title.rstrip()):
            continue
        over = row > 1 and bool(_UNDERLINE.match(lines[row - 2])) and lines[row - 2].strip() == lines[row].strip()
        mark = underline[1] * 2 if over else underline[1]
        if mark not in marks:
            marks.append(mark)
        headings.append((row - 2 if over else row - 1, marks.index(mark) + 1, " ".join(title.split())[:_HEADING_CHARS]))
    return headings
