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

from xscore.cost_reports.page import headline, over_turns, tables, turn_detail
from xscore.cost_reports.page.estimate import estimate
from xscore.cost_reports.page.latency import latency
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.cost_reports.page.otherwise import otherwise
from xscore.cost_reports.page.scores import scores
from xscore.cost_reports.page.steps import steps
from xscore.records.cost_report import CostReport
from xscore.safe_text import brief
from xscore.wording import moment

CHAPTERS = (("figures", "Plots"), ("models", "By model"), ("turns", "Turns"), ("choices", "What turns chose"))


def render(report: CostReport) -> str:
    """Return the report as one self-contained HTML file; the same report gives the same bytes."""
    style, script = _data("page.css"), _data("page.js")
    page = _data("page.html").format(
        policy=policy(style, script),
        title=Html(f"xscore report, {moment(report.made_at, '%Y-%m-%d')}"),
        style=style,
        header=_header(report),
        main=_main(report),
        script=script,
    )
    return str(page)


def policy(style: str, script: str) -> str:
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
            element("p", brief(", ".join(report.repositories), 400) or "no repository", class_="of"),
            element("p", f"{of}; made {moment(report.made_at)} UTC", class_="of"),
            element("nav", *chapters, aria_label="Chapters"),
        )
    )


def _main(report: CostReport) -> Html:
    gathered = steps(report.turns)
    plots = (
        over_turns.cost(gathered),
        over_turns.hit_rate(gathered),
        latency(report.timings),
        over_turns.calls(gathered),
        scores(report.scores, report.threshold),
        otherwise(report.comparison),
    )
    return joined(
        (
            headline.warnings(report),
            _chapter("headline", "In short", headline.headline(report)),
            _chapter("figures", "Plots", _part(report), element("div", *plots, class_="plots")),
            _chapter("models", "By model", *_models(report)),
            _chapter(
                "turns", "Turns", tables.turns(report) if report.turns else _nothing("No turn lies in this stretch.")
            ),
            _chapter("choices", "What turns chose", turn_detail.details(report)),
        )
    )


def _models(report: CostReport) -> list[Html]:
    parts = [
        tables.groups("Calls by model, the dearest first", "Model", report.by_model)
        if report.by_model
        else _nothing("No call was made.")
    ]
    if report.by and report.by != "model" and report.groups:
        parts.append(tables.groups(f"Calls by {report.by}", report.by.capitalize(), report.groups))
    parts.append(estimate(report.accuracy))
    if report.evaluations:
        parts.append(tables.evaluations(report.evaluations))
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
    return otherwise if at is None else f"{moment(at)} UTC"


@cache
def _data(name: str) -> str:
    return files("xscore.cost_reports.page").joinpath(name).read_text(encoding="utf-8").rstrip("\n")
