"""Specific to PostgreSQL: table creation, rights, ended connections, hanging servers and clients,
locks."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from decimal import Decimal
from secrets import token_hex

import psycopg
import pytest

from tests.extensions.shared.server_processes import ServerProcess
from tests.waiting import wait_until
from xscore.extensions.shared import postgres_server
from xscore.extensions.shared.postgres_server import PostgresDriver
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.records.judgment import ClaimState, Judgment

pytestmark = pytest.mark.parametrize("running", ["postgres"], indirect=True, scope="session")
TURN = ("turn", "judge", 0)
DAY = "2026-11-22"
DEADLOCKS = "SELECT sum(deadlocks) FROM pg_stat_database"
PATIENCE_S = 30.0
Admin = psycopg.Connection[tuple[object, ...]]
Machine = Callable[..., SharedServer]


@pytest.fixture
def admin(running: ServerProcess) -> Iterator[Admin]:
    """A connection as the owner."""
    with closing(psycopg.connect(running.url, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def url(running: ServerProcess, admin: Admin, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database; its options are the test's parameter."""
    name = f"db_{token_hex(4)}"
    admin.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 {getattr(request, 'param', '')}".encode()
    )
    yield running.url.rpartition("/")[0] + f"/{name}"
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
async def machine(url: str) -> AsyncIterator[Machine]:
    """Make servers, each as from a separate machine; closed at the end."""
    async with AsyncExitStack() as stack:

        def make(address: str = url) -> SharedServer:
            shared_server = SharedServer(PostgresDriver(address, tenant="t"))
            stack.push_async_callback(shared_server.aclose)
            return shared_server

        yield make


def do(url: str, *statements: str) -> None:
    """Run statements as the owner."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def claim(server: SharedServer, *contents: str, runner: str = "one") -> str:
    """Claim contents one by one; return the owners by first letter."""
    results = await server.claim(
        TURN, [[content] for content in contents], at_most=99, runner=runner, lease_s=30
    )
    return "".join(result.state.value[0] for result in results)


async def refused(request: Awaitable[object]) -> SharedUnavailable:
    """Return why the server is unavailable."""
    with pytest.raises(SharedUnavailable) as caught:
        await request
    return caught.value


async def test_tables_are_made_once_by_many_at_once(machine: Machine) -> None:
    """Eight that use a new database at once all get an answer, and share."""
    shares = await asyncio.gather(
        *(claim(machine(), "a", runner=str(number)) for number in range(8))
    )
    assert sorted(shares) == ["o", *"t" * 7]


async def test_tables_of_a_newer_version_are_left_alone(machine: Machine, url: str) -> None:
    """An older xscore names both numbers, and how to go on."""
    await claim(machine(), "a")
    do(url, "UPDATE xscore.version SET number = 9")
    error = await refused(machine().check())
    assert "newer xscore (schema 9; this one reads 1)" in error.message
    assert "Upgrade xscore" in error.hint


async def test_older_tables_are_migrated_once_by_many_at_once(
    machine: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step runs once, under a lock; judgments stay, and who still reads the version before is
    told."""
    older = machine()
    await older.store_judgments(TURN, [Judgment("a", 0.5)])
    monkeypatch.setattr(postgres_server, "VERSION", 2)
    step = "ALTER TABLE xscore.judgment ADD COLUMN note text NOT NULL DEFAULT ''"
    monkeypatch.setattr(postgres_server, "STEPS", {2: step})
    claims = [claim(machine(), "a", runner=str(number)) for number in range(8)]
    assert await asyncio.gather(*claims) == ["o"] * 8
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT number FROM xscore.version").fetchall() == [(2,)]
        assert connection.execute("SELECT content, note FROM xscore.judgment").fetchall() == [
            ("a", "")
        ]
    monkeypatch.setattr(postgres_server, "VERSION", 1)
    assert (
        "newer xscore (schema 2; this one reads 1)"
        in (await refused(machine().check())).message
    )


