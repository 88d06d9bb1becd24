"""Text cut into sections: prose by heading, configuration by key, everything else by windows of
lines.

A window ends before a paragraph start, the one within reach whose line has the lowest hash, so an
inserted line shifts only the windows near it. Markdown headings and keys come from the grammar;
reStructuredText and INI are read by line rules. Imports are found by regular expressions only if
there is no grammar. Trade-off: configuration keys below the second level are not named.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from xscore.indexer.captures import Syntax
from xscore.indexer.languages import Language
from xscore.indexer.modules import module_reference
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile, number_names, trim_rows
from xscore.platform.hashing import digest
from xscore.records.memory import WITHIN, CodeFacts, Kind

NAME_CHARS = 60
_MARKS_AROUND = "#/*-=<>!;:,%| "
_QUOTED = ('"', "'", "`")
_ELEMENT = re.compile(r"<[?!/]?([A-Za-z][\w:.-]*)")
_ELEMENTS = re.compile(r"<[^<>]*+>?")
NamedSpan = tuple[str, int, int]
"""Name, first row, last row."""
Border = Callable[[Sequence[str], int, int], int]
_IMPORTS = r"""^[ \t]*(?:
    \#\s*include\s*"([^"\n]+)"                  # C
  | (?:pub\s+)?mod\s+(\w+)\s*;                  # Rust
  | require_relative\s+["']([^"'\n]+)["']       # Ruby
  | (?:@import|@use)\s+["']([^"'\n]+)["']       # CSS
  | import\s+(?:static\s+)?([\w.]+)\s*;         # Java
  | import\s+(?:public\s+)?"([^"\n]+\.proto)"    # Protocol Buffers
  | -?include\s+(\S+\.mk)\b                     # make
  | (?:source|\.)\s+(\S+\.(?:ba|z)?sh)\b        # shell
)"""
_DOCUMENT = re.compile(
    r"(^|/)[A-Z][A-Z0-9_-]*(\.txt)?\Z|(?<!requirements)(?<!robots)(?<!CMakeLists)\.(txt|rst|md|markdown|mdx)\Z"
)
"""Plain text that is prose: `README`, `LICENSE`, `notes.txt`; a script or a list of patterns is
not."""
PROSE_LINES, SENTENCE_WORDS = 40, 4
"""How many lines of a file tell whether it is prose, and how many words a line of prose has."""
_SENTENCE_WORD = re.compile(r"(?<!\S)[A-Za-z][a-z']*(?=[.,:;!?)]?(?:\s|$))")
_CODE_SIGNS = "{}[]=<>|$;\\"


def cut_windows(source: SourceFile) -> list[MemoryDraft]:
    """Cut a whole file into windows."""
    kind = Kind.DOC if _is_document(source) else Kind.TEXT
    drafts = cut_rows(source, 0, len(source.lines) - 1, kind=kind)
    return [_with_imports(draft, source.path) for draft in drafts]


def _is_document(source: SourceFile) -> bool:
    if source.text.startswith("#!"):
        return False
    if _DOCUMENT.search(source.path) is not None:
        return True
    return _reads_as_prose(source.path, source.lines)


def _reads_as_prose(path: str, lines: Sequence[str]) -> bool:
    """Whether a file without an extension is prose by its first lines:
    `changelog/unreleased/issue-2179`."""
    if "." in path.rpartition("/")[2]:
        return False
    first = [line.strip() for line in lines[:PROSE_LINES] if line.strip()]
    sentences = [line for line in first if len(_SENTENCE_WORD.findall(line)) >= SENTENCE_WORDS]
    text = "".join(first)
    signs = sum(map(text.count, _CODE_SIGNS))
    return len(sentences) > len(first) / 2 and signs * 50 < len(text)


def cut_rows(
    source: SourceFile, start: int, end: int, *, kind: Kind = Kind.TEXT
) -> list[MemoryDraft]:
    """Cut some rows of a file, both ends included, into windows."""
    runs = split_rows(source.lines, start, end, window=source.window_lines)
    return _drafts(source, [(name_rows(source.lines, *run), *run) for run in runs], kind)


def _with_imports(draft: MemoryDraft, path: str) -> MemoryDraft:
    modules: list[str] = []
    uses: list[NameUse] = []
    for match in re.finditer(_IMPORTS, draft.text, re.MULTILINE | re.VERBOSE):
        module = next(filter(None, match.groups()))
        reference = module_reference(module, path=path, is_relative=True)
        modules.append(module)
        uses.append(NameUse(_file_stem(module), f"import:{reference}"))
    return replace(draft, facts=CodeFacts(imports=tuple(modules)), uses=tuple(uses))


def _file_stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _drafts(
    source: SourceFile, spans: Iterable[NamedSpan], kind: Kind, *, border: Border | None = None
) -> list[MemoryDraft]:
    """Draft spans of rows, long ones in parts."""
    lines = source.lines
    names: list[str] = []
    runs: list[tuple[int, int]] = []
    for name, start, end in spans:
        parts = split_rows(lines, start, end, window=source.window_lines, border=border)
        names += [name] * len(parts)
        runs += parts
    drafts: list[MemoryDraft] = []
    for name, (start, end) in zip(number_names(names), runs, strict=True):
        text = "\n".join(lines[start : end + 1])
        drafts.append(
            MemoryDraft(kind=kind, entity=name, start=start, end=end, text=text, title=name)
        )
    return drafts


def split_rows(
    lines: Sequence[str], start: int, end: int, *, window: int, border: Border | None = None
) -> list[tuple[int, int]]:
    """Cut rows start..end into runs of at most `window` rows, trimmed.

    border: returns the next run's first row, which may be farther where nothing nearer is a border.
    """
    find_border = border or _window_border
    runs = []
    while end - start + 1 > window:
        following = min(find_border(lines, start, window), end + 1)
        runs.append(trim_rows(lines, start, following - 1))
        start = following
    runs.append(trim_rows(lines, start, end))
    return [(first, last) for first, last in runs if first <= last]


def name_rows(lines: Sequence[str], start: int, end: int) -> str:
    """Name rows by their first line with words, so that the name survives edits further down."""
    for row in range(start, end + 1):
        name = _line_name(lines[row])
        if len(name) > 1:
            return name
    return "lines"


def _line_name(line: str) -> str:
    """Return the words of a line without the marks around them; of markup, its first element and
    what it says."""
    words = " ".join(line.split())
    element = _ELEMENT.match(words)
    if element:
        heading = element[1]
        inner = _ELEMENTS.sub(" ", words).strip()
        if _WORDS.match(inner):
            heading = f"{heading} {inner}"
        return heading[:NAME_CHARS].rstrip()
    if words.startswith(("{%", "{{")):
        words = words.strip("{%} ")
    if "</" in words:
        # An element that began on a line above ends here.
        words = " ".join(_ELEMENTS.sub(" ", words).split())
    name = words.lstrip(_MARKS_AROUND)
    marks_behind = _MARKS_AROUND
    if "<" in name:
        # `>` may end `<who@example.org>`.
        marks_behind = _MARKS_AROUND.replace(">", "")
    name = name.rstrip(marks_behind)
    if name[:1] in _QUOTED and name.endswith(name[0]) and name.count(name[0]) == 2:
        name = name[1:-1]
    name = _without_half_pairs(name[:NAME_CHARS].lstrip(")]}").rstrip())
    return name.strip(_MARKS_AROUND.replace(">", "")).removesuffix("()")


def _without_half_pairs(name: str) -> str:
    """Cut a name before a bracket or quote that it does not close."""
    for opening, closing in ("()", "[]", "{}"):
        if name.count(opening) > name.count(closing):
            # Half a pair says nothing, nor what is in it.
            name = name[: name.rindex(opening)] or name[1:]
        elif name.count(opening) < name.count(closing):
            name = name.rstrip(")]}")
    if name.count('"') % 2:
        name = name[: name.rindex('"')] or name[1:]
    return name


def _window_border(lines: Sequence[str], start: int, window: int) -> int:
    reach = range(start + max(1, window // 2), start + window + 1)
    paragraphs = [row for row in reach if lines[row].strip() and not lines[row - 1].strip()]
    flush = [row for row in paragraphs if not lines[row][0].isspace()]
    candidates = flush or paragraphs
    if not candidates:
        return start + window
    return min(candidates, key=lambda row: digest(lines[row]))


MAX_REFERENCES = 50
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#])\1{2,}\s*\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?!#)")
_MARK = re.compile(r"\.\. (?:_[^:]+:|[\w:-]+::)|:[\w-]+:\s*\Z")
"""A label, directive or field of reStructuredText: above the first heading it says nothing by
itself."""
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
"""What a heading says, and where it links to: of the name only the first is a part."""
_HEADING_CHARS = 120
_LINE_CHARS = 2_000
"""Of a heading; what stands behind is not read."""
_WORDS = re.compile(r"\w{2,}")

Heading = tuple[int, int, str]
"""Row, level, words."""


def cut_prose(source: SourceFile, syntax: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into its sections, long ones into parts."""
    lines = source.lines
    if syntax is not None:
        headings = _markdown_headings(syntax, lines)
    elif source.language.name == "restructuredtext":
        headings = _restructured_headings(lines)
    else:
        headings = _marked_headings(lines)
    drafts = _drafts(source, _sections(lines, headings), Kind.DOC, border=_prose_border)
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
    # A section ends where the next heading stands.
    ends = [row for row, _, _ in headings[1:]]
    ends.append(len(lines))
    for (row, level, words), end in zip(headings, ends, strict=False):
        title = " ".join(words.split())[:_LINE_CHARS]
        name = _LINKED.sub(r"\1", title)[:_HEADING_CHARS] or "untitled"
        while trail and trail[-1][1] >= level:
            trail.pop()
        trail.append((row, level, name))
        body = lines[_body(lines, row) : end]
        if end < len(lines) and not any(map(_WORDS.search, body)):
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
        # Else it is inside a quotation or a list.
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


