"""The local store with a server behind it: paid once over all stores, stored locally first, and
outages."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from msgspec import Struct

from tests.extensions.shared.conftest import NewLink
from tests.extensions.shared.server_processes import ServerProcess
from tests.extensions.shared.server_programs import free_port
from tests.extensions.shared.team.storm_payments import is_alone
from tests.waiting import slower_attempts
from xscore.cache.group_commit import GroupCommit
from xscore.cache.judgment_store import Claims, StoredJudgments
from xscore.cache.judgments import read_judgments, read_reasons
from xscore.cache.keys import judge_key
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.judgments import SharedJudgmentStore
from xscore.extensions.shared.link import ServerLink
from xscore.platform.errors import SharedUnavailable
from xscore.records.judgment import ClaimState, JudgeIdentity, Judgment
from xscore.settings import Secret
from xscore.settings.model import SharedSettings
from xscore.store.opening import connect_store

JUDGE = JudgeIdentity("openai", "host", "m", "", "1", "memory_first", True)
TURN = "the turn"
PATIENCE_S = 60.0


class MachineStore(Struct):
    """A store as on a separate machine, with the server behind it."""

    path: Path
    link: ServerLink
    through: SharedJudgmentStore

    def claims(self) -> Claims:
        """The claims of the turn."""
        return self.through.claims(TURN, JUDGE)

    async def judge(self, *contents: str) -> None:
        """Pay for contents."""
        write = self.through.writer(TURN, JUDGE)
        await write([Judgment(content, 0.5, f"why {content}") for content in contents])

    def stored(self) -> dict[str, str]:
        """Return the contents in the local store, with their reasons."""
        with closing(connect_store(self.path)) as connection:
            judgments = read_judgments(connection, (TURN, judge_key(JUDGE), 0))
            return {
                content: read_reasons(connection, (TURN, judge_key(JUDGE), 0), [content]).get(
                    content, ""
                )
                for content in sorted(judgments)
            }


OpenMachineStore = Callable[..., Awaitable[MachineStore]]


@pytest.fixture
async def open_machine_store(
    tmp_path: Path, link_to: NewLink
) -> AsyncIterator[OpenMachineStore]:
    """Make places, as on separate machines."""
    async with AsyncExitStack() as stack:

        async def make(name: str, *, lease_s: float = 30.0, **options: object) -> MachineStore:
            link = link_to(**options)
            path = tmp_path / f"{name}.db"
            commits = await stack.enter_async_context(GroupCommit(path))
            through = SharedJudgmentStore(StoredJudgments(commits), link, lease_s=lease_s)
            stack.push_async_callback(through.aclose)
            return MachineStore(path, link, through)

        yield make


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  the server's state has no event to await
            await asyncio.sleep(0.01)


async def test_what_one_was_paid_for_the_other_finds(
    open_machine_store: OpenMachineStore,
) -> None:
    """It is settled without a call, and then the other's store has it with its reason."""
    first, second = await open_machine_store("here"), await open_machine_store("there")
    async with first.claims() as claims:
        (ours,) = await claims.claim([["a", "b"]], at_most=1)
        assert ours.state is ClaimState.OURS
        await first.judge("a", "b")
    async with second.claims() as claims:
        (paid, unpaid) = await claims.claim([["a", "b"], ["c"]], at_most=2)
        assert paid.state is ClaimState.OURS
        assert {content: judgment.score for content, judgment in paid.known.items()} == {
            "a": 0.5,
            "b": 0.5,
        }
        assert unpaid == (await claims.claim([["c"]], at_most=2))[0]
    assert second.stored() == {"a": "why a", "b": "why b"} == first.stored()


