"""`xscore store encrypt` and `decrypt`, end to end (P04)."""

import json
from pathlib import Path

import pytest

from tests.cli.basket import script_flags
from tests.cli.conftest import Run
from tests.conftest import MakeRepo, store_dir
from tests.programs import run

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
    return make_repo(
        {
            "net.py": text,
            "test_net.py": "from net import retry\n\ndef test_it():\n    assert retry()\n",
        }
    )


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Write a script for both models."""
    rules = [{"entity": "retry", "score": 0.9}]
    return script_flags(
        tmp_path / "script.json", {"default": 0.1, "answer": "It counts.", "rules": rules}
    )


def says(*folders: Path) -> list[str]:
    """Return the database files below these folders that contain the planted words."""
    files = [
        file
        for folder in folders
        for file in folder.rglob("*")
        if ".db" in file.name and file.is_file()
    ]
    assert files
    return [file.name for file in files if PLANTED.encode() in file.read_bytes()]


def test_a_whole_turn_on_encrypted_stores(
    xscore: Run, shop: Path, own_home: Path, scripted: tuple[str, ...]
) -> None:
    """P04: index, ask by model and by lexical judge, remember a preference: no planted word in any
    database."""
    assert xscore("index", cwd=shop).returncode == 0
    assert says(store_dir(shop)) == ["memory.db"]
    done = xscore("store", "encrypt", "--all", "--json", cwd=shop)
    assert done.returncode == 0, done.stderr
    stores = json.loads(done.stdout)["stores"]
    assert {Path(store["path"]).name: store["is_encrypted"] for store in stores} == {
        "memory.db": True,
        "user.db": True,
    }
    assert "without it this cannot be read again" in done.stderr
    liked = (
        "memory",
        "add",
        PLANTED,
        "--layer",
        "user",
        "--kind",
        "preference",
        "--key",
        "birds",
    )
    assert xscore(*liked, cwd=shop).returncode == 0
    first = xscore("ask", TASK, *scripted, "--json", cwd=shop)
    assert first.returncode == 0, first.stderr
    repeated = json.loads(xscore("ask", TASK, *scripted, "--json", cwd=shop).stdout)
    assert repeated["coverage"]["cached"] == repeated["coverage"]["candidates"] > 0
    lexical = xscore("context", "retry herons", "--judge", "lexical", cwd=shop)
    assert PLANTED in lexical.stdout, lexical.stderr
    assert says(store_dir(shop), own_home) == []
    assert all(not Path(store["path"]).read_bytes().startswith(HEADER) for store in stores)


def test_a_missing_extra_is_exit_6(xscore: Run, shop: Path) -> None:
    """The error says what to install, and mentions neither damage nor a rebuild."""
    xscore("store", "encrypt", cwd=shop)
    without = run("memory", "list", cwd=shop, program=("-c", WITHOUT))
    assert without.returncode == 6 and "[crypt]" in without.stderr
    assert not any(word in without.stderr for word in ("damaged", "rebuild", "Traceback"))
