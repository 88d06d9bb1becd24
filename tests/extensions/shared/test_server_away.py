"""A server of judgments that is away: one turn finds out, the next ones do not wait for it."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.team.storm_network import StormNetwork
from tests.extensions.shared.test_machines_at_once import Machine
from tests.extensions.shared.test_unsent import ask as ask_in
from tests.extensions.shared.test_unsent import tree
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until
from xscore.extensions.shared.cancellation import cancellable
from xscore.extensions.shared.connect import shared_server_name
from xscore.extensions.shared.link import NEAR_S
from xscore.extensions.shared.outage import REMEMBERED_S, OutageMemory
from xscore.extensions.shared.patience import ServerPatience
from xscore.extensions.shared.unsent import UnsentTurns
from xscore.pipeline.build import Pipeline
from xscore.pipeline.resources import open_resources
from xscore.platform.errors import ExitCode
from xscore.platform.paths import find_root
from xscore.records.judgment import ClaimState, JudgeIdentity
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import BudgetSettings, Secret, Settings, StoreSettings
from xscore.settings.model import SharedSettings
from xscore.store.store import Store


class HalfAlive(Struct):
    """A server that shows a sign of life alone."""

    port: int
    was_asked: Event


@pytest.fixture
def host() -> Iterator[OpenAIServer]:
    """A host that judges, and takes half a second for it."""
    with OpenAIServer(latency_s=0.5) as serving:
        yield serving


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections, and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


async def ask(shop: Path, host: OpenAIServer, shared: SharedSettings, task: str) -> Answer:
    """Ask in a new pipeline; all is judged, and one line says what is away."""
    settings = replace(settings_for(host), shared=shared)
    async with Pipeline.open(shop, settings) as pipeline:
        answer = await pipeline.ask(Turn(task=task), answer=False)
    assert answer.coverage.judged == answer.coverage.candidates > 0
    assert len(answer.warnings) == 1
    return answer


async def test_a_silent_server_is_waited_for_once(
    shop: Path, host: OpenAIServer, silent: int
) -> None:
    """The second turn goes on at once, although it might wait for a minute."""
    shared = SharedSettings(url=Secret(f"redis://127.0.0.1:{silent}/0"), timeout_s=0.3)
    await ask(shop, host, shared, "Where is the discount?")
    patient = replace(shared, timeout_s=60)
    answer = await ask(shop, host, patient, "Where is the total?")
    assert answer.latency.judge < 50


@pytest.mark.parametrize("usual_s", [None, 0.002])
async def test_a_silent_server_is_given_up_soon(
    shop: Path, host: OpenAIServer, silent: int, usual_s: float | None
) -> None:
    """Whether it never answered this store, or usually answers at once; a knock alone has a
    minute."""
    shared = SharedSettings(url=Secret(f"redis://127.0.0.1:{silent}/0"), timeout_s=60)
    settings = replace(settings_for(host), shared=shared)
    with Store.open_with(find_root(shop), settings, create=True) as store:
        assert ServerPatience(store.connection, shared_server_name(shared)).wait_s() is None
        if usual_s is not None:
            ServerPatience(store.connection, shared_server_name(shared)).learn(usual_s)
    answer = await ask(shop, host, shared, "Where is the discount?")
    assert answer.latency.judge < 50


async def test_a_name_that_is_looked_up_for_long_holds_no_turn(
    shop: Path, host: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may take a minute to say that it does not know it."""
    look_up = socket.getaddrinfo
    turn_is_over = Event()
    looks: list[str] = []

    def look_up_slowly(name: str, *terms: Any, **options: Any) -> Any:
        if name != "judgments.invalid":
            return look_up(name, *terms, **options)
        looks.append(name)
        turn_is_over.wait(60)
        raise socket.gaierror("nobody knows it")

    monkeypatch.setattr(socket, "getaddrinfo", look_up_slowly)
    shared = SharedSettings(url=Secret("rediss://judgments.invalid/0"), timeout_s=60)
    answer = await ask(shop, host, shared, "Where is the discount?")
    turn_is_over.set()
    assert answer.latency.judge < 50 and looks == ["judgments.invalid"]


