"""A turn as one self-contained HTML file: it loads nothing and runs only its own scripts.

Style, escaping and the policy by hashes are those of a report's page (`cost_reports.page`). What is
drawn is drawn from one block of JSON by scripts in `parts/`, which are readable source, and by
`vendor/drawing.js`, a bundle of kept packages. Without scripts the question, the receipt, the
chosen memories, the answer and every table are there. The same record gives the same bytes.
"""

import re
from functools import cache
from pathlib import Path
from shlex import quote

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup, escape

from xscore.cost_reports.page import content_security_policy, page_part, templates
from xscore.extensions.pages.map_data import page_data
from xscore.extensions.pages.page_figures import (
    cuts_by_kind,
    describe_scope,
    describe_turn,
    folder_rows,
    judge_of,
    receipt_parts,
    usage_rows,
)
from xscore.extensions.pages.records import ListedMemory, TurnPage
from xscore.extensions.pages.stage_times import (
    before_answer_s,
    before_calls_s,
    before_first_call_s,
    stage_times,
)
from xscore.extensions.pages.threads import name_of
from xscore.platform.figures import format_dollars, format_seconds, format_tokens
from xscore.platform.text import escape_controls

SCRIPTS = (
    "data.js",
    "code.js",
    "details.js",
    "map.js",
    "pointing.js",
    "charts.js",
    "controls.js",
)
"""Readable scripts, in the order in which they need each other."""
TURN_PARTS = Path(__file__).with_name("parts")
STYLES = ("turn.css",)
FIRST_WORD = re.compile(r"(?!xscore )[a-z]+ ")
"""Matches a plain word, neither a name nor a path."""
WHY = {
    "judged": "the judge put it above the cut",
    "boosted": "boosts lifted it above the cut",
    "filled": "below the cut; it filled a free place",
    "min_keep": "below the cut; min_keep asked for it",
    "near": "near the cut",
    "passed": "passed, but lost its place",
    "folded": "passed, but is listed with another",
}


def render_turn_page(page: TurnPage, *, home: str = "") -> str:
    """Return the page. home: the address of the list of questions, where a server has one."""
    receipt = page.receipt
    answer = Markup()
    if receipt is not None and receipt.answer:
        from xscore.extensions.pages.answer_html import answer_html  # many turns have no answer

        answer = Markup(answer_html(receipt.answer, page.kept))  # noqa: S704  escaped there
    return (
        page_templates()
        .get_template("turn.html.j2")
        .render(
            **page_files(page_data(page)),
            home=home,
            page=page,
            receipt=receipt,
            answer=answer,
            summary=describe_turn(page),
            scope=describe_scope(page),
            judge=judge_of(page),
            cuts=cuts_by_kind(page),
            parts=receipt_parts(page),
            folders=folder_rows(page),
            usage=usage_rows(page),
            times=stage_times(page),
            lead=before_calls_s(page),
            first_call=before_first_call_s(page),
            before_answer=before_answer_s(page),
            never_cited=_never_cited(page),
            why=WHY,
        )
    )


def page_files(data: str) -> dict[str, Markup]:
    """Return what a page with a map holds unescaped, by the names that templates use: its policy,
    style and scripts, and the data that they draw.

    data: JSON in which `<` is escaped.
    """
    style = turn_style()
    script = turn_script()
    drawing = vendored_part("drawing.js")
    return {
        "policy": Markup(content_security_policy(style, drawing, script)),  # noqa: S704  from packaged files
        "style": Markup(style),  # noqa: S704  a packaged file
        "drawing": Markup(drawing),  # noqa: S704  a packaged file
        "script": Markup(script),  # noqa: S704  a packaged file
        "data": Markup(data),  # noqa: S704  escaped by its maker
    }


def turn_style() -> str:
    """Return the style of the page: a report's, and its own."""
    return "\n".join([page_part("page.css"), *map(turn_part, STYLES)])


def turn_script() -> str:
    """Return the readable scripts of the page."""
    return "\n".join([page_part("theme.js"), page_part("ramp.js"), *map(turn_part, SCRIPTS)])


def _never_cited(page: TurnPage) -> list[tuple[int, ListedMemory]]:
    """Return the chosen memories that the answer does not cite, with their numbers."""
    return [(number, entry) for number, entry in enumerate(page.kept, 1) if not entry.is_cited]


@cache
def turn_part(name: str) -> str:
    """Return a packaged part of the page: style, script or template."""
    return (TURN_PARTS / name).read_text(encoding="utf-8").rstrip("\n")


@cache
def vendored_part(name: str) -> str:
    """Return a bundle of kept packages."""
    return (Path(__file__).with_name("vendor") / name).read_text(encoding="utf-8").rstrip("\n")


@cache
def page_templates() -> Environment:
    """Return the templates of this page, with the escaping of a report's page."""
    environment = templates().overlay(loader=FunctionLoader(turn_part))
    environment.filters = environment.filters | {
        "dollars": format_dollars,
        "seconds": format_seconds,
        "tokens": format_tokens,
        "name": name_of,
        "shell": quote,
        "ticked": _ticked,
    }
    return environment


def _ticked(text: str) -> Markup:
    """Return a sentence of ours with the commands in it, which are between backticks, as code.

    A terminal's lines begin small; on a page a sentence begins with a capital.
    """
    if FIRST_WORD.match(text):
        text = text[0].upper() + text[1:]
    pieces = escape_controls(text).split("`")
    marked = Markup()
    for index, piece in enumerate(pieces):
        # An odd last one is a backtick that opens nothing.
        is_code = index % 2 == 1 and index < len(pieces) - 1
        marked += Markup("<code>{}</code>").format(piece) if is_code else escape(piece)
    return marked
