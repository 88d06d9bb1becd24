"""A wall clock that jumps during a turn: no negative duration, no lost lease, none paid twice."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.programs import begin, run
from tests.proof import faults_clock
from tests.proof.faults_setup import (
    EACH_DIALECT,
    environment_at,
    harbours,
    host_of_dialect,
    models_of,
    truth,
)
from tests.waiting import count_rows, rows, wait_until
from xscore.cache.group_commit import GroupCommit
from xscore.costs.caps import Caps
from xscore.costs.reservation import turn_budget
from xscore.platform.errors import BudgetExhausted

pytestmark = pytest.mark.verify

DAY_S = 86_400
JUMPS = f"0,{DAY_S},-{DAY_S},3600,-7200,1,-1"
FLAGS = ("--pack-size", "3", "--concurrency", "2", "--json")
MEMORIES = 36
IN_FLIGHT = 2 * 3


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository of thirty-six memories."""
    return harbours(make_repo, files=12)


@EACH_DIALECT
def test_a_clock_that_jumps_at_every_look(root: Path, dialect: str) -> None:
    """All are judged and answered, every duration is positive, nothing stays reserved or claimed,
    nothing is repaid."""
    with host_of_dialect(dialect, latency_s=0.02) as host:
        environ = environment_at(dialect, host.url)
        arguments = ("ask", "mend the tides", *models_of(dialect), *FLAGS)
        jumped = run(*arguments, cwd=root, environ=environ, program=under(JUMPS))
        receipt = json.loads(jumped.stdout)
        assert jumped.returncode == 0, jumped.stderr
        assert receipt["coverage"]["judged"] == receipt["coverage"]["candidates"] == MEMORIES
        assert receipt["answer"] == host.answer
        assert all(0 <= seconds < 60 for seconds in receipt["latency_s"].values())
        assert set(host.counts.judgments.values()) == {1}
        assert all(0 < seconds < 60 for seconds in durations(root))
        assert [count_rows(root, table) for table in ("reservation", "claim", "runner")] == [
            0,
            0,
            0,
        ]
        host.reset()
        scores = root.parent / "scores.jsonl"
        options = ("--no-answer", "--all-scores", str(scores))
        repeated = run(
            *arguments, *options, cwd=root, environ=environ, program=under("-31536000")
        )
        assert repeated.returncode == 0 and host.counts.requests == 0
    for line in map(json.loads, scores.read_text().splitlines()):
        assert line["raw_score"] == truth(line["path"], line["entity"]) / 100


def under(jumps: str) -> tuple[str, str]:
    """Return the program that runs `xscore` under a wall clock that makes these jumps."""
    return faults_clock.__file__, jumps


def durations(root: Path) -> Iterator[float]:
    """Return the seconds of every call in the ledger."""
    yield from (seconds for (seconds,) in rows(root, "SELECT duration_s FROM call"))


@pytest.mark.parametrize("offset_s", [DAY_S, -DAY_S], ids=["ahead", "behind"])
def test_who_died_under_a_wrong_clock_holds_nobody_up(root: Path, offset_s: int) -> None:
    """A killed process's leases, set by a clock a day off, are taken over at once; only calls in
    flight are repaid."""
    with host_of_dialect("openai", latency_s=0.15) as host:
        arguments = ("ask", "mend the tides", *models_of("openai"), *FLAGS, "--no-answer")
        environ = environment_at("openai", host.url)
        doomed = begin(*arguments, cwd=root, environ=environ, program=under(str(offset_s)))
        wait_until(lambda: count_rows(root, "judgment") >= 6, doomed)
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.communicate()
        host.latency_s = 0.0
        after = run(*arguments, cwd=root, environ=environ)
        coverage = json.loads(after.stdout)["coverage"]
        # A lease that is a day off would be waited for.
        assert after.returncode == 0 and json.loads(after.stdout)["latency_s"]["judge"] < 100
        assert coverage["cached"] >= 6 and coverage["cached"] + coverage["judged"] == MEMORIES
        assert sum(host.counts.judgments.values()) - MEMORIES <= IN_FLIGHT


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S], ids=["forth", "back"])
async def test_no_jump_lets_a_turn_pass_its_cap(tmp_path: Path, jump_s: int) -> None:
    """This process's calls in flight stay reserved, though the clock says that its lease
    expired."""
    now = [1_000_000.0]
    async with GroupCommit(tmp_path / "memory.db") as commits:
        budget = turn_budget(
            commits, turn_id="t", caps=Caps(turn=Decimal("1.00")), clock=lambda: now[0]
        )
        held = [await budget.reserve(Decimal("0.25")) for _ in range(4)]
        now[0] += jump_s
        fifth = asyncio.create_task(budget.reserve(Decimal("0.25")))
        await asyncio.sleep(0.1)
        assert not fifth.done(), "it waits for one of those in flight"
        for reservation in held:
            await budget.settle(reservation, Decimal("0.25"))
        with pytest.raises(BudgetExhausted):
            await fifth
