"""Documents made for tests: real PDF and DOCX files, pages, and what a stranger might send."""

import io
import zipfile
import zlib
from collections.abc import Sequence

from docx import Document

PAGE = """<!doctype html><html><head><title>Frob limits - Example</title></head><body>
<nav><a href="/">Home</a><a href="/shop">Shop everything</a><a href="/about">About us</a></nav>
<main><article><h1>Frob limits</h1>
<p>The key <code>rate_limit</code> of a frob sets how many calls a minute reach the orchard
gateway, and each further call waits until the minute is over.</p>
<h2>Refunds</h2><p>A refund of the orchard gateway is final after ninety days, whatever the shop
that asked for it says, and nobody can take it back later.</p>
<table><tr><th>name</th><th>default</th></tr><tr><td>rate_limit</td><td>60</td></tr></table>
</article></main><footer>Subscribe to our newsletter. Cookie settings.</footer></body></html>"""


def make_pdf(pages: Sequence[Sequence[str]], *, title: str = "") -> bytes:
    """Return a PDF with these lines on each page."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({line}) Tj T* " for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown}ET".encode()
        page = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R >>"
        )
        bodies += [page.encode(), pdf_stream(stream)]
    bodies.append(f"<< /Title ({title}) >>".encode())
    return pdf_of(bodies, info=len(bodies))


def pdf_stream(data: bytes, *, packed: bool = False) -> bytes:
    """Return a stream object."""
    filter_ = b""
    if packed:
        data, filter_ = zlib.compress(data, 9), b" /Filter /FlateDecode"
    return b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(data), filter_, data)


def pdf_of(bodies: Sequence[bytes], *, info: int = 0) -> bytes:
    """Return a PDF of these objects, the first of which is its catalog."""
    data = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1)
    for offset in offsets:
        data += b"%010d 00000 n \n" % offset
    trailer = f"<< /Size {len(bodies) + 1} /Root 1 0 R" + (f" /Info {info} 0 R" if info else "")
    data += f"trailer\n{trailer} >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(data)


def make_docx(*, title: str = "") -> bytes:
    """Return a DOCX with two sections and a table."""
    document = Document()
    document.core_properties.title = title
    document.add_heading("Orchard gateway", level=1)
    document.add_paragraph("Refunds are final after ninety days.")
    document.add_heading("Quotas", level=2)
    document.add_paragraph("A shop may call the gateway sixty times a minute.")
    table = document.add_table(rows=2, cols=2)
    for row, words in enumerate((("name", "default"), ("rate_limit", "60"))):
        for column, word in enumerate(words):
            table.cell(row, column).text = word
    packed = io.BytesIO()
    document.save(packed)
    return packed.getvalue()


def docx_with(name: str, data: bytes) -> bytes:
    """Return a DOCX in which one part is replaced."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(make_docx())) as before,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for part in before.infolist():
            after.writestr(part.filename, data if part.filename == name else before.read(part))
    return packed.getvalue()
