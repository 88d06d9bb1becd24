"""The latest exchanges of a user's sessions on Redis for some hours, so that a session goes on on
another machine of the same user.

A turn that was answered sends them; `xscore shared session` brings them into this store, where the
branch's session continues with them. They are encrypted by a key that is this user's alone
(`shared.session_key`), not the team's, since colleagues share that one; the key also names what is
on the server, so nobody else can find or read it. They are copies: Redis may lose them, and stores
keep every exchange. A machine sends only what was asked on it, so that none brings back what
another has erased. Trade-off: who may write to the tenant may delete them.
"""

import asyncio
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from xscore.extension import implements
from xscore.extensions.shared.connect import ask_once, server_factory
from xscore.extensions.shared.knock import RunningKnock
from xscore.extensions.shared.link import NEAR_S
from xscore.extensions.shared.server import (
    REDIS,
    SIGN_OF_LIFE_SHARE,
    SharedServer,
    parse_server_url,
)
from xscore.extensions.shared.team.team_key import OtherKey, RowPlace, TeamKey
from xscore.extensions.transfer.saved_records import SavedMemory, saved_memory
from xscore.extensions.transfer.transfer_keys import parse_transfer_key
from xscore.pipeline.parts import SESSION_BUFFER
from xscore.platform import database
from xscore.platform.errors import SharedUnavailable, StoreDamaged, UsageError
from xscore.platform.extras import require_extra
from xscore.platform.git_folder import origin_url
from xscore.platform.repository_name import repository_name
from xscore.records.memory import Kind, Layer, Memory, MemorySource
from xscore.settings import Settings
from xscore.settings.model import SharedSettings
from xscore.store import memory_rows, memory_writer
from xscore.store.index_rows import read_meta, write_meta
from xscore.store.memory_queries import latest_exchanges
from xscore.store.removal import note_shared_server
from xscore.store.session_summary import TurnContext, save_session_summary
from xscore.store.store import Store
from xscore.store.working_session import load_session, resume_session, update_session_work

LATEST = 8
"""Most exchanges of a session that a turn sends; an exchange that the server has is only
written again."""
MOST_KEPT = 64
"""Most exchanges of one user on the server, over all repositories."""
MOST_BYTES = 60_000
"""Largest exchange that is sent, in bytes."""
KEY_HINT = (
    "`xscore shared key` prints a new one: keep it to yourself, in XSCORE_SHARED_SESSION_KEY on"
    " each of your machines."
)
_KIND = "exchange"
TAKEN = "exchanges_taken"
"""Key in `meta`: the ids of the latest exchanges that came from another machine."""
T = TypeVar("T")


class BufferedExchange(Struct, frozen=True, kw_only=True):
    """An exchange as it goes to the server, before it is encrypted."""

    repository: str
    branch: str
    memory: SavedMemory


class SessionBuffer:
    """One user's exchanges on the server."""

    def __init__(self, settings: SharedSettings) -> None:
        """Raises UsageError for a server that is not Redis, and for a weak key."""
        url = settings.url.reveal()
        if not url or parse_server_url(url).scheme not in REDIS:
            raise UsageError(
                "sessions need Redis, and shared.url does not name one",
                hint="Set shared.url to redis://HOST, or unset shared.session_key.",
            )
        require_extra("team", "cryptography", purpose="shared.session_key")
        key = parse_transfer_key(
            settings.session_key.reveal(),
            where="XSCORE_SHARED_SESSION_KEY (shared.session_key)",
            hint=KEY_HINT,
        )
        self._settings = settings
        self._key = TeamKey(key.secret)
        self.user: str = self._key.name_of("user", settings.tenant)
        """The hashed user id: only the key's holder can compute it."""
        self._open = server_factory(settings)

    def _place(self, name: str) -> RowPlace:
        return RowPlace(self._settings.tenant, "", self.user, name, _KIND)

    async def keep(self, exchanges: Sequence[BufferedExchange]) -> None:
        """Send exchanges. Raises SharedUnavailable."""
        names: list[str] = []
        texts: list[str] = []
        times: list[float] = []
        for exchange in exchanges:
            content = msgspec.json.encode(exchange)
            if len(content) > MOST_BYTES:
                continue
            name = self._key.name_of(_KIND, exchange.repository, exchange.memory.id)
            # The name goes with the text, so that an entry under another one is not read.
            text = b64encode(self._key.encrypt(content, self._place(name))).decode()
            names.append(name)
            texts.append(f"{name} {text}")
            times.append(exchange.memory.updated_at)
        if names:
            seconds = round(self._settings.session_hours * 3_600)
            terms = (self.user, seconds, MOST_KEPT, names, texts, times)
            # A turn waits for it, and the next one sends them again.
            await self._asked(
                lambda server: server.driver.run("keep_exchanges", *terms), is_hurried=True
            )

    async def exchanges(self, *, now: float) -> tuple[list[BufferedExchange], int]:
        """Return what is there, the oldest first, and how many entries cannot be read.

        now: Unix seconds; what is older than `shared.session_hours` is left out.

        Raises SharedUnavailable.
        """
        answer = await self._asked(lambda server: server.driver.run("exchanges", self.user))
        # Redis drops older entries, so if one is there, somebody else put it back.
        oldest = now - self._settings.session_hours * 3_600
        read: list[BufferedExchange] = []
        unreadable = 0
        for text in answer:
            exchange = self._read(text)
            if exchange is None:
                unreadable += 1
            elif exchange.memory.updated_at >= oldest:
                read.append(exchange)
        return sorted(read, key=lambda exchange: exchange.memory.updated_at), unreadable

    async def forget(self) -> None:
        """Delete all that is there. Raises SharedUnavailable."""
        await self._asked(lambda server: server.driver.run("forget_exchanges", self.user))

    def _read(self, text: Any) -> BufferedExchange | None:
        name, _, encoded = str(text).partition(" ")
        try:
            content = self._key.decrypt(b64decode(encoded), self._place(name))
            exchange = msgspec.json.decode(content, type=BufferedExchange)
        except (ValueError, OtherKey, StoreDamaged, RecursionError):
            return None
        memory = exchange.memory
        is_own = memory.kind is Kind.EXCHANGE and memory.layer is Layer.SESSION
        return exchange if is_own and memory.source is MemorySource.EXPLICIT else None

    async def _asked(
        self,
        request: Callable[[SharedServer], Awaitable[T]],
        *,
        is_hurried: bool = False,
    ) -> T:
        """Ask once, if the server shows a sign of life. Raises SharedUnavailable.

        is_hurried: a turn waits for it.
        """
        limit_s = self._settings.timeout_s
        knock = RunningKnock(
            self._settings.url.reveal(), timeout_s=limit_s / SIGN_OF_LIFE_SHARE
        )
        problem = await knock.problem(at_most_s=NEAR_S if is_hurried else None)
        if problem is not None:
            raise problem
        server = self._open()
        if is_hurried:
            limit_s /= SIGN_OF_LIFE_SHARE
        return await ask_once(server, request, timeout_s=limit_s)


