"""Diffs of git, of `diff -u` and of strangers: what is read, and what contributes nothing."""

import pytest

from xscore.extensions.checking import diff_reading
from xscore.extensions.checking.diff_reading import read_diff
from xscore.extensions.checking.records import ChangeStatus

GIT = """diff --git a/shop/cache.py b/shop/cache.py
index 1..2 100644
--- a/shop/cache.py
+++ b/shop/cache.py
@@ -1,3 +1,3 @@ def read():
 one
-two
+deux
 three
@@ -10,0 +11,2 @@
+ten
+eleven
"""


def test_changed_lines_and_where_they_are() -> None:
    """Lines are kept without their marks, spans count as after the change."""
    (file,) = read_diff(GIT).files
    assert (file.path, file.status) == ("shop/cache.py", ChangeStatus.MODIFIED)
    assert (file.removed, file.added) == (("two",), ("deux", "ten", "eleven"))
    assert file.spans == ((1, 2), (11, 12))


@pytest.mark.parametrize(
    ("head", "status", "path", "before"),
    [
        ("new file mode 100644\n--- /dev/null\n+++ b/x.py\n", ChangeStatus.ADDED, "x.py", ""),
        (
            "deleted file mode 100644\n--- a/x.py\n+++ /dev/null\n",
            ChangeStatus.DELETED,
            "x.py",
            "",
        ),
        ("old mode 100644\nnew mode 100755\n", ChangeStatus.MODIFIED, "x.py", ""),
        ("Binary files a/x.py and b/x.py differ\n", ChangeStatus.MODIFIED, "x.py", ""),
        ("deleted file mode 100644\nindex 1..0\n", ChangeStatus.DELETED, "x.py", ""),
        ("rename from old.py\nrename to x.py\n", ChangeStatus.RENAMED, "x.py", "old.py"),
        ("copy from old.py\ncopy to x.py\n", ChangeStatus.MODIFIED, "x.py", ""),
    ],
)
def test_what_happens_to_a_file(
    head: str, status: ChangeStatus, path: str, before: str
) -> None:
    """The head of a file says it, with or without lines."""
    (file,) = read_diff(f"diff --git a/x.py b/x.py\n{head}").files
    assert (file.status, file.path, file.before) == (status, path, before)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../up.py", "a/../../up.py", ".git/config", "x/.git/hooks/y"]
)
def test_names_that_lead_out_contribute_nothing(name: str) -> None:
    """Absolute names, those that lead up and git's own are left out and counted."""
    change = read_diff(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n" + GIT)
    assert [file.path for file in change.files] == ["shop/cache.py"]
    assert change.left_out == 1
    assert read_diff(f"diff --git {name} {name}\n--- {name}\n+++ {name}\n").files == ()


def test_a_line_of_text_is_no_head() -> None:
    """A hunk is read by its counts, whatever its lines look like."""
    text = (
        "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a/etc\n+++ b/etc\n diff --git a/y b/y\n"
    )
    (file,) = read_diff(text).files
    assert (file.path, file.removed, file.added) == ("x.sql", ("-- a/etc",), ("++ b/etc",))


def test_quoted_names() -> None:
    """git quotes odd names; bytes and controls are undone."""
    quoted = '"a/\\303\\244 \\"b\\".py"'
    text = f"diff --git {quoted} {quoted}\n--- {quoted}\n+++ {quoted.replace('a/', 'b/', 1)}\n"
    (file,) = read_diff(text).files
    assert file.path == 'ä "b".py'
    assert read_diff('diff --git "a/x\\ny" "b/x\\ny"\nold mode 1\n').left_out == 1


def test_a_diff_without_git() -> None:
    """`diff -u` has names with times, and no line of its own before them."""
    of_x = "--- x.py\t2026-01-01 00:00:00\n+++ x.py\t2026-01-02 00:00:00\n@@ -1 +1 @@\n-a\n+b\n"
    of_y = of_x.replace("x.py", "y.py")
    assert [file.path for file in read_diff(of_x + of_y).files] == ["x.py", "y.py"]


def test_a_message_above_the_diff() -> None:
    """What `git show` and `git format-patch` print first is the commit message."""
    change = read_diff(f"commit abc\n\n    Say less\n\n--- \n{GIT}")
    assert "Say less" in change.messages[0]
    assert len(change.files) == 1
    assert read_diff(GIT).messages == ()


def test_secrets_are_not_read() -> None:
    """The name of a file of secrets counts, its lines do not."""
    (file,) = read_diff("--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-A=1\n+A=2\n").files
    assert (file.path, file.added, file.removed) == (".env", (), ())


@pytest.mark.parametrize(
    "text", ["", "\n\n", "@@ -1 +1 @@\n-a\n+b\n", "--- a\n", "diff --git \n"]
)
def test_no_diff_is_no_change(text: str) -> None:
    """What names no file changes none."""
    assert read_diff(text).files == ()


def test_a_hundred_thousand_lines_are_bounded() -> None:
    """Lines and files beyond the bounds are not kept, and long lines are cut."""
    lines = "".join(f"+line {number} {'x' * 500}\n" for number in range(100_000))
    heads = "".join(
        f"diff --git a/f{number} b/f{number}\nold mode 1\n" for number in range(9_000)
    )
    change = read_diff(f"--- a/x\n+++ b/x\n@@ -0,0 +1,100000 @@\n{lines}{heads}")
    assert len(change.files) == diff_reading.MOST_FILES
    assert len(change.files[0].added) == diff_reading.MOST_LINES
    assert max(map(len, change.files[0].added)) == diff_reading.LONGEST_LINE
    assert change.left_out == 9_001 - diff_reading.MOST_FILES


def test_counts_of_a_hunk_may_lie() -> None:
    """A hunk that promises more lines than there are ends with the diff."""
    change = read_diff("--- a/x\n+++ b/x\n@@ -1,999999999 +1,999999999 @@\n+a\n")
    assert change.files[0].added == ("a",)