def test_patience_follows_how_long_a_server_takes(store: Store) -> None:
    """It grows with a slow answer at once, falls by half with a quick one, and is each server's
    own."""

    def learned(*answers_s: float) -> float | None:
        for answer_s in answers_s:
            ServerPatience(store.connection, "near").learn(answer_s)
        return ServerPatience(store.connection, "near").wait_s()

    assert learned() is None
    assert learned(0.001) == NEAR_S
    assert learned(0.02) == pytest.approx(0.16)
    assert learned(0.001) == pytest.approx(0.08)
    assert learned(0.001, 0.001, 0.001, 0.001) == NEAR_S
    # Of one that is far away: a quarter of a second more.
    assert learned(0.6) == pytest.approx(0.85)
    assert ServerPatience(store.connection, "far").wait_s() is None


@pytest.fixture
def half_alive() -> Iterator[HalfAlive]:
    """A server of either kind that says that it is there, and answers nothing else."""
    was_asked = Event()

    def serve(connection: socket.socket) -> None:
        # Whether it speaks TLS or another encryption: it does not.
        with closing(connection), suppress(OSError):
            while request := connection.recv(1_000):
                if len(request) == 8 or b"PING" in request:
                    connection.sendall(b"+PONG\r\n" if b"PING" in request else b"N")
                else:
                    was_asked.set()

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                Thread(target=serve, args=(connection,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        Thread(target=accept, args=(listener,), daemon=True).start()
        yield HalfAlive(listener.getsockname()[1], was_asked)


async def test_a_driver_that_loses_a_cancellation_holds_no_turn() -> None:
    """It goes on by itself, and who waited for it is free."""
    may_end = asyncio.Event()

    async def deaf() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await may_end.wait()

    waiting = asyncio.create_task(cancellable(deaf()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    may_end.set()


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
async def test_neither_ctrl_c_nor_the_deadline_waits_for_it(
    shop: Path, host: OpenAIServer, half_alive: HalfAlive, scheme: str
) -> None:
    """It may take half a minute, also in the handshake of a driver: the turn ends with its receipt
    all the same."""
    url = f"{scheme}://127.0.0.1:{half_alive.port}/0"
    # On a busy machine it shows its sign of life late.
    shared = SharedSettings(url=Secret(url), timeout_s=30, first_wait_s=30)
    settings = replace(settings_for(host), shared=shared)
    async with Pipeline.open(shop, settings) as pipeline:
        turn = Turn(task="Where is the discount?")
        asking = asyncio.ensure_future(pipeline.ask(turn, answer=False))
        await asyncio.to_thread(half_alive.was_asked.wait)
        asking.cancel()
        answer = await asking
    assert answer.exit_code is ExitCode.INTERRUPTED and answer.coverage.judged == 0
    # Nothing is known about how long another tenant takes.
    unknown = replace(shared, tenant="another")
    hurried = replace(settings, shared=unknown, budget=BudgetSettings(deadline_s=1))
    async with Pipeline.open(shop, hurried) as pipeline:
        answer = await pipeline.ask(Turn(task="Where is the total?"), answer=False)
    assert answer.latency.total < 15 and answer.coverage.unjudged > 0


def test_an_outage_is_remembered_for_some_minutes_and_for_its_server(store: Store) -> None:
    """After that the server is waited for again; another server is not taken for it."""
    now = 1_000.0

    def memory(server: str = "redis://a, tenant t") -> OutageMemory:
        return OutageMemory(store.connection, server, clock=lambda: now)

    memory().remember("it says nothing")
    now += REMEMBERED_S - 1
    # A turn without it, in between, does not make it last longer.
    memory().remember("it says nothing")
    assert memory().problem() == "it says nothing"
    assert memory("redis://b, tenant t").problem() == ""
    now += 2
    assert memory().problem() == ""
    memory().remember("it says nothing")
    memory().remember("")
    assert memory().problem() == ""


async def test_a_server_that_is_back_is_used_again(
    shop: Path, host: OpenAIServer, shared: SharedSettings
) -> None:
    """A turn that began without it finds it during its work, and forgets the outage."""
    settings = replace(settings_for(host), shared=shared)
    async with Pipeline.open(shop, settings) as pipeline:
        store = pipeline.parts.store

        def outages() -> OutageMemory:
            name = shared_server_name(shared)
            return OutageMemory(store.connection, name, clock=store.clock)

        outages().remember("it was away")
        # A short turn may be over before the driver is there.
        async with asyncio.timeout(60):
            while outages().problem():
                await pipeline.ask(
                    Turn(task=f"Where is discount {time.time_ns()}?"), answer=False
                )


async def test_a_server_far_away_is_given_up_by_the_first_turn_alone(
    tmp_path: Path, shared: SharedSettings, running: ServerProcess
) -> None:
    """It goes on without it, and learns how long it takes; a later one waits for so long, has the
    server from its first claim, and sends what the others have judged: a colleague pays for
    nothing."""
    first, colleague = tree(tmp_path / "a" / "code"), tree(tmp_path / "b" / "code")
    network = StormNetwork(port_of(running.url))
    # Longer than a turn waits for a server that it does not know, or that was away.
    network.delay_answers(3 * NEAR_S)
    far = replace(shared, url=Secret(far_url(running, network)), first_wait_s=NEAR_S)
    tasks: list[str] = []
    with OpenAIServer(latency_s=0.5) as host:
        # Until the first turn has begun to judge without it.
        network.hold()
        host.may_reply = lambda _: network.let_through()

        async def ask_one_more() -> Answer:
            tasks.append(f"Why is it {len(tasks)}?")
            answer = await ask_in(first, host, far, tasks[-1])
            assert answer.coverage.judged == answer.coverage.candidates > 0
            return answer

        alone = await ask_one_more()
        assert len(alone.warnings) == 1
        joined = await ask_one_more()
        # On a busy machine a turn may be over before the answer is there, or it takes longer.
        while joined.warnings or owes_anything(first, host, far):
            assert len(tasks) < 50
            joined = await ask_one_more()
        paid = host.counts.judgments.total()
        for task in tasks:
            answer = await ask_in(colleague, host, shared, task)
            assert (answer.coverage.judged, answer.coverage.unjudged) == (0, 0)
        assert host.counts.judgments.total() == paid


async def test_a_list_of_questions_waits_for_a_server_that_it_does_not_know(
    store: Store, shared: SharedSettings, running: ServerProcess
) -> None:
    """It has time: a claim is not made without a server that answers a little late."""
    network = StormNetwork(port_of(running.url))
    network.hold()
    far = replace(shared, url=Secret(far_url(running, network)), first_wait_s=0, timeout_s=60)
    judge = JudgeIdentity("openai", "host", "m", "", "1", "memory_first", True)
    async with (
        open_resources(store, Settings(shared=far), turn_id="b_list") as resources,
        resources.spending.judgments.claims("turn", judge) as claims,
    ):
        claiming = asyncio.create_task(claims.claim([["a"]], at_most=1))
        await asyncio.sleep(0.1)
        network.let_through()
        (result,) = await claiming
        assert result.state is ClaimState.OURS and resources.spending.warnings() == ()


def far_url(running: ServerProcess, network: StormNetwork) -> str:
    """Return the URL of a server behind a network."""
    return running.url.replace(f":{port_of(running.url)}", f":{network.port}")


def port_of(url: str) -> int:
    """Return the port of a server."""
    port = urlsplit(url).port
    assert port is not None
    return port


def owes_anything(root: Path, host: OpenAIServer, shared: SharedSettings) -> bool:
    """Whether a clone's store has judgments that the server was not sent."""
    settings = replace(
        settings_for(host), store=StoreSettings(user_data_dir=root.parent / "data")
    )
    with Store.open_with(find_root(root), settings, create=True) as store:
        notes = UnsentTurns(store.connection, shared_server_name(shared))
        return bool(notes.left_by_others())


async def test_a_server_that_is_killed_in_a_turn_costs_one_line(
    tmp_path: Path, shared: SharedSettings, running: ServerProcess
) -> None:
    """The turn goes on with what it has claimed here, and judges everything once."""
    with OpenAIServer(latency_s=0.05, keep_bodies=False) as provider:
        impatient = replace(shared, timeout_s=1)
        is_killed = False
        # However long a kill takes, the machine is not done before.
        provider.may_reply = lambda counts: counts.requests <= 20 or is_killed
        machine = Machine(tmp_path / "a", functions=150, provider=provider, shared=impatient)
        wait_until(lambda: provider.counts.requests > 20, machine.process)
        running.kill()
        is_killed = True
        try:
            output, errors = machine.ended()
        finally:
            running.start()
        coverage = json.loads(output)["coverage"]
        assert coverage["judged"] == coverage["candidates"] == provider.counts.requests == 150
        lines = [
            line for line in errors.splitlines() if "continuing with only the local" in line
        ]
        assert len(lines) == 1
