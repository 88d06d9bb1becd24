"""Abrupt ends: signals before start-up has finished, streams that accept nothing, odd folders."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo

pytestmark = pytest.mark.verify

FILES = {"a.py": "def f() -> int:\n    return 1\n"}


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.5])
def test_sigterm_at_the_very_start_is_an_interrupt(make_repo: MakeRepo, after_s: float) -> None:
    """SIGTERM at any time exits with 130 and, under --json, one object, unless Python itself had not started."""
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
