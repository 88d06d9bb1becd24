"""`xscore` as a process at a host of either dialect: to the end, or to be killed, or under a clock of its own."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.proof import faults_clock
from tests.proof.faults_scene import ANSWERER, JUDGE, KEYS, URLS

PATIENCE_S = 60.0


def environment_at(dialect: str, url: str, *, key: str = "", probe: bool = False) -> dict[str, str]:
    """The environment of a user whose models are at this host."""
    keys = {KEYS[dialect]: key} if key else {}
    return {**os.environ, **keys, URLS[dialect]: url, "XSCORE_JUDGE_PROBE": str(int(probe))}


def models_of(dialect: str) -> tuple[str, ...]:
    """The flags that name judge and answerer."""
    return ("--judge", f"{dialect}:{JUDGE}", "--model", f"{dialect}:{ANSWERER}")


def begin(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, jumps: str = ""
) -> subprocess.Popen[str]:
    """Start a command in a process group of its own. jumps: what `faults_clock` does to its wall clock."""
    program = [faults_clock.__file__, jumps] if jumps else ["-m", "xscore"]
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env=dict(os.environ if environ is None else environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, jumps: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    process = begin(*arguments, cwd=cwd, environ=environ, jumps=jumps)
    out, err = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a running process brings about."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def rows(root: Path, table: str) -> int:
    """Count what a table of the store holds; 0 before there is one."""
    path = root / ".xscore" / "memory.db"
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:  # the process under test is just making it
        return 0
    finally:
        connection.close()
