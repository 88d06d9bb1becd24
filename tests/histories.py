"""Writes many commits by one process: `git add` and `git commit` for each take thirty times as
long."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.conftest import git


class NewCommit(NamedTuple):
    """A commit to be written."""

    message: str
    files: Mapping[str, str | None]
    """Texts by path; None removes a file."""
    at_s: float


def write_commits(root: Path, commits: Iterable[NewCommit]) -> Path:
    """Make a folder a repository with these commits on its branch `main`."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "fast-import", "--quiet", stdin="".join(map(_command, commits)))
    git(root, "reset", "-q", "--hard")
    return root


def _command(commit: NewCommit) -> str:
    """Return the command of `git fast-import` for a commit."""
    lines = [
        "commit refs/heads/main",
        f"committer t <t@example.invalid> {commit.at_s:.0f} +0000",
        _data(f"{commit.message.strip()}\n"),
    ]
    for path, text in commit.files.items():
        if text is None:
            lines.append(f"D {path}")
        else:
            lines += [f"M 100644 inline {path}", _data(text)]
    return "\n".join([*lines, ""])


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"
