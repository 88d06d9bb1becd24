"""Aider's Markdown: who speaks on each line, and fences, which are content."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import git
from tests.extensions.sessions.session_writers import AIDER, Import, Past, Texts, words_of
from xscore.extensions.sessions.importing import import_sessions
from xscore.extensions.sessions.session_reader import AgentFolders
from xscore.platform.paths import find_root
from xscore.store.store import Store

HISTORY = ".aider.chat.history.md"
NOT_YOURS = "left out, tracked by git: not yours to import"


def write(root: Path, text: str) -> None:
    """Write the history."""
    (root / ".aider.chat.history.md").write_text(text)


def test_lines_are_told_apart(root: Path, run: Import, past: Past) -> None:
    """`####` asks over several lines, `>` is the tool, the rest answers; commands ask nothing, a
    fence is content."""
    write(root, AIDER)
    assert run().added == 2
    first, second = past()
    assert first.text.startswith(
        "Task: why does the parser drop the last line?\nit has no newline\n\nAnswer: `read_"
    )
    assert first.text.endswith("Files changed: src/reader.py")
    assert (
        "# this is a comment, no session\n> this is no tool\n#### nor is this a question"
        in first.text
    )
    assert "Aider v0.86.1" not in first.text and "Commit 1a2b3c4" not in first.text
    assert (
        words_of(second.text)
        == "Task: what is a pack? Answer: A pack is candidates that share one prompt."
    )
    assert first.created_at == datetime(2026, 11, 20, 9, 0).timestamp() + 1
    assert first.details.session == "2026-11-20 09:00:00"


def test_a_quoted_head_does_not_begin_a_session(root: Path, run: Import, past: Past) -> None:
    """A history quoted inside a fence is content, header line included."""
    quoted = "```\n# aider chat started at 2026-11-20 08:00:00\n#### old\n```"
    write(
        root,
        f"# aider chat started at 2026-11-20 09:00:00\n\n#### show it\n\n{quoted}\n\nThere it"
        " is.\n",
    )
    run()
    assert len(past()) == 1 and "#### old" in past()[0].text


def test_a_fence_that_never_closes_ends_with_the_session(
    root: Path, run: Import, texts: Texts
) -> None:
    """An answer cut off inside a fence does not swallow later sessions."""
    write(
        root,
        "# aider chat started at 2026-11-20 09:00:00\n\n#### one\n\n```python\nx = 1\n\n"
        "# aider chat started at 2026-11-20 10:00:00\n\n#### two\n\nanswer two\n",
    )
    run()
    assert texts()[1] == "Task: two Answer: answer two"


def test_going_on_gives_the_same_ids(root: Path, run: Import, past: Past) -> None:
    """A grown history is read from where it ended, and an open exchange is updated, not doubled."""
    write(root, AIDER)
    run()
    before = {memory.id for memory in past()}
    write(
        root, AIDER + "\nIts bytes stay the same.\n\n#### and a slot?\n\nA place in a pack.\n"
    )
    report = run()
    assert (report.added, report.updated) == (1, 1)
    assert before < {memory.id for memory in past()}


def test_another_file_by_that_name_is_refused(root: Path, run: Import, past: Past) -> None:
    """A file that does not begin with a session header is no Aider history."""
    write(root, "My notes\n#### not a question\n")
    assert "expected `# aider chat started at" in run().refused[0].reason
    assert past() == []


def test_an_overlong_answer_is_cut_and_the_next_question_is_read(
    root: Path, run: Import, past: Past
) -> None:
    """An answer of many short lines is kept up to its limit."""
    answer = "".join(f"line {n}\n" for n in range(40_000))
    head = "# aider chat started at 2026-11-20 09:00:00\n\n"
    (root / HISTORY).write_text(f"{head}#### one\n\n{answer}\n#### two\n\nShort.\n")
    run()
    first, second = past()
    assert first.text.rstrip().endswith("line 24282") and "line 0\n" in first.text
    assert second.text.endswith("Short.")


def test_a_tracked_history_is_left_out(root: Path, run: Import, past: Past) -> None:
    """A history tracked by git came with the clone and is refused with a message; an untracked one
    is taken."""
    (root / HISTORY).write_text(AIDER)
    git(root, "add", "-f", HISTORY)
    git(root, "commit", "-qm", "forged")
    report = run()
    assert (past(), report.refused, report.files) == ([], [], 0)
    assert [note.partition(HISTORY)[2] for note in report.notes] == [f": {NOT_YOURS}"]
    git(root, "rm", "-q", "--cached", HISTORY)
    assert run().added == 2


def test_a_link_in_its_place_is_left_out(root: Path, run: Import) -> None:
    """A history that is a link to a tracked file is ignored."""
    (root / "docs.md").write_text(AIDER)
    (root / HISTORY).symlink_to("docs.md")
    report = run()
    assert (report.added, report.refused) == (0, [])
    assert report.notes[0].endswith("left out, no regular file")


def test_where_git_cannot_say_it_is_left_out(
    root: Path, run: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer from git, no history is believed to be the user's own."""
    (root / HISTORY).write_text(AIDER)
    monkeypatch.setenv("PATH", os.devnull)
    assert (
        run().notes[0].endswith("left out, git cannot say whether it came with the repository")
    )


def test_a_plain_folder_has_a_history(tmp_path: Path, own_home: Path) -> None:
    """Without git, the history is read."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / HISTORY).write_text(AIDER)
    with Store.open(find_root(folder), user_data_dir=own_home / "data") as store:
        places = AgentFolders(own_home, {}, store.root.path)
        assert import_sessions(store, places, now=4_000_000_000.0).added == 2
