"""Connect to the shared server that the settings name: for a turn, for `doctor` and for an erasure.

Nothing is connected and no driver is imported before the first request. Judgments of the user's own
store are never shared. Trade-off: only the judge's calls count against shared limits, since only
they are many.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

from xscore.cache.judgment_store import JudgmentStore
from xscore.cache.keys import FIRST_DRAW
from xscore.extension import implements
from xscore.extensions.shared.judgments import SharedJudgmentStore
from xscore.extensions.shared.knock import ServerKnock
from xscore.extensions.shared.limits import SharedBudget, SharedRates
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.outage import OutageMemory
from xscore.extensions.shared.patience import ServerPatience
from xscore.extensions.shared.server import (
    REDIS,
    SIGN_OF_LIFE_SHARE,
    ServerDriver,
    SharedServer,
    displayed_url,
    parse_server_url,
    too_slow,
)
from xscore.extensions.shared.timed_driver import TimedDriver
from xscore.extensions.shared.transport import refuse_open_transport
from xscore.extensions.shared.unsent import UnsentTurns
from xscore.pipeline.parts import DOCTOR_CHECKS
from xscore.pipeline.resources import OPEN_SHARED, SHARED_SERVER_NAME, SpendingStores
from xscore.pipeline.server_contacts import BegunKnock
from xscore.platform.errors import SharedUnavailable, StoreError, UsageError
from xscore.platform.extras import require_extra
from xscore.platform.text import counted
from xscore.providers.limits import DollarBudget
from xscore.providers.rate_limits import LocalRates, RateBudget
from xscore.records.calls import ServerCall
from xscore.records.judgment import JudgeIdentity, Judgment
from xscore.records.reports import DoctorFinding, ErasureRequest, ServerErasure
from xscore.settings import Settings
from xscore.settings.model import SharedSettings

ASPECT = "shared server"
ERASURE_S = 60.0
"""Deadline of an erasure, for which Redis checks every turn of the tenant and PostgreSQL reads
its table."""
T = TypeVar("T")


def server_factory(
    settings: SharedSettings, calls: list[ServerCall] | None = None
) -> Callable[[], SharedServer]:
    """Return a factory of these settings' server; it connects at the first request.

    calls: each request is added to them; None if they are not recorded.
    Raises UsageError for a URL that names none, for one beyond this machine without checked
    TLS, and where the extra that speaks to it is not installed.
    """
    url = settings.url.reveal()
    tenant = settings.tenant
    parts = parse_server_url(url)
    refuse_open_transport(parts, url)
    is_redis = parts.scheme in REDIS
    extra, driver = ("redis", "redis") if is_redis else ("postgres", "psycopg")
    require_extra(extra, driver, purpose="shared.url")

    def timed(driver: ServerDriver, system: str) -> ServerDriver:
        return TimedDriver(driver, [] if calls is None else calls, system=system, url=url)

    def open_server() -> SharedServer:
        if is_redis:
            from xscore.extensions.shared.redis_server import RedisDriver  # an extra

            return SharedServer(timed(RedisDriver(url, tenant=tenant), "redis"))
        from xscore.extensions.shared.postgres_server import PostgresDriver  # an extra

        return SharedServer(timed(PostgresDriver(url, tenant=tenant), "postgresql"))

    return open_server


async def ask_once(
    server: SharedServer, request: Callable[[SharedServer], Awaitable[T]], *, timeout_s: float
) -> T:
    """Connect, ask once and close. Raises SharedUnavailable."""
    try:
        async with asyncio.timeout(timeout_s):
            return await request(server)
    except TimeoutError:
        raise too_slow(server.name, timeout_s) from None
    finally:
        with suppress(SharedUnavailable):
            await server.aclose()


@implements(DOCTOR_CHECKS)
async def check_shared_server(all_settings: Settings) -> list[DoctorFinding]:
    """Ask the server once, within its deadline; return one finding, or none if no server is set."""
    settings = all_settings.shared
    if not settings.url.reveal():
        return []
    try:
        server = server_factory(settings)()
        description = await ask_once(server, SharedServer.check, timeout_s=settings.timeout_s)
    except (UsageError, SharedUnavailable) as error:
        return [DoctorFinding(ASPECT, False, error.message, error.hint)]
    away = "a run continues without it"
    if settings.require:
        away = "a run stops without it"
    cap = ""
    if settings.max_usd_day is not None:
        cap = f"; at most ${settings.max_usd_day:f} a day in total"
    return [
        DoctorFinding(
            ASPECT,
            True,
            f"{displayed_url(settings.url.reveal())}: {description}; tenant {settings.tenant}{cap};"
            f" {away}",
        )
    ]


async def erase_shared(
    settings: SharedSettings, requests: Mapping[str, ErasureRequest], *, verify: bool
) -> list[ServerErasure]:
    """Ask each server (by name) to erase; only the one in these settings can be reached.

    verify: ask once more, and count what is there by then.
    """
    current = ""
    if settings.url.reveal():
        current = shared_server_name(settings)
    elsewhere = "shared.url and shared.tenant do not name it now"
    erasures: list[ServerErasure] = []
    for name, request in requests.items():
        # Only the configured server has an address and a key here.
        if name == current:
            erasures.append(await _erased_here(settings, request, verify=verify))
        else:
            erasures.append(ServerErasure(server=name, problem=elsewhere))
    return erasures


async def _erased_here(
    settings: SharedSettings, request: ErasureRequest, *, verify: bool
) -> ServerErasure:
    async def erase(server: SharedServer) -> tuple[int, int | None]:
        return await server.erase(request), await server.erase(request) if verify else None

    name = shared_server_name(settings)
    try:
        open_server = server_factory(settings)
        await ask_once(open_server(), SharedServer.check, timeout_s=settings.timeout_s)
        removed, remaining = await ask_once(open_server(), erase, timeout_s=ERASURE_S)
    except (UsageError, SharedUnavailable) as error:
        return ServerErasure(server=name, problem=error.message)
    return ServerErasure(server=name, removed=removed, left=remaining)


@implements(SHARED_SERVER_NAME)
def accepted_server_name(settings: SharedSettings) -> str:
    """Name the server that judgments are about to go to.

    Raises UsageError for one that is refused before anything is sent: an erasure owes it nothing.
    """
    url = settings.url.reveal()
    refuse_open_transport(parse_server_url(url), url)
    return shared_server_name(settings)


def shared_server_name(settings: SharedSettings) -> str:
    """Name the server and the tenant, without user and password."""
    return f"{displayed_url(settings.url.reveal())}, tenant {settings.tenant}"


class SharedStores(SpendingStores):
    """Judgments, dollars and limits a minute, joined to those of other machines."""

    link: ServerLink
    sent: SharedJudgmentStore
    stack: AsyncExitStack
    calls: list[ServerCall]

    def rates(self, local: LocalRates, *, bucket: str) -> RateBudget:
        """Return the limits of this host and model (`bucket`) that the judge's calls take from."""
        shared = SharedRates(local, self.link, bucket=bucket)
        self.stack.push_async_callback(shared.aclose)
        return shared

    async def judged_elsewhere(
        self, turn_key: str, judge: JudgeIdentity, hashes: Sequence[str], draw: int = FIRST_DRAW
    ) -> Mapping[str, Judgment]:
        """Return what the server has of these contents, by content hash."""
        return await self.sent.judgments_on_server(turn_key, judge, hashes, draw)

    def server_calls(self) -> list[ServerCall]:
        """Return the requests to the server so far."""
        return self.calls

    def warnings(self) -> tuple[str, ...]:
        """Return receipt warnings about what could not be shared."""
        away, unsent = self.link.warnings(), self.sent.warnings()
        if away and unsent:
            # One outage is one line.
            count = counted(self.sent.unsent_count, "judgment")
            return (f"{away[0]} ({count}, which it is sent later)",)
        return away or unsent


