"""Documents are read apart: real ones become passages, and none of a stranger's harms us."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.extensions.documents.samples import (
    PAGE,
    docx_with,
    make_docx,
    make_pdf,
    pdf_of,
    pdf_stream,
)
from xscore.extensions.documents import passages
from xscore.extensions.documents.forms import form_of, is_unmarked_utf_16
from xscore.extensions.documents.parsed import ParsedDocument, ReadingJob
from xscore.extensions.documents.reading import read_in_process

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
CATALOG, PAGES = (
    b"<< /Type /Catalog /Pages 2 0 R >>",
    b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
)


def read(data: bytes, *, name: str = "name") -> ParsedDocument:
    """Read a document by what its bytes say."""
    form = form_of(data, name=name)
    assert form is not None
    return read_in_process(ReadingJob(data, form, name))


def places_and_texts(document: ParsedDocument) -> dict[str, str]:
    """Return the text of each passage by its place."""
    assert document.problem == ""
    return {passage.place: passage.text for passage in document.passages}


def test_a_pdf_has_a_passage_a_page() -> None:
    """Each says its page; a long page has parts."""
    lines = [f"Line {number} of a long page." for number in range(90)]
    document = read(make_pdf([["Refunds are final.", "Nobody pays."], lines], title="Contract"))
    passages = places_and_texts(document)
    assert document.title == "Contract"
    assert list(passages) == ["page 1", "page 2", "page 2, part 2", "page 2, part 3"]
    assert passages["page 1"] == "Refunds are final.\nNobody pays."
    assert "Line 0 " in passages["page 2"] and "Line 89 " in passages["page 2, part 3"]


def test_a_docx_is_cut_by_its_headings() -> None:
    """Tables are kept, row by row."""
    document = read(make_docx(title="Gateway"))
    passages = places_and_texts(document)
    assert document.title == "Gateway"
    assert list(passages) == ["Orchard gateway", "Orchard gateway > Quotas"]
    assert "ninety days" in passages["Orchard gateway"]
    assert "| rate_limit | 60 |" in passages["Orchard gateway > Quotas"]


def test_of_a_page_only_its_text_is_kept() -> None:
    """What is around it is not; names are written as in the page."""
    document = read(PAGE.encode())
    passages = places_and_texts(document)
    assert document.title == "Frob limits - Example"
    assert list(passages) == ["Frob limits", "Frob limits > Refunds"]
    words = "\n".join(passages.values())
    assert "rate_limit" in passages["Frob limits"] and "ninety days" in words
    assert not any(around in words for around in ("Shop everything", "newsletter", "<p>"))


@pytest.mark.parametrize(
    ("name", "places"),
    [("notes.md", ["Rules", "Rules > Money"]), ("notes.txt", ["# Rules"])],
)
def test_text_is_cut_by_its_ending(name: str, places: list[str]) -> None:
    """Markdown by heading, other text by paragraph; long lines are wrapped."""
    text = f"# Rules\n\nBe kind.\n\n## Money\n\n{'Round half cents down. ' * 60}\n"
    passages = places_and_texts(read(text.encode(), name=name))
    assert [place.strip("# ") for place in passages] == [place.strip("# ") for place in places]
    assert max(map(len, "\n".join(passages.values()).split("\n"))) <= 100


def test_other_bytes_are_refused_by_what_they_are() -> None:
    """Neither a picture nor an archive is read as text."""
    assert form_of(b"\x89PNG\r\n\x1a\n\0\0", name="a.html") is None
    assert form_of(b"PK\x03\x04 something else", name="a.docx") is None
    assert form_of(b"{}", name="a", content_type="application/octet-stream") is None
    assert form_of(b"  <!DOCTYPE html><p>", name="a") == "html"
    assert form_of(b"junk before %PDF-1.4 ... startxref", name="a.txt") == "pdf"
    assert form_of(b"# `%PDF-1.4` begins a PDF", name="a.md") == "markdown"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_that_does_not_say_so_is_named(encoding: str) -> None:
    """It is refused with what to do about it; a picture with zeros is not taken for it."""
    data = "The quota is twelve rows a second.\n".encode(encoding)
    assert form_of(data, name="a.txt") is None
    assert is_unmarked_utf_16(data)
    assert not is_unmarked_utf_16(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0")
    assert not is_unmarked_utf_16(b"\0" * 600)


def test_a_secret_over_two_lines_of_a_page_is_redacted() -> None:
    """A line of a page ends where there was no more room; what follows on the next line stays."""
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    document = read(
        make_pdf([[f"The token is {token[:25]}", f"{token[25:]} for tests.", "The rest."]])
    )
    (text,) = places_and_texts(document).values()
    assert token[5:25] not in text
    assert token[25:] not in text
    assert text.endswith("for tests.\nThe rest.")
    assert document.redacted == 1


def unreadable(name: str) -> bytes:
    """Return what a stranger might send."""
    entities = b"".join(
        b"<!ENTITY %c '%s'>" % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9)
    )
    document = b"<w:document xmlns:w='%s'><w:body>" % WORD.encode()
    samples: dict[str, Callable[[], bytes]] = {
        "pages in a ring": lambda: pdf_of(
            [CATALOG, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"]
        ),
        "a million pages": lambda: pdf_of(
            [CATALOG, b"<< /Type /Pages /Kids [%s] >>" % (b"3 0 R " * 1_000_000)]
        ),
        "arrays within arrays": lambda: pdf_of(
            [CATALOG, PAGES[:-2] + b"/X %s%s >>" % (b"[" * 100_000, b"]" * 100_000), b"<< >>"]
        ),
        "a page that unpacks": lambda: pdf_of(
            [
                *(CATALOG, PAGES),
                b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 1 1] >>",
                pdf_stream(b"\0" * 200_000_000, packed=True),
            ]
        ),
        "no objects": lambda: b"%PDF-1.7\n" + bytes(range(256)) * 2_000,
        "tags within tags": lambda: (
            b"<html><body>" + b"<div>" * 100_000 + b"x" + b"</div>" * 100_000
        ),
        "tables within tables": lambda: b"<html><body>" + b"<table><tr><td>" * 50_000 + b"x",
        "a part that unpacks": lambda: docx_with("word/document.xml", b"\0" * 300_000_000),
        "parts within parts": lambda: docx_with(
            "word/document.xml", document + b"<w:tbl><w:tr><w:tc>" * 100_000
        ),
        "entities of entities": lambda: docx_with(
            "word/document.xml",
            b"<!DOCTYPE w [<!ENTITY a 'aaaaaaaaaa'>%s]>%s<w:p><w:r><w:t>&j;</w:t></w:r></w:p>"
            b"</w:body></w:document>" % (entities, document),
        ),
        "nothing": lambda: b"<html><body><script>1</script></body></html>",
    }
    return samples[name]()


@pytest.mark.parametrize(
    "name",
    [
        "pages in a ring",
        "a million pages",
        "arrays within arrays",
        "no objects",
        "tags within tags",
        "a part that unpacks",
        "parts within parts",
        "entities of entities",
        "nothing",
        pytest.param("a page that unpacks", marks=pytest.mark.verify),
        pytest.param("tables within tables", marks=pytest.mark.verify),
    ],
)
def test_what_a_stranger_sends_is_a_problem_of_the_document(name: str) -> None:
    """It yields nothing, says why in a line, and ends."""
    document = read(unreadable(name))
    assert document.passages == () and document.problem
    assert "\n" not in document.problem


def test_a_document_brings_in_no_other_file(tmp_path: Path) -> None:
    """An entity that names a file stays empty."""
    (tmp_path / "secret").write_text("a secret of this machine")
    text = (
        f"<!DOCTYPE w [<!ENTITY a SYSTEM 'file://{tmp_path}/secret'>]>"
        f"<w:document xmlns:w='{WORD}'><w:body><w:p><w:r><w:t>before &a; after</w:t></w:r></w:p>"
        "</w:body></w:document>"
    )
    (passage,) = read(docx_with("word/document.xml", text.encode())).passages
    assert "before" in passage.text and "secret" not in passage.text


@pytest.mark.verify
def test_a_page_beyond_the_memory_of_its_process_ends_that_alone() -> None:
    """The parent says that it was too much."""
    document = read(b"<html><body>" + b"<p>" * 2_000_000 + b"hello")
    assert "MB" in document.problem or " s" in document.problem


def test_no_half_of_a_secret_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is cut at the limit ends before the word that the limit goes through."""
    monkeypatch.setattr(passages, "MOST_CHARS", 500)
    text = "word " * 98 + "AKIA" + "Z3XQ7LMN2PRT5UVW"
    cut = passages.passages_of_text(text)
    assert cut.note
    assert "word" in cut.passages[-1].text
    assert "AKIA" not in cut.passages[-1].text
