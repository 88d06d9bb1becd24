"""A host of pages with TLS, on loopback: what each path answers is a function of the test's."""

import ssl
from collections.abc import Awaitable, Callable

import trustme
from aiohttp import web

from tests.servers.threaded_server import ThreadedServer, serve_app

Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageServer(ThreadedServer):
    """Pages by path; a path without one answers 404. `asked` holds what was asked for."""

    def __init__(self, authority: trustme.CA, *names: str) -> None:
        super().__init__()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*(names or ("localhost", "127.0.0.1"))).configure_cert(self._tls)
        self.pages: dict[str, Page] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        """The server's address, by name."""
        return f"https://localhost:{self._port}"

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [path for path, _ in self.asked]

    def answer(self, path: str, body: bytes, status: int = 200, **headers: str) -> None:
        """Serve a body; `Content_Type` is the header of that name."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}

        async def page(_: web.Request) -> web.StreamResponse:
            return web.Response(body=body, status=status, headers=named)

        self.pages[path] = page

    async def serve(self) -> None:
        """Serve the pages until stopped."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answered)
        await serve_app(self, app, tls=self._tls)

    async def _answered(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path_qs, dict(request.headers)))
        page = self.pages.get(request.path)
        if page is None:
            return web.Response(status=404)
        return await page(request)
