"""The report as one self-contained HTML file that loads nothing and runs only its own script.

The content security policy names the style and the script by their hashes and lets nothing else in,
whatever a memory says. Plots are drawn by `plots.js` and a bundle of d3 (`vendor/plotting.js`)
from one block of JSON; without scripts the numbers of each are in its table. The same report
gives the same bytes.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from xscore.cost_reports.plot_shapes import Figure
from xscore.cost_reports.plots import report_plots
from xscore.cost_reports.records import CostReport, GateFigures, TurnLine
from xscore.cost_reports.report_lines import (
    ReportTable,
    format_priced,
    format_spent,
    format_spent_short,
    line_of_turn,
    shown_turn_columns,
    table_for_people,
)
from xscore.cost_reports.report_text import (
    GROUPS_SHOWN,
    describe_period,
    report_tables,
    summary_rows,
)
from xscore.pipeline.json_form import script_json
from xscore.platform.figures import format_duration, format_share, format_time, format_tokens
from xscore.platform.text import ellipsize, escape_controls

TASK_CHARS = 4_000
CAPTIONS = {"time of": "Time by stage", "evaluated": "Evaluations, newest first"}
"""Captions of tables without calls, by their first header."""
SCRIPTS = ("page.js", "theme.js", "ramp.js", "plots.js")
"""Readable scripts, in the order in which they need each other."""
DEAREST_SHOWN = 8
DETAILS_SHOWN = 10
"""Turns whose choices are listed first; one click shows the others."""
ROWS_AT_ONCE = 100
"""Rows of the table of turns; one click shows the others."""


def render_page(
    report: CostReport, *, baseline: GateFigures | None = None, home: str = ""
) -> str:
    """Return the page.

    baseline: what latencies are shown against.
    home: the address of the list of questions, where a server has one.
    """
    plots = report_plots(report, baseline)
    places: dict[str, str] = {}
    for index, detail in enumerate(report.details, start=1):
        places[detail.turn_id] = f"#turn-{index}"
    tables: list[tuple[str, ReportTable]] = []
    for table in report_tables(report, paid=format_spent_short, groups=GROUPS_SHOWN):
        caption = CAPTIONS.get(table.heads[0]) or f"Calls by {table.heads[0]}"
        tables.append((caption, table))
    page = templates().get_template("page.html.j2")
    return page.render(
        **page_assets(plots),
        home=home,
        report=report,
        period=describe_period(report),
        total=sum(report.turns_by_state.values()),
        summary=[row for row in summary_rows(report) if row[1]],
        plots=plots,
        dearest=dearest_turns(report.turns),
        tables=tables,
        turns=_turns_table(report),
        rows_at_once=ROWS_AT_ONCE,
        first=DETAILS_SHOWN,
        lines={line.id: line for line in report.turns},
        hrefs_of=places,
        hrefs=[places.get(line.id, "") for line in report.turns],
    )


def page_assets(figures: Sequence[Figure]) -> dict[str, Markup]:
    """Return style, scripts and policy of a page with plots, and what these are drawn from."""
    style = page_part("page.css")
    script = "\n".join(map(page_part, SCRIPTS))
    drawing = page_part("../vendor/plotting.js")
    panels = [figure.panels for figure in figures if not figure.why_empty]
    return {
        "policy": Markup(content_security_policy(style, drawing, script)),  # noqa: S704  from packaged files
        "style": Markup(style),  # noqa: S704  a packaged file
        "drawing": Markup(drawing),  # noqa: S704  a packaged file
        "script": Markup(script),  # noqa: S704  packaged files
        "plot_data": Markup(script_json(msgspec.to_builtins(panels))),  # noqa: S704  JSON in which `<` is escaped
    }


def dearest_turns(turns: Sequence[TurnLine]) -> list[TurnLine]:
    """Return the turns that cost most, by dollars, then by tokens; none where all were free of
    both."""
    paid = [turn for turn in turns if turn.spent.cost_usd or turn.spent.usage.input_tokens]
    paid.sort(key=lambda turn: (-turn.spent.cost_usd, -turn.spent.usage.input_tokens, turn.id))
    return paid[:DEAREST_SHOWN]


def content_security_policy(style: str, *scripts: str, forms: str = "'none'") -> str:
    """Return the policy: only this style and these scripts. forms: where forms may be sent."""
    hashes = " ".join([f"'sha256-{_sha256(script)}'" for script in scripts])
    rules = (
        "default-src 'none'",
        f"style-src 'sha256-{_sha256(style)}'",
        f"script-src {hashes}",
        "base-uri 'none'",
        f"form-action {forms}",
    )
    return "; ".join(rules)


def _sha256(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


@cache
def templates() -> Environment:
    """Return the templates: the page, and the macros for its parts."""
    environment = Environment(
        loader=FunctionLoader(page_part),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ellipsize": ellipsize,
        "pixels": lambda place: f"{place:.1f}".removesuffix(".0"),
        "tokens": format_tokens,
        "time": format_time,
        "duration": format_duration,
        "share": format_share,
        "priced": format_priced,
        "spent": format_spent,
        "task": _shorten_task,
    }
    return environment


def _shorten_task(text: str) -> str:
    if len(text) <= TASK_CHARS:
        return text
    return text[: TASK_CHARS - 1] + "…"


def _visible(value: Any) -> Any:
    """Show characters that reorder or hide text as escapes; Jinja then escapes the markup."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return value


def _turns_table(report: CostReport) -> ReportTable:
    columns = shown_turn_columns(repositories=len(report.repositories) > 1)
    return table_for_people(columns, [line_of_turn(turn) for turn in report.turns])


@cache
def page_part(name: str) -> str:
    """Return a packaged part of a page: style, script or template."""
    return (
        (Path(__file__).with_name("page_parts") / name).read_text(encoding="utf-8").rstrip("\n")
    )
