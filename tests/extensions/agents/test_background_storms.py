"""The background process killed at any moment, woken by many, with others on one store, and on
encrypted stores."""

import asyncio
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.extensions.agents.conftest import ask_within, processes_in
from tests.extensions.agents.test_background import cut_short, has_ended, status, wake
from tests.programs import begin, run
from tests.servers.decision_server import DecisionServer
from tests.waiting import rows, wait_until

pytestmark = pytest.mark.verify

CONCURRENCY, PACK_SIZE = 2, 60


@pytest.fixture
def herd(make_repo: MakeRepo, host: DecisionServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of 600 functions, judged in about ten requests, two at a time."""
    monkeypatch.setenv("XSCORE_JUDGE_CONCURRENCY", str(CONCURRENCY))
    monkeypatch.setenv("XSCORE_JUDGE_PACK_SIZE", str(PACK_SIZE))
    host.score = lambda _memory, _turn: 4  # far from the cut, so that nothing is drawn twice
    names = [f"cow_{n}" for n in range(600)]
    functions = [
        f'def {name}() -> str:\n    """Say {name}."""\n    return "{name}"\n' for name in names
    ]
    return make_repo({f"f{n:02}.py": "\n\n".join(functions[n::30]) for n in range(30)})


def zombies() -> list[str]:
    """Return the ended children of this process that have not been reaped."""
    ended: list[str] = []
    for file in Path("/proc/self/task").glob("*/children"):
        # Threads and children come and go meanwhile.
        with suppress(OSError):
            for pid in file.read_text().split():
                with suppress(OSError):
                    if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                        ended.append(pid)
    return ended


def dead(pid: int) -> bool:
    """Whether a process has ended and been reaped."""
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.timeout(240)
async def test_twenty_kills_lose_nothing(herd: Path, host: DecisionServer) -> None:
    """After each SIGKILL the next wake starts one; no judgment is lost; only calls in flight are
    paid again."""
    dice, before, host.latency_s = random.Random(15), 0, 0.2
    turn = (await ask_within(herd, 0.3)).turn_id
    for _ in range(20):
        assert wake(herd)
        running = status(herd)
        await asyncio.sleep(dice.uniform(0.0, 0.7))
        # It may have judged the rest already.
        if running.pid is not None and not dead(running.pid):
            with suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGKILL)
            wait_until(partial(dead, running.pid))
        assert status(herd).pid is None
        now = int(str(rows(herd, "SELECT count(*) FROM judgment")[0][0]))
        assert now >= before
        before = now
    host.latency_s = 0.0
    wake(herd)
    wait_until(lambda: has_ended(herd))
    assert rows(herd, "SELECT state FROM turn WHERE id = ?", turn) == [("continued",)]
    assert rows(herd, "SELECT count(*) FROM turn WHERE state <> 'continued'") == [(1,)]
    ((memories,),) = rows(herd, "SELECT count(*) FROM memory")
    assert memories >= 600
    assert rows(herd, "SELECT count(*) FROM judgment WHERE query_id = 1") == [(memories,)]
    for table in ("claim", "runner"):
        assert rows(herd, f"SELECT count(*) FROM {table}") == [(0,)]
    assert host.judged.total() - memories <= 20 * CONCURRENCY * PACK_SIZE


async def test_fifty_wakes_at_once_start_one(flock: Path, host: DecisionServer) -> None:
    """Fifty threads wake it at once; one process runs, and all started processes are reaped."""
    await cut_short(flock, host)
    is_seen = False
    host.latency_s, host.requests = 0.0, 0
    host.judged.clear()
    host.may_reply = lambda: is_seen
    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(lambda _: wake(flock), range(50)))
    wait_until(lambda: host.in_flight and "judging" in status(flock).doing)
    runner = status(flock).pid
    assert runner is not None
    # One started without the lease ends by itself; the one with it waits for the host.
    wait_until(lambda: processes_in(flock) == [runner])
    assert status(flock).pid == runner
    assert rows(flock, "SELECT DISTINCT pid FROM runner") == [(runner,)]
    is_seen = True
    wait_until(lambda: has_ended(flock))
    assert [count for name, count in host.judged.items() if "sheep" in name] == [1] * 40
    wait_until(lambda: not zombies())


@pytest.mark.timeout(240)
async def test_all_at_once_on_one_store_pay_once(herd: Path, host: DecisionServer) -> None:
    """The background process, hooks and two `ask` of one question: no memory is judged twice, no
    lock error occurs."""
    host.latency_s = 0.3
    turn = (await ask_within(herd, 0.4)).turn_id
    assert wake(herd)
    asks = [
        begin("ask", "Count the sheep.", "--no-answer", "--json", cwd=herd) for _ in range(2)
    ]
    for _ in range(4):
        assert (await ask_within(herd, 0.8, command="hook")).exit_code in (0, 1)
        wake(herd)
    for process in asks:
        out, err = process.communicate(timeout=100)
        assert process.returncode in (0, 1), err
        assert "locked" not in err and "Traceback" not in err and '"unjudged": 0' in out
    wait_until(lambda: has_ended(herd))
    # In flight at a deadline.
    cut_off = "SELECT coalesce(sum(candidates), 0) FROM call WHERE outcome <> 'ok'"
    ((memories,),) = rows(herd, "SELECT count(*) FROM memory")
    assert memories <= host.judged.total() <= memories + int(str(rows(herd, cut_off)[0][0]))
    assert not status(herd).problem
    assert rows(herd, "SELECT state FROM turn WHERE id = ?", turn) != [("running",)]


async def test_an_encrypted_store_is_served(flock: Path, host: DecisionServer) -> None:
    """The process opens an encrypted store with the user's key, as every command does."""
    await cut_short(flock, host)
    done = run("store", "encrypt", cwd=flock)
    assert done.returncode == 0, done.stderr
    host.latency_s = 0.0
    assert wake(flock)

    def counts() -> list[int]:
        return [count for name, count in host.judged.items() if "sheep" in name]

    wait_until(lambda: len(counts()) == 40 and not processes_in(flock))
    assert set(counts()) == {1}
