"""Several machines ask the same question at once, each with its own clone and store: each candidate
is paid once."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.extensions.shared.server_processes import ServerProcess
from tests.programs import begin
from tests.servers.decision_server import DecisionServer
from tests.servers.judging import Counts
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until
from xscore.extensions.shared.judgments import GATHER_S
from xscore.settings.model import SharedSettings

MACHINES = 4
LATENCY_S = 0.02


@pytest.fixture
def provider() -> Iterator[OpenAIServer]:
    """A loopback host of the OpenAI dialect that counts its requests."""
    with OpenAIServer(latency_s=LATENCY_S, keep_bodies=False) as serving:
        yield serving


def clone(home: Path, functions: int) -> Path:
    """Write N functions."""
    root = home / "code"
    root.mkdir(parents=True)
    for start in range(0, functions, 50):
        lines = (
            f"def f_{number}(x):\n    return x + {number}\n"
            for number in range(start, start + 50)
        )
        (root / f"part_{start:05}.py").write_text("\n\n".join(lines))
    return root


class Machine:
    """One process of the command, with its own clone and home."""

    def __init__(
        self,
        home: Path,
        *,
        functions: int,
        provider: OpenAIServer | DecisionServer,
        shared: SharedSettings,
        judge: str = "openai:judge-2",
    ) -> None:
        options = f"--judge {judge} --pack-size 1 --concurrency 16 --glob *.py --type function"
        self.process = begin(
            "ask",
            "why is x wrong?",
            "--no-answer",
            "--json",
            *options.split(),
            cwd=clone(home, functions),
            environ={
                "HOME": str(home),
                "OPENAI_BASE_URL": provider.url,
                "SYSTEMONE_BASE_URL": provider.url,
                "OPENAI_API_KEY": home.name,
                "XSCORE_JUDGE_PROBE": "false",
                "XSCORE_SHARED_URL": shared.url.reveal(),
                "XSCORE_SHARED_TENANT": shared.tenant,
                "XSCORE_SHARED_TIMEOUT_S": str(shared.timeout_s),
                "XSCORE_SHARED_FIRST_WAIT_S": str(shared.first_wait_s),
            },
        )

    def receipt(self) -> dict[str, Any]:
        """Wait for its end; return the receipt."""
        output, errors = self.ended()
        assert self.process.returncode == 0, errors
        receipt: dict[str, Any] = json.loads(output)
        return receipt

    def ended(self) -> tuple[str, str]:
        """Wait for its end; return its output and stderr."""
        return self.process.communicate(timeout=250)


Start = Callable[..., list[Machine]]


@pytest.fixture
def machines(tmp_path: Path, provider: OpenAIServer) -> Iterator[Start]:
    """Start several machines at once; none is left at the end."""
    started: list[Machine] = []

    def start(number: int, **terms: Any) -> list[Machine]:
        for _ in range(number):
            started.append(
                Machine(tmp_path / f"machine_{len(started)}", **{"provider": provider, **terms})
            )
        return started

    yield start
    for machine in started:
        if machine.process.poll() is None:
            machine.process.kill()
            machine.process.communicate()


def paid_once(receipts: list[dict[str, Any]], provider: OpenAIServer, functions: int) -> None:
    """Check that all machines have every judgment, and that each was paid for once."""
    coverage = [receipt["coverage"] for receipt in receipts]
    assert [account["candidates"] for account in coverage] == [functions] * len(receipts)
    assert [account["unjudged"] for account in coverage] == [0] * len(receipts)
    assert (
        sum(account["judged"] for account in coverage) == functions == provider.counts.requests
    )


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_a_decision_judge_is_paid_once_too(machines: Start, shared: SharedSettings) -> None:
    """Requests of hundreds of questions are claimed and shared like prompts of one memory."""
    with DecisionServer(score=lambda _memory, _turn: 4, latency_s=0.3) as host:
        started = machines(
            2, functions=800, shared=shared, provider=host, judge="systemone:jev-1.14.0"
        )
        coverage = [account.receipt()["coverage"] for account in started]
        assert [(account["candidates"], account["unjudged"]) for account in coverage] == [
            (800, 0)
        ] * 2
        assert sum(account["judged"] for account in coverage) == host.questions == 800
        assert set(host.judged.values()) == {1}


def _all_are_judging(counts: Counts) -> bool:
    """Whether every machine, each with a key of its own, has sent a request."""
    return len(counts.keys) == MACHINES


def _has_requests(provider: OpenAIServer, least: int) -> bool:
    """Whether the host has had this many requests."""
    return provider.counts.requests >= least


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_a_restart_of_the_server_in_the_middle_loses_nothing(
    machines: Start, provider: OpenAIServer, shared: SharedSettings, running: ServerProcess
) -> None:
    """Killed and restarted on its data, the server has everything it acknowledged: nothing is paid
    twice."""
    # A machine that starts while the server is down would rightly go on without it.
    provider.may_reply = _all_are_judging
    started = machines(MACHINES, functions=400, shared=shared)
    for after in (80, 200):
        wait_until(
            partial(_has_requests, provider, after),
            otherwise="they judge nothing",
        )
        running.kill()
        running.start()
    receipts = [machine.receipt() for machine in started]
    paid_once(receipts, provider, 400)
    assert [receipt["warnings"] for receipt in receipts] == [[]] * MACHINES


@pytest.mark.verify
@pytest.mark.timeout(300)
def test_what_a_killed_machine_was_paying_for_is_taken_over(
    machines: Start, provider: OpenAIServer, shared: SharedSettings, running: ServerProcess
) -> None:
    """The others finish after its lease, and pay again for its calls in flight and unshared
    judgments."""
    provider.may_reply = _all_are_judging
    started = machines(MACHINES, functions=300, shared=shared)
    wait_until(lambda: provider.counts.requests >= 80, otherwise="they judge nothing")
    started[0].process.kill()
    started[0].ended()
    receipts = [machine.receipt() for machine in started[1:]]
    assert [receipt["coverage"]["unjudged"] for receipt in receipts] == [0] * 3
    # In flight, and what came in since it last told the server.
    untold = 16 * (1 + round(GATHER_S / LATENCY_S))
    assert 300 <= provider.counts.requests <= 300 + untold