async def test_nobody_pays_for_what_another_pays_for(
    open_machine_store: OpenMachineStore,
) -> None:
    """A pack claimed by another machine is free once its runner is done."""
    first, second = await open_machine_store("here"), await open_machine_store("there")
    async with second.claims() as second_claims:
        async with first.claims() as claims:
            await claims.claim([["a"], ["b"]], at_most=2)
            assert [
                result.state for result in await second_claims.claim([["a"], ["b"]], at_most=2)
            ] == [ClaimState.THEIRS] * 2
            with closing(sqlite3.connect(second.path)) as connection:
                await until(
                    lambda: connection.execute("SELECT count(*) FROM claim").fetchone() == (0,)
                )
        assert [result.state for result in await second_claims.claim([["b"]], at_most=2)] == [
            ClaimState.OURS
        ]


async def test_claims_hold_while_their_runner_shows_life(
    open_machine_store: OpenMachineStore,
) -> None:
    """A slow call is not paid twice: heartbeats are sent well within a lease."""
    second = await open_machine_store("there")
    for attempt in slower_attempts():
        lease_s = 1.2 * attempt.slowness
        first = await open_machine_store(f"here_{attempt.number}", lease_s=lease_s)
        pack = [[f"a{attempt.number}"]]
        steps_s: list[float] = []
        with attempt:
            async with first.claims() as claims, second.claims() as second_claims:
                await claims.claim(pack, at_most=1)
                shares: list[ClaimState] = []
                for _ in range(15):
                    begun = time.monotonic()
                    await asyncio.sleep(lease_s / 12)
                    shares.append((await second_claims.claim(pack, at_most=1))[0].state)
                    steps_s.append(time.monotonic() - begun)
            # A machine that holds up this test for so long holds up the heartbeats, too.
            attempt.needs(max(steps_s) < lease_s / 4, f"a step took {max(steps_s):.1f} s")
            assert set(shares) == {ClaimState.THEIRS}


NOBODY = "redis://127.0.0.1:{port}/0"


NESTED = b"*1\r\n" * 3_000 + b":1\r\n"


