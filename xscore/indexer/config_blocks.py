"""Files of keys and of blocks, cut where those begin; small neighbours are joined.

Keys come from the grammar; INI and the languages without one are read by line rules. Comments go
with what is below them. Trade-off: keys below the second level are not named.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from xscore.indexer.captures import Syntax
from xscore.indexer.languages import Language
from xscore.indexer.sections import NamedSpan, draft_spans, name_rows, with_imports
from xscore.indexer.syntax import MemoryDraft, SourceFile, trim_rows
from xscore.records.memory import Kind

SMALL_ROWS = 3
"""Most rows of a block that is joined with its neighbours."""
JOINED_ROWS = 20
"""Most rows of a joined block."""
_KIND_OF_BLOCKS = {
    "sql": Kind.BLOCK,
    "protobuf": Kind.BLOCK,
    "graphql": Kind.BLOCK,
    "css": Kind.TEXT,
}
_HCL_CODE = re.compile(r"(?:resource|data|module|locals|provider|job|source|build)\b")
"""Blocks of HCL that make something; variables and outputs are settings."""
_INI_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_COMMENT = re.compile(r"\s*(#|//|;|--|/\*|\*)")
_COMMENT_MARKS = re.compile(r"^\s*(#+|//+|;+|--+|/\*+|\*+/?)\s?")
_KEY_CHARS = 80
_NAME, _QUOTES = re.compile(r"[\w.\-\"'`\[\]]+"), re.compile(r"[\"'`\[\]]")
"""Patterns of a name with quotes around its parts, as SQL writes them, and of those quotes."""


def cut_config(source: SourceFile, syntax: Syntax | None) -> list[MemoryDraft]:
    """Cut a file into blocks; rows before, between and after the keys go with their neighbours."""
    lines = source.lines
    last = len(lines) - 1
    keys = _ini_sections(lines) if syntax is None else _keys(syntax, "section")
    starts = _with_comments(keys, lines)
    first = next(iter(starts.values()), name_rows(lines, *trim_rows(lines, 0, last)))
    # The first block begins with the file, whatever is above its key.
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
    return [_with_comment_text(draft) for draft in draft_spans(source, spans, Kind.CONFIG)]


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
    drafts: list[MemoryDraft] = []
    for draft in draft_spans(source, _blocks(starts, len(lines) - 1, lines), kind):
        if source.language.name == "hcl" and _HCL_CODE.match(draft.entity):
            drafts.append(replace(draft, kind=Kind.BLOCK))
        else:
            drafts.append(draft)
    return [_with_comment_text(with_imports(draft, source.path)) for draft in drafts]


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
    return replace(
        draft, facts=replace(draft.facts, docstring=_comments(draft.text.split("\n")))
    )


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
