"""The page in a real browser: no foreign code, nothing loaded, everything can be reached, sorted
and printed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cost_reports.page_reports import NASTY, empty, hostile, report_of
from tests.servers import browser
from xscore.cost_reports.page import ROWS_AT_ONCE, render_page
from xscore.cost_reports.records import CostReport

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SORTED = (
    "Array.from(document.querySelector('.turns').tBodies[0].rows, "
    "row => row.cells[%d].textContent)"
)
COLUMN = (
    "Array.from(document.querySelector('.turns').tHead.rows[0].cells, c =>"
    " c.textContent).indexOf('%s')"
)
CLASHES = """Array.from(document.querySelectorAll('figure svg')).flatMap(svg => {
  const edge = svg.getBoundingClientRect();
  const words = Array.from(svg.querySelectorAll('text'),
    text => [text.textContent, text.getBoundingClientRect()]);
  const leaves = box => box.left < edge.left - 1 || box.right > edge.right + 1
    || box.top < edge.top - 1 || box.bottom > edge.bottom + 1;
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  return words.flatMap(([word, box], at) => [
    ...(leaves(box) || box.height < 9 ? [word + ' is out or small'] : []),
    ...words.slice(at + 1)
      .filter(([, other]) => meet(box, other))
      .map(([other]) => word + ' / ' + other)]); })"""


pytestmark = pytest.mark.verify


@pytest.fixture
async def tab(devtools: str) -> AsyncIterator[browser.Tab]:
    """Open a new tab for the test."""
    async with browser.tab(devtools) as opened:
        await opened.look(width=1200)
        yield opened


async def show(tab: browser.Tab, report: CostReport, folder: Path) -> Path:
    """Write the page and open it."""
    path = folder / "report.html"
    path.write_text(render_page(report), encoding="utf-8")
    await tab.open(path)
    return path


async def tree(tab: browser.Tab) -> list[tuple[str, str]]:
    """Return roles and names, as a screen reader gets them."""
    accessibility = await tab.send("Accessibility.getFullAXTree")
    nodes = [node for node in accessibility["nodes"] if not node["ignored"]]
    return [(str(_value(node, "role")), str(_value(node, "name"))) for node in nodes]


def _value(node: dict[str, Any], field: str) -> object:
    return node.get(field, {}).get("value", "")


@pytest.mark.parametrize("words", NASTY[:-2])
async def test_no_foreign_text_runs(tab: browser.Tab, tmp_path: Path, words: str) -> None:
    """A memory, task, path or model named like a script runs nothing, shows nothing and breaks no
    policy rule."""
    await show(tab, hostile(words, words.upper()), tmp_path)
    await tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    await tab.settle()

    assert await tab.run("window.ran") is None
    assert (
        await tab.run("document.querySelectorAll('script, style, img, iframe, object').length")
        == 4
    )
    assert await tab.run("document.querySelector('.memories b').textContent") == words.upper()
    assert tab.dialogs == [] and tab.complaints == []


async def test_the_policy_holds_against_what_would_slip_through(
    tab: browser.Tab, tmp_path: Path
) -> None:
    """If foreign markup got into the page, the policy alone would block its scripts, styles and
    images."""
    slipped = (
        "<script>window.ran = 1</script><img src='http://127.0.0.1:9/x.png' onerror='window.ran"
        " = 2'>"
    )
    page = render_page(report_of(1, 1)).replace(
        "<main>", f"<main>{slipped}<style>body {{ display: none }}</style>"
    )
    path = tmp_path / "slipped.html"
    path.write_text(page, encoding="utf-8")
    await tab.open(path)

    assert await tab.run("window.ran") is None
    assert await tab.run("getComputedStyle(document.body).display") == "block"
    assert len(tab.complaints) >= 3, "and the browser says so"


async def test_nothing_but_the_file_is_asked_for(tab: browser.Tab, tmp_path: Path) -> None:
    """The page asks no host and no other file for anything."""
    path = await show(tab, report_of(60, 10), tmp_path)
    await tab.run("document.getElementById('theme').click()")
    await tab.settle()

    assert tab.asked_for == [path.as_uri()]
    assert tab.complaints == []


@pytest.mark.parametrize("width", [360, 768, 1200])
async def test_the_page_never_scrolls_sideways(
    tab: browser.Tab, tmp_path: Path, width: int
) -> None:
    """On a phone and a desktop, with words of 5,000 letters, only tables scroll sideways."""
    for report in (report_of(12, 3), hostile(NASTY[-1]), empty()):
        await tab.look(width=width)
        await show(tab, report, tmp_path)
        await tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")

        assert await tab.run(SIDEWAYS) == 0


async def test_a_table_that_scrolls_on_a_phone_says_so(
    tab: browser.Tab, tmp_path: Path
) -> None:
    """At 400 pixels every wide table says in its caption that it scrolls, and shades its far
    side."""
    await tab.look(width=400)
    await show(tab, report_of(30, 3), tmp_path)
    scrolls = """Array.from(document.querySelectorAll('section > .wide'))
        .filter(wide => wide.scrollWidth > wide.clientWidth)
        .map(wide =>
            getComputedStyle(wide.querySelector('caption'), '::after').content.includes('scroll')
            && getComputedStyle(wide).backgroundImage.includes('gradient'))"""
    assert await tab.run(scrolls) == [True] * 6


@pytest.mark.parametrize("width", [360, 1200])
async def test_no_words_of_a_plot_overlap_or_leave_it(
    tab: browser.Tab, tmp_path: Path, width: int
) -> None:
    """Labels of a plot do not overlap, stay within the drawing and are readable, narrow and
    wide."""
    await tab.look(width=width)
    for report in (report_of(1, 1), report_of(12, 0), report_of(1_000, 0)):
        await show(tab, report, tmp_path)
        clashes = await tab.run(CLASHES)

        assert clashes == []


@pytest.mark.parametrize("want", ["button", "sort", "print"])
async def test_a_long_table_is_shown_whole_when_asked(
    tab: browser.Tab, tmp_path: Path, want: str
) -> None:
    """The rows that wait come by the button, with the first sorting, and in print, in their order;
    the keyboard goes on where they begin."""
    await show(tab, report_of(250, 0), tmp_path)
    rows = "document.querySelector('.turns').tBodies[0].rows"
    assert await tab.run(f"{rows}.length") == ROWS_AT_ONCE
    button = "document.querySelector('.rest button')"
    assert "250" in await tab.run(f"{button}.textContent")
    if want == "button":
        await tab.run(f"{button}.click()")
    elif want == "sort":
        await tab.run("document.querySelector('.turns th button').click()")
    else:
        await tab.run("dispatchEvent(new Event('beforeprint'))")
    assert await tab.run(f"{rows}.length") == 250
    assert await tab.run(f"{button}") is None
    times = await tab.run(f"Array.from({rows}, row => row.cells[0].textContent.trim())")
    assert times in (sorted(times), sorted(times, reverse=True)) and len(set(times)) > 200
    assert tab.complaints == []


async def test_a_table_sorts_by_click_and_by_key(tab: browser.Tab, tmp_path: Path) -> None:
    """A header is a button: a click or Enter sorts by its column, a second one reverses; the header
    shows it."""
    await show(tab, report_of(30, 3), tmp_path)
    column = await tab.run(COLUMN % "Dollars")
    head = f"document.querySelector('.turns').tHead.rows[0].cells[{column}]"

    await tab.run(f"{head}.querySelector('button').click()")
    dearest = [float(cell.strip("$")) for cell in await tab.run(SORTED % column)]
    assert dearest == sorted(dearest, reverse=True)
    assert await tab.run(f"{head}.getAttribute('aria-sort')") == "descending"
    assert (
        await tab.run("document.getElementById('said').textContent")
        == "Sorted by Dollars, descending"
    )

    await tab.run(f"{head}.querySelector('button').focus()")
    await tab.press_enter()
    assert [float(cell.strip("$")) for cell in await tab.run(SORTED % column)] == sorted(
        dearest
    )
    assert await tab.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    assert await tab.run("document.querySelectorAll('.turns [aria-sort]').length") == 1


async def test_a_turn_opens_by_key_and_by_link(tab: browser.Tab, tmp_path: Path) -> None:
    """Enter on a turn's line unfolds its choices; so does its link in the table."""
    await show(tab, report_of(5, 3), tmp_path)
    await tab.run("document.querySelector('details.turn summary').focus()")
    await tab.press_enter()
    assert await tab.run("document.querySelector('details.turn').open") is True

    await tab.run("document.querySelector('a[href=\"#turn-3\"]').focus()")
    await tab.press_enter()
    await tab.until(
        "document.activeElement.closest('details') === document.querySelectorAll('details.turn')[2]"
    )
    assert await tab.run("document.querySelectorAll('details.turn')[2].open") is True


