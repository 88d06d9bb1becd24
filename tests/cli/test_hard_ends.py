"""Ends that leave no time or no room: signals before anything has begun, streams that take nothing, odd places."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo

pytestmark = pytest.mark.verify

FILES = {"a.py": "def f() -> int:\n    return 1\n"}


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5])
def test_sigterm_at_the_very_start_is_an_interrupt(make_repo: MakeRepo, after_s: float) -> None:
    """However early it comes, SIGTERM ends with 130 and, under --json, one object; unless Python itself was not up."""
    root = make_repo(FILES)
    process = subprocess.Popen(
        [sys.executable, "-m", "xscore", "ask", "-", "--judge", "lexical", "--no-answer", "--json"],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    while b"xscore" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode in (130, -signal.SIGTERM)
    if process.returncode == 130:
        assert json.loads(out)["error"]["code"] == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_stdout_under_json_is_said_on_stderr(make_repo: MakeRepo) -> None:
    """Standard output that takes nothing: one line and exit 2, no traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "xscore", "ask", "f", "--judge", "lexical", "--no-answer", "--json"],
            cwd=make_repo(FILES),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert "standard output cannot be written" in done.stderr and "Traceback" not in done.stderr


def test_scores_are_not_written_over_the_store(make_repo: MakeRepo, xscore: Run) -> None:
    """`--all-scores` into the store's own folder is refused before anything is done."""
    root = make_repo(FILES)
    xscore("index", cwd=root)
    before = (root / ".xscore" / "memory.db").read_bytes()
    for name in (".xscore/memory.db", ".xscore/scores.jsonl"):
        done = xscore("ask", "f", "--judge", "lexical", "--all-scores", name, cwd=root)
        assert done.returncode == 2 and "store's own folder" in done.stderr
    assert (root / ".xscore" / "memory.db").read_bytes() == before


def test_a_script_that_is_a_pipe_is_not_waited_for(make_repo: MakeRepo, xscore: Run, tmp_path: Path) -> None:
    """`scripted:` wants a plain file."""
    os.mkfifo(tmp_path / "pipe")
    done = xscore("ask", "f", "--judge", f"scripted:{tmp_path / 'pipe'}", "--no-answer", cwd=make_repo(FILES))
    assert done.returncode == 2 and "no plain file" in done.stderr
