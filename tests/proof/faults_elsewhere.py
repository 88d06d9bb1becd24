"""A loopback host that is no model host: where a mistyped base URL may lead.

It answers every path and method in one way and remembers what it was sent, the keys above all:
`with Elsewhere(page(200)) as host: … host.url`.
"""

from collections.abc import Callable

from aiohttp import web

from tests.servers.threaded import Threaded, serve_app

Reply = Callable[[web.Request], web.StreamResponse]


def page(status: int) -> Reply:
    """A web page with this status."""
    text = "<!doctype html><html><body><h1>Welcome to the harbour</h1></body></html>"
    return lambda request: web.Response(text=text, content_type="text/html", status=status)


def object_of(text: str) -> Reply:
    """JSON of some other service."""
    return lambda request: web.Response(text=text, content_type="application/json")


def redirect(url: str, *, status: int) -> Reply:
    """A redirect."""
    return lambda request: web.Response(status=status, headers={"Location": url})


class Elsewhere(Threaded):
    """One host."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply
        self.requests = 0
        self.headers: list[str] = []
        """The values of all headers."""
        self.bodies: list[str] = []

    @property
    def url(self) -> str:
        """Its address as a base URL."""
        return f"http://{self.host}"

    @property
    def heard(self) -> str:
        """Return everything it received."""
        return "\n".join([*self.headers, *self.bodies])

    async def serve(self) -> None:
        """Serve any request."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._take)
        await serve_app(self, app)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.headers.extend(request.headers.values())
        self.bodies.append((await request.read()).decode())
        return self.reply(request)
