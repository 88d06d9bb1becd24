"""Prose cut into sections by its headings, with the code and files that it names.

Headings of Markdown come from the grammar; those of reStructuredText and AsciiDoc are read by line
rules. Trade-off: a heading inside a quotation or a list begins no section.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from xscore.indexer.captures import Syntax
from xscore.indexer.sections import WORDS, NamedSpan, draft_spans, name_rows
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile
from xscore.records.memory import WITHIN, Kind

MAX_REFERENCES = 50
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}\s*\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?!#)")
_MARK = re.compile(r"\.\. (?:_[^:]+:|[\w:-]+::)|:[\w-]+:\s*\Z")
"""Matches a label, directive or field of reStructuredText: above the first heading it says
nothing by itself."""
_SETEXT = re.compile(r" {0,3}([=-])\1*\s*\Z")
_MARKED_HEADING = re.compile(r"(={1,6}|#{1,6})\s+(\S.*)")
_LISTING = re.compile(r"(?:-{4,}|\.{4,}|={4,}|/{4,}|```+|~~~+)\s*(?=\w*\s*\Z)")
_FENCE = re.compile(r"\s*(```+|~~~+)")
_NAMED = re.compile(r"`{1,2}([^`\n]{2,120})`{1,2}")
_IDENTIFIER = re.compile(r"~?[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*(?:\(\))?\Z")
_PATH = re.compile(
    r"(?<![\w/.:-])(?:\./)?((?:[\w.-]+/)+[\w.-]+\.\w{1,5}|[\w-]+\.(?:py|js|ts|tsx|toml|ya?ml|json|md))\b"
)
_LINK = re.compile(r"\]\(([^)#?\s]+)")
_LINKED = re.compile(r"!?\[([^][\n]{1,200})\]\([^()\n]{0,300}\)")
"""Matches what a heading says, and where it links to: only the first is a part of the name."""
_HEADING_CHARS = 120
_LINE_CHARS = 2_000
"""Longest heading that is read; the rest is ignored."""

Heading = tuple[int, int, str]
"""Row, level and words of a heading."""


def cut_prose(source: SourceFile, syntax: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into its sections, long ones into parts."""
    lines = source.lines
    if syntax is not None:
        headings = _markdown_headings(syntax, lines)
    elif source.language.name == "restructuredtext":
        headings = _restructured_headings(lines)
    else:
        headings = _marked_headings(lines)
    drafts = draft_spans(source, _sections(lines, headings), Kind.DOC, border=_prose_border)
    return [replace(draft, uses=tuple(prose_references(draft.text))) for draft in drafts]


def prose_references(text: str) -> list[NameUse]:
    """Return the entities and files that a text names as code, as links or as paths."""
    uses: dict[NameUse, None] = {}
    for written in _NAMED.findall(text):
        name = written.strip().removeprefix("~")
        if _IDENTIFIER.match(name):
            *above, last = re.split(r"\.|::|#", name.removesuffix("()"))
            owner = above[-1] if above else ""
            uses.setdefault(NameUse(last, f"doc:{owner}", True))
    for path in [*_PATH.findall(text), *_LINK.findall(text)]:
        if "://" not in path:
            place = path.removeprefix("./").lstrip("/")
            uses.setdefault(NameUse(place.rpartition("/")[2], f"path:{place}", True))
    return list(uses)[:MAX_REFERENCES]


def _sections(lines: Sequence[str], headings: Sequence[Heading]) -> list[NamedSpan]:
    trail: list[Heading] = []
    first = headings[0][0] if headings else len(lines)
    spans: list[NamedSpan] = []
    start = 0
    if not headings or _says_something(lines[:first]):
        name = name_rows(lines, 0, max(first - 1, 0))
        spans.append((name, 0, first - 1))
        start = first
    # A section ends at the next heading.
    ends = [row for row, _, _ in headings[1:]]
    ends.append(len(lines))
    for (row, level, words), end in zip(headings, ends, strict=False):
        title = " ".join(words.split())[:_LINE_CHARS]
        name = _LINKED.sub(r"\1", title)[:_HEADING_CHARS] or "untitled"
        while trail and trail[-1][1] >= level:
            trail.pop()
        trail.append((row, level, name))
        body = lines[_body(lines, row) : end]
        if end < len(lines) and not any(map(WORDS.search, body)):
            continue  # a heading alone says nothing: it goes with the section below it
        spans.append((WITHIN.join(name for _, _, name in trail), start, end - 1))
        start = end
    return spans


def _body(lines: Sequence[str], row: int) -> int:
    """Return the first row below a heading, its underline included."""
    below = ""
    if row + 1 < len(lines):
        below = lines[row + 1]
    is_underlined = _SETEXT.match(below) or _UNDERLINE.match(below)
    if is_underlined:
        return row + 2
    return row + 1


def _prose_border(lines: Sequence[str], start: int, window: int) -> int:
    """Cut a long section at the last paragraph outside a code fence that still fits."""
    is_fenced = False
    best = start + window
    for row in range(start, start + window + 1):
        begins = lines[row].strip() and not lines[row - 1].strip()
        if begins and not is_fenced and row > start + window // 3:
            best = row
        if _FENCE.match(lines[row]):
            is_fenced = not is_fenced
    return best


def _says_something(lines: Sequence[str]) -> bool:
    """Return whether the rows above the first heading hold more than blanks and marks."""
    return any(line.strip() and not _MARK.match(line) for line in lines)


def _markdown_headings(syntax: Syntax, lines: Sequence[str]) -> list[Heading]:
    headings: list[Heading] = []
    for d in syntax.definitions:
        first_line = lines[d.start]
        marks = _ATX.match(first_line)
        underline = _SETEXT.match(lines[d.end])
        if marks:
            headings.append((d.start, len(marks[1]), first_line.strip().strip("#")))
        elif underline and d.end > d.start:
            level = 1 if underline[1] == "=" else 2
            headings.append((d.start, level, " ".join(lines[d.start : d.end])))
        # Otherwise it is inside a quotation or a list.
    return headings


def _marked_headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings of AsciiDoc (`== Title`), or of Markdown where no grammar reads it."""
    headings: list[Heading] = []
    fence = ""
    for row, line in enumerate(lines):
        if mark := _LISTING.match(line):
            # Another mark inside a listing is text of it.
            written = mark[0].strip()
            if not fence:
                fence = written
            elif fence == written:
                fence = ""
        elif not fence and (title := _MARKED_HEADING.match(line)):
            headings.append((row, len(title[1]), title[2]))
    return headings


def _restructured_headings(lines: Sequence[str]) -> list[Heading]:
    headings: list[Heading] = []
    marks: list[str] = []  # in the order of their levels
    for row in range(1, len(lines)):
        underline = _UNDERLINE.match(lines[row])
        title = lines[row - 1]
        if not underline or not _may_be_title(title):
            continue
        if len(lines[row].rstrip()) < len(title.rstrip()):
            continue
        above = lines[row - 2] if row > 1 else ""
        has_overline = bool(_UNDERLINE.match(above)) and above.strip() == lines[row].strip()
        mark = underline[1] * 2 if has_overline else underline[1]
        if mark not in marks:
            marks.append(mark)
        first = row - 2 if has_overline else row - 1
        headings.append((first, marks.index(mark) + 1, title))
    return headings


def _may_be_title(line: str) -> bool:
    return bool(line.strip()) and not line[0].isspace() and not _UNDERLINE.match(line)
