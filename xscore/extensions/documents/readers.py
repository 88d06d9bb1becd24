"""Readers of PDF, DOCX, HTML and text: bytes in, passages out.

They run in the process of `read_process`, which bounds them; nothing here is sent anywhere, and no
reader follows a link. What a library raises is a problem of the document. Trade-off: pictures are
not looked at, so a scanned page has no text.
"""

import codecs
import html
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

from xscore.extensions.documents.parsed import (
    MOST_PAGES,
    MOST_UNPACKED,
    READING_SECONDS,
    TITLE_CHARS,
    ParsedDocument,
    ReadingJob,
)
from xscore.extensions.documents.passages import (
    MARKDOWN_NAME,
    CutText,
    passages_of_pages,
    passages_of_text,
)
from xscore.platform.text import one_line

NO_TEXT = "there is no text in it"
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|<>~-])")
_HEADING_STYLE = re.compile(r"Heading ([1-6])\b")
_TITLE = re.compile(rb"<title[^<>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"<meta[^<>]{0,200}charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE
)
_META_BYTES = 4_096
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Unreadable(Exception):  # not an XscoreError: it crosses no wall, the parent words it
    """Nothing can be read of a document; the argument says why."""


def read_document(job: ReadingJob) -> ParsedDocument:
    """Read one document; what is wrong with it is in the result."""
    try:
        with _as_unreadable():
            document = _READERS[job.form](job)
    except Unreadable as error:
        return ParsedDocument(problem=str(error))
    if not document.passages:
        return ParsedDocument(problem=NO_TEXT)
    return document


@contextmanager
def _as_unreadable() -> Iterator[None]:
    """Turn what the parsers of others raise into `Unreadable`."""
    try:
        yield
    except (MemoryError, Unreadable):
        raise
    except Exception as error:  # the edge to code that is not ours
        raise Unreadable(f"{type(error).__name__}: {one_line(str(error))[:200]}") from error


