"""A shared server that is PostgreSQL: each request is one function of `postgres.sql`, run whole or
not at all.

Tables and functions are in a schema `xscore` of the database and are created at the first use.
Judgments never expire. A request that is given up closes its connection, because asking a silent
server to cancel would mean waiting for it again. No statement is prepared and no session setting is
made, so a pooler may be used. Trade-off: a process keeps a few connections open (`MOST_OPEN`).
"""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import errors as states
from psycopg.conninfo import conninfo_to_dict

from xscore.extensions.shared.server import (
    BAD_ANSWER,
    CHECK_IT,
    displayed_url,
    too_new,
    unavailable,
)
from xscore.extensions.shared.transport import SAFE_MODES, is_this_machine
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.platform.text import one_line

VERSION = 1
"""Version of `postgres.sql`. It rises with each change of it, which needs a step."""
STEPS: Mapping[int, str] = {}
"""Version -> the SQL that brings the tables and functions of the version before to it."""
MOST_OPEN = 8
_MAKING = 7_837_063_920_241
"""Id of the advisory lock under which the tables are created and migrated."""
_LOCK = f"SELECT pg_advisory_xact_lock({_MAKING})"
_RIGHTS = (
    "Let the user of shared.url create a schema in this database, or use an existing one: see"
    " docs/shared.md."
)
_STATEMENTS = {
    "claim": "CALL xscore.claim(%s, %s, %s, %s, %s, %s::integer[], %s::text[], NULL, NULL, NULL)",
    "store_judgments": "SELECT xscore.store_judgments(%s, %s, %s::text[], %s::text[])",
    "take": "SELECT xscore.take(%s, %s, %s::text[], %s::float8[], %s::float8[], %s::float8[])",
    "reserve": "SELECT xscore.reserve(%s, %s, %s, %s::bigint, %s::bigint, %s::numeric, %s::float8)",
    "heartbeat": "SELECT xscore.heartbeat(%s, %s, %s)",
    "release_runner": "SELECT xscore.release_runner(%s, %s)",
}
"""SQL of each request. Its first parameter is the tenant."""
_SIGNS = (
    "Percent-encode characters of user and password that mean something in a URL: @ is %40, / is"
    " %2F, % is %25."
)

_PgConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class PostgresDriver:
    """Runs the functions of one tenant on PostgreSQL. See `shared.server.ServerDriver`."""

    def __init__(self, url: str, *, tenant: str) -> None:
        """Connect at the first request. Raises UsageError for a URL that the driver cannot read."""
        self.name: str = displayed_url(url)
        self._terms = _read(url)
        self._tenant = quote(tenant, safe="")
        self._free = asyncio.Semaphore(MOST_OPEN)
        self._idle: list[_PgConnection] = []
        self._is_made = False

    async def describe(self) -> str:
        """Return the version, and whether acknowledged writes are on disk."""
        names = ("synchronous_commit", "fsync")
        query = (
            "SELECT current_setting('server_version'), current_setting(%s), current_setting(%s)"
        )
        version, *values = await self._row(query, names)
        off = [name for name, value in zip(names, values, strict=True) if value == "off"]
        keeps = ""
        if off:
            keeps = f"may forget the latest writes in a crash ({', '.join(off)}: off)"
        return ", ".join(
            filter(None, (f"PostgreSQL {one_line(str(version)).partition(' ')[0]}", keeps))
        )

    async def run(self, script: str, *terms: object) -> Sequence[Any]:
        """Run a function of `postgres.sql`."""
        return await self._row(_STATEMENTS[script], (self._tenant, *terms))

    async def erase(
        self, contents: Sequence[str], turns: Sequence[tuple[str, Sequence[str]]]
    ) -> int:
        """Erase judgments with their reasons; by content in every turn of the tenant."""
        wheres: list[tuple[str, tuple[object, ...]]] = []
        if contents:
            wheres.append(("content = ANY(%s::text[])", (list(contents),)))
        for turn, among in turns:
            where = "turn = %s AND (%s OR content = ANY(%s::text[]))"
            wheres.append((where, (turn, not among, list(among))))
        removed = 0
        for where, terms in wheres:
            statement = (
                f"WITH gone AS (DELETE FROM xscore.judgment WHERE tenant = %s AND {where}"
                " RETURNING 1)"
            )
            (count,) = await self._row(
                f"{statement} SELECT count(*) FROM gone", (self._tenant, *terms)
            )
            removed += int(count)
        return removed

    async def aclose(self) -> None:
        """Release connections."""
        idle = self._idle
        self._idle = []
        for connection in idle:
            await _close(connection)

    async def _row(self, statement: str, terms: Sequence[object]) -> tuple[Any, ...]:
        """Ask for one row; ask again on a new connection if an idle one turns out to be closed."""
        async with self._free:
            while True:
                is_kept = bool(self._idle)
                if is_kept:
                    connection = self._idle.pop()
                else:
                    connection = await self._connected()
                try:
                    (row,) = await _answered(connection, statement, terms)
                except asyncio.CancelledError:
                    await self.aclose()  # if one connection is silent, the others may be too
                    raise
                except (psycopg.Error, *BAD_ANSWER) as error:
                    await _close(connection)
                    if is_kept and isinstance(error, psycopg.OperationalError | OSError):
                        await self.aclose()
                        continue
                    if isinstance(error, psycopg.ProgrammingError):
                        # Tables were dropped, or rights are missing: look again.
                        self._is_made = False
                    raise self._unavailable(error) from error
                self._idle.append(connection)
                return row

    async def _connected(self) -> _PgConnection:
        try:
            connection = await psycopg.AsyncConnection.connect(
                **self._terms, autocommit=True, prepare_threshold=None
            )
            if not self._is_made:
                await self._made(connection)
        except (psycopg.Error, *BAD_ANSWER) as error:
            raise self._unavailable(error) from error
        return connection

    async def _made(self, connection: _PgConnection) -> None:
        """Create missing tables and functions, or migrate older ones.

        Raises SharedUnavailable for newer ones.
        """
        try:
            version = await _version(connection)
            if version is None:
                script = Path(__file__).with_name("postgres.sql").read_text("utf-8")
                # Another process created them while this one waited.
                with suppress(states.DuplicateTable):
                    await _answered(connection, f"{_LOCK}; {script}", None)
                version = await _version(connection)
            if version is not None and 0 < version < VERSION:
                version = await _migrated(connection)
            if version != VERSION:
                raise too_new(self.name, version, VERSION)
        except BaseException:
            await _close(connection)
            raise
        self._is_made = True

    def _unavailable(self, error: BaseException) -> SharedUnavailable:
        return unavailable(
            self.name,
            error,
            _RIGHTS if isinstance(error, states.InsufficientPrivilege) else CHECK_IT,
        )


