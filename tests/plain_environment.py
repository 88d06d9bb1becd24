"""The packages of a plain install, which has what `ci/locks/run.txt` names and no extra.

Links to their files form an environment of their own, and Python is started without its own site
folder, so every other package is really missing. Trade-off: only what a real installation does
with files (`ci/try-wheel`) is not shown here.
"""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
_LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[.*?\])?==", re.MULTILINE)


class PlainEnvironment:
    """An environment without any extra."""

    def __init__(self, folder: Path) -> None:
        self.packages: Path = folder / "packages"
        self.home: Path = folder / "home"
        self.packages.mkdir()
        self.home.mkdir()
        locked = _LOCKED.findall((ROOT / "ci/locks/run.txt").read_text("utf-8"))
        for name in ("xscore", *locked):
            self._link(name)

    def _link(self, name: str) -> None:
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another system
            return
        for file in package.files or ():
            top = file.parts[0]
            link = self.packages / top
            if top != ".." and not top.endswith(".pth") and not link.is_symlink():
                link.symlink_to(str(package.locate_file(top)))

    def python(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run Python in it, with a home of its own and no input."""
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(self.packages))),
        }
        return subprocess.run(
            [sys.executable, "-S", *arguments],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def xscore(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run xscore in it."""
        return self.python("-m", "xscore", *arguments, cwd=cwd)
