"""A repository whose history says that a module, its test and a document change together."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Run, xscore
from tests.conftest import git, write_files
from tests.histories import NewCommit, write_commits

__all__ = ["Run", "xscore"]

CACHE = '''"""Keep values."""


def read_entry(name):
    """Return an entry."""
    return {}[name]


def drop_entry(name):
    """Forget an entry."""
    return name
'''
FILES = {
    "shop/cache.py": CACHE,
    "shop/prices.py": '"""Prices."""\n\n\ndef price_of(item):\n    return 1\n',
    "tests/test_cache.py": (
        "from shop.cache import read_entry\n\n\ndef test_read():\n    assert read_entry\n"
    ),
    "docs/cache.md": "# Cache\n\nCall `drop_entry` to forget one.\n",
    "docs/prices.md": "# Prices\n\nAll are one.\n",
    "CHANGELOG.md": "# Changes\n\n- `drop_entry` is new.\n",
    "README.md": "# Shop\n\nSells things; read docs/cache.md.\n",
    "settings.toml": "[shop]\nrate = 1\n",
}
Commit = Callable[..., str]


def commit_files(root: Path, files: Mapping[str, str], message: str = "more") -> str:
    """Write files and commit everything; return the commit."""
    write_files(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD").strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Ten commits that touch `cache.py` and its test, and ten that touch other files."""
    now = time.time()
    commits = [NewCommit("start", FILES, now)]
    test = FILES["tests/test_cache.py"]
    for number in range(10):
        line = f"# step {number}\n"
        together = {"shop/cache.py": CACHE + line, "tests/test_cache.py": test + line}
        commits.append(NewCommit("more", together, now))
        apart = {"docs/prices.md": f"# Prices\n\nAll are {number}.\n"}
        commits.append(NewCommit("more", apart, now))
    return write_commits(tmp_path / "repo", commits)


def append(root: Path, name: str, text: str) -> None:
    """Add text to a file, without a commit."""
    place = root / name
    place.write_text(place.read_text() + text)
