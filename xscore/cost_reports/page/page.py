"""The report as one HTML file that needs nothing beside it, asks no host for anything and runs only its own script.

The content security policy names the style and the script by their hashes; nothing else is let in, whatever a memory
says. Without the script everything is there but sorting and the choice of light or dark. The same report gives the same
bytes. It does not read the ledger. Trade-off: no library draws the plots, so they can only do what `plot` can.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from xscore.cost_reports.page import headline, rows
from xscore.cost_reports.page.plots import report_plots
from xscore.platform.text import ellipsize, escape_controls, format_time
from xscore.records.cost_report import CostReport


def render_page(report: CostReport) -> str:
    """Return the page."""
    style, script = _data("page.css"), _data("page.js")
    return (
        templates()
        .get_template("page.html.j2")
        .render(
            policy=Markup(content_security_policy(style, script)),  # noqa: S704  our own, as are the next two
            style=Markup(style),  # noqa: S704  our own
            script=Markup(script),  # noqa: S704  our own
            made_on=format_time(report.made_at, "%Y-%m-%d"),
            made_at=format_time(report.made_at),
            repositories=ellipsize(", ".join(report.repositories), 400) or "no repository",
            period=_period(report),
            warnings=report.warnings,
            boxes=headline.headline_figures(report),
            part=_part(report),
            plots=report_plots(report),
            model_tables=rows.group_tables(report),
            estimate=rows.estimate_table(report.accuracy),
            evaluations=rows.evaluations_table(report.evaluations),
            turns=rows.turns_table(report),
            choices=rows.turn_choices(report),
        )
    )


def content_security_policy(style: str, script: str) -> str:
    """Return the policy: nothing but this style and this script."""
    hashes = [b64encode(sha256(part.encode()).digest()).decode() for part in (style, script)]
    rules = ("default-src 'none'", f"style-src 'sha256-{hashes[0]}'", f"script-src 'sha256-{hashes[1]}'")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


@cache
def templates() -> Environment:
    """Return the templates: the page, and the macros for its parts."""
    environment = Environment(
        loader=FunctionLoader(_data),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ellipsize"] = ellipsize
    return environment


def _visible(value: Any) -> Any:
    """Show characters that reorder or hide what is read as escapes; Jinja then escapes the markup."""
    return escape_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _period(report: CostReport) -> str:
    if report.turn_id:
        return f"turn {report.turn_id}"
    since = "the beginning" if report.since is None else f"{format_time(report.since)} UTC"
    until = "now" if report.until is None else f"{format_time(report.until)} UTC"
    return f"from {since} to {until}"


def _part(report: CostReport) -> str:
    """Say how many turns are drawn and listed, where they are not all."""
    total, listed = sum(report.turns_by_state.values()), len(report.turns)
    if listed >= total:
        return ""
    return f"Plots along turns and the table of turns show the newest {listed:,} of {total:,}; the rest covers all."


@cache
def _data(name: str) -> str:
    return files("xscore.cost_reports.page").joinpath(name).read_text(encoding="utf-8").rstrip("\n")
