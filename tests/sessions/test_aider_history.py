"""Aider's Markdown: who speaks on which line, and fences in which nobody does."""

from datetime import datetime
from pathlib import Path

from tests.sessions.session_writers import AIDER, Import, Past, words_of


def write(root: Path, text: str) -> None:
    """Write the history."""
    (root / ".aider.chat.history.md").write_text(text)


def test_lines_are_told_apart(root: Path, run: Import, past: Past) -> None:
    """`####` asks over several lines, `>` is the tool, the rest answers; commands to Aider ask nothing."""
    write(root, AIDER)
    assert run().added == 2
    first, second = past()
    assert first.text.startswith("Task: why does the parser drop the last line?\nit has no newline\n\nAnswer: `read_")
    assert first.text.endswith("Files changed: src/reader.py")
    assert words_of(second.text) == "Task: what is a pack? Answer: A pack is candidates that share one prompt."
    assert first.created_at == datetime(2026, 11, 20, 9, 0).timestamp() + 1
    assert first.particulars.session == "2026-11-20 09:00:00"


def test_within_a_fence_everything_is_content(root: Path, run: Import, past: Past) -> None:
    """`# `, `> ` and `#### ` inside a fence belong to the answer."""
    write(root, AIDER)
    run()
    text = past()[0].text
    assert "# this is a comment, no session\n> this is no tool\n#### nor is this a question" in text
    assert "Aider v0.86.1" not in text and "Commit 1a2b3c4" not in text


def test_a_quoted_head_does_not_begin_a_session(root: Path, run: Import, past: Past) -> None:
    """A history shown within a fence is content, head line and all."""
    quoted = "```\n# aider chat started at 2026-11-20 08:00:00\n#### old\n```"
    write(root, f"# aider chat started at 2026-11-20 09:00:00\n\n#### show it\n\n{quoted}\n\nThere it is.\n")
    run()
    assert len(past()) == 1 and "#### old" in past()[0].text


def test_a_fence_that_never_closes_ends_with_the_session(root: Path, run: Import, past: Past) -> None:
    """An answer that was cut off inside a fence does not swallow the sessions after it."""
    write(root, "# aider chat started at 2026-11-20 09:00:00\n\n#### one\n\n```python\nx = 1\n\n"
                "# aider chat started at 2026-11-20 10:00:00\n\n#### two\n\nanswer two\n")  # fmt: skip
    run()
    assert [words_of(memory.text) for memory in past()][1] == "Task: two Answer: answer two"


def test_longer_fences_hold_shorter_ones(root: Path, run: Import, past: Past) -> None:
    """A fence of four backticks is not closed by three."""
    write(root, "# aider chat started at 2026-11-20 09:00:00\n\n#### one\n\n````md\n```\n#### inner\n```\n````\nend\n")
    run()
    assert len(past()) == 1 and past()[0].text.endswith("end")


def test_going_on_gives_the_same_ids(root: Path, run: Import, past: Past) -> None:
    """A history that grew is read on, and what was open is renewed, not doubled."""
    write(root, AIDER)
    run()
    before = {memory.id for memory in past()}
    write(root, AIDER + "\nIts bytes stay the same.\n\n#### and a slot?\n\nA place in a pack.\n")
    report = run()
    assert (report.added, report.updated) == (1, 1)
    assert before < {memory.id for memory in past()}


def test_another_file_by_that_name_is_refused(root: Path, run: Import, past: Past) -> None:
    """What does not begin with a session's head is no history of Aider."""
    write(root, "My notes\n#### not a question\n")
    assert "expected `# aider chat started at" in run().refused[0].reason
    assert past() == []
