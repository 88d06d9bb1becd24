"""Small files on which a grammar takes time or memory by the square, and what such a file costs."""

import json
import subprocess
import sys
from functools import cache
from typing import NamedTuple

from tests.cpu_time import ATTEMPTS

PEAK_BYTES = 300_000_000
"""Memory that a parsing process may ever hold."""
COMMENTS = "/*\n" * 5_300
BOMBS = {
    "comments.py": COMMENTS,
    "attributes.rs": "#[a]\n" * 3_100,
    "page.html": f"<p>Shop</p>\n<script lang=ts>\n{COMMENTS}</script>\n",
}
"""Files that differ in kind: the memory or the time runs out, in a file or a part of one."""
MORE_BOMBS = {
    "arrows.java": "a=>\n" * 3_975,
    "generics.cs": "x: a" + "<a\n" * 5_300,
    "small.py": COMMENTS[:3_900],
    "large.py": COMMENTS * 4,
    "comments.ts": COMMENTS,
    "comments.go": COMMENTS,
    "operators.go": "<<-\n" * 4_000,
    "arrows.c": "a=>\n" * 3_975,
    "unary.py": "is not\n" * 2_300,
    "cells.ipynb": "# %%\n" + "<-\n" * 20_000,
    "brackets.rs": "a)a\n" * 4_000,
    "brackets.ts": "a]a\n" * 16_000,
}
_ADDRESS_SPACE = 2 << 30
LIMITED = (
    "-c",
    (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({_ADDRESS_SPACE},"
        f" {_ADDRESS_SPACE})); from xscore.__main__ import run; run()"
    ),
)
"""What Python runs as `xscore` with 2 GB of address space, so that no test takes the machine's
memory."""
SNIPPET = "def total(lines):\n    return sum(lines)\n"
_MEASURE = """
import atexit, json, resource, sys
results = []

def tell():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(json.dumps([cpu_s, used.ru_maxrss, len(results[0].rows), results[0].note]))

atexit.register(tell)  # runs last, when every process has been waited for
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.workers import parse_in_processes
from xscore.records.indexing import FileStamp
path, text, window_lines, cpu_s = json.load(sys.stdin)
job = ParseJob(FileStamp(path, len(text), 1, "h"), text, 1, window_lines, cpu_s)
results += parse_in_processes([job], count=1)
"""


class FileCost(NamedTuple):
    """What the parsing processes of one file took, and what came of it."""

    cpu_s: float
    peak_kib: int
    rows: int
    note: str


CPU_LIMIT_S = 1.0
"""CPU that the kernel grants a parsing process, in seconds on every machine."""
STARTS_A_FILE = 5
"""What more a file may cost, in starts of a process with a small file: two, and the reading of
its windows."""


def file_cost(path: str, text: str, *, window_lines: int = 60) -> FileCost:
    """Parse one file in new processes."""
    arguments = json.dumps([path, text, window_lines, CPU_LIMIT_S])
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        input=arguments,
        capture_output=True,
        text=True,
        check=True,
    )
    return FileCost(*json.loads(run.stdout))


@cache
def _start_s(attempt: int) -> float:
    """Return the CPU of a start with a small file; attempt: measured anew for each."""
    return file_cost("small.py", SNIPPET).cpu_s


def check_cost(path: str, text: str) -> FileCost:
    """Assert that a file costs the CPU limit and a few starts of this machine, little memory, and
    no line."""
    for attempt in range(ATTEMPTS):
        cost = file_cost(path, text)
        assert cost.peak_kib * 1024 <= PEAK_BYTES
        assert cost.rows or not text.strip(), cost.note
        start_s = _start_s(attempt)
        if cost.cpu_s <= CPU_LIMIT_S + STARTS_A_FILE * start_s:
            return cost
    raise AssertionError(
        f"{path}, {text[:80]!r} …: {cost.cpu_s:.2f} s, a start {start_s:.2f} s"
    )
