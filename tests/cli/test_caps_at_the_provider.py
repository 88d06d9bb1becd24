"""Spending under caps, asserted at the paid host: the whole program, in new processes."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.programs import begin
from tests.servers.billing import BillingServer
from tests.waiting import wait_until

MEMORIES, MANY = 150, 500
DAY, REPOSITORY = "XSCORE_BUDGET_MAX_USD_DAY", "XSCORE_BUDGET_MAX_USD_REPOSITORY"
TURN = "XSCORE_BUDGET_MAX_USD"
ONE_EACH = ("--pack-size", "1", "--concurrency", "64")
WIDE = {TURN: "100"}


@pytest.fixture
def shelf(make_repo: MakeRepo) -> Path:
    """A repository of many small memories, so that many calls are needed."""
    return make_repo({"shop/prices.py": functions(MEMORIES)})


def functions(count: int) -> str:
    """Write N small functions."""
    return "\n\n".join(
        f'def price_{number}(amount: int) -> int:\n    """Price number {number}."""\n    return'
        f" amount * {number}\n"
        for number in range(count)
    )


def begun(task: str, cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a turn in a new process."""
    return begin("context", task, "--json", *ONE_EACH, cwd=cwd, environ=environ)


def way_on(message: str) -> list[str]:
    """Return the one command that a turn short of dollars suggests."""
    (command,) = re.findall(r"`xscore (continue t_\w+ --max-usd [0-9.]+)`", message)
    return str(command).split()


def receipt(out: str) -> dict[str, Any]:
    """Parse the output of `--json`."""
    fields: dict[str, Any] = json.loads(out)
    return fields


def test_sixty_four_in_flight_stay_under_the_turns_cap(
    xscore: Run, make_repo: MakeRepo, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """The host is paid at most the cap; its judgments are kept, exit 4, and the command to continue
    is printed."""
    shelf = make_repo({"shop/prices.py": functions(MANY)})
    # However slow this machine is: 32 calls may be in flight by then, and until they are, none is
    # answered.
    answers_to_grow = 48
    host.may_reply = lambda counts: (
        counts.requests - counts.in_flight < answers_to_grow or counts.peak_in_flight >= 32
    )
    capped = {**priced, TURN: "0.45"}
    done = xscore("context", "prices of the shop", *ONE_EACH, cwd=shelf, environ=capped)
    assert done.returncode == 4, done.stderr
    assert Decimal("0.43") < host.charged <= Decimal("0.45")
    assert host.counts.peak_in_flight >= 32
    assert "of the turn's $0.45 is left" in done.stderr
    assert (
        done.stderr.count("xscore continue") == done.stderr.count("judging may take about") == 1
    )
    paid, judged = host.charged, sum(host.counts.judgments.values())
    continued = xscore(
        *way_on(done.stderr), "--no-answer", "--json", *ONE_EACH, cwd=shelf, environ=capped
    )
    assert continued.returncode == 0, continued.stderr
    coverage = receipt(continued.stdout)["coverage"]
    assert (coverage["carried"], coverage["unjudged"]) == (judged, 0)
    assert host.charged > paid
    assert set(host.counts.judgments.values()) == {1}


def test_a_gateway_on_this_machine_is_held_by_the_cap(
    shelf: Path, xscore: Run, host: BillingServer
) -> None:
    """A paid model behind loopback is priced and capped, and the receipt says so; `provider.price`
    can make it free."""
    environ = {
        "OPENAI_BASE_URL": host.url,
        "OPENAI_API_KEY": "sk-test-0123456789abcdef",
        "XSCORE_JUDGE_MODEL": "openai:gpt-4.1",
        "XSCORE_JUDGE_PROBE": "false",
        TURN: "0.05",
    }
    done = xscore(
        "context", "prices of the shop", *ONE_EACH, "--json", cwd=shelf, environ=environ
    )
    assert (done.returncode, receipt(done.stdout)["judge"]["assumed_price"]) == (
        4,
        "vendor",
    ), done.stderr
    assert Decimal("0.03") < host.charged <= Decimal("0.05")
    free = {**environ, "XSCORE_PROVIDER_PRICE": "free"}
    rest = xscore("context", "prices of the shop", *ONE_EACH, cwd=shelf, environ=free)
    assert rest.returncode == 0, rest.stderr
    assert "$0 (a model server on this machine: assumed free)" in rest.stderr


@pytest.mark.verify
@pytest.mark.parametrize(("span", "word"), [(DAY, "day"), (REPOSITORY, "repository")])
def test_two_processes_share_a_cap(
    shelf: Path,
    xscore: Run,
    host: BillingServer,
    priced: Mapping[str, str],
    span: str,
    word: str,
) -> None:
    """Two concurrent turns of 64 calls each, then a third: together they pay the host at most the
    cap."""
    xscore("index", cwd=shelf)
    capped = {**priced, **WIDE, span: "0.12"}
    running = [
        begun(task, shelf, capped) for task in ("prices of the shop", "numbers of the amount")
    ]
    ended = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [4, 4], ended
    assert Decimal("0.08") < host.charged <= Decimal("0.12")
    third = xscore("context", "a third task", *ONE_EACH, cwd=shelf, environ=capped)
    assert third.returncode == 4
    assert f"of the {word}'s $0.12" in third.stderr
    assert f"raise budget.max_usd_{word} to $" in third.stderr
    assert third.stderr.count("`xscore continue t_") == 1
    assert host.charged <= Decimal("0.12")
    estimated = receipt(
        xscore("estimate", "a third task", "--json", cwd=shelf, environ=capped).stdout
    )
    cap_by_period = {cap["of"]: cap for cap in estimated["caps"]}
    assert cap_by_period[word]["cap_usd"] == "0.12"
    assert Decimal(cap_by_period[word]["left_usd"]) == Decimal("0.12") - host.charged


def test_what_a_killed_process_had_set_aside_comes_back(
    shelf: Path, xscore: Run, host: BillingServer, priced: Mapping[str, str]
) -> None:
    """After SIGKILL the next turn has the rest of the day's cap, less what was charged."""
    host.latency_s = 2.0
    capped = {**priced, **WIDE, DAY: "0.12"}
    killed = begun("prices of the shop", shelf, capped)
    wait_until(lambda: host.counts.in_flight >= 8)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=20)
    wait_until(lambda: not host.counts.in_flight)
    host.latency_s = 0.1
    done = xscore(
        "context", "numbers of the amount", "--json", *ONE_EACH, cwd=shelf, environ=capped
    )
    assert done.returncode == 4, done.stderr
    spent = Decimal(receipt(done.stdout)["usage"]["judge"]["cost_usd"])
    assert Decimal("0.10") < spent <= Decimal("0.12")