@pytest.fixture(params=["down", "hanging", "garbage", "nested"])
async def no_server(request: pytest.FixtureRequest) -> AsyncIterator[SharedSettings]:
    """Settings whose URL leads to no shared server: a free port, a silent host, and others."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        await reader.read(10)
        if request.param == "hanging":
            await reader.read()
        writer.write(NESTED if request.param == "nested" else b"\x00\xff$-7\r\n*9999999999\r\n")
        writer.close()

    opened: list[asyncio.StreamWriter] = []

    port = free_port()
    if request.param == "down":
        yield SharedSettings(url=Secret(NOBODY.format(port=port)))
        return
    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = serving.sockets[0].getsockname()[1]
    yield SharedSettings(url=Secret(NOBODY.format(port=port)))
    serving.close()
    for writer in opened:
        writer.transport.abort()
    await asyncio.sleep(0)


async def test_without_the_server_the_local_store_goes_on(
    tmp_path: Path, no_server: SharedSettings, link_of: Callable[..., ServerLink]
) -> None:
    """It is reported once, nothing waits for it twice, and the receipt says what is only local."""
    notes: list[str] = []
    link = link_of(no_server, note=notes.append, timeout_s=0.3, look_again_s=60)
    async with GroupCommit(tmp_path / "memory.db") as commits:
        machine_store = MachineStore(
            tmp_path / "memory.db", link, SharedJudgmentStore(StoredJudgments(commits), link)
        )
        async with machine_store.claims() as claims:
            for content in "abc":
                (result,) = await claims.claim([[content]], at_most=1)
                assert result.state is ClaimState.OURS
                await machine_store.judge(content)
        await machine_store.through.aclose()
        assert machine_store.stored() == {"a": "why a", "b": "why b", "c": "why c"}
    assert notes == []
    assert len(link.warnings()) == 1
    assert machine_store.through.warnings() == (
        "only in the local store, since the shared server was unreachable: 3 judgments",
    )
    # A storm over a team counts turns that paid again for this reason by either line.
    assert is_alone({"warnings": machine_store.through.warnings()})
    assert is_alone({"warnings": link.warnings()})


async def test_a_server_that_answers_nonsense_in_the_middle_of_a_turn_is_given_up(
    tmp_path: Path, link_of: Callable[..., ServerLink]
) -> None:
    """If 3,000 nested arrays come as an answer, every candidate is still claimed and judged
    locally."""
    sane_left = 1

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sane_left
        while request := await reader.read(65_536):
            if b"\r\nGET\r\n" in request:  # the number of the form of its keys
                writer.write(b"$1\r\n1\r\n")
            elif b"EVALSHA" not in request:
                writer.write(b"+OK\r\n" * max(1, request.count(b"SETINFO")))
            else:
                writer.write(b"*3\r\n$1\r\no\r\n*0\r\n*0\r\n" if sane_left else NESTED)
                sane_left = 0
        writer.close()

    notes: list[str] = []
    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = NOBODY.format(port=serving.sockets[0].getsockname()[1])
    link = link_of(SharedSettings(url=Secret(url)), note=notes.append, timeout_s=2)
    async with GroupCommit(tmp_path / "memory.db") as commits, serving:
        machine_store = MachineStore(
            tmp_path / "memory.db", link, SharedJudgmentStore(StoredJudgments(commits), link)
        )
        async with machine_store.claims() as claims:
            for content in "abc":
                (result,) = await claims.claim([[content]], at_most=1)
                assert result.state is ClaimState.OURS and link.is_unavailable == (
                    content != "a"
                )
                await machine_store.judge(content)
        await machine_store.through.aclose()
        assert list(machine_store.stored()) == ["a", "b", "c"]
        await link.aclose()
    (once,) = notes
    assert "continuing with only the local store" in once
    assert len(link.warnings()) == 1 and len(machine_store.through.warnings()) == 1


async def test_a_required_server_stops_the_run(
    tmp_path: Path, no_server: SharedSettings, link_of: Callable[..., ServerLink]
) -> None:
    """Nothing is claimed, so nothing is paid for; the error names the remedy."""
    link = link_of(no_server, require=True, timeout_s=0.3)
    async with GroupCommit(tmp_path / "memory.db") as commits:
        through = SharedJudgmentStore(StoredJudgments(commits), link)
        async with through.claims(TURN, JUDGE) as claims:
            with pytest.raises(SharedUnavailable) as caught:
                await claims.claim([["a"]], at_most=1)
    assert caught.value.exit_code == 6
    assert "--require-shared" in caught.value.hint


@pytest.fixture
async def link_of() -> AsyncIterator[Callable[..., ServerLink]]:
    """Make links from any settings."""
    async with AsyncExitStack() as stack:

        def make(settings: SharedSettings, **options: object) -> ServerLink:
            link = ServerLink(server_factory(settings), **{"require": False, **options})  # type: ignore[arg-type]  # each test passes valid options
            stack.push_async_callback(link.aclose)
            return link

        yield make


async def test_what_was_judged_meanwhile_is_told_when_it_is_back(
    open_machine_store: OpenMachineStore, running: ServerProcess
) -> None:
    """An outage loses nothing: earlier judgments are there, and those made during it arrive."""
    notes: list[str] = []
    first = await open_machine_store("here", note=notes.append, timeout_s=5, look_again_s=0.1)
    second = await open_machine_store("there")
    async with first.claims() as claims:
        await claims.claim([["a"]], at_most=1)
        await first.judge("a")
        await first.through.aclose()
        running.kill()
        try:
            await claims.claim([["b"]], at_most=1)
            await first.judge("b")
        finally:
            running.start()
        await until(lambda: len(notes) >= 2)
        assert notes[1].endswith("answers again")
        await until(lambda: not first.through.warnings())
    async with second.claims() as second_claims:
        (result,) = await second_claims.claim([["a", "b"]], at_most=1)
        assert set(result.known) == {"a", "b"}
