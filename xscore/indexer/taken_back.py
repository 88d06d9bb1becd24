"""Paths that a repository's `.gitignore` takes back: code of its own in a folder whose name says vendored.

`!vendor/mine/` says that somebody chose to keep it. Only the file at the top is read, and only what
git tracks counts. Trade-off: of the rules only those that name a vendored folder are part of the
index's profile, since a change of them reads every file again.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from xscore.indexer.discovery import LISTING_S, read_ignore_rules
from xscore.platform.git import run_git
from xscore.platform.paths import RepositoryRoot, portable_name

if TYPE_CHECKING:
    from xscore.platform.globs import GlobList


class TakenBack:
    """What one repository takes back."""

    def __init__(self, root: RepositoryRoot, *, git: bool) -> None:
        self._root, self._has_git = root, git and root.is_git

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The rules that take back a vendored folder, in order."""
        lines = read_ignore_rules(self._root.path / ".gitignore") if self._has_git else []
        taken_back = [line for line in lines if line.startswith("!")]
        if not taken_back:
            return ()
        from xscore.indexer.admission import is_vendored  # in most turns no file is admitted

        return tuple(line for line in taken_back if is_vendored(f"{line[1:].strip('/')}/x"))

    def holds(self, path: str) -> bool:
        """Whether a file is taken back, and tracked."""
        return bool(self.rules) and self._globs.verdict(path) is False and path in self._tracked

    @cached_property
    def _globs(self) -> "GlobList":
        from xscore.platform.globs import GlobList, is_glob  # few repositories have such a rule

        return GlobList(filter(is_glob, read_ignore_rules(self._root.path / ".gitignore")))

    @cached_property
    def _tracked(self) -> frozenset[str]:
        printed = run_git(self._root.path, "ls-files", "-c", "-z", timeout_s=LISTING_S) or ""
        return frozenset(map(portable_name, printed.split("\0")))
