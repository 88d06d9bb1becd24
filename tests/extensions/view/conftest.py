"""A small repository with two turns of one question, and its pages served in a thread."""

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec import Struct

from tests.cli.basket import FILES, SCRIPT, TASK
from tests.cli.conftest import own_store
from tests.conftest import MakeRepo
from tests.extensions.extraction.conftest import put_session
from tests.servers.billing import BillingServer, vendor
from xscore.cli.flags import Flags
from xscore.cli.settings_and_store import read_settings
from xscore.cli.terminal import Terminal
from xscore.extensions.extraction import session_end
from xscore.extensions.view.command import make_site
from xscore.extensions.view.connection import MakePage
from xscore.extensions.view.messages import PageResponse
from xscore.extensions.view.routes import answer_request
from xscore.extensions.view.server import PageServer
from xscore.pipeline.build import Pipeline
from xscore.records.turn import Turn
from xscore.settings import Settings
from xscore.settings.model import JudgeSettings, PrimarySettings

SAID = (
    ("We decided to use Redis for <b>the</b> job queue.", "Done."),
    ("From now on name branches after tickets.", "Understood."),
)


class Served(Struct, frozen=True):
    """A running server, and how to ask it."""

    server: PageServer

    @property
    def link(self) -> str:
        """Return the printed link."""
        return self.server.address.link

    def ask(self, path: str, form: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """Ask for a page as one of our own pages would; post where there is a form."""
        address = self.server.address
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=30)
        target = f"/{address.token}/{path}"
        if form is None:
            connection.request("GET", target)
        else:
            headers = {
                "Origin": f"http://127.0.0.1:{address.port}",
                "Content-Type": "application/x-www-form-urlencoded",
            }
            connection.request("POST", target, urlencode(form), headers)
        return connection.getresponse()

    def page(self, path: str = "") -> str:
        """Return the text of a page, which must be there."""
        response = self.ask(path)
        text = response.read().decode()
        assert response.status == 200, text
        return text


@contextmanager
def serving(
    make_page: Callable[[PageServer], MakePage], *, idle_s: float = 60.0
) -> Iterator[Served]:
    """Serve in a thread until the test is done."""
    with PageServer(port=0, idle_s=idle_s) as server:
        server.timeout = 0.02
        thread = threading.Thread(target=server.serve, args=(make_page(server),), daemon=True)
        thread.start()
        try:
            yield Served(server)
        finally:
            server.end()
            thread.join(10)


@contextmanager
def serving_pages(folder: Path, *, may_edit: bool) -> Iterator[Served]:
    """Serve the pages of a repository."""

    def make_page(server: PageServer) -> MakePage:
        flags = Flags({}, terminal=Terminal(quiet=True))
        loaded = read_settings(flags, start=folder)
        site = make_site(flags, loaded, server.address, may_edit=may_edit, folder=folder)
        return lambda request: answer_request(site, request)

    with serving(make_page) as served:
        yield served


@pytest.fixture
def stub() -> Iterator[Served]:
    """A server with one page."""
    response = PageResponse(body="the page")
    with serving(lambda _: lambda _request: response) as served:
        yield served


def settings_for(script: Path, scored: dict[str, object]) -> Settings:
    """Write a script of scores; return the settings under which it judges and answers."""
    script.write_text(json.dumps(scored))
    name = f"scripted:{script}"
    return Settings(judge=JudgeSettings(model=name), primary=PrimarySettings(model=name))


@pytest.fixture
async def repository(make_repo: MakeRepo, tmp_path: Path, own_home: Path) -> Path:
    """A repository whose question was asked twice, of two judges."""
    root = make_repo(FILES)
    otherwise = {**SCRIPT, "default": 0.4, "answer": "Nobody sums <script>it</script>."}
    otherwise["rules"] = [{"entity": "greet", "score": 0.9, "reason": "says <b>hello</b>"}]
    for number, scored in enumerate((SCRIPT, otherwise)):
        settings = settings_for(tmp_path / f"script-{number}.json", scored)
        async with Pipeline.open(root, settings) as pipeline:
            await pipeline.ask(Turn(task=TASK))
    return root


def turn_ids(page: str) -> list[str]:
    """Return the ids of the listed turns, in order."""
    return list(dict.fromkeys(re.findall(r"/turn/(t_[0-9a-f]+)", page)))


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose store holds facts to review."""
    monkeypatch.delenv("CI", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    with own_store(folder) as store:
        put_session(store, "s_1", SAID)
        session_end.read_everything(store, mode="ask", now=store.clock())
    return folder


@pytest.fixture
def slow() -> Iterator[Mapping[str, str]]:
    """The environment of a vendor that takes its time."""
    with BillingServer(latency_s=1.5, keep_bodies=False) as host, vendor(host) as environ:
        yield {**environ, "XSCORE_JUDGE_PROBE": "false"}
