"""The table of languages."""

import re
from importlib.resources import files

import pytest

from xscore.indexer.languages import LANGUAGES, Language, is_test_path, language_of
from xscore.indexer.syntax import parse_syntax

QUERIES = files("xscore.indexer") / "queries"


@pytest.mark.parametrize(
    "language", [row for row in LANGUAGES if row.grammar], ids=lambda row: row.name
)
def test_every_grammar_reads_with_its_queries(language: Language) -> None:
    """A language takes a row and a query file: both load, and an empty file gives nothing."""
    assert parse_syntax(b"\n", language).definitions == []


def test_the_captures_are_documented() -> None:
    """queries/README.md lists exactly the captures that the queries use."""
    used = {
        name
        for file in QUERIES.iterdir()
        if file.name.endswith(".scm")
        for name in re.findall(
            r"(?<!#)@([a-z][\w.]*)", re.sub(r";.*|\"[^\"\n]*\"", "", file.read_text("utf-8"))
        )
    }
    documented = set(re.findall(r"`@([\w.]+)`", (QUERIES / "README.md").read_text("utf-8")))
    assert used == documented


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/test_app.py", True),
        ("conftest.py", True),
        ("testing/python/collect.py", True),
        ("django/test/client.py", False),
        ("src/contest.py", False),
        ("src/a.test.ts", True),
        ("packages/x/test/a.js", True),
        ("lib/latest.js", False),
    ],
)
def test_what_is_a_test_file(path: str, is_test: bool) -> None:
    """X22: folders and names mark test files; a package of test helpers is not one."""
    assert is_test_path(path, language_of(path)) is is_test
