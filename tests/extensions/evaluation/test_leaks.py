"""What is taken out of a message, and what stays."""

import pytest

from xscore.extensions.evaluation.code_tokens import code_tokens
from xscore.extensions.evaluation.history import MAX_MESSAGE_CHARS
from xscore.extensions.evaluation.leaks import without_leaks


@pytest.mark.parametrize(
    ("message", "task"),
    [
        ("Show `render_lines` crash", "Show <symbol> crash"),
        ("Let Console.render_lines() crash", "Let <symbol> crash"),
        ("res.close leaves it open", "<symbol> leaves it open"),
        ("wait to close the stream", "wait to close the stream"),
        ("call close() twice", "call <symbol> twice"),
        ("Quote URL parts", "Quote URL parts"),
        ("Update src/app/_render.py, too", "Update <file>, too"),
        ("Update README.md", "Update <file>"),
        ("fix(app._render): it", "fix(<file>): it"),
        ("Do it (#12) (closes #3)", "Do it"),
        ("GH-12: do it at a1b2c3d4", ": do it at"),
        ("See https://a.invalid/x?y=1 now", "See now"),
        ("Do it\n\nCo-authored-by: A <a@b.invalid>\nCloses: #2", "Do it"),
        ("prerender_lines2 stays", "prerender_lines2 stays"),
    ],
)
def test_without_leaks(message: str, task: str) -> None:
    """Names written as code go; everyday words stay in prose."""
    symbols = ["Console.render_lines#2", "close", "URL"]
    assert without_leaks(message, symbols=symbols, paths=["src/app/_render.py"]) == task


def test_a_hostile_message_takes_no_time() -> None:
    """Runs of anything that a pattern could begin with are read within the bound of a message."""
    for run in ("a.", "a/", "`", "(#", "x::", "a" * 50 + ".py/", "-by:", "http://"):
        without_leaks(
            (run * MAX_MESSAGE_CHARS)[:MAX_MESSAGE_CHARS],
            symbols=["a.b", "abc_d"],
            paths=["a/b_c.py"],
        )


@pytest.mark.parametrize(
    ("before", "after", "language"),
    [
        ("x = 1", "x = 1  # one", "python"),
        (
            'def f():\n    """Old."""\n    return 1',
            'def f():\n    """New."""\n    return 1',
            "python",
        ),
        ("f(a,b)", "f(a, b)", "go"),
        ("f(); // old", "f(); /* new\n lines */", "javascript"),
        ("x = 1 -- old", "x = 1", "lua"),
    ],
)
def test_a_remark_is_no_change(before: str, after: str, language: str) -> None:
    """Comments, docstrings and blanks are no tokens."""
    assert code_tokens(before, language) == code_tokens(after, language)


@pytest.mark.parametrize(
    ("before", "after", "language"),
    [
        ('url = "http://a"', 'url = "http://b"', "javascript"),
        ('x = "# 1"', 'x = "# 2"', "python"),
        ('x = """a"""', 'x = """b"""', "python"),
        ("a - b", "a + b", "rust"),
    ],
)
def test_a_change_is_a_change(before: str, after: str, language: str) -> None:
    """What looks like a comment inside a string is code."""
    assert code_tokens(before, language) != code_tokens(after, language)
