"""Cuts the text of a document into passages, as files here are cut: by heading, long parts by
paragraph.

It runs in the process that reads documents. Trade-off: long lines are wrapped, since a passage is
counted in lines and a paragraph of a page is one.
"""

import re
import textwrap
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from xscore.extensions.documents.parsed import MOST_CHARS, MOST_PASSAGES, Passage
from xscore.indexer.memories import cut_file, source_file
from xscore.indexer.sections import cut_windows
from xscore.platform.text import encodable_text, without_invisible
from xscore.store.redaction import redact

MARKDOWN_NAME = "document.md"
WINDOW_LINES = 40
LINE_CHARS = 100
LONGEST_LINE = 2_000
"""Longest line of a table or of code; a longer one is split."""
_FENCE = re.compile(r"\s*(```+|~~~+)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WRAPPER = textwrap.TextWrapper(LINE_CHARS, break_long_words=False, break_on_hyphens=False)
_BLANK_LINES = re.compile(r"\n{3,}")


class CutText(Struct, frozen=True, kw_only=True):
    """The passages of a text."""

    passages: tuple[Passage, ...]
    note: str = ""
    """What was not kept of the document."""
    redacted: int = 0


class _CleanText(NamedTuple):
    text: str
    note: str = ""
    redacted: int = 0


def passages_of_text(text: str, *, name: str = MARKDOWN_NAME) -> CutText:
    """Return the passages of a text. name: its ending says whether it has headings."""
    clean = _clean(text)
    drafts, _, _ = cut_file(source_file(name, clean.text, window_lines=WINDOW_LINES))
    passages: list[Passage] = []
    for draft in drafts:
        if draft.text.strip():
            passages.append(Passage(draft.entity, draft.text.strip("\n")))
    note = clean.note
    if len(passages) > MOST_PASSAGES:
        note = f"only the first {MOST_PASSAGES:,} of {len(passages):,} passages were kept"
    return CutText(passages=tuple(passages[:MOST_PASSAGES]), note=note, redacted=clean.redacted)


def passages_of_pages(pages: Iterable[str]) -> CutText:
    """Return the passages of a text in pages."""
    passages: list[Passage] = []
    chars = redacted = 0
    note = ""
    for number, page in enumerate(pages, start=1):
        clean = _clean(page, across_lines=True)
        chars += len(clean.text)
        redacted += clean.redacted
        if chars > MOST_CHARS or len(passages) > MOST_PASSAGES:
            note = f"only the first {number - 1:,} pages were kept"
            break
        source = source_file("page.txt", clean.text, window_lines=WINDOW_LINES)
        texts = [draft.text.strip("\n") for draft in cut_windows(source)]
        for part, text in enumerate(filter(None, texts), start=1):
            place = f"page {number}" if part == 1 else f"page {number}, part {part}"
            passages.append(Passage(place, text))
    return CutText(passages=tuple(passages[:MOST_PASSAGES]), note=note, redacted=redacted)


def _clean(text: str, *, across_lines: bool = False) -> _CleanText:
    """Return the text without secrets, control characters and long lines.

    across_lines: its lines end where a page had no more room.
    """
    note = ""
    if len(text) > MOST_CHARS:
        note = f"only the first {MOST_CHARS:,} of {len(text):,} characters were kept"
        # Up to the last space: no rule recognizes the half of a secret.
        kept, _, _ = text[:MOST_CHARS].rpartition(" ")
        text = kept or text[:MOST_CHARS]
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")
    text = without_invisible(encodable_text(_CONTROLS.sub("", text)))
    # Before lines are wrapped and cut, since half a secret is recognized by no rule; after what is
    # invisible in one is gone.
    without_secrets = redact(text, prose=True, across_lines=across_lines)
    lines: list[str] = []
    is_fenced = False
    for line in without_secrets.text.split("\n"):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        lines += _wrapped(line.rstrip(), keeps=is_fenced or line.lstrip().startswith("|"))
    return _CleanText(_BLANK_LINES.sub("\n\n", "\n".join(lines)), note, without_secrets.count)


def _wrapped(line: str, *, keeps: bool) -> list[str]:
    """Return a line in parts of a readable length. keeps: where it ends says something."""
    limit = LONGEST_LINE if keeps else LINE_CHARS
    if len(line) <= limit:
        return [line]
    if not keeps and line.startswith("#"):
        return [line[:LONGEST_LINE]]
    # A word longer than any text has is cut first: wrapping takes time by the square of it.
    pieces = [line[start : start + LONGEST_LINE] for start in range(0, len(line), LONGEST_LINE)]
    if keeps:
        return pieces
    wrapped: list[str] = []
    for piece in pieces:
        wrapped += _WRAPPER.wrap(piece) or [""]
    return wrapped
