"""Calls of small sources are linked as the table below them says: `edges/LANGUAGE.txt`,
`edges/LANGUAGE_MATTER.txt`."""

import re
from pathlib import Path

import pytest

from tests.indexer.conftest import Index

SOURCES = sorted(Path(__file__).with_name("edges").glob("*.txt"))
_TARGET = re.compile(r" (?=\S+\.\w+:)")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_edges_of_small_sources(source: Path, index: Index) -> None:
    """What the code of each file calls is what its table says, and nothing else."""
    parts = source.read_text("utf-8").split("--- ")[1:]
    files = dict(part.split("\n", 1) for part in parts)
    expected = files.pop("calls").strip().split("\n")
    index.of(files)
    linked = index.edges("calls") | index.edges("tests")
    assert {edge for edge in linked if not edge[0].startswith("f_")} == edges_of(expected)


def edges_of(table: list[str]) -> set[tuple[str, str]]:
    """Return the edges of a table, whose targets are apart by blanks before a file's name."""
    rows = (row.split(" -> ") for row in table)
    return {(source, target) for source, targets in rows for target in _TARGET.split(targets)}
