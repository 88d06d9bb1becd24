"""Text cut into windows of lines, and what every cut of rows needs: parts of long ones, names, the
imports in them.

A window ends before a paragraph start, the one within reach whose line has the lowest hash, so
an inserted line shifts only the windows near it. Imports are found by regular expressions only
if there is no grammar. Prose with headings is `prose_sections`' business, files of keys and
blocks `config_blocks`'. Trade-off: a window is named by its first words, which say little about
the rest.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from xscore.indexer.modules import module_reference
from xscore.indexer.syntax import MemoryDraft, NameUse, SourceFile, number_names, trim_rows
from xscore.platform.hashing import digest
from xscore.records.memory import CodeFacts, Kind

NAME_CHARS = 60
_MARKS_AROUND = "#/*-=<>!;:,%| "
_QUOTED = ('"', "'", "`")
_ELEMENT = re.compile(r"<[?!/]?([A-Za-z][\w:.-]*)")
_ELEMENTS = re.compile(r"<[^<>]*+>?")
WORDS = re.compile(r"\w{2,}")
NamedSpan = tuple[str, int, int]
"""Name, first row and last row."""
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
"""Matches plain text that is prose: `README`, `LICENSE`, `notes.txt`; a script or a list of
patterns is not."""
PROSE_LINES, SENTENCEWORDS = 40, 4
"""How many lines of a file tell whether it is prose, and how many words a line of prose has."""
_SENTENCE_WORD = re.compile(r"(?<!\S)[A-Za-z][a-z']*(?=[.,:;!?)]?(?:\s|$))")
_CODE_SIGNS = "{}[]=<>|$;\\"


def cut_windows(source: SourceFile) -> list[MemoryDraft]:
    """Cut a whole file into windows."""
    kind = Kind.DOC if _is_document(source) else Kind.TEXT
    drafts = cut_rows(source, 0, len(source.lines) - 1, kind=kind)
    return [with_imports(draft, source.path) for draft in drafts]


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
    sentences = [line for line in first if len(_SENTENCE_WORD.findall(line)) >= SENTENCEWORDS]
    text = "".join(first)
    signs = sum(map(text.count, _CODE_SIGNS))
    return len(sentences) > len(first) / 2 and signs * 50 < len(text)


def cut_rows(
    source: SourceFile, start: int, end: int, *, kind: Kind = Kind.TEXT
) -> list[MemoryDraft]:
    """Cut some rows of a file, both ends included, into windows."""
    runs = split_rows(source.lines, start, end, window=source.window_lines)
    return draft_spans(source, [(name_rows(source.lines, *run), *run) for run in runs], kind)


def with_imports(draft: MemoryDraft, path: str) -> MemoryDraft:
    """Return the draft with the modules that its text imports."""
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


def draft_spans(
    source: SourceFile, spans: Iterable[NamedSpan], kind: Kind, *, border: Border | None = None
) -> list[MemoryDraft]:
    """Return a draft for each of these spans of rows, long ones in parts."""
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
    """Return the words of a line without the marks around them; for markup, its first element
    and what it says."""
    words = " ".join(line.split())
    element = _ELEMENT.match(words)
    if element:
        heading = element[1]
        inner = _ELEMENTS.sub(" ", words).strip()
        if WORDS.match(inner):
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
