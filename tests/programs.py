"""`xscore` as a process of its own, in a new process group: started, or run to its end."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PATIENCE_S = 120.0


def begin(
    *arguments: str,
    cwd: Path,
    environ: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "xscore"),
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Start a command. environ: variables in addition to this process's own. program: what
    Python runs instead of `xscore`."""
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    *arguments: str,
    cwd: Path,
    stdin: str = "",
    environ: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "xscore"),
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. stdin: what it reads."""
    process = begin(
        *arguments, cwd=cwd, environ=environ, program=program, stdin=subprocess.PIPE
    )
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


_AS_AN_ORDINARY_USER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
if os.geteuid() == 0 and hasattr(libc, "prctl"):
    for may_read_anything in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        # PR_CAPBSET_DROP: what is executed next has neither.
        libc.prctl(24, may_read_anything, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""


def run_without_root_powers(code: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code as a process for which file modes hold, also where the tests are run by
    root."""
    return run(code, cwd=cwd, program=("-c", _AS_AN_ORDINARY_USER))
