"""No line is lost: of this repository, of files that no grammar should parse, or that one
survives."""

from pathlib import Path

import pytest

from tests.indexer.conftest import unseen_lines
from xscore.indexer.memories import cut_file, source_file
from xscore.records.memory import Kind

ROOT = Path(__file__).parents[2]
DEEP = {
    "brackets.py": "x = " + "(\n" * 50_000 + ")" * 50_000,
    "arrays.json": "[\n" * 30_000 + "]\n" * 30_000,
    "staircase.yaml": "".join(" " * depth + "a:\n" for depth in range(400)),
    "marks.yaml": "- " * 1_000 + "x",
    "quotes.md": "> " * 2_000 + "x",
    "templates.js": "`${" * 1_100 + "}`" * 1_100,
}


@pytest.mark.parametrize("name", DEEP)
def test_nesting_beyond_reason_keeps_its_lines_and_says_so(name: str) -> None:
    """Nesting that would crash or stall a grammar is detected first: the file becomes windows, with
    a note."""
    pieces, _, note = cut_file(source_file(name, DEEP[name], window_lines=60))
    assert "nested more than" in note
    assert {piece.kind for piece in pieces} <= {Kind.TEXT, Kind.DOC}
    assert unseen_lines(name, DEEP[name]) == []


def test_brackets_in_strings_nest_nothing() -> None:
    """A file that tests terminal codes opens hundreds of brackets in its strings."""
    codes = "".join(f'    assert shown() == "\\x1b[38;5;{code}m"\n' for code in range(1_200))
    pieces, _, note = cut_file(source_file("a.py", f"def test_it():\n{codes}", window_lines=60))
    assert note == ""
    assert [piece.entity for piece in pieces] == ["test_it"]


@pytest.mark.parametrize(
    "line",
    [
        """a = '"' + [[[[[[[[ + '"'\n""",
        """--"\n[[[[[[[[ -- "\n""",
        """x = /"/ + [[[[[[[[ + /"/\n""",
    ],
)
def test_quotes_that_are_no_strings_hide_no_nesting(line: str) -> None:
    """Between quotes in characters, comments and patterns brackets nest, and grammars take time by
    the square of them."""
    _, _, note = cut_file(source_file("a.lua", line * 1_500, window_lines=60))
    assert "nested more than" in note


@pytest.mark.parametrize("line", ["x = f(')', ", 'x = {"}", {"}", ', "f[']'](\"))\", "])
def test_brackets_in_strings_close_nothing(line: str) -> None:
    """Closing brackets in strings do not hide how deep the others nest; Lua's grammar takes time by
    the square of that."""
    _, _, note = cut_file(source_file("a.lua", line * 3_000, window_lines=60))
    assert "nested more than" in note


@pytest.mark.parametrize("quote", ['"', "'"])
def test_unclosed_strings_are_skipped_in_time_by_their_length(quote: str) -> None:
    """Each of a megabyte of escaped quotes would be looked at as the start of a string."""
    text = f"{quote}\\" * 500_000 + "[" * 2_000
    _, _, note = cut_file(source_file("a.py", text, window_lines=60))
    assert "nested more than" in note


@pytest.mark.parametrize(
    "text",
    [
        "a+\n" * 15_000 + "1",
        "x = " + "!\n" * 15_000 + "1",
        "a" + "\n.b()" * 12_000,
        "a = " * 10_000 + "1",
    ],
)
def test_long_chains_take_seconds_at_most(text: str) -> None:
    """Chains as deep as a file parsed in this process can hold are parsed."""
    assert unseen_lines("a.js", text) == []


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.verify)])
def test_this_repository_is_seen_whole(every: int) -> None:
    """X15, X17, X18: prose, configuration and queries of this repository are covered like code.

    every: of its modules, every nth is read.
    """
    for suffix in ("md", "toml", "scm", "sql", "py"):
        files = sorted(ROOT.joinpath("xscore").rglob(f"*.{suffix}"))
        for file in files[:: every if suffix == "py" else 1]:
            assert unseen_lines(str(file.relative_to(ROOT)), file.read_text("utf-8")) == []
    for name in ("README.md", "pyproject.toml", "Makefile"):
        if (ROOT / name).is_file():
            assert unseen_lines(name, (ROOT / name).read_text("utf-8")) == []
