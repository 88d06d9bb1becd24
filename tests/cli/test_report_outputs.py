"""Where `xscore report` writes: refusals come before anything is written or printed."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo

SOURCE = "def total(lines):\n    return sum(lines)\n"


@pytest.fixture
def shop(make_repo: MakeRepo, xscore: Run) -> Path:
    """A repository of one function, asked about once in words with terminal escapes."""
    made = make_repo({"shop.py": SOURCE})
    assert xscore("context", "the total \x1b[31m", "--judge", "lexical", cwd=made).returncode == 0
    return made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "x.txt"], "no known suffix"),
        (["-o", "a.csv", "-o", "no/such/b.parquet"], "there is no such folder"),
        (["-o", "a.html", "-o", "notes.md"], "notes.md exists and is no earlier report"),
        (["--check", "--baseline", ""], "--baseline names no file"),
        (["--update-baseline", "--baseline", "-"], "--baseline names no file"),
        (["-o", "x.csv", "-o", "folder/../x.csv"], "name the same file"),
        (["-o", "x.csv", "-o", "link/x.csv"], "name the same file"),
        (["-o", "x.csv", "--check", "--baseline", "./x.csv"], "--output and --baseline name the same file"),
        (["-o", ".xscore/page.html"], "lies in a store's folder"),
        (["--update-baseline", "--baseline", "store/new/b.json"], "lies in a store's folder"),
        (["-o", "loop/a.html"], "cannot be written"),
        (["-o", "a.html", "--check", "--baseline", "none.json"], "there is no baseline"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_written_is_refused_first(shop: Path, xscore: Run, arguments: list[str], words: str) -> None:
    """Exit 2 with a message, nothing on stdout, and every file is unchanged."""
    (shop / "folder").mkdir()
    (shop / "notes.md").write_text("my notes")
    (shop / "link").symlink_to(".")
    (shop / "store").symlink_to(".xscore")
    (shop / "loop").symlink_to("loop")
    before = sorted(path.name for path in (*shop.iterdir(), *(shop / ".xscore").iterdir()))
    ran = xscore("report", *arguments, cwd=shop)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert (shop / "shop.py").read_text() == SOURCE
    assert sorted(path.name for path in (*shop.iterdir(), *(shop / ".xscore").iterdir())) == before


def test_what_was_written_earlier_is_replaced(shop: Path, xscore: Run) -> None:
    """Each output may overwrite its earlier file, as a daily script does; an empty file may be filled."""
    every = ("-o", "p.html", "-o", "t.csv", "-o", "t.parquet", "-o", "r.md")
    (shop / "p.html").touch()
    for grouped in ((), ("--by", "model"), ()):
        ran = xscore("report", *every, *grouped, cwd=shop)
        assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    ran = xscore("report", "--format", "html", cwd=shop)
    assert ran.stdout.startswith("<!doctype html>") and ran.stdout.endswith("</html>\n")


def test_a_turn_of_another_repository_is_found(shop: Path, xscore: Run, tmp_path: Path) -> None:
    """With --repo a turn may be in either ledger; the latest is that of the current repository."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "m.py").write_text(SOURCE)
    xscore("context", "elsewhere", "--judge", "lexical", cwd=other)
    away = xscore("history", "list", "--json", cwd=other).stdout.split('"id": "')[1].split('"')[0]
    ran = xscore("report", "--repo", str(other), "--turn", away[:12], "--format", "csv", cwd=shop)
    assert ran.stdout.splitlines()[1].startswith(away)
    latest = xscore("report", "--repo", str(other), "--turn", "latest", "--format", "csv", cwd=shop)
    assert "the total" in latest.stdout
