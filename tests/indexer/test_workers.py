"""Parsing processes and files that crash them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it states no types
import pytest
from msgspec.structs import replace

from tests.waiting import wait_until
from xscore.indexer.languages import FileShape, Language
from xscore.indexer.memories import parse_file
from xscore.indexer.parse_jobs import ParseJob
from xscore.indexer.workers import parse_in_processes
from xscore.records.indexing import FileStamp
from xscore.records.memory import Kind
from xscore.store.written_rows import ROW_COLUMNS


def job(number: int, text: str = "def f():\n    return 1\n") -> ParseJob:
    """One small file."""
    return ParseJob(FileStamp(f"m{number}.py", len(text), 1, "h"), text, 1_000_000_000, 60, 1.0)


def test_every_job_comes_back_once() -> None:
    """With any number of processes each job has one result, equal to this process's own."""
    jobs = [job(number) for number in range(100)]
    done = {result.stamp.path: result for result in parse_in_processes(iter(jobs), count=3)}
    assert done == {j.stamp.path: parse_file(j) for j in jobs}


def test_the_next_run_uses_the_same_process() -> None:
    """It pays no start again; one that has died meanwhile, or knows other languages, is
    replaced."""
    (first,) = parse_in_processes([job(0)], count=1)
    (kept,) = children_of(os.getpid())
    assert list(parse_in_processes([job(0)], count=1)) == [first]
    assert children_of(os.getpid()) == [kept]
    os.kill(kept, signal.SIGKILL)
    os.waitid(os.P_PID, kept, os.WEXITED | os.WNOWAIT)
    assert list(parse_in_processes([job(0)], count=1)) == [first]
    (second_process,) = children_of(os.getpid())
    added = Language(name="added", shape=FileShape.TEXT, claims=".added")
    (reparsed,) = parse_in_processes([replace(job(0), languages=(added,))], count=1)
    assert reparsed == first and children_of(os.getpid()) not in ([second_process], [kept])
    assert list(parse_in_processes([job(0)], count=1)) == [first]


FORKED = """
import os
from tests.indexer.test_workers import job
from xscore.indexer.workers import parse_in_processes
runs = [list(parse_in_processes([job(0)], count=1))]
child = os.fork()
runs.append(list(parse_in_processes([job(0)], count=1)))
assert runs[0] == runs[1] and not runs[1][0].note
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_forked_process_starts_its_own() -> None:
    """A copy of the caller does not write into the pipe of the caller's process."""
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.verify
def test_a_killed_process_costs_one_file_its_grammar() -> None:
    """If a process dies, its file is cut into windows with a note; all others are parsed
    normally."""
    big = "\n".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(20_000))

    def jobs() -> Iterator[ParseJob]:
        yield job(0, big)
        yield from (job(number) for number in range(1, 30))

    # An earlier run of this process may have left one.
    list(parse_in_processes([job(0)], count=1))
    (child,) = children_of(os.getpid())
    used_s = psutil.Process(child).cpu_times().user

    def kill_children() -> None:
        # It is at the first file, which takes it a second.
        wait_until(lambda: psutil.Process(child).cpu_times().user > used_s + 0.2)
        os.kill(child, signal.SIGKILL)

    killer = threading.Thread(target=kill_children)
    killer.start()
    done = list(parse_in_processes(jobs(), count=1))
    killer.join()
    assert sorted(result.stamp.path for result in done) == sorted(f"m{n}.py" for n in range(30))
    noted = [result for result in done if result.note]
    assert len(noted) == 1
    assert "crashed" in noted[0].note
    assert {row[ROW_COLUMNS.index("kind")] for row in noted[0].rows} == {Kind.TEXT}


def children_of(pid: int) -> list[int]:
    """Return the child processes of this one."""
    listed = subprocess.run(
        ["pgrep", "-P", str(pid), "-f", "xscore.indexer.parse_process"],
        capture_output=True,
        check=False,
    )
    return [int(line) for line in listed.stdout.split()]
