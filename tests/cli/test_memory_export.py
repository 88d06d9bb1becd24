"""`xscore memory export -o FILE`: a private file, complete or not written."""

import json
import os
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from xscore.platform.errors import UsageError
from xscore.platform.files import write_atomically


@pytest.fixture
def kept(xscore: Run, tmp_path: Path) -> Path:
    """A folder with one memory."""
    assert xscore("memory", "add", "lint before pushing", "--kind", "todo", cwd=tmp_path).returncode == 0
    return tmp_path


def test_a_file_that_others_could_read_is_for_the_user_alone(xscore: Run, kept: Path) -> None:
    """P06: an existing file of mode 0644 becomes 0600; a process that had it open still reads the old content."""
    file = kept / "out.jsonl"
    file.write_text("before\n")
    file.chmod(0o644)
    with file.open() as reader:
        assert xscore("memory", "export", "-o", str(file), cwd=kept).returncode == 0
        assert reader.read() == "before\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["text"] == "lint before pushing"


def test_what_stood_there_stays_where_the_file_cannot_be_replaced(tmp_path: Path) -> None:
    """P06: a folder in its place is left unchanged, with no new file beside it."""
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write_atomically(tmp_path / "out", b"half", mode=0o600)
    assert [place.name for place in tmp_path.iterdir()] == ["out"]


def test_links_and_pipes_are_written_through(tmp_path: Path) -> None:
    """P06: a link stays a link, a pipe a pipe; a missing folder is a usage error."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "x"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=write_atomically, args=(tmp_path / "pipe", b"y"))
    writer.start()
    assert (tmp_path / "pipe").read_text() == "y"
    writer.join(5)
    with pytest.raises(UsageError):
        write_atomically(tmp_path / "none" / "file", b"z")


def test_lines_or_one_object(xscore: Run, kept: Path) -> None:
    """P06: `--json` prints one object with the same memories; an empty store is no error, an unmatched filter is."""
    (line,) = xscore("memory", "export", cwd=kept).stdout.splitlines()
    assert json.loads(xscore("memory", "export", "--json", cwd=kept).stdout)["memories"] == [json.loads(line)]
    nothing = xscore("memory", "export", "--kind", "decision", cwd=kept)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    (kept / "empty" / ".git").mkdir(parents=True)
    assert xscore("memory", "export", cwd=kept / "empty").returncode == 0


def test_a_file_writes_the_users_own_layer_only_when_that_is_named(xscore: Run, tmp_path: Path) -> None:
    """P06: a line of the user layer (valid everywhere) is refused, and accepted when named."""
    xscore("memory", "add", "run what README says", "--kind", "preference", "--key", "runner", cwd=tmp_path)
    (tmp_path / "theirs.jsonl").write_text(line := xscore("memory", "export", "--layer", "user", cwd=tmp_path).stdout)
    assert xscore("memory", "delete", json.loads(line)["id"], cwd=tmp_path).returncode == 0
    refused = xscore("memory", "import", "theirs.jsonl", cwd=tmp_path)
    assert "imported 0 memories" in refused.stdout and "1 line of your own layer" in refused.stderr
    assert "imported 1" in xscore("memory", "import", "theirs.jsonl", "--layer", "user", cwd=tmp_path).stdout
