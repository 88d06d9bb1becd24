"""The program that a stranger's Parquet file is tried in (`exchange_trial`): it reads the file on stdin to its end.

Prints the rows, or on exit code 2 what is wrong and what to do. It limits its own memory and CPU before it reads.
Trade-off: where the system keeps no limit of memory (macOS), only the time is limited.
"""

import resource
import sys
from pathlib import Path

from xscore.cache import exchange_form
from xscore.cache.exchange_trial import MEMORY_BYTES, REFUSED, TIME_S
from xscore.errors import UsageError


def _try(name: Path, at_most: int) -> int:
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
        sys.exit(REFUSED)
