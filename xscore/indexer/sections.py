"""Textual files that no grammar reads, as windows of lines whose borders move little when the text does.

A border falls on the start of a paragraph, and among those within reach on the one whose own line hashes lowest, so an
inserted line shifts the windows near it and no others. Imports are found by regular expressions here and only here:
where a grammar exists, its query finds them.

Prose cut into sections by heading; a section's text ends where the next heading stands.

Markdown headings come from the grammar (so a `#` inside a code fence is none), those of reStructuredText from their
underlines. Names that prose writes as code become uses that may link to entities and files.

Configuration cut into blocks: a top-level table or key with the comments that explain it.

Neighbouring one-line keys share a block; a block longer than a window is cut where its own keys begin. INI has no
grammar here: its sections are found by their brackets. Trade-off: keys below the second level name nothing.
"""

import re
from collections.abc import Sequence

from xscore.indexer.languages import module_reference
from xscore.indexer.syntax import Definition, MemoryDraft, NameUse, SourceFile, Syntax, number_names, trim_rows
from xscore.platform.hashing import digest
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


def cut_windows(source: SourceFile, *, kind: Kind = Kind.TEXT) -> list[MemoryDraft]:
    """Cut a whole file into windows."""
    lines = source.lines
    kind = Kind.DOC if source.language.name in _PROSE and kind is Kind.TEXT else kind
    spans = [
        span
        for start, end in split_rows(lines, 0, len(lines) - 1, window=source.window_lines)
        if (span := trim_rows(lines, start, end)) and span[0] <= span[1]
    ]
    names = number_names([name_rows(lines, start, end) for start, end in spans])
    return [
        MemoryDraft(
            kind=kind,
            entity=name,
            start=start,
            end=end,
            text="\n".join(lines[start : end + 1]),
            title=name,
            facts=CodeFacts(imports=tuple(module for module, _ in _window_imports(lines, start, end))),
            uses=tuple(use for _, use in _window_imports(lines, start, end, source)),
        )
        for name, (start, end) in zip(names, spans, strict=True)
    ]


def split_rows(lines: Sequence[str], start: int, end: int, *, window: int) -> list[tuple[int, int]]:
    """Cut rows start..end into runs of at most `window` rows, none left out."""
    runs = []
    while end - start + 1 > window:
        border = _window_border(lines, start, window)
        runs.append((start, border - 1))
        start = border
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


def _window_imports(
    lines: Sequence[str], start: int, end: int, source: SourceFile | None = None
) -> list[tuple[str, NameUse]]:
    text = "\n".join(lines[start : end + 1])
    found = []
    for match in _IMPORTS.finditer(text):
        module = next(group for group in match.groups() if group)
        target = module_reference(module, path=source.path, separator="/", is_relative=True) if source else module
        found.append((module, NameUse(module.rpartition("/")[2].partition(".")[0], f"import:{target}")))
    return found


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
    headings = _markdown(found, lines) if found is not None else _restructured(lines)
    spans = _sections(lines, headings, source.window_lines)
    names = number_names([name for name, _, _ in spans])
    return [
        MemoryDraft(
            kind=Kind.DOC,
            entity=name,
            start=start,
            end=end,
            text="\n".join(lines[start : end + 1]),
            title=name,
            uses=tuple(prose_references("\n".join(lines[start : end + 1]))),
        )
        for name, (_, start, end) in zip(names, spans, strict=True)
    ]


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


def _sections(lines: Sequence[str], headings: Sequence[Heading], window: int) -> list[tuple[str, int, int]]:
    """(name, first row, last row) of every part of the file that is not blank."""
    spans: list[tuple[str, int, int]] = []
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


def _prose_parts(lines: Sequence[str], name: str, start: int, end: int, window: int) -> list[tuple[str, int, int]]:
    parts = []
    while end - start + 1 > window:
        border = _prose_border(lines, start, window)
        parts.append((name, *trim_rows(lines, start, border - 1)))
        start = border
    parts.append((name, *trim_rows(lines, start, end)))
    return [part for part in parts if part[1] <= part[2]]


def _prose_border(lines: Sequence[str], start: int, window: int) -> int:
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


