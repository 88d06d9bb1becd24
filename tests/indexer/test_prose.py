"""How prose is cut."""

from textwrap import dedent

from tests.indexer.conftest import pieces_of
from xscore.indexer.sections import prose_references
from xscore.indexer.syntax import NameUse
from xscore.records.memory import Kind

MARKDOWN = dedent(
    """\
    ---
    title: x
    ---

    # Guide

    Intro.

    ## Install

    ### Linux

    ```sh
    # not a heading
    make
    ```

    Setext
    ------

    > # quoted, no section

    ## Install

    Again.
    """
)


def test_sections_by_heading() -> None:
    """X17: a section is a memory named by its path of headings; fences and quotes hold no headings."""
    pieces = pieces_of("docs/guide.md", MARKDOWN)
    assert {name: (p.start + 1, p.end + 1) for name, p in pieces.items()} == {
        "title: x": (1, 3),
        "Guide": (5, 7),
        "Guide > Install > Linux": (9, 16),
        "Guide > Setext": (18, 21),
        "Guide > Install": (23, 25),
    }
    assert {piece.kind for piece in pieces.values()} == {Kind.DOC}


def test_long_sections_are_cut_outside_fences() -> None:
    """X21: a long section is cut between paragraphs, and an example that fits stays whole."""
    paragraph = "Some words.\n\n"
    fence = "```py\n" + "a = 1\n\n" * 8 + "```\n\n"
    pieces = pieces_of("a.md", "# T\n\n" + (paragraph * 5 + fence) * 4, window_lines=40)
    assert len(pieces) > 2
    assert all(piece.text.count("```") % 2 == 0 for piece in pieces.values())


def test_restructured_text_by_underlines() -> None:
    """X17: underlined titles cut reStructuredText, with levels in the order their marks appear."""
    text = "Top\n===\n\nHello.\n\nSub\n---\n\nText with *marks*.\n\n    code ---\n\nOther\n=====\n\nEnd.\n"
    assert list(pieces_of("docs/a.rst", text)) == ["Top", "Top > Sub", "Other"]


def test_prose_names_entities_and_files() -> None:
    """Names in backticks, links and paths are references; shell words and URLs are not."""
    text = "Call `Store.write()` or :meth:`~pkg.app.Flask.run`; see src/app.py and [x](docs/b.md), not `ls -l /tmp`."
    assert prose_references(text + " http://e.org/a.html") == [
        NameUse("write", "doc:Store", True),
        NameUse("run", "doc:Flask", True),
        NameUse("app.py", "path:src/app.py", True),
        NameUse("b.md", "path:docs/b.md", True),
    ]
