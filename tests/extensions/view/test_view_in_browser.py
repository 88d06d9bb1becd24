"""The pages of `xscore view` in a real browser: reviewing, stopping, comparing, and what hostile
pages of other origins get."""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.basket import FILES
from tests.cli.conftest import own_store
from tests.conftest import MakeRepo
from tests.extensions.view.conftest import serving_pages, turn_ids
from tests.programs import begin
from tests.servers import browser
from tests.waiting import wait_until
from xscore.extensions.extraction import review

pytestmark = pytest.mark.verify

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
COLORS = "new Set(context.getImageData(0, 0, canvas.width, canvas.height).data).size"


@pytest.fixture
async def tab(devtools: str) -> AsyncIterator[browser.Tab]:
    """Open a new tab for the test."""
    async with browser.tab(devtools) as opened:
        await opened.look(width=1200)
        yield opened


async def click(tab: browser.Tab, selector: str) -> None:
    """Click an element as a person does, and wait for the page that comes."""
    await tab.run(f"document.querySelector({selector!r}).click()")


async def test_the_review_queue_is_worked_off(tab: browser.Tab, facts: Path) -> None:
    """Accept one, correct and accept one: the page goes on with what is left, and nothing of
    a fact's text runs."""
    with serving_pages(facts, may_edit=True) as served:
        await tab.open(served.link + "memories")
        texts = await tab.run(
            "Array.from(document.querySelectorAll('.text'), t => t.textContent)"
        )
        assert len(texts) == 2 and any("<b>the</b>" in text for text in texts)

        await click(tab, "button[value=accept]")
        await tab.until("document.querySelectorAll('.fact').length === 1")
        await click(tab, "summary")
        await tab.run("document.querySelector('textarea').value = 'As corrected here.'")
        await click(tab, "button[value=accept]")
        await tab.until(
            "document.readyState === 'complete' && !document.querySelector('.fact')"
        )
        assert tab.complaints == [] and tab.dialogs == []
    with own_store(facts) as store:
        assert review.facts_to_review(store) == []
        kept = {memory.text for memory in store.memories(list(served_ids(facts))).values()}
    assert texts[0] in kept and "As corrected here." in kept


def served_ids(folder: Path) -> list[str]:
    """Return the ids of all stated memories of a store."""
    with own_store(folder) as store:
        rows = store.connection.execute("SELECT id FROM memory_row WHERE kind <> 'exchange'")
        return [str(id_) for (id_,) in rows.fetchall()]


async def test_a_running_turn_is_watched_and_stopped(
    tab: browser.Tab, make_repo: MakeRepo, slow: Mapping[str, str]
) -> None:
    """The figures move without a reload; the button ends the turn, and its page takes the place of
    the live one."""
    root = make_repo({f"shop/m{number}.py": FILES["shop/basket.py"] for number in range(60)})
    options = ("--yes", "--concurrency", "1", "--pack-size", "4", "--no-answer")
    with serving_pages(root, may_edit=True) as served:
        turn = begin("ask", "where is the total?", *options, cwd=root, environ=slow)
        wait_until(lambda: 'class="state running"' in served.page(), turn)
        await tab.open(f"{served.link}turn/{turn_ids(served.page())[0]}")
        await tab.run("window.stays = true")
        first = await tab.run("document.getElementById('judged').textContent")
        await tab.until(f"document.getElementById('judged').textContent !== {first!r}")
        assert await tab.run("window.stays") is True
        assert await tab.run("document.querySelectorAll('#best tr').length") > 0
        assert "$" in await tab.run("document.getElementById('cost').textContent")

        await click(tab, "button.stop")
        # The button is gone again as soon as the call in flight has ended.
        stopping, ended = "document.querySelector('button[disabled]')", "receipt"
        await tab.until(f"{stopping} !== null || document.getElementById({ended!r}) !== null")
        _, err = turn.communicate(timeout=60)
        assert turn.returncode == 130, err
        await tab.until("document.getElementById('receipt') !== null")
        assert "interrupted" in await tab.run("document.body.textContent")
        assert tab.complaints == []


async def test_two_turns_are_compared_on_one_map(tab: browser.Tab, repository: Path) -> None:
    """The map is drawn in colors, keys and a slider reach it, and it fits a phone and a wall."""
    with serving_pages(repository, may_edit=False) as served:
        newest, oldest = turn_ids(served.page())
        for width, theme in ((400, "dark"), (3840, "light"), (1200, "light")):
            await tab.look(width=width, theme=theme)
            await tab.open(f"{served.link}compare?turn={oldest}&turn={newest}")
            await tab.settle()
            assert await tab.run(COLORS) > 4
            assert await tab.run(SIDEWAYS) == 0
        await tab.run("canvas.focus()")
        assert "Change" in await tab.run("document.getElementById('panel').textContent")
        await tab.run("least.value = '0.9'; least.dispatchEvent(new Event('input'))")
        assert await tab.run("inOrder.filter(isShown).length") < await tab.run("inOrder.length")
        await click(tab, "button[data-place]")
        assert await tab.run("document.getElementById('said').textContent") != ""
        assert await tab.run("window.ran") is None
        assert tab.complaints == [] and tab.dialogs == []


@contextmanager
def hostile_page(markup: str) -> Iterator[str]:
    """Serve a page at another port of this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(markup.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base has it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


ATTACK = """<!doctype html><iframe id=frame src="{link}memories"></iframe>
<form id=post method=post action="{link}memories/{fact}" target=frame2><input name=answer
value=accept></form><iframe name=frame2></iframe>
<script>
async function tried(options) {{
  try {{ return (await (await fetch("{link}memories", options)).text()).length; }}
  catch {{ return "refused"; }}
}}
async function attack() {{
  document.getElementById("post").submit();
  let framed = "refused";
  try {{ framed = document.getElementById("frame").contentDocument.body.textContent; }} catch {{}}
  const posted = {{ method: "POST", mode: "no-cors", body: new URLSearchParams("answer=accept") }};
  return [await tried({{}}), await tried({{ mode: "no-cors" }}), await tried(posted), framed];
}}
</script>"""


async def test_pages_of_other_origins_get_nothing(tab: browser.Tab, facts: Path) -> None:
    """Even one that knows the link can neither read, post nor frame a page; a name that is made to
    point here shows nothing."""
    with own_store(facts) as store:
        before = {fact.id for fact in review.facts_to_review(store)}
    with serving_pages(facts, may_edit=True) as served:
        markup = ATTACK.format(link=served.link, fact=next(iter(before)))
        with hostile_page(markup) as address:
            await tab.open(address)
            gained = await tab.run("attack()")
            await tab.settle()
        assert gained[0] == "refused" and gained[1] in (0, "refused")
        assert gained[2] in (0, "refused") and gained[3] in ("", "refused")
        # A browser takes every name below `localhost` for this machine.
        await tab.open(served.link.replace("127.0.0.1", "evil.localhost"))
        assert await tab.run("document.querySelectorAll('form, a').length") == 0
    with own_store(facts) as store:
        assert {fact.id for fact in review.facts_to_review(store)} == before
