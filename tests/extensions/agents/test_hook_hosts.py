"""A hook and its host: the background finishes what a deadline left, and a dead host blocks no
prompt."""

import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import MakeRepo, commit_all, store_dir, write_files
from tests.extensions.agents.crowded_core import crowded_core, deadline_under_load
from tests.extensions.agents.hook_process import added, build_index, message, run_hook, xscore
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table
from tests.waiting import PATIENCE_S, count_rows, slower_attempts, wait_until

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
        for attempt in slower_attempts():
            with attempt:
                # Other work of the machine is no part of the promise.
                deadline = deadline_under_load(core, 5, deadline_s=2.0 * attempt.slowness)
                monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", deadline)
                texts = four_at_once(attempt.number, core)
                ranked = [text for text in texts if "only matched words" in text]
                assert all(ranked_or_late in ("", *ranked) for ranked_or_late in texts)
                attempt.needs(len(ranked) == 4, f"{4 - len(ranked)} of four added nothing")


def is_background_idle(root: Path) -> bool:
    """Whether `xscore status` names no background process."""
    return "none" in xscore(root, "status").partition("background")[2].splitlines()[0]


@pytest.mark.verify
def test_what_the_deadline_left_is_found_by_the_next_prompt(
    tmp_path: Path, host: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is too slow for the first prompt; the background finishes its turn, and the next one
    has it."""
    judged_at(host.url, monkeypatch)
    for attempt in slower_attempts():
        with attempt:
            root, deadline_s = tmp_path / f"repo_{attempt.number}", 1.5 * attempt.slowness
            root.mkdir()
            write_files(root, FILES)
            build_index(commit_all(root))
            monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(deadline_s))
            host.latency_s, host.questions = 3_600.0, 0
            begun = time.monotonic()
            run_hook("prompt", b"", cwd=root)
            start_s, begun = time.monotonic() - begun, time.monotonic()
            first = run_hook("prompt", message(root))
            took_s = time.monotonic() - begun
            host.latency_s = 0.0
            assert first.returncode == 0 and took_s < deadline_s + PATIENCE_S
            wait_until(partial(is_background_idle, root))
            attempt.needs(count_rows(root, "turn"), "the hook began no turn")
            assert host.questions >= len(FILES)
            monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", "60")
            second = added(run_hook("prompt", message(root, session_id="another")))
            assert "xscore judged all" in second
            shown = json.loads(xscore(root, "history", "show", "--json"))
            assert shown["coverage"]["judged"] == 0
            # And the start of Python, before its clock runs, which takes longer on a busy machine.
            attempt.needs(
                took_s < deadline_s + 1.0 + 2 * start_s, f"the hook took {took_s:.1f} s"
            )


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