SMALL_ROWS = 3
"""Blocks of up to this many rows are joined with their neighbours."""
JOINED_ROWS = 20
"""Up to this size."""
_INI_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_COMMENT = re.compile(r"\s*(#|//|;|/\*|\*)")
_NAME_CHARS = 80

ConfigBlock = tuple[str, int, int]
"""Name, first row, last row."""


def cut_config(source: SourceFile, found: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into blocks; rows before, between and after the keys go with their neighbours."""
    lines = source.lines
    keys = _keys(found) if found is not None else _ini_keys(lines)
    blocks = [
        part
        for block in _join_small_blocks(_spread_blocks(keys, lines))
        for part in _config_parts(block, lines, found, source)
    ]
    names = number_names([name for name, _, _ in blocks])
    return [
        MemoryDraft(
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


def _keys(found: Syntax) -> list[ConfigBlock]:
    return [(_name(d), d.start, d.end) for d in found.definitions if d.kind == "section"]


def _name(definition: Definition) -> str:
    name = definition.name.strip().strip("\"'")
    return " ".join(name.split())[:_NAME_CHARS] or "element"


def _ini_keys(lines: Sequence[str]) -> list[ConfigBlock]:
    rows = [(row, match[1].strip()) for row, line in enumerate(lines) if (match := _INI_SECTION.match(line))]
    ends = [*(row - 1 for row, _ in rows[1:]), len(lines) - 1]
    return [(name, row, end) for (row, name), end in zip(rows, ends, strict=False)]


def _spread_blocks(keys: Sequence[ConfigBlock], lines: Sequence[str]) -> list[ConfigBlock]:
    """Stretch the keys so that together they cover the file; comments right above a key go with it."""
    if not keys:
        start, end = trim_rows(lines, 0, len(lines) - 1)
        return [(name_rows(lines, start, end), start, end)] if start <= end else []
    starts = [_with_comments(row, lines) for _, row, _ in keys]
    starts[0] = 0
    ends = [start - 1 for start in starts[1:]] + [len(lines) - 1]
    spread: list[ConfigBlock] = []
    for (name, _, _), start, end in zip(keys, starts, ends, strict=True):
        first, last = trim_rows(lines, start, end)
        if first <= last:
            spread.append((name, first, last))
    return spread


def _with_comments(row: int, lines: Sequence[str]) -> int:
    while row > 0 and _COMMENT.match(lines[row - 1]):
        row -= 1
    return row


def _join_small_blocks(blocks: Sequence[ConfigBlock]) -> list[ConfigBlock]:
    """Join neighbouring small blocks; the first names them."""
    joined: list[ConfigBlock] = []
    small = False
    for name, start, end in blocks:
        is_small = end - start < SMALL_ROWS
        if joined and small and is_small and end - joined[-1][1] < JOINED_ROWS:
            joined[-1] = (joined[-1][0], joined[-1][1], end)
        else:
            joined.append((name, start, end))
        small = is_small
    return joined


def _config_parts(
    block: ConfigBlock, lines: Sequence[str], found: Syntax | None, source: SourceFile
) -> list[ConfigBlock]:
    name, start, end = block
    if end - start < source.window_lines:
        return [block]
    inner = [d for d in (found.definitions if found else ()) if d.kind == "subsection" and start < d.start <= end]
    if not inner:
        return [(name, *trim_rows(lines, a, b)) for a, b in split_rows(lines, start, end, window=source.window_lines)]
    rows = sorted({_with_comments(d.start, lines) for d in inner} - {start})
    named = {_with_comments(d.start, lines): f"{name}.{_name(d)}" for d in inner}
    cuts = [start, *rows]
    pieces = [
        (named.get(a, name), *trim_rows(lines, a, b)) for a, b in zip(cuts, [*(r - 1 for r in rows), end], strict=True)
    ]
    joined = _join_small_blocks([piece for piece in pieces if piece[1] <= piece[2]])
    return [
        (n, *trim_rows(lines, x, y))
        for n, a, b in joined
        for x, y in split_rows(lines, a, b, window=source.window_lines)
    ]


def _comments(lines: Sequence[str]) -> str:
    said = [re.sub(r"^\s*(#+|//+|;+|/\*+|\*+/?)\s?", "", line).rstrip("*/ ") for line in lines if _COMMENT.match(line)]
    return "\n".join(line for line in said if line)