async def test_a_screen_reader_is_told_of_every_plot(tab: browser.Tab, tmp_path: Path) -> None:
    """Each figure and drawing has a name; headings and tables are labelled."""
    await show(tab, report_of(5, 2), tmp_path)
    nodes = await tree(tab)

    figures = [name for role, name in nodes if role == "figure"]
    drawings = [name for role, name in nodes if role in {"image", "img"}]
    assert figures == [
        "Cost per turn",
        "Coverage and caches",
        "Latency by stage",
        "Calls and retries",
        "Scores by openai:gpt-5-nano",
        "Scores by lexical",
    ]
    assert drawings == figures
    assert [name for role, name in nodes if role == "heading"][:2] == [
        "What questions cost, and what they chose",
        "What was asked, and what was chosen",
    ]
    assert all(
        name
        for role, name in nodes
        if role in {"table", "region", "button", "link", "heading", "navigation"}
    )
    assert "Turns, newest first" in [name for role, name in nodes if role == "table"]


async def test_the_page_stands_without_its_script(tab: browser.Tab, tmp_path: Path) -> None:
    """Without JavaScript all words and figures are there, those of plots as tables; no dead
    buttons."""
    await tab.send("Emulation.setScriptExecutionDisabled", value=True)
    path = await show(tab, report_of(5, 3), tmp_path)
    nodes = await tree(tab)

    assert [name for role, name in nodes if role == "button" and "ight" in name] == []
    assert len([role for role, _ in nodes if role == "figure"]) == 6
    assert "Turns, newest first" in [name for role, name in nodes if role == "table"]

    await tab.send("Page.navigate", url=path.as_uri() + "#turn-3")
    await tab.until("document.querySelectorAll('details.turn')[2].open")
    assert await tab.run("document.querySelectorAll('details.turn[open]').length") == 1


async def test_it_prints_whole(tab: browser.Tab, tmp_path: Path) -> None:
    """In print every turn is unfolded, no table is cut, no button is shown, and the background is
    always white."""
    await tab.look(width=700, theme="dark", media="print")
    await show(tab, report_of(12, 3), tmp_path)

    assert (
        await tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    tables = "Array.from(document.querySelectorAll('.memories'))"
    are_tall = await tab.run(f"{tables}.map(table => table.offsetHeight > 100)")
    assert are_tall == [True] * 6
    assert await tab.run("document.querySelector('.tools').checkVisibility()") is False
    cut = """Array.from(document.querySelectorAll('.wide'))
        .filter(wide => wide.checkVisibility()
            && (wide.scrollWidth > document.body.clientWidth + 1
                || wide.scrollHeight > wide.clientHeight + 1)).length"""
    assert await tab.run(cut) == 0
    printed = await tab.send("Page.printToPDF", printBackground=False)
    assert len(printed["data"]) > 40_000
    assert await tab.run("document.querySelectorAll('details.turn[open]').length") == 0, (
        "and is as it was"
    )
