"""Text cut into sections: prose by heading, configuration by key, everything else by windows of lines.

The border of a window falls on the start of a paragraph, and among those within reach on the one whose line hashes
lowest, so an inserted line shifts the windows near it and no others. Markdown headings and keys come from the grammar;
reStructuredText and INI are read by line rules. Imports are found by regular expressions only where there is no
grammar. Trade-off: configuration keys below the second level name nothing.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from msgspec.structs import replace

from xscore.indexer.languages import module_reference
from xscore.indexer.syntax import Definition, MemoryDraft, NameUse, SourceFile, Syntax, number_names, trim_rows
from xscore.platform.hashing import digest
from xscore.records import CodeFacts, Kind

NAME_CHARS = 60
NamedSpan = tuple[str, int, int]
"""Name, first row, last row."""
Border = Callable[[Sequence[str], int, int], int]
_IMPORTS = r"""^\s*(?:
    \#\s*include\s*"([^"\n]+)"                  # C
  | (?:pub\s+)?mod\s+(\w+)\s*;                  # Rust
  | require_relative\s+["']([^"'\n]+)["']       # Ruby
  | (?:@import|@use)\s+["']([^"'\n]+)["']       # CSS
  | import\s+(?:static\s+)?([\w.]+)\s*;         # Java
  | (?:source|\.)\s+(\S+\.(?:ba|z)?sh)\b        # shell
)"""
_PROSE = frozenset({"text", "restructuredtext", "markdown"})


@cache
def _imports_pattern() -> re.Pattern[str]:
    return re.compile(_IMPORTS, re.MULTILINE | re.VERBOSE)


def cut_windows(source: SourceFile, *, kind: Kind = Kind.TEXT) -> list[MemoryDraft]:
    """Cut a whole file into windows."""
    lines = source.lines
    kind = Kind.DOC if source.language.name in _PROSE and kind is Kind.TEXT else kind
    runs = split_rows(lines, 0, len(lines) - 1, window=source.window_lines)
    drafts = _drafts(lines, [(name_rows(lines, *span), *span) for span in trimmed_spans(lines, runs)], kind)
    return [
        replace(
            draft,
            facts=CodeFacts(imports=tuple(_imported(match) for match in _imports_pattern().finditer(draft.text))),
            uses=tuple(_window_use(_imported(match), source) for match in _imports_pattern().finditer(draft.text)),
        )
        for draft in drafts
    ]


def _drafts(lines: Sequence[str], spans: Sequence[NamedSpan], kind: Kind) -> list[MemoryDraft]:
    names = number_names([name for name, _, _ in spans])
    return [
        MemoryDraft(kind=kind, entity=name, start=a, end=b, text="\n".join(lines[a : b + 1]), title=name)
        for name, (_, a, b) in zip(names, spans, strict=True)
    ]


def trimmed_spans(lines: Sequence[str], spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Trim blank rows off each span; drop the blank ones."""
    return [(a, b) for a, b in (trim_rows(lines, *span) for span in spans) if a <= b]


def split_rows(
    lines: Sequence[str], start: int, end: int, *, window: int, border: Border | None = None
) -> list[tuple[int, int]]:
    """Cut rows start..end into runs of at most `window` rows, none left out. border: where the next run starts."""
    runs = []
    while end - start + 1 > window:
        following = (border or _window_border)(lines, start, window)
        runs.append((start, following - 1))
        start = following
    runs.append((start, end))
    return runs


def name_rows(lines: Sequence[str], start: int, end: int) -> str:
    """Name rows by their first telling line, so that the name survives edits further down."""
    for row in range(start, end + 1):
        words = " ".join(lines[row].split()).strip("#/*-=<>!;{}()[]\"' ")
        if len(words) > 1:
            return words[:NAME_CHARS].rstrip()
    return "lines"


