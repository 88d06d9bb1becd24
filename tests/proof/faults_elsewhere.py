"""A loopback host that is no model host: what a base URL that is wrong by a letter really leads to.

It answers every path and method in one way and remembers what it was sent, the keys above all. It runs in a thread of
its own: `with Elsewhere(page(200)) as host: … host.url`.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Self

from aiohttp import web

Reply = Callable[[web.Request], web.StreamResponse]


def page(status: int) -> Reply:
    """A web page for people, with this status."""
    text = "<!doctype html><html><body><h1>Welcome to the harbour</h1></body></html>"
    return lambda request: web.Response(text=text, content_type="text/html", status=status)


def object_of(text: str) -> Reply:
    """JSON of some other service."""
    return lambda request: web.Response(text=text, content_type="application/json")


def redirect(url: str, *, status: int) -> Reply:
    """Elsewhere again."""
    return lambda request: web.Response(status=status, headers={"Location": url})


class Elsewhere:
    """One host."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests = 0
        self.headers: list[str] = []
        """Values of all headers."""
        self.bodies: list[str] = []
        self._port = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def url(self) -> str:
        """As a base URL."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def heard(self) -> str:
        """All that it was sent."""
        return "\n".join([*self.headers, *self.bodies])

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10), "the host did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._take)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.headers.extend(request.headers.values())
        self.bodies.append((await request.read()).decode())
        return self.reply(request)
