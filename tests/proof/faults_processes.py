"""`xscore` as a process at a host of either dialect: run to its end, killed, or under a jumping clock."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.proof import faults_clock
from tests.proof.faults_scene import ANSWERER, JUDGE, KEYS, URLS

PATIENCE_S = 60.0


def environment_at(dialect: str, url: str, *, key: str = "", probe: bool = False) -> dict[str, str]:
    """Return the environment of a user whose models are at this host."""
    keys = {KEYS[dialect]: key} if key else {}
    return {**os.environ, **keys, URLS[dialect]: url, "XSCORE_JUDGE_PROBE": str(int(probe))}


def models_of(dialect: str) -> tuple[str, ...]:
    """Return the flags for judge and answering model."""
    return ("--judge", f"{dialect}:{JUDGE}", "--model", f"{dialect}:{ANSWERER}")


def begin(
    *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, jumps: str = ""
) -> subprocess.Popen[str]:
    """Start a command in a new process group. jumps: what `faults_clock` does to its wall clock."""
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
