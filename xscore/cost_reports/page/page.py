"""The whole page: one HTML file that needs nothing beside it, asks no host for anything, and runs its own script alone.

Style and script stand within it (`page.css`, `page.js`) and are named by their hash in the policy of the page; no other
script, style, image, font or connection is let in, whatever a memory says. Without the script everything is there but
sorting and the choice of light or dark. The same report gives the same bytes. It does not read the ledger.
Trade-off: no library draws the plots, so what they can do is what `axes` and `figure` can.
"""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

from xscore.cost_reports.page import tables, turn_detail, turn_plots
from xscore.cost_reports.page import tables as headline
from xscore.cost_reports.page.figures import counterfactual_plot, latency_plot, score_plot
from xscore.cost_reports.page.plot import Html, element, joined
from xscore.cost_reports.page.tables import estimate_table
from xscore.cost_reports.page.turn_plots import bucket_turns
from xscore.platform.text import ellipsize, format_time
from xscore.records.cost_report import CostReport

CHAPTERS = (("figures", "Plots"), ("models", "By model"), ("turns", "Turns"), ("choices", "What turns chose"))


def render_page(report: CostReport) -> str:
    """Return the report as one self-contained HTML file; the same report gives the same bytes."""
    style, script = _data("page.css"), _data("page.js")
    page = _data("page.html").format(
        policy=content_security_policy(style, script),
        title=Html(f"xscore report, {format_time(report.made_at, '%Y-%m-%d')}"),
        style=style,
        header=_header(report),
        main=_main(report),
        script=script,
    )
    return str(page)


def content_security_policy(style: str, script: str) -> str:
    """Return the content security policy: nothing but this style and this script."""
    hashes = [b64encode(sha256(part.encode()).digest()).decode() for part in (style, script)]
    rules = ("default-src 'none'", f"style-src 'sha256-{hashes[0]}'", f"script-src 'sha256-{hashes[1]}'")
    return "; ".join((*rules, "base-uri 'none'", "form-action 'none'"))


def _header(report: CostReport) -> Html:
    stretch = f"from {_moment(report.since, 'the beginning')} to {_moment(report.until, 'now')}"
    of = f"turn {report.turn_id}" if report.turn_id else stretch
    chapters = (element("a", words, href=f"#{name}") for name, words in CHAPTERS)
    return joined(
        (
            element("h1", "Cost and latency"),
            element("p", ellipsize(", ".join(report.repositories), 400) or "no repository", class_="of"),
            element("p", f"{of}; made {format_time(report.made_at)} UTC", class_="of"),
            element("nav", *chapters, aria_label="Chapters"),
        )
    )


def _main(report: CostReport) -> Html:
    gathered = bucket_turns(report.turns)
    plots = (
        turn_plots.cost_plot(gathered),
        turn_plots.hit_rate_plot(gathered),
        latency_plot(report.timings),
        turn_plots.calls_plot(gathered),
        score_plot(report.scores, report.threshold),
        counterfactual_plot(report.comparison),
    )
    return joined(
        (
            headline.warning_list(report),
            _chapter("headline", "In short", headline.headline_figures(report)),
            _chapter("figures", "Plots", _part(report), element("div", *plots, class_="plots")),
            _chapter("models", "By model", *_models(report)),
            _chapter(
                "turns",
                "Turns",
                tables.turns_table(report) if report.turns else _nothing("No turn lies in this stretch."),
            ),
            _chapter("choices", "What turns chose", turn_detail.turn_details_html(report)),
        )
    )


def _models(report: CostReport) -> list[Html]:
    parts = [
        tables.groups_table("Calls by model, the dearest first", "Model", report.by_model)
        if report.by_model
        else _nothing("No call was made.")
    ]
    if report.by and report.by != "model" and report.groups:
        parts.append(tables.groups_table(f"Calls by {report.by}", report.by.capitalize(), report.groups))
    parts.append(estimate_table(report.accuracy))
    if report.evaluations:
        parts.append(tables.evaluations_table(report.evaluations))
    return parts


def _chapter(name: str, title: str, *parts: Html) -> Html:
    return element(
        "section", element("h2", title, id=f"{name}-title"), *parts, id=name, aria_labelledby=f"{name}-title"
    )


def _part(report: CostReport) -> Html:
    """Say how many turns are drawn and listed, where they are not all."""
    whole, listed = sum(report.turns_by_state.values()), len(report.turns)
    if listed >= whole:
        return joined(())
    said = f"Plots along turns and the table of turns show the newest {listed:,} of {whole:,}; the rest is of all."
    return element("p", said, class_="part")


def _nothing(words: str) -> Html:
    return element("p", words, class_="nothing")


def _moment(at: float | None, otherwise: str) -> str:
    return otherwise if at is None else f"{format_time(at)} UTC"


@cache
def _data(name: str) -> str:
    return files("xscore.cost_reports.page").joinpath(name).read_text(encoding="utf-8").rstrip("\n")
