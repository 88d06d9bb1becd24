"""The map of an answer in a real browser: its frame draws and can be used, and reaches nothing."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.extensions.pages.conftest import HOSTILE
from tests.extensions.pages.test_notebook_map import asked
from tests.servers import browser

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a browser for these tests; without one skip them, except in continuous integration."""
    with browser.running_or_skip(tmp_path_factory.mktemp("browser")) as address:
        yield address


@pytest.fixture
async def tab(devtools: str) -> AsyncIterator[browser.Tab]:
    """Open a new tab for the test."""
    async with browser.tab(devtools) as opened:
        await opened.look(width=900)
        yield opened


async def test_the_frame_draws_and_runs_nothing_of_others(
    tab: browser.Tab, tmp_path: Path
) -> None:
    """A page that holds an answer as a notebook does shows the table, and the map with its script;
    hostile text runs in neither, and nothing is asked for."""
    shown = asked(tmp_path, reason=HOSTILE, answer=HOSTILE)._repr_html_()
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset='utf-8'>{shown}", encoding="utf-8")
    await tab.open(path)
    await tab.settle()
    assert await tab.run("window.ran") is None
    assert await tab.run("document.querySelector('table') !== null")
    assert await tab.run("document.querySelector('iframe').contentDocument") is None
    # The frame is a process of its own, since it has no origin.
    page_session, tab.session = tab.session, ""
    targets = (await tab.send("Target.getTargets"))["targetInfos"]
    (frame,) = [target for target in targets if target["type"] == "iframe"]
    attached = await tab.send("Target.attachToTarget", targetId=frame["targetId"], flatten=True)
    tab.session = attached["sessionId"]
    await tab.until("document.querySelector('#legend')?.childElementCount > 60")
    assert "Basket.total" in await tab.run("document.querySelector('#panel').textContent")
    assert await tab.run("window.ran") is None
    tab.session = page_session
    assert tab.dialogs == [] and tab.complaints == []
    assert [url for url in tab.asked_for if url not in (path.as_uri(), "about:srcdoc")] == []
