"""The page of a turn that has ended, and the comparison of two.

The page is the one that `xscore show` writes. No key is needed to look at what was paid for.
"""

from markupsafe import Markup

from xscore.extensions.pages.reading import page_from_store
from xscore.extensions.pages.turn_page import render_turn_page
from xscore.extensions.view.comparison import ROWS_SHOWN, compare_turns
from xscore.extensions.view.comparison_map import comparison_data
from xscore.extensions.view.messages import HTML, PageRequest, PageResponse
from xscore.extensions.view.site import OWN_POLICY, PageAssets, Site
from xscore.platform.errors import UsageError
from xscore.store.turn_history import find_turn_id

COMPARED = 2
MAP_ASSETS = PageAssets(
    styles=("page.css", "turn.css", "view.css"),
    scripts=("ramp.js", "data.js", "changes.js", "map.js", "pointing.js", "compare.js"),
    drawing="drawing.js",
)


def turn_page(site: Site, turn_id: str) -> PageResponse:
    """Return the page of a turn."""
    with site.opened() as store:
        page = page_from_store(store, site.loaded.settings, turn_id)
    text = render_turn_page(page, home=site.root)
    return PageResponse(body=text, content_type=HTML, policy=OWN_POLICY)


def compare_page(site: Site, request: PageRequest) -> PageResponse:
    """Return two turns compared, the earlier first. Raises UsageError unless two are named."""
    names = tuple(dict.fromkeys(request.query.get("turn", ())))
    if len(names) != COMPARED:
        raise UsageError(
            f"{len(names)} turns were chosen to compare",
            hint="Tick two in the list of questions.",
        )
    with site.opened() as store:
        ids = [find_turn_id(store.connection, name) for name in names]
        pages = [page_from_store(store, site.loaded.settings, turn_id) for turn_id in ids]
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