@implements(OPEN_SHARED)
@asynccontextmanager
async def open_shared_resources(
    settings: SharedSettings,
    *,
    judgments: JudgmentStore,
    budget: DollarBudget,
    note: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
    connection: sqlite3.Connection | None = None,
    knock: BegunKnock | None = None,
) -> AsyncIterator[SharedStores]:
    """Open what a turn spends through, joined to these settings' server.

    note: tells the user when the server goes away, and when it is back.
    clock: Unix seconds.
    connection: that of the store that remembers whether the server was away, and what it lacks;
        None if nothing does.
    knock: of a turn, which waits for a server that never answered only `shared.first_wait_s`; None:
        a list of questions has time.
    Raises UsageError for a URL that names no server, where its extra is missing, and where none is
    named.
    """
    url = _url_of(settings)
    outages: OutageMemory | None = None
    notes: UnsentTurns | None = None
    patience: ServerPatience | None = None
    if connection is not None:
        server = shared_server_name(settings)
        outages = OutageMemory(connection, server, clock=clock)
        notes = UnsentTurns(connection, server, clock=clock)
        patience = ServerPatience(connection, server)
    was_away = outages.problem() if outages is not None else ""
    usual_wait_s = patience.wait_s() if patience is not None else None
    patience_s = _first_wait_s(settings, usual_wait_s, in_turn=knock is not None)
    if knock is None:
        knock = ServerKnock(url, timeout_s=settings.timeout_s)
    link = _link(settings, knock, note=note, was_away=was_away, patience_s=patience_s)
    # Each is closed, whatever the others raise; the link last.
    async with AsyncExitStack() as stack:
        stack.push_async_callback(link.aclose)
        if outages is not None:
            stack.callback(_remember, outages, link, knock)
        if patience is not None:
            stack.callback(_learn, patience, knock)
        through = SharedJudgmentStore(judgments, link, notes=notes)
        stack.push_async_callback(through.aclose)
        if (cap := settings.max_usd_day) is not None:
            shared_budget = SharedBudget(budget, link, cap_usd=cap, clock=clock)
            stack.push_async_callback(shared_budget.aclose)
            budget = shared_budget
        yield SharedStores(through, budget, link, through, stack, knock.calls)


