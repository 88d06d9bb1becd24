"""Globs as in .gitignore, matched in linear time."""

import re
import time

import pytest

from xscore.platform.globs import MAX_GLOB_CHARS, GlobList


@pytest.mark.parametrize(
    ("glob", "matched", "unmatched"),
    [
        ("*.py", "a.py b/c.py a.py/x", "a.pyc apy"),
        ("/a", "a a/b", "b/a"),
        ("a/b", "a/b a/b/c", "x/a/b ab"),
        ("docs/", "docs/a x/docs/b docs/", "docs a/docs"),
        ("a/**", "a/b a/b/c", "a b/a/c"),
        ("**/b", "b a/b a/a/b/c", "ab"),
        ("a/**/b", "a/b a/x/b a/x/y/b/z", "b/a/b a/xb"),
        ("**", "a a/b", ""),
        ("a?c", "abc", "ac a/c"),
        ("[a-c]x", "ax bx/y", "dx"),
        ("[!a]x", "bx", "ax /x"),
        ("a*b*c", "abc axxbyyc", "ab acb axbxcx"),
        (r"\*a", "*a", "ba"),
        (r"a\[1]", "a[1]", r"a1 a\1"),
    ],
)
def test_a_glob_means_what_git_means(glob: str, matched: str, unmatched: str) -> None:
    """Stars stay within a path segment; a matched folder includes everything below it."""
    rule = GlobList([glob])
    assert [path for path in matched.split() if not rule.verdict(path)] == []
    assert [path for path in unmatched.split() if rule.verdict(path)] == []


def test_the_last_glob_about_a_path_decides() -> None:
    """`!` negates; comments and blank lines are skipped; without a match there is no verdict."""
    rule = GlobList(["# all", "", "*.py", "!keep.py", "keep.py/x"])
    assert [rule.verdict(path) for path in ("a.py", "keep.py", "keep.py/x", "b.md")] == [
        True,
        False,
        True,
        None,
    ]


def test_no_glob_stretches_the_time() -> None:
    """Ten stars in a name, ten in a path, and a thousand globs take seconds at most, instead of
    minutes."""
    start = time.process_time()
    hard = GlobList(["*a*a*a*a*a*a*a*a*a*b", "**/a/" * 10 + "b", "a*/" * 9 + "b"])
    assert hard.verdict("a" * 250) is None
    assert hard.verdict("a/" * 500 + "c") is None
    many = GlobList([f"*a{number}*b*c" for number in range(1_000)])
    assert [many.verdict(f"src/pkg/a{number}/file.py") for number in range(100)] == [None] * 100
    assert time.process_time() - start < 5


@pytest.mark.parametrize("glob", ["!", "[z-a]", "a\\", "x" * (MAX_GLOB_CHARS + 1)])
def test_what_is_no_glob_is_an_error(glob: str) -> None:
    """The caller names the setting or option."""
    with pytest.raises((ValueError, re.error)):
        GlobList([glob])
