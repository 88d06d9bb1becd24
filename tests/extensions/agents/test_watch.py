"""`xscore watch`: saved files are indexed and judged again for open threads, as the one background
process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import git, store_file
from tests.extensions.agents.conftest import ask_within
from tests.extensions.agents.test_background import has_ended, status
from tests.servers.decision_server import DecisionServer
from tests.waiting import rows, wait_until
from xscore.extensions.agents.background import wake_background
from xscore.extensions.agents.watch import _is_indexed
from xscore.platform.errors import UsageError
from xscore.platform.extras import require_extra
from xscore.platform.paths import find_root

Watch = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def watch(flock: Path) -> Iterator[Watch]:
    """Start `xscore watch`; it is killed at the end if it still runs."""
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "xscore", "watch", *arguments]
        pipe, no_input = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=flock, text=True, stdin=no_input, stdout=pipe, stderr=pipe
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


async def test_a_save_is_indexed_and_judged_for_the_open_thread(
    flock: Path, host: DecisionServer, watch: Watch
) -> None:
    """Only a saved function is judged for the thread's latest question; Ctrl-C shows the cost."""
    await ask_within(flock, None, thread="agent-1")
    host.judged.clear()
    process = watch()
    wait_until(lambda: status(flock).watches and not status(flock).doing)
    (flock / "f07.py").write_text("def sheep_7() -> int:\n    return 70\n")
    wait_until(
        lambda: (
            rows(flock, "SELECT count(*) FROM call WHERE turn_id LIKE 'w_%' AND outcome = 'ok'")
            == [(1,)]
        )
    )
    wait_until(lambda: not status(flock).doing)
    assert process.stderr is not None
    assert any("1 memory judged" in line for line in process.stderr)  # said at the next tick
    assert set(host.judged) == {"f07.py::sheep_7"}
    turns = rows(flock, "SELECT count(*) FROM turn")
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=100)
    assert (process.returncode, turns) == (0, [(1,)]), printed
    assert "1 memory judged" in printed.splitlines()[-1] and "$0" in printed.splitlines()[-1]
    assert "Traceback" not in printed
    assert status(flock).pid is None
    repeated = await ask_within(flock, None, thread="agent-1")
    assert repeated.coverage.judged == 0


async def test_it_finishes_a_turn_that_a_hook_left(
    flock: Path, host: DecisionServer, watch: Watch
) -> None:
    """While it watches, a hook's wake starts nothing: the watching process finishes the turn."""
    process = watch()
    wait_until(lambda: (store_file(flock)).exists() and status(flock).watches)
    host.latency_s = 3.0  # the watching process may be asking before it is 0 again
    turn = (await ask_within(flock, 0.4)).turn_id
    host.latency_s = 0.0
    assert wake_background(find_root(flock))
    assert status(flock).pid == process.pid
    wait_until(
        lambda: rows(flock, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    )
    second = watch()
    _, printed = second.communicate(timeout=100)
    assert second.returncode == 2
    assert f"process {process.pid}" in printed


async def test_once_judges_what_changed_and_ends(
    flock: Path, host: DecisionServer, watch: Watch
) -> None:
    """`--once`, as a git hook runs it: the change is judged, and the process ends."""
    await ask_within(flock, None)
    host.judged.clear()
    (flock / "f08.py").write_text("def sheep_8() -> int:\n    return 80\n")
    git(flock, "commit", "-qam", "change")
    process = watch("--once")
    _, printed = process.communicate(timeout=100)
    assert process.returncode == 0, printed
    assert dict(host.judged) == {"f08.py::sheep_8": 1}


async def test_a_stop_has_what_was_edited_judged_again(
    flock: Path, host: DecisionServer
) -> None:
    """The process woken by an agent's stop judges the change, and another wake has nothing to
    do."""
    await ask_within(flock, None)
    host.judged.clear()
    (flock / "f08.py").write_text("def sheep_8() -> int:\n    return 80\n")
    for judges_changes in (True, False):
        assert wake_background(find_root(flock), judges_changes=judges_changes)
        wait_until(lambda: has_ended(flock))
    assert dict(host.judged) == {"f08.py::sheep_8": 1}


def test_what_the_index_ignores_wakes_nothing(flock: Path) -> None:
    """Ignored files and folders do not count; new files, known files and removed folders do."""
    root = find_root(flock)
    (flock / ".gitignore").write_text("build/\n")
    for name in ("build/out.py", "src/new.py"):
        (flock / name).parent.mkdir()
        (flock / name).write_text("x = 1\n")
    indexed_paths = {"f01.py", "gone/a.py"}
    counts = ("src/new.py", "src", "f01.py", "gone")
    ignored = ("build/out.py", "build", "never.py")
    assert [_is_indexed([os.fspath(flock / name)], root, indexed_paths) for name in counts] == [
        True
    ] * 4
    assert [
        _is_indexed([os.fspath(flock / name)], root, indexed_paths) for name in ignored
    ] == [False] * 3


def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If watchfiles is missing, the extra is named."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(UsageError) as refused:
        require_extra("watch", "watchfiles", purpose="`xscore watch`")
    assert "[watch]" in refused.value.hint
