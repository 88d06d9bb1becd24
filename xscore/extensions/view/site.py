"""What every page is made with: the repository, the store, the link's path, and its assets.

A store is opened for each request and closed after it, so that the server holds neither a lock nor
memory between two, and sees what other processes changed. Pages of a request that only reads cannot
write. Escaping and style are those of a report's page (`cost_reports.page`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup
from msgspec import Struct, field

from xscore.cli.flags import Flags
from xscore.cli.settings_and_store import opened_store
from xscore.cost_reports.page import content_security_policy, page_part, templates
from xscore.extensions.pages.turn_page import TURN_PARTS, vendored_part
from xscore.extensions.view.messages import HTML, JSON, PageResponse
from xscore.pipeline.json_form import Json
from xscore.platform.figures import format_dollars, format_seconds
from xscore.platform.text import escape_in_json
from xscore.settings import LoadedSettings

if TYPE_CHECKING:
    from xscore.store.store import Store

OWN_POLICY = "base-uri 'none'; frame-ancestors 'none'"
"""Policy of a page that is also written to files, in addition to the one in the page itself."""
PARTS = Path(__file__).with_name("parts")


class PageAssets(Struct, frozen=True, kw_only=True):
    """What a page is styled and moved by: names of packaged files, in order."""

    styles: tuple[str, ...] = ("page.css", "view.css")
    scripts: tuple[str, ...] = ()
    drawing: str = ""
    """Scripts that draw the page: a bundle of kept packages."""


PLAIN_ASSETS = PageAssets()


class Site(Struct, frozen=True, kw_only=True):
    """The pages of one repository."""

    flags: Flags
    folder: Path
    """The folder where the command was started."""
    loaded: LoadedSettings
    repository: str
    """Name of the repository, as pages show it."""
    root: str
    """The path of the first page, with the token: `/…/`."""
    may_edit: bool
    stopped: set[str] = field(default_factory=set)
    """Ids of the turns that were stopped from here."""

    @contextmanager
    def opened(self, *, to_write: bool = False) -> "Iterator[Store]":
        """Open the store for one request."""
        settings = self.loaded.settings
        with opened_store(
            self.flags, start=self.folder, make=False, settings=settings
        ) as store:
            if not (to_write and self.may_edit):
                for connection in store.connections_of_a_turn():
                    connection.execute("PRAGMA query_only = ON")
            yield store

    def render(
        self,
        template: str,
        *,
        status: int = 200,
        assets: PageAssets = PLAIN_ASSETS,
        **values: object,
    ) -> PageResponse:
        """Return a page."""
        style = "\n".join(map(page_piece, assets.styles))
        script = "\n".join(map(page_piece, assets.scripts))
        scripts = [script]
        drawing = ""
        if assets.drawing:
            drawing = vendored_part(assets.drawing)
            scripts.append(drawing)
        body = (
            _templates()
            .get_template(template)
            .render(
                site=self,
                style=Markup(style),  # noqa: S704  packaged files
                script=Markup(script),  # noqa: S704  a packaged file
                drawing=Markup(drawing),  # noqa: S704  a packaged file
                **values,
            )
        )
        policy = page_policy(style, *scripts)
        return PageResponse(status=status, body=body, content_type=HTML, policy=policy)

    def go_to(self, path: str) -> PageResponse:
        """Send the browser to another page, after something was changed."""
        return PageResponse(status=303, location=f"{self.root}{quote(path)}")


def page_policy(style: str, *scripts: str) -> str:
    """Return the policy of a page: its own style and scripts, its own forms and figures."""
    policy = content_security_policy(style, *scripts, forms="'self'")
    return f"{policy}; connect-src 'self'; frame-ancestors 'none'"


def json_response(body: dict[str, Json]) -> PageResponse:
    """Return figures for a script of a page."""
    return PageResponse(body=escape_in_json(json.dumps(body)), content_type=JSON)


@cache
def page_piece(name: str) -> str:
    """Return a packaged style, script or template: of these pages, a turn's, or a report's."""
    for folder in (PARTS, TURN_PARTS):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").rstrip("\n")
    return page_part(name)


@cache
def _templates() -> Environment:
    environment = templates().overlay(loader=FunctionLoader(page_piece))
    environment.filters |= {"dollars": format_dollars, "seconds": format_seconds}
    return environment
