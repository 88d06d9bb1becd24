"""A server in its own thread: `with` starts it, waits until it listens, and stops it at the end.

Children say what they serve in `serve`, which calls `listening` once they do. The tests' own loop
stays free.
"""

import asyncio
import ssl
import threading
from typing import Self

from aiohttp import web


class ThreadedServer:
    """One server on loopback."""

    def __init__(self) -> None:
        self._port = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)

    @property
    def host(self) -> str:
        """`127.0.0.1:port`."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60), f"the {type(self).__name__} did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def serve(self) -> None:
        """Listen, call `listening`, and clean up afterwards."""
        raise NotImplementedError

    async def listening(self, port: int) -> None:
        """Report readiness, and run until stopped."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._port = port
        self._started.set()
        await self._stop.wait()


async def serve_app(
    server: ThreadedServer, app: web.Application, *, tls: ssl.SSLContext | None = None
) -> None:
    """Serve an aiohttp application for as long as the server is up."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    await server.listening(runner.addresses[0][1])
    await runner.cleanup()
    await close_what_is_left()


async def close_what_is_left() -> None:
    """Close the connections that aiohttp does not know: no request came over them, as where a
    handshake failed."""
    transports = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]  # it has no public list of them
    for transport in list(transports.values()):
        transport.abort()
    # The loop closes them one round later.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
