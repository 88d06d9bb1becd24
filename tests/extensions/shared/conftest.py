"""Real servers, one for each kind, and links to them: each test has its own tenant."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import Any

import pytest

from tests.extensions.shared.server_processes import KINDS, ServerProcess
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import SharedServer
from xscore.platform.errors import SharedUnavailable
from xscore.settings import Secret
from xscore.settings.model import SharedSettings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need a real server for `make verify`."""
    for item in items:
        if "running" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.verify)


@pytest.fixture(scope="session", params=sorted(KINDS))
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server of each kind for all tests; skipped if not installed.

    A test that kills it restarts it.
    """
    started = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    yield started
    started.kill()


@pytest.fixture
def tenant() -> str:
    """A tenant for the test."""
    return f"t-{token_hex(6)}"


@pytest.fixture
def shared(running: ServerProcess, tenant: str) -> SharedSettings:
    """Settings with the server and the tenant. A first turn waits for it on a busy machine, too."""
    return SharedSettings(url=Secret(running.url), tenant=tenant, timeout_s=30, first_wait_s=30)


@pytest.fixture
async def server(shared: SharedSettings) -> AsyncIterator[SharedServer]:
    """A connection to the server."""
    opened = server_factory(shared)()
    yield opened
    await opened.aclose()


NewLink = Callable[..., ServerLink]


class Relay:
    """A server that records what it is asked for, and that can be taken away."""

    def __init__(self, server: SharedServer) -> None:
        self.server = server
        self.is_unavailable = False
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> object:
        if self.is_unavailable:
            raise SharedUnavailable("the shared server is away (it said so, 1).")
        self.asked.append(name)
        return getattr(self.server, name)

    def link(
        self, *, require: bool = True, timeout_s: float = 30, **options: Any
    ) -> ServerLink:
        """Return a link to it."""
        return ServerLink(lambda: self, require=require, timeout_s=timeout_s, **options)  # type: ignore[arg-type,return-value]  # it forwards every call to a server


@pytest.fixture
async def link_to(shared: SharedSettings) -> AsyncIterator[NewLink]:
    """Make links to the server, each as from a separate process; options as of `Link`."""
    async with AsyncExitStack() as stack:

        def make(settings: SharedSettings = shared, **options: object) -> ServerLink:
            link_options = {
                "require": settings.require,
                "timeout_s": settings.timeout_s,
                **options,
            }
            link = ServerLink(server_factory(settings), **link_options)  # type: ignore[arg-type]  # each test passes valid options
            stack.push_async_callback(link.aclose)
            return link

        yield make
