"""Start a process that outlives this one. It is not waited for, and it says nothing.

It is a file of its own because starting processes imports more than most commands need. Trade-off:
what becomes of the process is known only by what it leaves in a store.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path


def start_xscore(words: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> int:
    """Run an xscore command in a session of its own; return its process id.

    variables: added to this process's environment. Raises OSError.
    """
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "xscore", *words],
        cwd=folder,
        env={**safe_environment(), **variables},
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
    )
    # No zombie in a long-lived caller.
    threading.Thread(target=process.wait, name="xscore-reaper", daemon=True).start()
    return process.pid


def safe_environment() -> dict[str, str]:
    """Return the environment without relative entries in `PYTHONPATH`: through them a repository
    could run its code."""
    environment = dict(os.environ)
    if "PYTHONPATH" in environment:
        places = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(filter(os.path.isabs, places))
    return environment
