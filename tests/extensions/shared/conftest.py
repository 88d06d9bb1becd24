"""Real servers, started once a kind, and links to them: each test is a tenant of its own."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from secrets import token_hex

import pytest

from tests.extensions.shared.servers_of_tests import KINDS, ServerOfTests
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.link import ServerLink
from xscore.extensions.shared.server import SharedServer
from xscore.settings import Secret
from xscore.settings.model import SharedSettings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a real server are `make verify`'s."""
    for item in items:
        if "running" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.verify)


@pytest.fixture(scope="session", params=sorted(KINDS))
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOfTests]:
    """A server of each kind, one for all tests; skipped where it is not installed. Who kills it starts it again."""
    started = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    yield started
    started.kill()


@pytest.fixture
def tenant() -> str:
    """A tenant of the test's own."""
    return f"t-{token_hex(6)}"


@pytest.fixture
def shared(running: ServerOfTests, tenant: str) -> SharedSettings:
    """Settings that name the server and the tenant."""
    return SharedSettings(url=Secret(running.url), tenant=tenant, timeout_s=30)


@pytest.fixture
async def server(shared: SharedSettings) -> AsyncIterator[SharedServer]:
    """A connection to the server."""
    opened = server_factory(shared)()
    yield opened
    await opened.aclose()


NewLink = Callable[..., ServerLink]


@pytest.fixture
async def link_to(shared: SharedSettings) -> AsyncIterator[NewLink]:
    """Make links to the server, each as of a process of its own; options as of `Link`."""
    async with AsyncExitStack() as stack:

        def make(settings: SharedSettings = shared, **options: object) -> ServerLink:
            wanted = {"require": settings.require, "timeout_s": settings.timeout_s, **options}
            made = ServerLink(server_factory(settings), **wanted)  # type: ignore[arg-type]  # options of a test's choice
            stack.push_async_callback(made.aclose)
            return made

        yield make
