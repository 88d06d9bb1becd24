"""A server of judgments that is away: one turn finds out, the next ones do not wait for it."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.test_machines_at_once import Machine
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.waiting import wait_until
from xscore.extensions.shared.cancellation import cancellable
from xscore.extensions.shared.connect import shared_server_name
from xscore.extensions.shared.link import NEAR_S
from xscore.extensions.shared.outage import REMEMBERED_S, OutageMemory
from xscore.extensions.shared.patience import ServerPatience
from xscore.extensions.shared.server import SIGN_OF_LIFE_SHARE
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import ExitCode
from xscore.platform.paths import find_root
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import BudgetSettings, Secret
from xscore.settings.model import SharedSettings
from xscore.store.store import Store


class HalfAlive(Struct):
    """A server that shows a sign of life alone."""

    port: int
    was_asked: asyncio.Event


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


async def test_a_server_that_usually_answers_at_once_is_given_up_soon(
    shop: Path, host: OpenAIServer, silent: int
) -> None:
    """It never answered this store, and so has all of its time; or it did, and has a part of it."""
    url = Secret(f"redis://127.0.0.1:{silent}/0")
    # A knock alone has a minute.
    shared = SharedSettings(url=url, timeout_s=60 * SIGN_OF_LIFE_SHARE)
    settings = replace(settings_for(host), shared=shared)
    with Store.open_with(find_root(shop), settings, create=True) as store:
        assert ServerPatience(store.connection, shared_server_name(shared)).wait_s() is None
        ServerPatience(store.connection, shared_server_name(shared)).learn(0.002)
    answer = await ask(shop, host, shared, "Where is the discount?")
    assert answer.latency.judge < 50


def test_patience_follows_how_long_a_server_takes(store: Store) -> None:
    """It grows with a slow answer at once, falls by half with a quick one, and is each server's
    own."""

    def learned(*answers_s: float) -> float | None:
        for answer_s in answers_s:
            ServerPatience(store.connection, "near").learn(answer_s)
        return ServerPatience(store.connection, "near").wait_s()

    assert learned() is None
    assert learned(0.001) == NEAR_S
    assert learned(0.1) == pytest.approx(0.8)
    assert learned(0.001) == pytest.approx(0.4)
    assert learned(0.001, 0.001, 0.001, 0.001) == NEAR_S
    assert ServerPatience(store.connection, "far").wait_s() is None


@pytest.fixture
async def half_alive() -> AsyncIterator[HalfAlive]:
    """A server of either kind that says that it is there, and answers nothing else."""
    was_asked = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        # Whether it speaks TLS or another encryption: it does not.
        request = b""
        with suppress(ConnectionError):
            while len(request := await reader.read(1_000)) == 8 or b"PING" in request:
                writer.write(b"+PONG\r\n" if b"PING" in request else b"N")
        if request:
            was_asked.set()

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield HalfAlive(serving.sockets[0].getsockname()[1], was_asked)
    serving.close()
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0)


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
    shared = SharedSettings(url=Secret(url), timeout_s=30)
    settings = replace(settings_for(host), shared=shared)
    async with Pipeline.open(shop, settings) as pipeline:
        turn = Turn(task="Where is the discount?")
        asking = asyncio.ensure_future(pipeline.ask(turn, answer=False))
        await half_alive.was_asked.wait()
        asking.cancel()
        answer = await asking
    assert answer.exit_code is ExitCode.INTERRUPTED and answer.coverage.judged == 0
    hurried = replace(settings, budget=BudgetSettings(deadline_s=1))
    async with Pipeline.open(shop, hurried) as pipeline:
        answer = await pipeline.ask(Turn(task="Where is the total?"), answer=False)
    assert answer.latency.total < 15 and answer.coverage.unjudged > 0


def test_an_outage_is_remembered_for_some_minutes_and_for_its_server(store: Store) -> None:
    """Then the server is waited for again; another server is not taken for it."""
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
    """A turn that began without it finds it beside its work, and forgets the outage."""
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
