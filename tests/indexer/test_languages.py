"""The table of languages."""

import re
from importlib.resources import files

import pytest

from xscore.indexer.languages import LANGUAGES, Language, is_test_path, language_of
from xscore.indexer.syntax import parse_syntax

QUERIES = files("xscore.indexer") / "queries"


@pytest.mark.parametrize("language", [row for row in LANGUAGES if row.grammar], ids=lambda row: row.name)
def test_every_grammar_reads_with_its_queries(language: Language) -> None:
    """A language costs a row and a query file: both load, and an empty file has nothing in it."""
    assert parse_syntax(b"\n", language).definitions == []


def test_the_captures_are_documented() -> None:
    """Every capture of every query stands in queries/README.md, and nothing stands there that no query uses."""
    used = {
        name
        for file in QUERIES.iterdir()
        if file.name.endswith(".scm")
        for name in re.findall(r"(?<!#)@([a-z][\w.]*)", re.sub(r";.*|\"[^\"\n]*\"", "", file.read_text("utf-8")))
    }
    told = set(re.findall(r"`@([\w.]+)`", (QUERIES / "README.md").read_text("utf-8")))
    assert used == told


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
    """X22: folders and names say which files hold tests; a package that helps testing is none."""
    assert is_test_path(path, language_of(path)) is is_test
