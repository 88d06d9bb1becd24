"""Which recorded folders belong to this repository, and how a file that was changed there is called from its root.

A folder counts when the repository around it is this one: worktrees, nested repositories and neighbours with a similar
name are others. Trade-off: a folder that is gone is judged by the nearest one above it that is there.
"""

import os

from xscore.paths import Root, find_root, portable
from xscore.sessions.conversation import joined


class Place:
    """The repository as recorded folders see it."""

    def __init__(self, root: Root) -> None:
        self._root = root.path
        self._known: dict[str, bool] = {}

    def holds(self, cwd: str) -> bool:
        """Whether a recorded folder is the root or lies inside it, and in no other repository."""
        if cwd not in self._known:
            self._known[cwd] = self._looks(cwd)
        return self._known[cwd]

    def within(self, cwd: str, path: str) -> str:
        """Name a file from the root, as the index does; empty: it lies elsewhere."""
        if not cwd.startswith("/") or "\0" in cwd + path:
            return ""
        own, full = f"{self._root}{os.sep}", joined(cwd, path)
        if not full.startswith(own):
            full = os.path.realpath(full)
        return portable(full.removeprefix(own)) if full.startswith(own) else ""

    def _looks(self, cwd: str) -> bool:
        if not cwd.startswith("/") or "\0" in cwd:
            return False
        real = os.path.realpath(cwd)
        if real != str(self._root) and not real.startswith(f"{self._root}{os.sep}"):
            return False
        return real == str(self._root) or find_root(self._root / real).path == self._root
