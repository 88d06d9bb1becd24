"""The change that is checked: what git says about a revision, or a diff from a file or pipe.

`HEAD` means everything that is not committed, staged or not, new files included; `REV` what the
working tree has and REV has not, as `git diff REV`; `A..B` and `A...B` the difference of two
commits, the latter from where B parted from A. Trade-off: the index is that of the
working tree, so a difference of two commits is checked against what is checked out.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from xscore.extensions.checking.diff_reading import MAX_PATCH_CHARS, MOST_LINES, read_diff
from xscore.extensions.checking.records import Change, ChangeStatus, FileChange
from xscore.platform.errors import UsageError
from xscore.platform.files import FileRefused, opened_folder, read_file_under
from xscore.platform.git import (
    commit_messages,
    commit_named,
    is_shallow,
    merge_base,
    new_files,
    working_diff,
)
from xscore.platform.git_folder import bare_repository
from xscore.platform.paths import RepositoryRoot, portable_name
from xscore.store.redaction import is_safe_name, is_secret_file

UNCOMMITTED = "HEAD"
"""The name of what is not committed, in place of a revision."""
MOST_MESSAGES = 200
MOST_NEW_FILES = 200
MAX_NEW_FILE_BYTES = 200_000
_NO_GIT = "Give the diff itself: `git diff | xscore check --diff -`."


def change_since(root: RepositoryRoot, revision: str) -> Change:
    """Return the change since a revision. Raises UsageError if git cannot tell it."""
    if not root.is_git:
        raise UsageError(_without_git(root), hint=_NO_GIT)
    first, dots, second = _split_range(revision)
    base = _commit(root, first or UNCOMMITTED)
    if not dots:
        messages = commit_messages(root.path, base, UNCOMMITTED, limit=MOST_MESSAGES)
        change = read_diff(working_diff(root.path, (base,)).patch, base=base, messages=messages)
        return _with_new_files(change, root)
    tip = _commit(root, second or UNCOMMITTED)
    if dots == "...":
        parted = merge_base(root.path, base, tip)
        if not parted:
            raise UsageError(
                f"{first} and {second} have no commit in common",
                hint="Fetch more history, or write two dots.",
            )
        base = parted
    messages = commit_messages(root.path, base, tip, limit=MOST_MESSAGES)
    return read_diff(working_diff(root.path, (base, tip)).patch, base=base, messages=messages)


def _without_git(root: RepositoryRoot) -> str:
    if root.claims_git and not bare_repository(root.path):
        return (
            f"git is not used in {root.path}: its .git leads out of this folder (by a link, shared"
            " objects or an included file)"
        )
    return f"{root.path} is not a git repository"


def change_given(root: RepositoryRoot, diff: str) -> Change:
    """Return the change that a diff makes; history is read from HEAD."""
    base = commit_named(root.path, UNCOMMITTED) if root.is_git else ""
    change = read_diff(diff, base=base)
    if diff.strip() and not change.files and not change.left_out:
        raise UsageError(
            "the input is not a diff",
            hint="Give the output of `git diff`, `git show` or `diff -u`.",
        )
    return change


def _split_range(revision: str) -> tuple[str, str, str]:
    for dots in ("...", ".."):
        first, found_dots, second = revision.partition(dots)
        if found_dots:
            return first, dots, second
    return revision, "", ""


def _commit(root: RepositoryRoot, name: str) -> str:
    commit = commit_named(root.path, name)
    if commit:
        return commit
    if name == UNCOMMITTED:
        raise UsageError("there is no commit yet to compare with", hint="Commit first.")
    hint = "Name a commit, branch or tag; `-` reads a diff from standard input."
    if is_shallow(root.path):
        hint = "This clone is shallow: fetch the commit, or check out with `fetch-depth: 0`."
    raise UsageError(f"git has no commit `{name}`", hint=hint)


def _with_new_files(change: Change, root: RepositoryRoot) -> Change:
    """Add the files that git does not track yet: they belong to the change."""
    touched = change.paths
    added: list[FileChange] = []
    for name in new_files(root.path)[:MOST_NEW_FILES]:
        path = portable_name(name)
        if path not in touched and is_safe_name(path):
            lines = tuple(_lines_of(root, name))
            status = ChangeStatus.ADDED
            spans = ((1, max(len(lines), 1)),)
            added.append(FileChange(path=path, status=status, added=lines, spans=spans))
    patch = change.patch + "".join(map(_as_patch, added))
    return replace(change, files=(*change.files, *added), patch=patch[:MAX_PATCH_CHARS])


def _as_patch(file: FileChange) -> str:
    lines = "".join(f"+{line}\n" for line in file.added)
    head = f"diff --git a/{file.path} b/{file.path}\nnew file mode 100644\n--- /dev/null\n"
    return f"{head}+++ b/{file.path}\n@@ -0,0 +1,{len(file.added)} @@\n{lines}"


def _lines_of(root: RepositoryRoot, name: str) -> Iterable[str]:
    if is_secret_file(name):
        return ()
    try:
        with opened_folder(root.path) as top:
            data = read_file_under(top, name, max_bytes=MAX_NEW_FILE_BYTES)
    except (FileRefused, OSError):
        return ()
    if b"\0" in data:
        return ()
    return data.decode("utf-8", "replace").splitlines()[:MOST_LINES]
