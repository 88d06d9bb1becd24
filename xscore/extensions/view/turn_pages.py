"""The page of a turn that has ended, and the comparison of two.

The page is the one that `xscore show` writes. Nothing is judged for it, so the judge by words
stands in for the user's: no key is needed to look at what was paid for.
"""

from typing import TYPE_CHECKING

from markupsafe import Markup
from msgspec.structs import replace

from xscore.extensions.pages.reading import read_turn_page
from xscore.extensions.pages.records import TurnPage
from xscore.extensions.pages.turn_page import render_turn_page
from xscore.extensions.view.comparison import ROWS_SHOWN, compare_turns
from xscore.extensions.view.comparison_map import comparison_data
from xscore.extensions.view.exchange import HTML, PageRequest, PageResponse
from xscore.extensions.view.site import OWN_POLICY, PageAssets, Site
from xscore.pipeline.assembly import assemble_parts
from xscore.platform.errors import UsageError
from xscore.records.events import Observer
from xscore.settings.model import PrimarySettings
from xscore.store.turn_history import find_turn_id

if TYPE_CHECKING:
    from xscore.store.store import Store

COMPARED = 2
MAP_ASSETS = PageAssets(
    styles=("page.css", "turn.css", "view.css"),
    scripts=("data.js", "changes.js", "map.js", "pointing.js", "compare.js"),
    drawing="drawing.js",
)


def turn_page(site: Site, turn_id: str) -> PageResponse:
    """Return the page of a turn."""
    with site.opened() as store:
        page = _read(site, store, turn_id)
    text = render_turn_page(page, home=site.root)
    return PageResponse(body=text, content_type=HTML, policy=OWN_POLICY)


def compare_page(site: Site, request: PageRequest) -> PageResponse:
    """Return two turns compared, the earlier first. Raises UsageError unless two are named."""
    names = tuple(dict.fromkeys(request.query.get("turn", ())))
    if len(names) != COMPARED:
        raise UsageError(
            f"{len(names)} turns were chosen to compare", hint="Tick two in the list of questions."
        )
    with site.opened() as store:
        pages = [_read(site, store, find_turn_id(store.connection, name)) for name in names]
    before, now = sorted(pages, key=lambda page: page.turn.at)
    comparison = compare_turns(before, now)
    places = {compared.memory.id: place for place, compared in enumerate(comparison.memories)}
    return site.render(
        "compare.html.j2",
        assets=MAP_ASSETS,
        data=Markup(comparison_data(comparison)),  # noqa: S704  JSON in which `<` is escaped
        comparison=comparison,
        places=places,
        rows_shown=ROWS_SHOWN,
    )


def _read(site: Site, store: "Store", turn_id: str) -> TurnPage:
    settings = site.loaded.settings
    judge = replace(settings.judge, model="lexical")
    settings = replace(settings, judge=judge, primary=PrimarySettings())
    return read_turn_page(assemble_parts(store, settings, None, Observer()), turn_id)
