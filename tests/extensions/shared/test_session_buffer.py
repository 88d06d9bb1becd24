"""A session goes on on another machine of the same user; nobody else reads it, and Redis may lose
it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from secrets import token_hex

import pytest
import redis.asyncio as redis
from msgspec.structs import replace

from tests.conftest import commit_all, git, write_files
from tests.extensions.shared.server_processes import ServerProcess, run_redis
from tests.pipeline.conftest import FILES, TASK, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.privacy.erasure import erase_memories
from xscore.extensions.privacy.owed_erasures import settle_owed_erasures
from xscore.extensions.shared.connect import shared_server_name
from xscore.extensions.shared.team import session_buffer
from xscore.extensions.shared.team.session_buffer import (
    BufferedExchange,
    SessionBuffer,
    take_session,
)
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import UsageError
from xscore.platform.paths import find_root
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Secret, Settings, StoreSettings
from xscore.settings.model import SharedSettings
from xscore.store.memory_queries import latest_exchanges
from xscore.store.store import Store

pytestmark = pytest.mark.verify

ANSWER = "The discount is a tenth, said on the first machine."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A Redis."""
    started = run_redis(tmp_path_factory.mktemp("redis"))
    yield started
    started.kill()


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn waits for a server of this machine however busy it is."""
    monkeypatch.setattr(session_buffer, "NEAR_S", 30.0)


@pytest.fixture
def shared(server: ServerProcess) -> SharedSettings:
    """The settings of one user, in a tenant of its own."""
    return SharedSettings(
        url=Secret(server.url),
        tenant=f"t-{token_hex(6)}",
        timeout_s=30,
        session_key=Secret(bytes(range(1, 33)).hex()),
    )


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator["redis.Redis"]:
    """Somebody with an account on the server."""
    opened = redis.Redis.from_url(server.url, decode_responses=True)
    yield opened
    await opened.aclose()


@pytest.fixture
def host() -> Iterator[OpenAIServer]:
    """A host that judges and answers."""
    with OpenAIServer(answer=ANSWER, score=table({"def ": 95})) as running:
        yield running


class Computer:
    """A machine of a user, with a clone and a home of its own."""

    def __init__(self, home: Path, host: OpenAIServer, shared: SharedSettings) -> None:
        write_files(home / "shop", FILES)
        self.root = commit_all(home / "shop")
        git(self.root, "remote", "add", "origin", "git@github.com:acme/shop.git")
        self.host = host
        self.shared = shared
        self.data = home / "data"

    def settings(self) -> Settings:
        """Return the settings of a turn."""
        home = StoreSettings(user_data_dir=self.data)
        return replace(settings_for(self.host), shared=self.shared, store=home)

    async def ask(self, turn: Turn = TASK) -> Answer:
        """Ask, and have it answered."""
        async with Pipeline.open(self.root, self.settings()) as pipeline:
            return await pipeline.ask(turn)

    def store(self) -> Store:
        """Open the store."""
        return Store.open_with(find_root(self.root), self.settings(), create=True)

    async def take(self) -> int:
        """Take what other machines have kept."""
        exchanges, unreadable = await SessionBuffer(self.shared).exchanges(now=time.time())
        assert unreadable == 0
        with self.store() as store:
            return self.take_into(store, exchanges)

    def take_into(self, store: Store, exchanges: Sequence[BufferedExchange]) -> int:
        """Bring exchanges into the session of the branch."""
        server = shared_server_name(self.shared)
        return take_session(store, exchanges, branch="main", server=server)


async def test_a_session_goes_on_on_another_machine(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings, client: "redis.Redis"
) -> None:
    """The second machine takes the exchange once, and a follow-up shows it to the answering model;
    its own answer comes back to the first."""
    first, second = (
        Computer(tmp_path / "a", host, shared),
        Computer(tmp_path / "b", host, shared),
    )
    assert not (await first.ask()).warnings
    assert await second.take() == 1
    assert await second.take() == 0
    host.counts.bodies.clear()
    await second.ask(Turn(task="And of the total?", follows_latest=True))
    assert ANSWER in str(host.counts.bodies[-1])
    assert await first.take() == 1
    # All that is there ends by itself.
    keys = await client.keys(f"xscore:{{{shared.tenant}}}:session:*")
    assert len(keys) == 2
    for key in keys:
        assert 0 < await client.ttl(key) <= 24 * 3_600


async def test_nobody_else_reads_it(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings, client: "redis.Redis"
) -> None:
    """Another user of the tenant, the same key in another tenant, and whoever reads the server's
    bytes or moves an entry learn nothing; what they plant is skipped."""
    await Computer(tmp_path / "a", host, shared).ask()
    colleague = replace(shared, session_key=Secret(bytes(range(101, 133)).hex()))
    elsewhere = replace(shared, tenant=f"t-{token_hex(6)}")
    for settings in (colleague, elsewhere):
        assert await SessionBuffer(settings).exchanges(now=time.time()) == ([], 0)
    key = f"xscore:{{{shared.tenant}}}:session:{SessionBuffer(shared).user}"
    ((name, text),) = (await client.hgetall(key)).items()
    for word in ("discount", "tenth", "acme", "shop", "main"):
        assert word not in str(name) + str(text)
    # The same bytes under the colleague's name, and in the other tenant.
    planted_for = SessionBuffer(colleague).user
    await client.hset(f"xscore:{{{shared.tenant}}}:session:{planted_for}", name, text)
    assert await SessionBuffer(colleague).exchanges(now=time.time()) == ([], 1)
    user_there = SessionBuffer(elsewhere).user
    await client.hset(f"xscore:{{{elsewhere.tenant}}}:session:{user_there}", name, text)
    assert await SessionBuffer(elsewhere).exchanges(now=time.time()) == ([], 1)
    # Under another name of the same user, cut, or made up.
    forged = "0" * 32 + str(text)[32:]
    for number, content in enumerate((forged, str(text)[:-8], "", "x", "\xff" * 40)):
        await client.hset(key, f"planted {number}", content)
    exchanges, unreadable = await SessionBuffer(shared).exchanges(now=time.time())
    assert (len(exchanges), unreadable) == (1, 5)


async def test_an_erasure_reaches_it(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings, client: "redis.Redis"
) -> None:
    """What is erased here is gone there, and does not come back from another machine."""
    first, second = (
        Computer(tmp_path / "a", host, shared),
        Computer(tmp_path / "b", host, shared),
    )
    await first.ask()
    exchanges, _ = await SessionBuffer(shared).exchanges(now=time.time())
    assert await second.take() == 1
    await asyncio.to_thread(_erase_exchanges, second)
    assert await client.keys(f"xscore:{{{shared.tenant}}}:session:*") == []
    with second.store() as store:
        assert second.take_into(store, exchanges) == 0


async def test_what_one_machine_has_erased_another_does_not_send_again(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings
) -> None:
    """The second machine has taken it, and sends only what was asked there."""
    first, second = (
        Computer(tmp_path / "a", host, shared),
        Computer(tmp_path / "b", host, shared),
    )
    await first.ask()
    ((erased,), _) = await SessionBuffer(shared).exchanges(now=time.time())
    assert await second.take() == 1
    await asyncio.to_thread(_erase_exchanges, first)
    await second.ask(Turn(task="And of the total?", follows_latest=True))
    ((sent,), _) = await SessionBuffer(shared).exchanges(now=time.time())
    assert sent.memory.id != erased.memory.id


async def test_what_was_put_back_after_its_time_is_left_out(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings, client: "redis.Redis"
) -> None:
    """Who may write to the tenant can put a copy of an entry back only for as long as it would
    have been there."""
    await Computer(tmp_path / "a", host, shared).ask()
    buffer = SessionBuffer(shared)
    key = f"xscore:{{{shared.tenant}}}:session:{buffer.user}"
    copied = await client.hgetall(key)
    await buffer.forget()
    for name, text in copied.items():
        await client.hset(key, name, text)
    in_time, _ = await buffer.exchanges(now=time.time())
    assert len(in_time) == 1
    too_late = time.time() + shared.session_hours * 3_600 + 60
    assert await buffer.exchanges(now=too_late) == ([], 0)


def _erase_exchanges(computer: Computer) -> None:
    """Erase every exchange of a store, as `xscore memory delete` does."""
    with computer.store() as store:
        query = "SELECT id FROM memory_row WHERE kind = 'exchange'"
        identities = [identity for (identity,) in store.connection.execute(query).fetchall()]
        erase_memories(store, identities, now=store.clock(), forget=True)
        done = settle_owed_erasures(store.connection, computer.settings())
        assert [server.problem for server in done] == [""]


async def test_redis_may_lose_it(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings, client: "redis.Redis"
) -> None:
    """The store has every exchange, and the next turn sends them again."""
    first = Computer(tmp_path / "a", host, shared)
    await first.ask()
    await client.flushall()
    await first.ask(Turn(task="And of the total?"))
    exchanges, _ = await SessionBuffer(shared).exchanges(now=time.time())
    assert len(exchanges) == 2
    with first.store() as store:
        thread = store.connection.execute("SELECT thread FROM session").fetchone()[0]
        assert len(latest_exchanges(store.connection, thread, 8)) == 2


async def test_another_kind_of_server_is_said(
    tmp_path: Path, host: OpenAIServer, shared: SharedSettings
) -> None:
    """A weak key, too; the turn is answered all the same."""
    for wrong in (
        replace(shared, url=Secret("postgresql://127.0.0.1:1/x")),
        replace(shared, session_key=Secret("ab" * 32)),
    ):
        with pytest.raises(UsageError):
            SessionBuffer(wrong)
    answer = await Computer(
        tmp_path / "a", host, replace(shared, session_key=Secret("x"))
    ).ask()
    assert answer.answer and len(answer.warnings) == 1