SMALL_ROWS = 3
"""Blocks of up to this many rows are joined with their neighbours."""
JOINED_ROWS = 20
"""Most rows of a joined block."""
_KIND_OF_BLOCKS = {
    "sql": Kind.BLOCK,
    "protobuf": Kind.BLOCK,
    "graphql": Kind.BLOCK,
    "css": Kind.TEXT,
}
_INI_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_COMMENT = re.compile(r"\s*(#|//|;|--|/\*|\*)")
_COMMENT_MARKS = re.compile(r"^\s*(#+|//+|;+|--+|/\*+|\*+/?)\s?")
_KEY_CHARS = 80
_NAME, _QUOTES = re.compile(r"[\w.\-\"'`\[\]]+"), re.compile(r"[\"'`\[\]]")
"""A name with quotes around its parts, as SQL writes them, and those quotes."""


def cut_config(source: SourceFile, syntax: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into blocks; rows before, between and after the keys go with their neighbours."""
    lines = source.lines
    last = len(lines) - 1
    keys = _ini_sections(lines) if syntax is None else _keys(syntax, "section")
    starts = _with_comments(keys, lines)
    first = next(iter(starts.values()), name_rows(lines, *trim_rows(lines, 0, last)))
    # The first block begins with the file, whatever stands above its key.
    later_starts = list(starts.items())[1:]
    starts = {0: first} | dict(later_starts)
    subsections = _keys(syntax, "subsection")
    spans: list[NamedSpan] = []
    for name, start, end in _blocks(starts, last, lines):
        parts = [(name, start, end)]
        if end - start >= source.window_lines:
            inner: list[tuple[int, str]] = []
            for row, key in subsections:
                if start < row <= end:
                    inner.append((row, f"{name}.{key}"))
            block_starts = {start: name} | _with_comments(inner, lines)
            parts = _blocks(block_starts, end, lines)
        spans += parts
    return [_with_comment_text(draft) for draft in _drafts(source, spans, Kind.CONFIG)]


def _ini_sections(lines: Sequence[str]) -> list[tuple[int, str]]:
    keys: list[tuple[int, str]] = []
    for row, line in enumerate(lines):
        if match := _INI_SECTION.match(line):
            keys.append((row, match[1].strip()))
    return keys


def cut_blocks(source: SourceFile) -> list[MemoryDraft]:
    """Cut a file where lines begin its blocks; comments go with the block below."""
    lines = source.lines
    starts = {0: name_rows(lines, 0, len(lines) - 1)}
    starts |= _with_comments(_block_starts(source.language, lines), lines)
    kind = _KIND_OF_BLOCKS.get(source.language.name, Kind.CONFIG)
    drafts = _drafts(source, _blocks(starts, len(lines) - 1, lines), kind)
    return [_with_comment_text(_with_imports(draft, source.path)) for draft in drafts]


def _block_starts(language: Language, lines: Sequence[str]) -> list[tuple[int, str]]:
    begins = re.compile(language.begins)
    quote = re.compile(language.quote or r"\Z(?!\Z)")
    starts: list[tuple[int, str]] = []
    is_quoted = False
    for row, line in enumerate(lines):
        # A selector of CSS on two rows: `h1,` and `h2 {`.
        is_below = bool(starts) and starts[-1][0] == row - 1
        goes_on = is_below and lines[row - 1].rstrip().endswith(",")
        if not (is_quoted or goes_on) and (match := begins.match(line)):
            starts.append((row, _block_name(match)))
        is_quoted ^= len(quote.findall(line)) % 2 == 1
    return starts


def _block_name(match: re.Match[str]) -> str:
    words: list[str] = []
    for word in filter(None, match.groups()):
        bare = word
        if _NAME.fullmatch(word):
            bare = _QUOTES.sub("", word)
        words.extend(bare.split())
    return " ".join(words)[:_KEY_CHARS] or "block"


def _with_comment_text(draft: MemoryDraft) -> MemoryDraft:
    return replace(draft, facts=replace(draft.facts, docstring=_comments(draft.text.split("\n"))))


def _keys(syntax: Syntax | None, kind: str) -> list[tuple[int, str]]:
    if syntax is None:
        return []
    keys: list[tuple[int, str]] = []
    for d in syntax.definitions:
        if d.kind == kind:
            name = " ".join(d.name.strip().strip("\"'").split())[:_KEY_CHARS]
            keys.append((d.start, name or "element"))
    return keys


def _with_comments(keys: Iterable[tuple[int, str]], lines: Sequence[str]) -> dict[int, str]:
    """Return the first row of each key with the comments right above it, and its name."""
    starts = {}
    for start, name in keys:
        row = start
        while row > 0 and _COMMENT.match(lines[row - 1]):
            row -= 1
        starts[row] = name
    return starts


def _blocks(starts: dict[int, str], last: int, lines: Sequence[str]) -> list[NamedSpan]:
    """Extend each block to the next start, the last to row `last`; drop blank ones, and join
    neighbouring small ones.

    The first names those joined. A row left alone goes with the block below, or above.
    """
    joined: list[NamedSpan] = []
    small = False
    for row, following in pairwise([*sorted(starts), last + 1]):
        start, end = trim_rows(lines, row, following - 1)
        name = starts[row]
        is_small = end - start < SMALL_ROWS
        if start > end:
            continue
        if joined and joined[-1][1] == joined[-1][2] and not is_small:
            joined[-1] = (name, joined[-1][1], end)
        elif joined and small and is_small and end - joined[-1][1] < JOINED_ROWS:
            joined[-1] = (joined[-1][0], joined[-1][1], end)
        else:
            joined.append((name, start, end))
        small = is_small
    return joined


def _comments(lines: Sequence[str]) -> str:
    comments: list[str] = []
    for line in lines:
        if not _COMMENT.match(line):
            continue
        text = _COMMENT_MARKS.sub("", line).rstrip("*/ ")
        if text:
            comments.append(text)
    return "\n".join(comments)
