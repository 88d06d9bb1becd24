"""A repository whose judge is a loopback host of decision models, for real `xscore` processes."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, git
from tests.servers.decision_server import DecisionServer
from xscore.extensions.agents.clients import CLIENTS
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import TurnOptions
from xscore.pipeline.turn import run_turn
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import load_settings

PATIENCE_S = 60.0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository, and agents with their default folders."""
    for form in CLIENTS.values():
        monkeypatch.delenv(form.folder_variable or "-", raising=False)
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q")
    return root


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionServer]:
    """A host set as the judge's in this environment."""
    with DecisionServer() as running:
        monkeypatch.setenv("SYSTEMONE_BASE_URL", running.url)
        monkeypatch.setenv("XSCORE_JUDGE_MODEL", "systemone:jev-1.14.0")
        monkeypatch.setenv("XSCORE_JUDGE_PROBE", "0")
        yield running


@pytest.fixture
def flock(
    make_repo: MakeRepo, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A repository of forty functions, which are all its memories; no process of its store survives
    the test."""
    monkeypatch.setenv("XSCORE_MEMORY_OBSERVE", "false")
    root = make_repo(
        {
            f"f{n:02}.py": f'def sheep_{n}() -> int:\n    """Count sheep {n}."""\n    return {n}\n'
            for n in range(40)
        }
    )
    yield root
    host.latency_s = 0.0
    for pid in processes_in(root):
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, signal.SIGKILL)


def processes_in(root: Path) -> list[int]:
    """Return the xscore processes whose current folder is this one, zombies excluded."""
    pids = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = (
                b"xscore" in (place / "cmdline").read_bytes()
                and (place / "cwd").readlink() == root
            )
        except OSError:
            continue
        pids += [int(place.name)] if is_ours else []
    return pids


async def ask_within(
    root: Path,
    deadline_s: float | None,
    *,
    task: str = "Count the sheep.",
    thread: str = "",
    command: str = "hook",
    judge: str | None = None,
) -> Answer:
    """Ask as a hook does, with a deadline."""
    loaded = load_settings(
        repo_root=root,
        user_file=Path("/nonexistent"),
        environ=os.environ,
        flags={"budget.deadline_s": deadline_s, "judge.model": judge},
    )
    async with Pipeline.open(root, loaded) as pipeline:
        return await run_turn(
            pipeline.parts,
            Turn(task=task, thread=thread),
            TurnOptions(answer=False, command=command),
        )
