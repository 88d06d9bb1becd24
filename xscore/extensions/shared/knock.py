"""Whether a shared server is there: connect, send the first bytes of its protocol, wait for one.

A thread does it during the turn's own work, before a driver is loaded, so that a server that is
down or takes connections and says nothing costs little. A turn on a new task begins before its
index is brought up to date (`knock_early`). A caller may stop waiting: the thread goes on for
as long as a request may take, so that the turn can still use a server that is far away, and the
next turn knows how long it takes. What comes back is not looked at: whether it is the right
server, with the right certificate, is for the driver to find out, and nothing secret is sent.
Trade-off: a proxy that answers for a server that does not counts as there.
"""

import asyncio
import socket
import ssl
import struct
import time
from concurrent.futures import Future, wait
from contextlib import suppress

from xscore.extension import implements
from xscore.extensions.shared.server import (
    REDIS,
    displayed_url,
    parse_server_url,
    server_host,
    unavailable,
)
from xscore.extensions.shared.transport import refuse_open_transport
from xscore.pipeline.parts import KNOCK
from xscore.platform.daemon_thread import start_in_thread
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.records.calls import ServerCall
from xscore.settings.model import SharedSettings

LOOKUP_S = 0.05
"""How much longer than its limit a knock is waited for."""
_REDIS_PING = b"*1\r\n$4\r\nPING\r\n"
_POSTGRES_SSL_REQUEST = struct.pack("!II", 8, 80_877_103)
"""Request that asks whether a server speaks TLS, which every PostgreSQL and pooler answers with
one letter."""


def knock(url: str, *, timeout_s: float) -> float:
    """Return after how many seconds the server showed a sign of life.

    Raises SharedUnavailable where nothing answers in time; a name is looked up for longer.
    """
    parts = parse_server_url(url)
    host, _, port = server_host(url).rpartition(":")
    began = time.monotonic()
    until = began + timeout_s
    try:
        with socket.create_connection(
            (host.strip("[]"), int(port)), timeout=timeout_s
        ) as opened:
            opened.settimeout(max(0.001, until - time.monotonic()))
            if parts.scheme == "rediss":
                _begin_tls(opened, parts.hostname or "")
                return time.monotonic() - began
            opened.sendall(_REDIS_PING if parts.scheme in REDIS else _POSTGRES_SSL_REQUEST)
            if not opened.recv(1):
                raise ConnectionResetError("it closed the connection")
            return time.monotonic() - began
    except TimeoutError as error:
        late = TimeoutError(f"no answer within {timeout_s:.3g} s")
        raise unavailable(displayed_url(url), late) from error
    except OSError as error:
        raise unavailable(displayed_url(url), error) from error


def _begin_tls(opened: socket.socket, host: str) -> None:
    """Shake hands, and send nothing more. The certificate is checked by the driver, later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # A refusal is an answer, too: it may want a certificate of ours.
    with suppress(ssl.SSLError), context.wrap_socket(opened, server_hostname=host or None):
        pass


class RunningKnock:
    """A knock in a thread of its own, which ends with the process where it is not awaited."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self.began: float = time.monotonic()
        self.started_at: float = time.time()
        self._url = url
        self._timeout_s = timeout_s
        self.answer_s: float | None = None
        """Seconds that the answer took; None if there is none yet."""
        self._answer: Future[SharedUnavailable | None] = start_in_thread(
            self._knock, name="xscore-knock"
        )

    def _knock(self) -> SharedUnavailable | None:
        try:
            self.answer_s = knock(self._url, timeout_s=self._timeout_s)
        except SharedUnavailable as error:
            return error
        return None

    @property
    def is_over(self) -> bool:
        """Whether it is known by now whether the server is there."""
        return self._answer.done()

    def ends_within(self, timeout_s: float | None) -> bool:
        """Return whether it is known within so long; None: however long it takes."""
        done, _ = wait([self._answer], timeout=timeout_s)
        return bool(done)

    def raise_problem(self) -> None:
        """Return once it is known that the server is there. Raises SharedUnavailable."""
        problem = self._answer.result()
        if problem is not None:
            raise problem

    async def problem(self, *, at_most_s: float | None = None) -> SharedUnavailable | None:
        """Return why the server is not there; None if it is.

        at_most_s: waits until so long after it began. None: a little longer than the knock has,
            since the system may take its time to look up a name.
        """
        limit_s = self._timeout_s + LOOKUP_S if at_most_s is None else at_most_s
        wait_s = max(0.0, self.began + limit_s - time.monotonic())
        if wait_s and not self.is_over:
            answer = asyncio.wrap_future(self._answer)
            try:
                await asyncio.wait({answer}, timeout=wait_s)
            finally:
                # The thread goes on; it shall not call into an event loop that is closed by then.
                answer.cancel()
        if self.is_over:
            return self._answer.result()
        waited_s = self._timeout_s if at_most_s is None else at_most_s
        late = TimeoutError(f"no answer within {waited_s:.3g} s")
        return unavailable(displayed_url(self._url), late)


class ServerKnock:
    """Knocks at one server: once from the beginning of a turn, and again after each failure."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """timeout_s: deadline of one request, and how long the server is waited for in the
        thread."""
        self.calls: list[ServerCall] = []
        """Knocks that failed; later also all requests of the turn."""
        self._url = url
        self._timeout_s = timeout_s
        self._running: RunningKnock | None = None

    def begin(self) -> None:
        """Begin to knock in the background, unless that has begun."""
        if self._running is None:
            self._running = RunningKnock(self._url, timeout_s=self._timeout_s)

    @property
    def is_under_way(self) -> bool:
        """Whether the server may still show the sign of life that nobody waits for any longer."""
        return self._running is not None and not self._running.is_over

    @property
    def answer_s(self) -> float | None:
        """How long the server took for its sign of life; None if it has shown none."""
        return self._running.answer_s if self._running is not None else None

    async def wait(self, at_most_s: float | None = None) -> None:
        """Return once the server is there.

        at_most_s: since it began; None: wait as long as a knock takes. Raises SharedUnavailable.
        """
        self.begin()
        running = self._running
        assert running is not None
        problem = await running.problem(at_most_s=at_most_s)
        if problem is None:
            return
        # A caller with a longer limit goes on waiting for one that is still under way.
        if running.is_over and self._running is running:
            self._running = None
            self.calls.append(self._failed_call(running, problem))
        raise problem

    def _failed_call(self, running: RunningKnock, problem: SharedUnavailable) -> ServerCall:
        is_redis = parse_server_url(self._url).scheme in REDIS
        return ServerCall(
            system="redis" if is_redis else "postgresql",
            operation="connect",
            host=server_host(self._url),
            started_at=running.started_at,
            duration_s=time.monotonic() - running.began,
            error=problem.kind,
        )


@implements(KNOCK)
def knock_early(settings: SharedSettings) -> ServerKnock:
    """Begin to knock for a turn, unless it has to wait for the server in any case.

    A URL that is wrong is named where the server is opened.
    """
    url = settings.url.reveal()
    knocking = ServerKnock(url, timeout_s=settings.timeout_s)
    if url and not settings.require:
        with suppress(UsageError):
            refuse_open_transport(parse_server_url(url), url)
            knocking.begin()
    return knocking
