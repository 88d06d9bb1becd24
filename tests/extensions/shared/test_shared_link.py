"""A process's link to the server: messages when it is lost and returns, however often."""

import asyncio
import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.extensions.shared.conftest import Relay
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import StoredJudgments
from xscore.extensions.shared.judgments import SharedJudgmentStore
from xscore.extensions.shared.knock import ServerKnock
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.records.judgment import JudgeIdentity, Judgment

JUDGE = JudgeIdentity("openai", "host", "m", "", "1", "memory_first", True)


async def life(server: SharedServer) -> bool:
    """Send a request."""
    await server.heartbeat("one", lease_s=1)
    return True


async def test_each_outage_is_said_and_each_return(server: SharedServer) -> None:
    """In pairs, so that the latest line shows the state; many requests in one outage report it
    once."""
    flapping, notes = Relay(server), list[str]()
    link = flapping.link(require=False, timeout_s=0.2, note=notes.append, look_again_s=0.01)
    # On a busy machine connecting takes longer than the deadline.
    while not await link.ask(life, otherwise=False):
        await link.wait_until_back()
    notes.clear()
    for outage in (1, 2):
        flapping.is_unavailable = True
        assert (
            await asyncio.gather(*(link.ask(life, otherwise=False) for _ in range(3)))
            == [False] * 3
        )
        flapping.is_unavailable = False
        await link.wait_until_back()
        assert await link.ask(life, otherwise=False)
        assert ["goes on" if "continuing" in line else "back" for line in notes] == [
            "goes on",
            "back",
        ] * outage
    assert (
        notes[0]
        == "the shared server is away (it said so, 1); continuing with only the local store"
    )
    assert link.warnings()[0].startswith("the shared server is away (it said so, 1); what")
    flapping.is_unavailable = False
    await link.aclose()


async def test_an_outage_from_the_start_is_said_once_it_lasts(server: SharedServer) -> None:
    """A short turn has one line, in its receipt; a longer run reports it at once."""
    flapping, notes = Relay(server), list[str]()
    is_told = asyncio.Event()

    def note(line: str) -> None:
        notes.append(line)
        is_told.set()

    flapping.is_unavailable = True
    link = flapping.link(require=False, timeout_s=0.2, note=note, look_again_s=0.01)
    assert not await link.ask(life, otherwise=False)
    assert notes == []
    assert len(link.warnings()) == 1
    await is_told.wait()
    flapping.is_unavailable = False
    await link.wait_until_back()
    assert len(notes) == 2
    await link.aclose()


async def test_a_server_that_was_not_waited_for_is_used_once_it_answers(
    server: SharedServer,
) -> None:
    """The first request gives up early; the sign of life that comes later brings the server
    back."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        knock = ServerKnock(f"redis://127.0.0.1:{listener.getsockname()[1]}/0", timeout_s=30)
        link = Relay(server).link(require=False, timeout_s=30, knock=knock, patience_s=0.01)
        assert not await link.ask(life, otherwise=False)
        connection, _ = listener.accept()
        with closing(connection):
            connection.sendall(b"+")
    await link.wait_until_back()
    assert await link.ask(life, otherwise=False) and not link.has_failed
    await link.aclose()


async def test_a_required_server_that_dies_at_the_end_ends_the_run(
    server: SharedServer, tmp_path: Path
) -> None:
    """What was not sent is in the local store, and the run does not count as fully shared."""
    flapping = Relay(server)
    link = flapping.link(timeout_s=1)
    async with GroupCommit(tmp_path / "memory.db") as commits:
        through = SharedJudgmentStore(StoredJudgments(commits), link)
        with pytest.raises(SharedUnavailable):
            async with through.claims("turn", JUDGE) as claims:
                await claims.claim([["a"]], at_most=1)
                flapping.is_unavailable = True
                await through.writer("turn", JUDGE)([Judgment("a", 0.5)])
        with pytest.raises(SharedUnavailable):  # without waiting
            await link.wait_until_back()
        await through.aclose()
    assert through.warnings() == (
        "only in the local store, since the shared server was unreachable: 1 judgment",
    )
    await link.aclose()