def _window_border(lines: Sequence[str], start: int, window: int) -> int:
    """The row where the next window starts."""
    reach = range(start + max(1, window // 2), start + window + 1)
    paragraphs = [row for row in reach if lines[row].strip() and not lines[row - 1].strip()]
    flush = [row for row in paragraphs if not lines[row][0].isspace()]
    candidates = flush or paragraphs
    return min(candidates, key=lambda row: digest(lines[row])) if candidates else start + window


def _imported(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _window_use(module: str, source: SourceFile) -> NameUse:
    target = module_reference(module, path=source.path, separator="/", is_relative=True)
    return NameUse(module.rpartition("/")[2].partition(".")[0], f"import:{target}")


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


def cut_prose(source: SourceFile, found: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into its sections, long ones into parts."""
    lines = source.lines
    headings = _markdown_headings(found, lines) if found is not None else _restructured_headings(lines)
    drafts = _drafts(lines, _sections(lines, headings, source.window_lines), Kind.DOC)
    return [replace(draft, uses=tuple(prose_references(draft.text))) for draft in drafts]


def prose_references(text: str) -> list[NameUse]:
    """Entities and files that a text names as code, as links or as paths."""
    uses: dict[NameUse, None] = {}
    for written in _NAMED.findall(text):
        name = written.strip().removeprefix("~")
        if _IDENTIFIER.match(name):
            parts = re.split(r"\.|::|#", name.removesuffix("()"))
            uses.setdefault(NameUse(parts[-1], f"doc:{parts[-2]}" if len(parts) > 1 else "doc:", True))
    for path in [*_PATH.findall(text), *_LINK.findall(text)]:
        if "://" not in path:
            place = path.removeprefix("./").lstrip("/")
            uses.setdefault(NameUse(place.rpartition("/")[2], f"path:{place}", True))
    return list(uses)[:MAX_REFERENCES]


def _sections(lines: Sequence[str], headings: Sequence[Heading], window: int) -> list[NamedSpan]:
    """Name every part of the file that is not blank."""
    spans: list[NamedSpan] = []
    trail: list[Heading] = []
    first = headings[0][0] if headings else len(lines)
    spans += _prose_parts(lines, name_rows(lines, 0, max(first - 1, 0)), 0, first - 1, window)
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
        spans += _prose_parts(lines, " > ".join(words for _, _, words in trail), start, end, window)
    return spans


def _prose_parts(lines: Sequence[str], name: str, start: int, end: int, window: int) -> list[NamedSpan]:
    runs = split_rows(lines, start, end, window=window, border=_prose_border)
    return [(name, *span) for span in trimmed_spans(lines, runs)]


def _prose_border(lines: Sequence[str], start: int, window: int) -> int:
    """Where to cut a long section: at the last paragraph outside a code fence that still fits."""
    fenced, best = False, start + window
    for row in range(start, start + window + 1):
        if row > start + window // 3 and not fenced and lines[row].strip() and not lines[row - 1].strip():
            best = row
        if _FENCE.match(lines[row]):
            fenced = not fenced
    return best


def _markdown_headings(found: Syntax, lines: Sequence[str]) -> list[Heading]:
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


def _restructured_headings(lines: Sequence[str]) -> list[Heading]:
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


SMALL_ROWS = 3
"""Blocks of up to this many rows are joined with their neighbours."""
JOINED_ROWS = 20
"""Up to this size."""
_INI_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_COMMENT = re.compile(r"\s*(#|//|;|/\*|\*)")
_NAME_CHARS = 80


def cut_config(source: SourceFile, found: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into blocks; rows before, between and after the keys go with their neighbours."""
    lines = source.lines
    keys = _keys(found) if found is not None else _ini_keys(lines)
    blocks = _join_small_blocks(_spread_blocks(keys, lines))
    drafts = _drafts(
        lines, [part for block in blocks for part in _config_parts(block, lines, found, source)], Kind.CONFIG
    )
    return [replace(draft, facts=CodeFacts(docstring=_comments(draft.text.split("\n")))) for draft in drafts]


def _keys(found: Syntax) -> list[NamedSpan]:
    return [(_name(d), d.start, d.end) for d in found.definitions if d.kind == "section"]


def _name(definition: Definition) -> str:
    name = definition.name.strip().strip("\"'")
    return " ".join(name.split())[:_NAME_CHARS] or "element"


def _ini_keys(lines: Sequence[str]) -> list[NamedSpan]:
    rows = [(row, match[1].strip()) for row, line in enumerate(lines) if (match := _INI_SECTION.match(line))]
    ends = [*(row - 1 for row, _ in rows[1:]), len(lines) - 1]
    return [(name, row, end) for (row, name), end in zip(rows, ends, strict=False)]


def _spread_blocks(keys: Sequence[NamedSpan], lines: Sequence[str]) -> list[NamedSpan]:
    """Stretch the keys so that together they cover the file; comments right above a key go with it."""
    if not keys:
        start, end = trim_rows(lines, 0, len(lines) - 1)
        return [(name_rows(lines, start, end), start, end)] if start <= end else []
    starts = [_with_comments(row, lines) for _, row, _ in keys]
    starts[0] = 0
    ends = [start - 1 for start in starts[1:]] + [len(lines) - 1]
    return [
        (name, *span)
        for (name, _, _), start, end in zip(keys, starts, ends, strict=True)
        for span in trimmed_spans(lines, [(start, end)])
    ]


def _with_comments(row: int, lines: Sequence[str]) -> int:
    while row > 0 and _COMMENT.match(lines[row - 1]):
        row -= 1
    return row


def _join_small_blocks(blocks: Sequence[NamedSpan]) -> list[NamedSpan]:
    """Join neighbouring small blocks; the first names them."""
    joined: list[NamedSpan] = []
    small = False
    for name, start, end in blocks:
        is_small = end - start < SMALL_ROWS
        if joined and small and is_small and end - joined[-1][1] < JOINED_ROWS:
            joined[-1] = (joined[-1][0], joined[-1][1], end)
        else:
            joined.append((name, start, end))
        small = is_small
    return joined


def _config_parts(block: NamedSpan, lines: Sequence[str], found: Syntax | None, source: SourceFile) -> list[NamedSpan]:
    name, start, end = block
    if end - start < source.window_lines:
        return [block]
    inner = [d for d in (found.definitions if found else ()) if d.kind == "subsection" and start < d.start <= end]
    if not inner:
        return [(name, *trim_rows(lines, a, b)) for a, b in split_rows(lines, start, end, window=source.window_lines)]
    named = {_with_comments(d.start, lines): f"{name}.{_name(d)}" for d in inner}
    starts = [start, *sorted(named.keys() - {start})]
    ends = [*(row - 1 for row in starts[1:]), end]
    pieces = [
        (named.get(a, name), *span)
        for a, b in zip(starts, ends, strict=True)
        for span in trimmed_spans(lines, [(a, b)])
    ]
    return [
        (part, *trim_rows(lines, x, y))
        for part, a, b in _join_small_blocks(pieces)
        for x, y in split_rows(lines, a, b, window=source.window_lines)
    ]


def _comments(lines: Sequence[str]) -> str:
    said = [re.sub(r"^\s*(#+|//+|;+|/\*+|\*+/?)\s?", "", line).rstrip("*/ ") for line in lines if _COMMENT.match(line)]
    return "\n".join(line for line in said if line)