def _read_pdf(job: ReadingJob) -> ParsedDocument:
    from pypdf import PdfReader  # each form has a library of its own

    reader = PdfReader(BytesIO(job.data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is encrypted with a password")
    pages = _PdfPages()
    cut = passages_of_pages(pages.texts(reader))
    title = ""
    if reader.metadata is not None and reader.metadata.title:
        title = str(reader.metadata.title)
    return _document(job, title, cut, note=pages.note)


class _PdfPages:
    """Reads the pages of a PDF until the time is up, and notes what was not read."""

    def __init__(self) -> None:
        self.note = ""

    def texts(self, reader: Any) -> Iterator[str]:
        """Yield the text of each page that can be read."""
        unreadable = 0
        for number, page in enumerate(reader.pages):
            if number >= MOST_PAGES or time.process_time() > READING_SECONDS:
                self.note = f"only the first {number:,} pages were read"
                return
            text = ""
            try:
                with _as_unreadable():
                    text = page.extract_text() or ""
            except Unreadable:
                # One page, not the document.
                unreadable += 1
            yield text
        if unreadable:
            self.note = f"{unreadable:,} of its pages could not be read"


def _read_docx(job: ReadingJob) -> ParsedDocument:
    with zipfile.ZipFile(BytesIO(job.data)) as packed:
        unpacked = sum(part.file_size for part in packed.infolist())
    if unpacked > MOST_UNPACKED:
        raise Unreadable(f"unpacked it would take {unpacked >> 20:,} MB")
    import docx.table  # each form has a library of its own

    document = docx.Document(BytesIO(job.data))
    parts: list[str] = []
    note = ""
    for block in document.iter_inner_content():
        if time.process_time() > READING_SECONDS:
            note = "only its first part was read"
            break
        parts.append(
            _table_text(block)
            if isinstance(block, docx.table.Table)
            else _paragraph_text(block)
        )
    cut = passages_of_text("\n\n".join(parts))
    return _document(job, str(document.core_properties.title or ""), cut, note=note)


def _paragraph_text(paragraph: Any) -> str:
    text = str(paragraph.text).strip()
    style = ""
    if paragraph.style is not None:
        style = str(paragraph.style.name)
    heading = _HEADING_STYLE.match(style)
    if heading and text:
        return f"{'#' * int(heading[1])} {one_line(text)}"
    if style == "Title" and text:
        return f"# {one_line(text)}"
    if style.startswith("List") and text:
        return f"- {text}"
    return text


def _table_text(table: Any) -> str:
    rows: list[str] = []
    for row in table.rows:
        cells = [one_line(str(cell.text)) for cell in row.cells]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _read_html(job: ReadingJob) -> ParsedDocument:
    import trafilatura  # each form has a library of its own

    # Bytes, not text: its own reader finds an encoding that nobody names, and refuses less.
    data = _html_data(job)
    text = trafilatura.extract(
        data,
        output_format="markdown",
        include_formatting=True,
        include_tables=True,
        include_comments=False,
        include_links=False,
        include_images=False,
    )
    cut = passages_of_text(_without_escapes(text or ""))
    match = _TITLE.search(data)
    title = ""
    if match:
        title = html.unescape(match[1].decode("utf-8", "replace"))
    return _document(job, title, cut)


def _html_data(job: ReadingJob) -> bytes:
    """Return a page as UTF-8 where its host or the page itself says how it is encoded."""
    for charset in (job.charset, _charset_of_page(job.data)):
        text = _decoded_as(job.data, charset)
        if text is not None:
            return text.encode("utf-8", "replace")
    return job.data


def _charset_of_page(data: bytes) -> str:
    """Return the encoding that a page says it has; empty if it says none that can be true."""
    named = _META_CHARSET.search(data[:_META_BYTES])
    name = ""
    if named:
        name = named[1].decode().lower()
    # What says this in letters of one byte is not written in letters of two.
    if name.startswith(("utf-16", "utf16", "utf-32", "utf32", "ucs")):
        return ""
    return name


def _decoded_as(data: bytes, charset: str) -> str | None:
    """Return a text in a named encoding; None if there is none of that name, or it is
    another."""
    try:
        return data.decode(charset) if charset else None
    except (LookupError, ValueError):
        return None


def _without_escapes(text: str) -> str:
    r"""Return Markdown with names as they are written: `rate_limit`, not `rate\_limit`."""
    return _ESCAPED.sub(r"\1", text)


def _read_text(job: ReadingJob) -> ParsedDocument:
    return _document(job, "", passages_of_text(_decoded(job), name=_TEXT_NAMES[job.form]))


def _decoded(job: ReadingJob) -> str:
    data = job.data
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    for charset in (job.charset, "utf-8"):
        text = _decoded_as(data, charset)
        if text is not None:
            return text
    return data.decode("cp1252", "replace")


def _document(job: ReadingJob, title: str, cut: CutText, *, note: str = "") -> ParsedDocument:
    return ParsedDocument(
        title=_titled(title, job.name),
        passages=cut.passages,
        note=cut.note or note,
        redacted=cut.redacted,
    )


def _titled(title: str, name: str) -> str:
    """Return the title on one line, or the name of a document that has none."""
    # ` > ` separates a title from the headings under it.
    shown = one_line(" ".join(title.split())).replace(" > ", " - ").strip()
    return (shown or name)[:TITLE_CHARS].strip()


_READERS: dict[str, Callable[[ReadingJob], ParsedDocument]] = {
    "pdf": _read_pdf,
    "docx": _read_docx,
    "html": _read_html,
    "markdown": _read_text,
    "text": _read_text,
}
_TEXT_NAMES: dict[str, str] = {"markdown": MARKDOWN_NAME, "text": "document.txt"}
"""Kind of text -> a name whose ending decides how the text is split."""
