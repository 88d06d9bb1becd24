"""The page of a turn in a real browser: no foreign code, nothing loaded, the map reached by pointer
and keys, and everything readable narrow, wide, dark and printed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.extensions.pages.conftest import HOSTILE, Place, Shown
from tests.servers import browser

pytestmark = pytest.mark.verify

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SPOKEN = "document.getElementById('said').textContent"


@pytest.fixture
async def tab(devtools: str) -> AsyncIterator[browser.Tab]:
    """Open a new tab for the test."""
    async with browser.tab(devtools) as opened:
        await opened.look(width=1400)
        yield opened


@pytest.fixture(scope="module")
def pages(shop: Place, hostile: Place) -> dict[str, Shown]:
    """The pages of all turns, by their states; `hostile`: the one of hostile text."""
    shown = {state: shop.show(state) for state in shop.turns}
    return {**shown, "hostile": hostile.show("chosen")}


async def open_page(tab: browser.Tab, shown: Shown, folder: Path) -> Path:
    """Write the page and open it."""
    path = folder / "turn.html"
    path.write_text(shown.html, encoding="utf-8")
    await tab.open(path)
    await tab.settle()
    return path


async def press(tab: browser.Tab, key: str, code: int) -> None:
    """Press and release a key."""
    names = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    await tab.send("Input.dispatchKeyEvent", type="keyDown", **names)
    await tab.send("Input.dispatchKeyEvent", type="keyUp", **names)


async def test_hostile_text_runs_nothing(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """Names, texts, question, reasons and answer that are markup run nothing, are shown as they
    are, and nothing but the file is asked for."""
    path = await open_page(tab, pages["hostile"], tmp_path)
    await tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    await tab.run("inOrder.forEach(place => pick(place, { moves: true }))")
    await tab.run("search.value = 'script'; applyFilters()")
    await tab.settle()

    assert await tab.run("window.ran") is None
    assert (
        await tab.run("document.querySelectorAll('main img, main script, iframe').length") == 0
    )
    assert HOSTILE in await tab.run("document.querySelector('h1').textContent")
    assert tab.asked_for == [path.as_uri()]
    assert tab.dialogs == [] and tab.complaints == []


@pytest.mark.parametrize(
    "state", ["chosen", "carried", "unjudged", "killed", "words", "hostile"]
)
async def test_every_turn_is_drawn_at_every_width(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path, state: str
) -> None:
    """At 400 and 3,840 pixels, light and dark, the map has colors, nothing scrolls sideways, and
    the browser complains of nothing."""
    for width, theme in ((400, "light"), (3840, "dark")):
        await tab.look(width=width, theme=theme)
        await open_page(tab, pages[state], tmp_path)
        colors = "new Set(context.getImageData(0, 0, canvas.width, canvas.height).data).size"
        assert await tab.run(colors) > 4
        assert await tab.run(SIDEWAYS) == 0
    assert tab.complaints == []


async def test_a_click_says_all_of_a_memory(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """A click on the map shows score, sentence, neighbors, text and command of the memory there."""
    shown = pages["chosen"]
    await open_page(tab, shown, tmp_path)
    place = shown.record.kept[0].place
    box = f"boxOf(leafOf[{place}])"
    bounds = "canvas.getBoundingClientRect()"
    await tab.run("canvas.scrollIntoView()")
    x = await tab.run(f"{bounds}.left + {box}[0] + {box}[2] / 2")
    y = await tab.run(f"{bounds}.top + {box}[1] + {box}[3] / 2")
    for kind in ("mousePressed", "mouseReleased"):
        await tab.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
        )
    words = await tab.run("panel.textContent")
    assert "Basket.total" in words
    assert shown.record.sentences[place] in words
    assert "sum(item.price" in words
    assert "pay" in await tab.run("panel.querySelector('.neighbors').textContent")
    assert "xscore explain shop/basket.py::Basket.total --turn" in words
    assert await tab.run("document.querySelectorAll('#panel .token.keyword').length") > 0


async def test_what_is_entered_fills_the_map_and_is_found_there(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """However deep, what is entered lies within the map, strips stay thin, and the memory under a
    point is the one drawn there."""
    await open_page(tab, pages["chosen"], tmp_path)
    strays = await tab.run(
        """inOrder.filter(place => {
             const leaf = leafOf[place];
             for (const k of [1, 7, 60]) {
               const x = width / 2 - k * (leaf.x0 + leaf.x1) / 2;
               view = parts.zoomIdentity.translate(x, 0).scale(k);
               const [left, top, wide, tall] = boxOf(leaf);
               view = view.translate(0, (height / 2 - top - tall / 2) / k);
               const box = boxOf(leaf);
               if (nodeAt(box[0] + box[2] / 2, box[1] + box[3] / 2) !== leaf) return true;
             }
             return false;
           }).length"""
    )
    assert strays == 0
    await tab.run("view = parts.zoomIdentity; enter(leafOf[inOrder[0]].parent)")
    await tab.until("view.k > 1 && !isMoving")
    top, tall = await tab.run("boxOf(leafOf[inOrder[0]].parent).filter((_, at) => at % 2)")
    assert top >= -1 and top + tall <= await tab.run("height") + 1


async def test_the_map_is_reached_by_keys(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """Down goes to the best within, up and Escape go out, and each step is spoken."""
    await open_page(tab, pages["chosen"], tmp_path)
    await tab.run("canvas.focus()")
    await press(tab, "ArrowDown", 40)
    folder = await tab.run(SPOKEN)
    assert folder.startswith("shop")
    for _ in range(2):
        await press(tab, "ArrowDown", 40)
    assert "Basket.total" in await tab.run(SPOKEN)
    await press(tab, "Escape", 27)
    assert "Basket.total" not in await tab.run(SPOKEN)


async def test_filters_and_the_slider_say_what_they_do(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """A search counts and lists what matches; another cut names what it would choose."""
    await open_page(tab, pages["chosen"], tmp_path)
    await tab.run("search.value = 'checkout'; applyFilters(); matches.open = true")
    await tab.until("byId('matches-body').rows.length > 0")
    listed = await tab.run("Array.from(byId('matches-body').rows, row => row.textContent)")
    assert all("checkout" in row for row in listed)
    await tab.run("cut.value = '0.5'; cut.dispatchEvent(new Event('input'))")
    assert "New: pay" in await tab.run("byId('cut-says').textContent")


async def test_it_prints_the_chosen_whole(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """In print the chosen memories are unfolded on white, and no control is there."""
    await tab.look(width=800, theme="dark", media="print")
    await open_page(tab, pages["chosen"], tmp_path)
    tall = (
        "Array.from(document.querySelectorAll('.memory[id^=kept-]'), m => m.offsetHeight > 90)"
    )
    assert all(await tab.run(tall))
    assert await tab.run("controls.checkVisibility()") is False
    printed = await tab.send("Page.printToPDF", printBackground=False)
    assert len(printed["data"]) > 20_000


async def test_without_scripts_the_words_are_all_there(
    tab: browser.Tab, pages: dict[str, Shown], tmp_path: Path
) -> None:
    """Without JavaScript question, receipt, chosen memories, answer and tables are on the page."""
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    path = tmp_path / "turn.html"
    path.write_text(pages["chosen"].html, encoding="utf-8")
    await tab.open(path)
    nodes = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
    names = {
        str(node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]
    }
    assert {"What was chosen", "The answer", "Calls", "Folders as a table"} <= names
