"""Killed or interrupted turns, in both dialects: paid judgments are kept, and nothing more is
sent."""

import json
import signal
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.programs import begin
from tests.proof.faults_setup import (
    EACH_DIALECT,
    ask,
    environment_at,
    harbours,
    host_of_dialect,
    models_of,
    settings_at,
)
from tests.servers import LoopbackServer
from tests.waiting import count_rows, wait_until
from xscore.cli.interrupt import STOPPING
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import Settings

pytestmark = pytest.mark.verify

CONCURRENCY, PACK = 4, 3

MEMORIES = 90
FLAGS = ("--pack-size", str(PACK), "--concurrency", str(CONCURRENCY), "--json")
TASK = "mend the tides"
TURN = Turn(task=TASK)


@pytest.fixture
def root(make_repo: MakeRepo) -> Path:
    """A repository of ninety memories, about forty packs."""
    return harbours(make_repo, files=18, functions=5)


def settings_for(dialect: str, host: LoopbackServer) -> Settings:
    """Settings of the same judge, to continue in this process."""
    return settings_at(dialect, host.url, pack_size=PACK)


@EACH_DIALECT
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
async def test_interrupted_while_judging(
    root: Path, dialect: str, sent: signal.Signals
) -> None:
    """Exit 130 with a receipt that adds up; nothing is sent after it; `continue` pays only for the
    rest."""
    is_stopping = False
    with host_of_dialect(dialect) as host:
        # Whatever may be in flight is, until the process has taken the signal.
        host.may_reply = lambda counts: is_stopping or counts.judgments.total() < 9
        environ = environment_at(dialect, host.url)
        process = begin("ask", TASK, *models_of(dialect), *FLAGS, cwd=root, environ=environ)
        wait_until(
            lambda: count_rows(root, "judgment") >= 9 and host.counts.in_flight == CONCURRENCY,
            process,
        )
        sent_before = host.counts.requests
        process.send_signal(sent)
        assert process.stderr is not None and any(STOPPING in line for line in process.stderr)
        is_stopping = True
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130 and "Traceback" not in err
        assert host.counts.requests == sent_before
        receipt = json.loads(out)
        coverage = receipt["coverage"]
        assert coverage["candidates"] == coverage["judged"] + coverage["unjudged"] == MEMORIES
        assert receipt["unjudged"]["by_cause"] == {"interrupted": coverage["unjudged"]}
        assert coverage["judged"] == sum(host.counts.judgments.values())
        assert coverage["judged"] == count_rows(root, "judgment")
        assert host.counts.answering_requests == 0
        host.latency_s = 0.0
        async with Pipeline.open(root, settings_for(dialect, host)) as pipeline:
            rest = (await pipeline.resume(receipt["turn_id"], answer=False)).coverage
        assert rest.carried == coverage["judged"]
        assert rest.judged == coverage["unjudged"]
        assert rest.unjudged == 0
        assert set(host.counts.judgments.values()) == {1}


@EACH_DIALECT
async def test_ctrl_c_twice(root: Path, dialect: str) -> None:
    """The second press ends at once, though the host is silent, and the store is intact."""
    arguments = ("ask", TASK, *models_of(dialect), *FLAGS)
    with host_of_dialect(dialect) as host:
        environ = environment_at(dialect, host.url)
        process = begin(*arguments, cwd=root, environ=environ)
        wait_until(lambda: count_rows(root, "judgment") >= 6, process)
        host.latency_s = 90.0
        wait_until(lambda: host.counts.in_flight == CONCURRENCY, process)
        kept = count_rows(root, "judgment")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None and any(STOPPING in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)  # a third of what the host would take
        assert process.returncode == 130 and "Traceback" not in err
        assert out == "", "who is waited for has a receipt"
        host.latency_s = 0.0
        after = await ask(root, settings_for(dialect, host), turn=TURN)
        coverage = after.answer.coverage
        assert (after.answer.exit_code, coverage.cached + coverage.judged) == (0, MEMORIES)
        assert coverage.cached >= kept >= 6


@EACH_DIALECT
async def test_ctrl_c_while_answering(root: Path, dialect: str) -> None:
    """Exit 130 during the answering call; every judgment is kept."""
    arguments = ("ask", TASK, *models_of(dialect), *FLAGS)
    with host_of_dialect(dialect) as host:
        environ = environment_at(dialect, host.url)
        await ask(root, settings_for(dialect, host), turn=TURN)
        host.reset()
        host.latency_s = 30.0
        process = begin(*arguments, cwd=root, environ=environ)
        wait_until(lambda: host.counts.in_flight == 1, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130 and "Traceback" not in err
        receipt = json.loads(out)
        assert receipt["answer"] is None
        assert receipt["coverage"]["cached"] == MEMORIES == count_rows(root, "judgment")
        assert host.counts.judging_requests == 0