def _url_of(settings: SharedSettings) -> str:
    """Return the URL of the server. Raises UsageError where none is set."""
    url = settings.url.reveal()
    if not url:
        raise UsageError(
            "a shared server is required, and none is set",
            hint="Set shared.url (XSCORE_SHARED_URL).",
        )
    return url


def _first_wait_s(
    settings: SharedSettings, usual_wait_s: float | None, *, in_turn: bool
) -> float:
    """Return how long the first request waits for a sign of life. usual_wait_s: as it was learned.

    The knock goes on in the background, and what answers later is used from then on.
    """
    if usual_wait_s is not None:
        return usual_wait_s
    if in_turn:
        return settings.first_wait_s
    return max(settings.first_wait_s, settings.timeout_s / SIGN_OF_LIFE_SHARE)


def _link(
    settings: SharedSettings,
    knock: BegunKnock,
    *,
    note: Callable[[str], None],
    was_away: str,
    patience_s: float,
) -> ServerLink:
    """Return the link to the server, which is knocked at from now on unless it is required."""
    factory = server_factory(settings, knock.calls)
    if not settings.require:
        # At the same time as what the turn does before its first request, such as opening the
        # judge.
        knock.begin()
    return ServerLink(
        factory,
        require=settings.require,
        timeout_s=settings.timeout_s,
        note=note,
        knock=knock,
        was_away=was_away,
        patience_s=patience_s,
    )


def _remember(outages: OutageMemory, link: ServerLink, knock: BegunKnock) -> None:
    """Remember whether the server was away at the end. It may be that it was never asked."""
    problem = link.problem
    if knock.answer_s is not None and not link.has_failed:
        # It was late, and no outage: the next turn waits as long as it took.
        problem = ""
    if link.problem or link.has_answered:
        with suppress(StoreError):
            outages.remember(problem)


def _learn(patience: ServerPatience, knock: BegunKnock) -> None:
    """Note how long the server took for its sign of life, if it has shown one."""
    if knock.answer_s is not None:
        with suppress(StoreError):
            patience.learn(knock.answer_s)
