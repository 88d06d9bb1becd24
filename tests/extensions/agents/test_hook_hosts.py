"""A hook and its host: the background finishes what a deadline left, and a dead host blocks no
prompt."""

import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, store_dir
from tests.extensions.agents.crowded_core import crowded_core, deadline_beside
from tests.extensions.agents.hook_process import added, build_index, message, run_hook, xscore
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table

FILES = {
    f"shop/part_{number}.py": (
        f'def total_{number}(items):\n    """Sum prices {number}."""\n    return sum(items)\n'
    )
    for number in range(150)
}


@pytest.fixture
def host() -> Iterator[DecisionServer]:
    """A host of decision models with 150 ms latency."""
    with DecisionServer(score=table({"total_7(": 93}, default=4), latency_s=0.15) as server:
        yield server


@pytest.fixture
def root(make_repo: MakeRepo, host: DecisionServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An indexed repository whose judge is at that host."""
    judged_at(host.url, monkeypatch)
    repository = make_repo(FILES)
    build_index(repository)
    return repository


def judged_at(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the judge and its host for every process."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", "typesafe:jev-1.14.0")
    monkeypatch.setenv("TYPESAFE_API_KEY", "k-0123456789")
    monkeypatch.setenv("TYPESAFE_BASE_URL", url)


def test_one_edit_asks_for_one_memory(
    root: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first prompt judged everything, only an edited function is sent, and the bundle is
    complete."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", "60")
    first = added(run_hook("prompt", message(root)))
    assert "shop/part_7.py:1-3" in first
    questions_before = host.questions
    path = root / "shop" / "part_9.py"
    path.write_text(path.read_text().replace("sum(items)", "sum(items) + 0"))
    second = added(run_hook("prompt", message(root, session_id="another")))
    assert second.splitlines()[0] == first.splitlines()[0]
    assert host.questions == questions_before + 1


@pytest.mark.verify
def test_four_prompts_at_once_on_a_busy_core_get_what_words_give(
    root: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host never answers, and everything takes nine times as long: all four add their ranking
    by words."""
    host.latency_s = 1_000.0

    def four_at_once(run: int, core: int) -> list[str]:
        with ThreadPoolExecutor(4) as pool:
            hooks = [
                pool.submit(
                    run_hook,
                    "prompt",
                    message(
                        root,
                        session_id=f"s{run}-{n}",
                        prompt=f"what does total_{n} sum up in part {n}?",
                    ),
                    before=lambda: os.sched_setaffinity(0, {core}),
                )
                for n in range(4)
            ]
            return [added(done.result()) for done in hooks]

    with crowded_core(5) as core:
        for run in range(6):
            # What else the machine does is no part of the promise.
            deadline = deadline_beside(core, 5, deadline_s=2.0)
            monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", deadline)
            texts = four_at_once(run, core)
            if all("only matched words" in text for text in texts):
                break
    assert all("only matched words" in text for text in texts), [text[:80] for text in texts]


@pytest.mark.verify
def test_what_the_deadline_left_is_found_by_the_next_prompt(
    root: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is too slow for the first prompt; the background finishes its turn, and the next one
    has it."""
    # On a machine that begins no turn in time, or is busy, the prompt has four times as long.
    for deadline_s in (1.5, 6.0, 24.0):
        monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(deadline_s))
        host.latency_s = 2 * deadline_s
        begun = time.monotonic()
        run_hook("prompt", b"", cwd=root)
        start_s, begun = time.monotonic() - begun, time.monotonic()
        first = run_hook("prompt", message(root, session_id=f"s{deadline_s}"))
        # And the start of Python, before its clock runs, which takes longer on a busy machine.
        is_in_time = time.monotonic() - begun < deadline_s + 1.0 + 2 * start_s
        assert first.returncode == 0
        host.latency_s = 0.0
        patience = time.monotonic() + 60
        while "none" not in xscore(root, "status").partition("background")[2].splitlines()[0]:
            assert time.monotonic() < patience
            time.sleep(0.3)
        if is_in_time and host.questions >= len(FILES):
            break
    assert is_in_time
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", "60")
    assert host.questions >= len(FILES)
    assert "xscore judged all" in added(run_hook("prompt", message(root, session_id="another")))
    assert json.loads(xscore(root, "history", "show", "--json"))["coverage"]["judged"] == 0


def test_a_host_that_is_down_leaves_words_alone(
    make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No host listens: words rank, the first line says so, and status names the failure."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", "60")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    judged_at(f"http://127.0.0.1:{port}/v1", monkeypatch)
    repository = make_repo(
        {
            "cart.py": (
                'def total(items):\n    """Sum the prices of a cart."""\n    return sum(items)\n'
            )
        }
    )
    build_index(repository)
    text = added(run_hook("prompt", message(repository)))
    assert "only matched words" in text.splitlines()[0]
    assert f"127.0.0.1:{port}" in xscore(repository, "status").partition("last hook")[2]


@pytest.mark.verify
def test_a_cap_holds_for_hooks(
    root: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user's cap is used up, nothing is sent, and the prompt continues."""
    monkeypatch.setenv("XSCORE_PROVIDER_PRICE", "vendor")
    monkeypatch.setenv("XSCORE_BUDGET_MAX_USD", "0")
    done = run_hook("prompt", message(root))
    assert done.returncode == 0
    assert host.questions == 0


@pytest.mark.verify
def test_a_clock_that_was_set_back_stops_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store last written in the future is used normally."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", "60")
    ahead = time.time() + 400 * 86_400
    for path in (store_dir(root)).iterdir():
        os.utime(path, (ahead, ahead))
    for path in (root / "shop").iterdir():
        os.utime(path, (ahead, ahead))
    start = json.dumps(message(root, "SessionStart", source="startup"))
    assert run_hook("session-start", start).returncode == 0
    assert "shop/part_7.py:1-3" in added(run_hook("prompt", message(root)))
