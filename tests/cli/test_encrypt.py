"""`xscore store encrypt` and `decrypt`, end to end (P04)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run
from tests.conftest import MakeRepo

pytestmark = pytest.mark.verify

TASK = "why does the retry give up"
HEADER = b"SQLite format 3\0"
PLANTED = "herons count to seven"
WITHOUT = """
import sys
sys.modules["sqlcipher3"] = None
from xscore.cli.main import run_command_line
sys.argv = ["xscore", *sys.argv[1:]]
run_command_line()
"""


@pytest.fixture
def shop(make_repo: MakeRepo) -> Path:
    """Make a repository."""
    text = f'def retry():\n    """Give up late: {PLANTED}."""\n    return 7\n'
    return make_repo({"net.py": text, "test_net.py": "from net import retry\n\ndef test_it():\n    assert retry()\n"})


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Write a script for both models."""
    rules = [{"entity": "retry", "score": 0.9}]
    return script_flags(tmp_path / "script.json", {"default": 0.1, "answer": "It counts.", "rules": rules})


def says(*folders: Path) -> list[str]:
    """Return the database files below these folders that contain the planted words."""
    files = [file for folder in folders for file in folder.rglob("*") if ".db" in file.name and file.is_file()]
    assert files
    return [file.name for file in files if PLANTED.encode() in file.read_bytes()]


def test_a_whole_turn_on_encrypted_stores(xscore: Run, shop: Path, own_home: Path, scripted: tuple[str, ...]) -> None:
    """P04: index, ask by model and by lexical judge, remember a preference: no planted word in any database."""
    assert xscore("index", cwd=shop).returncode == 0
    assert says(shop / ".xscore") == ["memory.db"]
    done = xscore("store", "encrypt", "--all", "--json", cwd=shop)
    assert done.returncode == 0, done.stderr
    stores = json.loads(done.stdout)["stores"]
    assert {Path(each["path"]).name: each["is_encrypted"] for each in stores} == {"memory.db": True, "user.db": True}
    assert "without it this cannot be read again" in done.stderr
    liked = ("memory", "add", PLANTED, "--layer", "user", "--kind", "preference", "--key", "birds")
    assert xscore(*liked, cwd=shop).returncode == 0
    first = xscore("ask", TASK, *scripted, "--json", cwd=shop)
    assert first.returncode == 0, first.stderr
    again = json.loads(xscore("ask", TASK, *scripted, "--json", cwd=shop).stdout)
    assert again["coverage"]["cached"] == again["coverage"]["candidates"] > 0
    lexical = xscore("context", "retry herons", "--judge", "lexical", cwd=shop)
    assert PLANTED in lexical.stdout, lexical.stderr
    assert says(shop / ".xscore", own_home) == []
    assert all(not Path(each["path"]).read_bytes().startswith(HEADER) for each in stores)


def test_missing_and_wrong_keys_and_the_missing_extra_are_exit_6(xscore: Run, shop: Path, own_home: Path) -> None:
    """Each error says what happened and what to do; none mentions damage or a rebuild."""
    xscore("store", "encrypt", cwd=shop)
    (key,) = own_home.rglob("store.key")
    right = key.read_text()
    environment = {**os.environ, "HOME": str(own_home)}
    without = subprocess.run(
        [sys.executable, "-c", WITHOUT, "memory", "list"],
        cwd=shop,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    key.write_text("00" * 32)
    wrong = xscore("memory", "list", cwd=shop)
    key.unlink()
    missing = xscore("ask", TASK, "--judge", "lexical", cwd=shop)
    for done, words in ((without, "[crypt]"), (wrong, "your key is"), (missing, "is missing")):
        assert done.returncode == 6, done.stderr
        assert words in " ".join(done.stderr.split())
        assert not any(word in done.stderr for word in ("damaged", "rebuild", "Traceback", right))
    key.touch(0o600)
    key.write_text(right)
    assert xscore("memory", "list", cwd=shop).returncode in (0, 1)
