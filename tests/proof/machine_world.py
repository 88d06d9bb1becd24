"""The repository that the state machine edits, and the score that each of its contents truly has.

The machine knows what it wrote, so it can tell what must be a candidate without asking the index. A true score is a
function of path, name, lines and task alone: that of the best line, so that a memory judged in parts has the score it
has whole; and never 0, so that a 0 anywhere is an unreadable reply that was taken for one.
"""

import os
import re
from pathlib import Path

from msgspec import Struct, field

from tests.conftest import git
from xscore.platform.hashing import digest

PATHS = ("app.py", "lib/load.py", "lib/save.py", "lib/deep/send.py")
NAMES = ("load", "save", "parse", "send")
LONG = 99
"""A body that is larger than a small pack."""
BODIES = (0, 1, 2, LONG)

_PART = re.compile(r" part \d+/\d+$")
Functions = list[tuple[str, int]]
"""Name and body, in the order of the file."""


def true_score(path: str, entity: str, text: str, task: str) -> int:
    """Return the one right score, 1..100: about a third of small functions reach 70."""
    name = _PART.sub("", entity)
    lines = {line.strip() for line in text.splitlines() if line.strip()}
    return max((_line_score(path, name, line, task) for line in lines), default=1)


def _line_score(path: str, name: str, line: str, task: str) -> int:
    return 1 + int(99 * (int(digest(path, name, line, task)[:8], 16) / 2**32) ** 4)


def source_of(name: str, body: int) -> str:
    """Write one function."""
    long = "".join(f"\n    x{n} = {n} + 1" for n in range(80)) if body == LONG else ""
    return f'def {name}() -> int:\n    """Do it {body} times."""{long}\n    return {body}'


class World(Struct):
    """The working tree and its branches."""

    root: Path
    files: dict[str, Functions] = field(default_factory=dict)
    branches: dict[str, dict[str, Functions]] = field(default_factory=dict)
    branch: str = "main"
    touches: int = 0

    def begin(self) -> None:
        """Make the repository with two files and something to read."""
        self.root.mkdir()
        git(self.root, "init", "-q")
        (self.root / "README.md").write_text("# Shop\n\nSells things.\n\n## Discounts\n\nA tenth off.\n")
        self.put("app.py", [("load", 0), ("send", 1)])
        self.put("lib/load.py", [("load", 0), ("parse", 2)])
        self.commit()

    def put(self, path: str, functions: Functions) -> None:
        """Write a file; without functions, delete it."""
        place = self.root / path
        if not functions:
            place.unlink(missing_ok=True)
            self.files.pop(path, None)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        whole = "\n\n\n".join(source_of(name, body) for name, body in functions)
        place.write_text(f'"""What {path} holds."""\n\n\n{whole}\n')
        self.files[path] = list(functions)

    def write(self, path: str, name: str, body: int) -> None:
        """Change a function, or add it."""
        others = [function for function in self.files.get(path, []) if function[0] != name]
        self.put(path, [*others, (name, body)])

    def repeat(self, path: str) -> None:
        """Define the first function of a file twice."""
        self.put(path, [*self.files[path], self.files[path][0]])

    def rename(self, path: str, new: str) -> None:
        """Give the first function of a file another name."""
        (_, body), *others = self.files[path]
        self.put(path, [(new, body), *others])

    def delete(self, path: str) -> None:
        """Delete the first function of a file, and the file with its last one."""
        self.put(path, self.files[path][1:])

    def move(self, path: str, to: str) -> None:
        """Move a whole file, over what was there."""
        functions = self.files[path]
        self.put(path, [])
        self.put(to, functions)

    def touch(self, path: str) -> None:
        """Give a file a time that it never had; its bytes stay."""
        self.touches += 1
        at = 1_000_000_000 + self.touches * 1_000
        os.utime(self.root / path, (at, at))

    def commit(self) -> None:
        """Commit everything."""
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "change", "--allow-empty")
        self.branches[self.branch] = _copy(self.files)

    def switch(self, branch: str) -> None:
        """Commit, then go to another branch, making it where there is none."""
        self.commit()
        if branch not in self.branches:
            git(self.root, "switch", "-qc", branch)
            self.branches[branch] = _copy(self.files)
        elif branch != self.branch:
            git(self.root, "switch", "-q", branch)
        self.branch = branch
        self.files = _copy(self.branches[branch])

    def functions(self) -> dict[tuple[str, str], list[str]]:
        """Return the sources of every function by path and name; a name defined twice has two."""
        found: dict[tuple[str, str], list[str]] = {}
        for path, functions in self.files.items():
            for name, body in functions:
                found.setdefault((path, name), []).append(source_of(name, body))
        return found


def _copy(files: dict[str, Functions]) -> dict[str, Functions]:
    return {path: list(functions) for path, functions in files.items()}
