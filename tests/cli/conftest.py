"""Run the command line as a user does: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def xscore(own_home: Path) -> Run:
    """Run `xscore …` in a process and give back its streams and exit code; no terminal anywhere."""

    def run(
        *arguments: str, cwd: Path | None = None, stdin: str = "", environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOME": str(own_home), "COLUMNS": "100", **(environ or {})}
        return subprocess.run(
            [sys.executable, "-m", "xscore", *arguments],
            cwd=cwd,
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