def _read(url: str) -> dict[str, Any]:
    """Return the options for the driver.

    What cannot be read is not shown, since it may be part of the password.
    """
    try:
        terms: dict[str, Any] = {"application_name": "xscore", **conninfo_to_dict(url)}
    except (psycopg.Error, ValueError):
        raise UsageError(
            f"shared.url ({displayed_url(url)}) cannot be read", hint=_SIGNS
        ) from None
    if not is_this_machine(str(terms.get("host", ""))):
        # This is not left to PGSSLMODE, which a project's files may have set.
        terms.setdefault("sslmode", SAFE_MODES[0])
        terms.setdefault("sslrootcert", "system")
    terms["client_encoding"] = "utf8"
    return terms


async def _answered(
    connection: _PgConnection, statement: str, terms: Sequence[object] | None = ()
) -> list[tuple[Any, ...]]:
    """Return the rows. A cancelled wait closes the connection, and no task goes on waiting.

    terms: None allows several statements, which run in one transaction.
    """

    async def fetched() -> list[tuple[Any, ...]]:
        cursor = await connection.execute(statement.encode(), terms)
        if cursor.description:
            return await cursor.fetchall()
        return []

    asking = asyncio.ensure_future(fetched())
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        _hang_up(connection)
        try:
            with suppress(psycopg.Error, OSError):
                await asking
        finally:
            await _close(connection)
        raise


async def _version(connection: _PgConnection) -> int | None:
    """Return the version of the tables; None if there are none, 0 if it is unknown."""
    table = await _answered(connection, "SELECT to_regclass('xscore.version')")
    if table[0][0] is None:
        return None
    numbers = await _answered(connection, "SELECT number FROM xscore.version")
    if numbers:
        return int(numbers[0][0])
    return 0


async def _migrated(connection: _PgConnection) -> int | None:
    """Run the steps to this version in one transaction, under the lock; return the version of the
    tables then."""
    await _answered(connection, "BEGIN")
    await _answered(connection, _LOCK)
    # Another process may have run them while this one waited.
    version = await _version(connection)
    while version is not None and version < VERSION:
        version += 1
        await _answered(connection, STEPS[version], None)
        await _answered(connection, "UPDATE xscore.version SET number = %s", (version,))
    await _answered(connection, "COMMIT")
    return version


async def _close(connection: _PgConnection) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.close()


def _hang_up(connection: _PgConnection) -> None:
    """Shut the socket down, so that a read that is waiting on it ends at once."""
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as way,
    ):
        way.shutdown(socket.SHUT_RDWR)
