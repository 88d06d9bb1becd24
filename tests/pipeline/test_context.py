"""What completes a turn: the current state, minus what must not leave the machine."""

import os
import time
from pathlib import Path
from typing import Any

from tests.conftest import MakeRepo, git
from xscore.indexer.index import index_repository
from xscore.pipeline.uncommitted import (
    MAX_DIFF_CHARS,
    MAX_FILE_CHARS,
    MAX_TASK_CHARS,
    UncommittedWork,
    complete_turn,
    edited_lines,
    uncommitted_work,
)
from xscore.platform.database import open_in_memory
from xscore.platform.paths import find_root
from xscore.records.turn import Turn
from xscore.settings import IndexSettings
from xscore.store.opening import SCHEMA

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA3cE5"


def completed(root: Path, turn: Turn, **settings: Any) -> Turn:
    """Return the turn as used in prompts."""
    place = find_root(root)
    connection = open_in_memory(SCHEMA)
    index_repository(connection, place, IndexSettings(**settings), now=time.time() + 3600)
    work = uncommitted_work(connection, place, IndexSettings(**settings), now=time.time())
    return complete_turn(turn, place, work=work)


def test_a_file_of_secrets_is_shown_neither_as_current_file_nor_in_the_diff(
    make_repo: MakeRepo,
) -> None:
    """`.env` and similar files are left out entirely, renamed ones too: no rule recognises a
    plain-word password."""
    root = make_repo(
        {
            "a.py": "one = 1\n",
            ".env": "FOO=plain\n",
            "my dir/prod.env": "FOO=plain\n" * 9,
            "key.pem": "x\n",
        }
    )
    (root / ".env").write_text("FOO=horse\n")
    (root / "a.py").write_text("one = 2\n")
    git(root, "mv", "my dir/prod.env", "settings.py")
    git(root, "rm", "-q", "key.pem")
    turn = completed(root, Turn(task="x", file=str(root / ".env")))
    assert turn.file == ".env"
    assert turn.file_text == ""
    assert "+one = 2" in turn.diff
    assert not any(word in turn.diff for word in ("horse", "plain", "key.pem"))


def test_a_file_whose_name_holds_a_secret_is_not_named(make_repo: MakeRepo) -> None:
    """Such a file is left out as current or recent file: names appear in prompts and in the
    store."""
    root = make_repo({"a.py": "", f"dump_{TOKEN}.py": ""})
    secret = str(root / f"dump_{TOKEN}.py")
    turn = completed(root, Turn(task="x", file=secret, recent=(secret, str(root / "a.py"))))
    assert (turn.file, turn.recent) == ("", ("a.py",))


def test_a_diff_that_is_handed_over_is_redacted_too(make_repo: MakeRepo) -> None:
    """Python callers get the same protection as the command line."""
    turn = completed(make_repo({"a.py": ""}), Turn(task="x", diff=f"+key = '{TOKEN}'\n"))
    assert turn.diff == "+key = '<SECRET:github_token>'\n"


def test_no_secret_is_cut_in_two_and_not_seen_for_one(make_repo: MakeRepo) -> None:
    """Long errors, files and diffs are redacted before they are shortened."""
    file, diff = (
        f"{'x ' * (MAX_FILE_CHARS // 2 - 5)}{TOKEN}",
        f"{'+ ' * (MAX_DIFF_CHARS // 2 - 5)}{TOKEN}",
    )
    root = make_repo({"a.py": file})
    errors = TOKEN + " y" * (MAX_TASK_CHARS // 2 - 10)
    turn = completed(root, Turn(task="x", errors=errors, diff=diff, file=str(root / "a.py")))
    for text in (turn.errors, turn.file_text, turn.diff):
        assert not any(TOKEN[at : at + 8] in text for at in range(len(TOKEN) - 7))


def test_a_current_file_of_odd_name_is_read(make_repo: MakeRepo) -> None:
    """A name that is not UTF-8, or has a percent sign, is found on disk."""
    root = make_repo({"100%FF.py": "percent = 1\n"})
    odd = os.fsdecode(b"b\xff.py")
    (root / odd).write_text("odd = 1\n")
    assert completed(root, Turn(task="x", file=str(root / odd))).file_text == "odd = 1\n"
    assert (
        completed(root, Turn(task="x", file=str(root / "100%FF.py"))).file_text
        == "percent = 1\n"
    )


def test_personal_data_goes_out_of_what_is_asked(shop: Path) -> None:
    """P03: tasks and errors are stored and sent, so they are screened; a setting turns this off."""
    turn = Turn(task="mail lena.koch@privat-post.de", errors="for lena.koch@privat-post.de")
    root = find_root(shop)
    screened = complete_turn(turn, root, work=UncommittedWork())
    assert "lena.koch" not in screened.task + screened.errors
    assert complete_turn(turn, root, work=UncommittedWork(), allow_pii=True).task == turn.task


def test_the_diff_holds_only_what_is_indexed(make_repo: MakeRepo) -> None:
    """Hunks of files excluded by glob, class or content are left out; deleted files are matched by
    name."""
    files = {
        f"{name}.{end}": "one\n"
        for name, end in (("a", "py"), ("private/b", "py"), ("c", "lock"), ("d", "py"))
    }
    root = make_repo(
        files | {"gone.py": "one\n", "private/gone.py": "one\n", "wide.py": "one\n"}
    )
    for name in files:
        (root / name).write_text("two\n")
    (root / "wide.py").write_text("x" * 9_000)
    (root / "gone.py").unlink()
    (root / "private" / "gone.py").unlink()
    git(root, "mv", "d.py", "private/d.py")
    turn = completed(root, Turn(task="x"), exclude=("private/",))
    named = [
        line[6:] for line in turn.diff.splitlines() if line.startswith(("--- a/", "+++ b/"))
    ]
    assert named == ["a.py", "a.py", "d.py", "gone.py"]


def test_a_file_moved_within_a_folder_named_like_a_prefix_keeps_its_name(
    make_repo: MakeRepo,
) -> None:
    """git writes `a/` before the names of a section, but not before those of a move: there it is a
    folder."""
    text = "one = 1\n" * 20
    root = make_repo({"a/kept.py": text, "b/kept.py": text + "two = 2\n"})
    git(root, "mv", "a/kept.py", "a/moved.py")
    git(root, "mv", "b/kept.py", "b/moved.py")
    turn = completed(root, Turn(task="x"), exclude=("b/",))
    assert "rename from a/kept.py" in turn.diff and "b/kept.py" not in turn.diff
    assert (
        "rename from" not in completed(root, Turn(task="x"), exclude=("a/kept.py", "b/")).diff
    )


def test_edited_lines_are_those_after_the_change(make_repo: MakeRepo) -> None:
    """Added lines by number, removed ones by the lines around them; moved lines are not edits."""
    root = make_repo({"a.py": "".join(f"line {number}\n" for number in range(1, 31))})
    lines = (root / "a.py").read_text().splitlines(keepends=True)
    (root / "a.py").write_text(
        "".join(["new\n", *lines[:9], "changed\n", *lines[10:24], *lines[25:]])
    )
    (changed,) = completed(root, Turn(task="x")).changed or ()
    assert changed.path == "a.py"
    assert changed.age_days == 0.0
    assert changed.lines == ((1, 1), (10, 11), (25, 26))
    assert edited_lines("no diff") == {}
