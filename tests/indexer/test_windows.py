"""Windows of lines."""

from hypothesis import given
from hypothesis import strategies as st

from tests.indexer.conftest import pieces_of
from xscore.indexer.sections import split_rows
from xscore.records.memory import Kind

TEXT = "\n".join(f"fn item_{i}() {{\n    body {i}\n    more {i}\n}}\n" for i in range(200))


def test_windows_have_names_and_bounds() -> None:
    """A window has at most the given length and is named by its first meaningful line."""
    pieces = pieces_of("src/a.zig", TEXT, window_lines=30)
    assert all(piece.end - piece.start < 30 and piece.kind is Kind.TEXT for piece in pieces.values())
    assert next(iter(pieces)) == "fn item_0"


def test_an_inserted_line_shifts_only_its_neighbours() -> None:
    """Borders depend on content: after an insertion most windows keep their text."""
    before = {piece.text for piece in pieces_of("a.zig", TEXT, window_lines=30).values()}
    lines = TEXT.split("\n")
    edited = "\n".join([*lines[:103], "    inserted", *lines[103:]])
    after = {piece.text for piece in pieces_of("a.zig", edited, window_lines=30).values()}
    assert len(after - before) <= 4


@given(lines=st.lists(st.sampled_from(["", "a", "  b"]), min_size=1, max_size=200), window=st.integers(1, 40))
def test_windows_are_a_partition(lines: list[str], window: int) -> None:
    """Every non-blank line is in exactly one window."""
    runs = split_rows(lines, 0, len(lines) - 1, window=window)
    rows = [row for start, end in runs for row in range(start, end + 1)]
    assert len(rows) == len(set(rows))
    assert {row for row, line in enumerate(lines) if line.strip()} <= set(rows)
    assert all(end - start < window for start, end in runs)


def test_imports_without_a_grammar() -> None:
    """A15: without a grammar, regular expressions find the files that a text includes."""
    piece = next(iter(pieces_of("src/a.m", '#include "lib/x.h"\n#include <stdio.h>\nint a;\n').values()))
    assert piece.facts.imports == ("lib/x.h",)
    assert [(use.name, use.hint) for use in piece.uses] == [("x", "import:./src/lib/x.h")]
