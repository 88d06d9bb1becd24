"""Tells what a document is by its bytes; what a host or an ending says about it decides only
between forms of text.

Pure. Trade-off: a format that is not in this list is refused, also where it holds text.
"""

import re

from xscore.extensions.documents.parsed import DocumentForm

ACCEPTED = "PDF, DOCX, HTML, Markdown or plain text"
_FIRST_BYTES = 1_024
MOSTLY = 0.8
_HTML = re.compile(
    rb"\A\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body|\?xml[^>]*>\s*<!doctype\s+html)",
    re.IGNORECASE | re.DOTALL,
)
_ENDINGS: dict[DocumentForm, tuple[str, ...]] = {
    "html": (".html", ".htm"),
    "markdown": (".md", ".markdown", ".mdx"),
}
_CHARSET = re.compile(
    r";\s{0,9}charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII
)
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml")


def form_of(data: bytes, *, name: str, content_type: str = "") -> DocumentForm | None:
    """Return the form of a document; None if it cannot be read.

    name: name of the file, or path of the address.
    content_type: as a host gave it.
    """
    start = data[:_FIRST_BYTES]
    if _is_pdf(start, data):
        return "pdf"
    if start.startswith(b"PK\x03\x04"):
        return "docx" if b"word/" in data else None
    # UTF-16 has zeros, and says at its beginning that it is that.
    if b"\0" in data and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    return _form_of_text(start, name.lower(), content_type.partition(";")[0].strip().lower())


def is_unmarked_utf_16(data: bytes) -> bool:
    """Whether these bytes are most likely text in UTF-16 that does not say so: every other one is
    zero, and the others are not."""
    start = data[:_FIRST_BYTES]
    even = start[::2]
    odd = start[1::2]
    few, many = sorted((even.count(0), odd.count(0)))
    return len(odd) > 0 and few == 0 and many > MOSTLY * len(odd)


def charset_of(content_type: str) -> str:
    """Return the encoding that a host names for a text; empty if it names none."""
    match = _CHARSET.search(content_type)
    return match[1] if match else ""


def _is_pdf(start: bytes, data: bytes) -> bool:
    """Whether it is a PDF, which may begin with some bytes of something else."""
    # Text about PDF has its first word as well, but not how it ends.
    return start.lstrip().startswith(b"%PDF-") or (b"%PDF-" in start and b"startxref" in data)


def _form_of_text(start: bytes, name: str, kind: str) -> DocumentForm | None:
    # A host knows more than an ending, and the bytes more than a host that says "plain".
    if kind in _HTML_TYPES or _HTML.match(start):
        return "html"
    if kind == "text/markdown":
        return "markdown"
    if not kind or kind == "text/plain":
        for form, endings in _ENDINGS.items():
            if name.endswith(endings):
                return form
    if not kind or kind.startswith("text/") or kind in _TEXT_TYPES:
        return "text"
    return None