async def test_a_step_that_fails_leaves_the_tables_as_they_were(
    machine: Machine, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step did before it failed is undone, and the number stays."""
    await machine().store_judgments(TURN, [Judgment("a", 0.5)])
    with monkeypatch.context() as patch:
        patch.setattr(postgres_server, "VERSION", 2)
        patch.setattr(postgres_server, "STEPS", {2: "DROP TABLE xscore.judgment; SELECT 1 / 0"})
        await refused(machine().check())
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT number FROM xscore.version").fetchall() == [(1,)]
        assert connection.execute("SELECT content FROM xscore.judgment").fetchall() == [("a",)]


async def test_tables_that_were_dropped_are_made_again(machine: Machine, url: str) -> None:
    """A running process recovers from removed tables."""
    server = machine()
    await claim(server, "a")
    do(url, "DROP SCHEMA xscore CASCADE")
    assert "xscore" in (await refused(claim(server, "a"))).message
    assert await claim(server, "a", runner="two") == "o"


async def test_connections_that_were_closed_are_replaced_unseen(
    machine: Machine, admin: Admin
) -> None:
    """After a restart, or behind a firewall that drops connections, no request fails."""
    server = machine()
    await asyncio.gather(*(claim(server, str(number)) for number in range(8)))
    assert ended(admin, server) > 1
    wait_until(lambda: not connections(admin, server))
    assert await claim(server, "a") == "o"
    assert ended(admin, server) == 1


def connections(admin: Admin, server: SharedServer) -> int:
    """Return the number of connections to its database."""
    counting = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    (row,) = admin.execute(counting, (server.name.rpartition("/")[2],)).fetchall()
    return int(str(row[0]))


def ended(admin: Admin, server: SharedServer) -> int:
    """End all connections to its database; return their number."""
    ending = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
    (row,) = admin.execute(ending, (server.name.rpartition("/")[2],)).fetchall()
    return int(str(row[0]))


@pytest.mark.parametrize("kept", [0, 3])
async def test_a_server_that_hangs_is_given_up_in_time(
    running: ServerProcess, machine: Machine, kept: int
) -> None:
    """No call waits on, no connection is left behind, and once it answers again it is used
    again."""
    server = machine()
    await asyncio.gather(*(claim(server, str(number)) for number in range(kept)))
    running.hang()
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await claim(server, "a")
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gc.collect()  # a connection that was forgotten would be told of as a ResourceWarning
    finally:
        running.go_on()
    async with asyncio.timeout(PATIENCE_S):
        await server.check()
        assert await claim(server, "b") == "o"


async def test_claimers_of_the_same_contents_do_not_lock_each_other_out(
    machine: Machine, admin: Admin
) -> None:
    """Eight claim, keep and release in any order: each content has one owner at a time, without
    deadlock."""
    owners: dict[str, str] = {}
    deadlocks_before = admin.execute(DEADLOCKS).fetchone()

    async def run(number: int) -> None:
        server, order, runner = machine(), random.Random(number), f"r{number}"
        for _ in range(12):
            contents = order.sample([str(content) for content in range(40)], 10)
            results = await server.claim(
                TURN, [[content] for content in contents], at_most=9, runner=runner, lease_s=30
            )
            mine = [
                c
                for c, result in zip(contents, results, strict=True)
                if result.state is ClaimState.OURS and not result.known
            ]
            for content in mine:
                assert owners.setdefault(content, runner) == runner
            await server.heartbeat(runner, lease_s=30)
            for content in mine[1:]:
                del owners[content]
            await server.store_judgments(TURN, [Judgment(content, 0.5) for content in mine[:1]])
            await server.release_runner(runner)

    await asyncio.gather(*(run(number) for number in range(8)))
    assert admin.execute(DEADLOCKS).fetchone() == deadlocks_before


async def test_leaving_does_not_end_what_was_taken_over(machine: Machine, url: str) -> None:
    """Runners gone for a day are forgotten with their claims; claims taken over since are kept."""
    server = machine()
    await claim(server, "a", "b", runner="gone")
    do(url, "UPDATE xscore.runner SET until = now() - interval '2 days'")
    assert await claim(server, "a", runner="two") == "o"
    await server.release_runner("three")
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT content, runner FROM xscore.claim").fetchall() == [
            ("a", "two")
        ]
        assert connection.execute("SELECT name FROM xscore.runner").fetchall() == [("two",)]


async def reserve(
    server: SharedServer, name: str, usd: str, *, cap: str = "1", day: str = DAY
) -> Decimal:
    """Let a reservation hold dollars of a capped day."""
    return await server.reserve(
        name, day, Decimal(usd), Decimal(0), cap_usd=Decimal(cap), lease_s=30
    )


async def test_reservations_of_days_long_gone_are_forgotten(machine: Machine, url: str) -> None:
    """The table does not grow for ever; the day's spending stays."""
    server = machine()
    await reserve(server, "old", "1", day="2026-11-01")
    await reserve(server, "today", "0.4")
    do(url, "UPDATE xscore.reservation SET until = now() - interval '4 days'")
    await server.reserve("today", DAY, Decimal(0), Decimal("0.4"), cap_usd=None)
    assert await reserve(server, "another", "0.7") == Decimal("-0.1")
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT name FROM xscore.reservation").fetchall() == [
            ("today",)
        ]


async def test_transactions_that_read_an_old_state_are_refused(
    machine: Machine, url: str
) -> None:
    """With repeatable reads a cap could be exceeded unseen: an error says what to set."""
    await claim(machine(), "a")
    name = url.rpartition("/")[2]
    do(url, f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")
    assert (
        "default_transaction_isolation"
        in (await refused(reserve(machine(), "one", "1"))).message
    )