@implements(SESSION_BUFFER)
async def keep_session(settings: Settings, *, store: Store, thread: str) -> str:
    """Send the latest exchanges of a session after a turn; return what is wrong with a setting.

    A server that is away costs no line: the next turn sends them again.
    """
    repository = repository_name(origin_url(store.root.path))
    if not repository or not store.is_users_own:
        return ""
    try:
        buffer = SessionBuffer(settings.shared)
        session = load_session(store.connection, thread)
        branch = session.branch if session is not None else ""
        exchanges: list[BufferedExchange] = []
        taken = _taken_ids(store.connection)
        for memory in latest_exchanges(store.connection, thread, LATEST):
            if memory.id in taken:
                continue
            line = saved_memory(_redacted(memory), ())
            exchanges.append(
                BufferedExchange(repository=repository, branch=branch, memory=line)
            )
        with suppress(SharedUnavailable):
            await buffer.keep(exchanges)
    except UsageError as error:
        return f"the session is not kept for your other machines: {error.message}"
    return ""


def forget_sessions(settings: SharedSettings) -> str:
    """Delete what is kept for the user's other machines, which may hold what is erased; return why
    not."""
    try:
        asyncio.run(SessionBuffer(settings).forget())
    except (UsageError, SharedUnavailable) as error:
        return error.message
    return ""


def take_session(
    store: Store, exchanges: Sequence[BufferedExchange], *, branch: str, server: str
) -> int:
    """Bring the exchanges of this repository and branch into the branch's session; return how many
    are new here. One that was erased here stays away.

    server: its name, which an erasure must reach.
    """
    connection = store.connection
    repository = repository_name(origin_url(store.root.path))
    fitting: list[BufferedExchange] = []
    for exchange in exchanges:
        is_of_branch = exchange.repository == repository and exchange.branch == branch
        if is_of_branch and not _is_known(connection, exchange.memory.id):
            fitting.append(exchange)
    if not fitting:
        return 0
    note_shared_server(connection, server)
    now = store.clock()
    session = resume_session(connection, branch=branch, now=now)
    with database.transaction(connection):
        for exchange in fitting:
            memory = _redacted(exchange.memory)
            write_memory = memory_writer.write_memory
            write_memory(connection, memory, before=None, now=now, thread=session.thread)
        new_ids = [exchange.memory.id for exchange in fitting]
        latest_ids = [*_taken_ids(connection), *new_ids][-MOST_KEPT:]
        write_meta(connection, TAKEN, " ".join(latest_ids))
        latest = fitting[-1].memory
        is_later = latest.updated_at > session.last_updated
        if is_later:
            context = TurnContext()
            update_session_work(
                connection, session.thread, task=latest.title, context=context, now=now
            )
        save_session_summary(connection, session.thread)
    return len(fitting)


def _taken_ids(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the latest exchanges that came from another machine, oldest first."""
    return read_meta(connection, TAKEN).split()


def _redacted(memory: Memory) -> Memory:
    """Return an exchange by today's rules; the user's own words keep personal data, as in the
    store."""
    remade, _ = memory_writer.remake_memory(memory, allow_pii=True)
    return remade


def _is_known(connection: sqlite3.Connection, identity: str) -> bool:
    """Whether a memory is here, or was and has been erased."""
    if memory_rows.memory_with_id(connection, identity) is not None:
        return True
    query = "SELECT 1 FROM erased_memory WHERE memory_id = ?"
    return connection.execute(query, (identity,)).fetchone() is not None
