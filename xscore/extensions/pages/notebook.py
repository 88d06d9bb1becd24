"""The map of a turn in a notebook: the page's map alone, in a frame that has no rights.

The frame holds its whole page (`srcdoc`), so a saved notebook shows it without the store. Its
sandbox lets scripts run and nothing else: no origin, no forms, no links out; the policy of the page
lets only our own scripts run. Where a viewer takes frames out, as JupyterLab does in a notebook
that is not trusted, the table above it stays, and a line says where the map is. Trade-offs: the map
is saved with the notebook, so one that would be larger than `MOST_CHARS` is left out; it follows
the system's light or dark mode, since it cannot see the notebook's.
"""

from markupsafe import Markup

from xscore.extensions.pages.map_data import map_values
from xscore.extensions.pages.page_figures import describe_turn
from xscore.extensions.pages.reading import page_from_store
from xscore.extensions.pages.turn_page import page_files, page_templates
from xscore.pipeline.json_form import script_json
from xscore.platform.errors import XscoreError
from xscore.platform.paths import RepositoryRoot
from xscore.settings import Settings
from xscore.store.store import Store

MOST_CHARS = 1_500_000
HEIGHT_PX = 780


def framed_map(root: RepositoryRoot, settings: Settings, turn_id: str) -> str:
    """Return the map of a turn in a frame, or where it can be seen instead."""
    command = f"<code>xscore show {Markup.escape(turn_id)} --open</code>"
    elsewhere = f"<p>Its map: {command}</p>"
    try:
        with Store.open_with(root, settings, create=False) as store:
            store.connection.execute("PRAGMA query_only = ON")
            page = page_from_store(store, settings, turn_id)
    except XscoreError:  # the answer is there, whatever has become of the store since
        return elsewhere
    text = (
        page_templates()
        .get_template("framed.html.j2")
        .render(
            **page_files(script_json(map_values(page))),
            page=page,
            receipt=page.receipt,
            summary=describe_turn(page),
        )
    )
    held = Markup.escape(text)
    if len(held) > MOST_CHARS:
        return elsewhere
    return (
        f'<iframe title="Map of the scores" sandbox="allow-scripts" srcdoc="{held}"'
        f' style="width: 100%; height: {HEIGHT_PX}px; border: 0"></iframe>'
        f"<p>The whole page of this turn, with its map: {command}</p>"
    )
