"""A stranger's Parquet file, read once to its end by a process of its own with little memory and time, before we do.

Among files that differ from a good one in a single byte are some at which the reader ends its whole process, or takes
all memory. So the trial is a child (`exchange_child`), which is handed the file and nothing else: no key, no proxy, no
setting of ours. The file that it got through, checked value by value, is read again by us, the same bytes. Trade-off:
the start of the child takes a second and the file is read twice.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from xscore.errors import UsageError

MEMORY_BYTES = 3_000_000_000
TIME_S = 120
"""Of CPU, and on the clock."""
REFUSED = 2
"""Exit code of a child that read the file and found something wrong."""
HANDED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT")
"""All that the child is told of the environment: where Python and its libraries are."""


def tried(file: IO[bytes], *, name: Path, at_most: int, time_s: float = TIME_S) -> int:
    """Return how many rows the file has, each checked. Raises UsageError for one that cannot be read."""
    file.seek(0)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "xscore.cache.exchange_child", str(name), str(at_most)],
            stdin=file,
            capture_output=True,
            env=environment(os.environ),
            timeout=time_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_read(name, time_s) from error
    if done.returncode == 0:
        return int(done.stdout)
    if done.returncode == REFUSED:
        message, _, hint = done.stdout.decode("utf-8", "replace").partition("\n")
        raise UsageError(message, hint=hint)
    raise _not_read(name, time_s)


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return what the child is told: no key, and one thread, since each sets memory aside."""
    return {name: ours[name] for name in HANDED_ON if name in ours} | {"POLARS_MAX_THREADS": "1"}


def _not_read(name: Path, time_s: float) -> UsageError:
    return UsageError(
        f"{name} cannot be read as Parquet within {MEMORY_BYTES // 1_000_000_000} GB and {time_s:g} s",
        hint="Name what `xscore cache export` of this version wrote.",
    )
