"""How prose, configuration and other text are cut."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.indexer.conftest import pieces_of
from xscore.indexer.prose_sections import prose_references
from xscore.indexer.sections import name_rows, split_rows
from xscore.indexer.syntax import NameUse
from xscore.records.memory import Kind

MARKDOWN = dedent("""\
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
    """)


def test_sections_by_heading() -> None:
    """X17: a section is a memory named by its path of headings; fences and quotes hold no
    headings."""
    pieces = pieces_of("docs/guide.md", MARKDOWN)
    assert {name: (p.start + 1, p.end + 1) for name, p in pieces.items()} == {
        "title: x": (1, 3),
        "Guide": (5, 7),
        "Guide > Install > Linux": (9, 16),
        "Guide > Setext": (18, 21),
        "Guide > Install": (23, 25),
    }
    assert {piece.kind for piece in pieces.values()} == {Kind.DOC}


def test_a_heading_that_is_a_link_is_named_by_what_it_says() -> None:
    """Where a heading links to is no part of the name of its section."""
    text = "# Queue\n\nIt waits.\n\n## [.timeout](#timeout) and ![x](a.png)\n\nSeconds.\n"
    assert set(pieces_of("readme.md", text)) == {"Queue", "Queue > .timeout and x"}


def test_long_sections_are_cut_outside_fences() -> None:
    """X21: a long section is cut between paragraphs, and an example that fits stays whole."""
    paragraph = "Some words.\n\n"
    fence = "```py\n" + "a = 1\n\n" * 8 + "```\n\n"
    pieces = pieces_of("a.md", "# T\n\n" + (paragraph * 5 + fence) * 4, window_lines=40)
    assert len(pieces) > 2
    assert all(piece.text.count("```") % 2 == 0 for piece in pieces.values())


def test_restructured_text_by_underlines() -> None:
    """X17: underlined titles cut reStructuredText, with levels in the order their marks appear."""
    text = (
        "Top\n"
        "===\n\n"
        "Hello.\n\n"
        "Sub\n"
        "---\n\n"
        "Text with *marks*.\n\n"
        "    code ---\n\n"
        "Other\n"
        "=====\n\n"
        "End.\n"
    )
    assert list(pieces_of("docs/a.rst", text)) == ["Top", "Top > Sub", "Other"]


def test_prose_names_entities_and_files() -> None:
    """Names in backticks, links and paths are references; shell words and URLs are not."""
    text = (
        "Call `Store.write()` or :meth:`~pkg.app.Flask.run`; see src/app.py and [x](docs/b.md), not"
        " `ls -l /tmp`."
    )
    assert prose_references(text + " http://e.org/a.html") == [
        NameUse("write", "doc:Store", True),
        NameUse("run", "doc:Flask", True),
        NameUse("app.py", "path:src/app.py", True),
        NameUse("b.md", "path:docs/b.md", True),
    ]


def spans(path: str, text: str, **window: int) -> dict[str, tuple[int, int]]:
    """Line spans by name."""
    return {
        name: (p.start + 1, p.end + 1) for name, p in pieces_of(path, text, **window).items()
    }


def test_toml_tables_with_their_comments() -> None:
    """X18: a table is a memory that includes the comment above it as its explanation."""
    text = (
        "# Project file.\n"
        "name = 'x'\n\n"
        "# How we lint.\n"
        "# Strictly.\n"
        "[tool.ruff]\n"
        "line = 1\n"
        "# inner\n"
        "a = 2\n"
        "b = 3\n"
    )
    assert spans("a.toml", text) == {"name": (1, 2), "tool.ruff": (4, 10)}
    assert (
        pieces_of("a.toml", text)["tool.ruff"].facts.docstring
        == "How we lint.\nStrictly.\ninner"
    )
    assert pieces_of("a.toml", text)["tool.ruff"].kind is Kind.CONFIG


def test_yaml_keys_and_their_own_keys() -> None:
    """X18: a top-level key is a memory; one longer than a window is cut at its own keys."""
    jobs = "".join(f"  # builds {i}\n  job{i}:\n" + "    - step\n" * 8 for i in range(3))
    text = "name: ci\non: push\n# all jobs\njobs:\n" + jobs
    assert spans("ci.yml", text, window_lines=15) == {
        "name": (1, 2),
        "jobs": (3, 4),
        "jobs.job0": (5, 14),
        "jobs.job1": (15, 24),
        "jobs.job2": (25, 34),
    }


def test_json_keys() -> None:
    """Neighbouring one-line keys share a memory; larger ones have their own."""
    scripts = '  "scripts": {\n    "a": "b",\n    "c": "d",\n    "e": "f"\n  },\n'
    text = '{\n  "name": "x",\n  "version": "1",\n' + scripts + '  "z": 1\n}\n'
    assert spans("package.json", text) == {"name": (1, 3), "scripts": (4, 8), "z": (9, 10)}


TEXT = "\n".join(f"fn item_{i}() {{\n    body {i}\n    more {i}\n}}\n" for i in range(200))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('<template><div @click="pay(1)">', "template"),
        ("  <skipSource>${gson.skip}</skipSource>", "skipSource"),
        ("<key>Total Time</key>", "key Total Time"),
        ('<?xml version="1.0"?>', "xml"),
        ("<!-- a comment -->", "a comment"),
        ('syntax = "proto3";', 'syntax = "proto3"'),
        ("module {whatever:null};", "module {whatever:null}"),
        ("2013-06-21 A B <a@b.org>", "2013-06-21 A B <a@b.org>"),
        ('print("hello', "print"),
        ("if (x) {", "if (x)"),
        ('"quoted"', "quoted"),
        ('f.help("ant");</code></pre>', 'f.help("ant")'),
        ("/* comment */", "comment"),
        ('{% include "a" %}', 'include "a"'),
        ("}", "lines"),
    ],
)
def test_rows_have_a_name_that_a_person_would_choose(line: str, name: str) -> None:
    """An element is named by its tag and its text; brackets and quotes are there in pairs or not at
    all."""
    assert name_rows([line], 0, 0) == name


def test_windows_have_names_and_bounds() -> None:
    """A window has at most the given length and is named by its first meaningful line."""
    pieces = pieces_of("src/a.zig", TEXT, window_lines=30)
    assert all(
        piece.end - piece.start < 30 and piece.kind is Kind.TEXT for piece in pieces.values()
    )
    assert next(iter(pieces)) == "fn item_0"


def test_an_inserted_line_shifts_only_its_neighbours() -> None:
    """Borders depend on content: after an insertion most windows keep their text."""
    before = {piece.text for piece in pieces_of("a.zig", TEXT, window_lines=30).values()}
    lines = TEXT.split("\n")
    edited = "\n".join([*lines[:103], "    inserted", *lines[103:]])
    after = {piece.text for piece in pieces_of("a.zig", edited, window_lines=30).values()}
    assert len(after - before) <= 4


@given(
    lines=st.lists(st.sampled_from(["", "a", "  b"]), min_size=1, max_size=200),
    window=st.integers(1, 40),
)
def test_windows_are_a_partition(lines: list[str], window: int) -> None:
    """Every non-blank line is in exactly one window."""
    runs = split_rows(lines, 0, len(lines) - 1, window=window)
    rows = [row for start, end in runs for row in range(start, end + 1)]
    assert len(rows) == len(set(rows))
    assert {row for row, line in enumerate(lines) if line.strip()} <= set(rows)
    assert all(end - start < window for start, end in runs)


def test_imports_without_a_grammar() -> None:
    """A15: without a grammar, regular expressions find the files that a text includes."""
    piece = next(
        iter(pieces_of("src/a.m", '#include "lib/x.h"\n#include <stdio.h>\nint a;\n').values())
    )
    assert piece.facts.imports == ("lib/x.h",)
    assert [(use.name, use.hint) for use in piece.uses] == [("x", "import:./src/lib/x.h")]


def test_what_terraform_makes_is_code() -> None:
    """Resources, data and modules are blocks of code, as tables of SQL are; variables and outputs
    are settings."""
    text = """\
variable "name" {
  type    = string
  default = "shop"
  nullable = false
}

resource "aws_vpc" "this" {
  cidr_block = var.cidr
  tags       = local.tags
  count      = 1
}

module "flow_log" {
  source = "./modules/flow-log"
  name   = var.name
  vpc_id = aws_vpc.this.id
}
"""
    kinds = {name: piece.kind for name, piece in pieces_of("main.tf", text).items()}
    assert kinds == {
        "variable name": Kind.CONFIG,
        "resource aws_vpc this": Kind.BLOCK,
        "module flow_log": Kind.BLOCK,
    }
