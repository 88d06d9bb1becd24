"""A stranger's Parquet file, read once to its end by a process of its own with little memory and time, before we do.

Among files that differ from a good one in a single byte are some at which the reader ends its whole process, or takes
all memory. So the trial is a child; the file that it got through, checked value by value, is read again by us, the same
bytes. This file is also the child's program. Trade-off: the start of the child takes a second and the file is read
twice; where the system keeps no limit of memory (macOS), only the time is limited.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import IO

from xscore.errors import UsageError

MEMORY_BYTES = 3_000_000_000
TIME_S = 120
_REFUSED = 2


def tried(file: IO[bytes], *, name: Path, at_most: int) -> int:
    """Return how many rows the file has, each checked. Raises UsageError for one that cannot be read."""
    file.seek(0)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "xscore.cache.exchange_trial", str(name), str(at_most)],
        stdin=file,
        capture_output=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},  # each thread sets memory aside
        check=False,
    )
    if done.returncode == 0:
        return int(done.stdout)
    if done.returncode == _REFUSED:
        message, _, hint = done.stdout.decode("utf-8", "replace").partition("\n")
        raise UsageError(message, hint=hint)
    raise UsageError(
        f"{name} cannot be read as Parquet within {MEMORY_BYTES // 1_000_000_000} GB and {TIME_S} s",
        hint="Name what `xscore cache export` of this version wrote.",
    )


def _try(name: Path, at_most: int) -> int:
    from xscore.cache import exchange_form

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_S, TIME_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with open(0, "rb", closefd=False) as file:
        rows = exchange_form.count(file, name=name, at_most=at_most)
        for _ in exchange_form.read(file, name=name, rows=rows):
            pass
    return rows


if __name__ == "__main__":
    try:
        print(_try(Path(sys.argv[1]), int(sys.argv[2])))
    except UsageError as error:
        print(f"{error.message}\n{error.hint}")
        sys.exit(_REFUSED)
