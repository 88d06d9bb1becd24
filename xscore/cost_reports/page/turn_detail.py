"""What one turn chose and what came near, with raw score, boosts, final score and reason of each memory.

Everything here was written by a repository, a user or a model; it enters as plain text and is escaped by `markup`.
"""

from collections.abc import Sequence

from xscore.cost_reports.page.plot import Html, element, joined
from xscore.cost_reports.report_text import format_spent
from xscore.platform.text import counted, ellipsize, format_duration, format_time
from xscore.records import Boost
from xscore.records.cost_report import CostReport, TurnDetail, TurnLine
from xscore.records.receipt import Selected

HEAD_CHARS = 120
TASK_CHARS = 4_000
"""A longer task is shown in part."""
REASON_CHARS = 600
WORDS_CHARS = 200
"""A longer path, name or ground is shown in part."""


def turn_details_html(report: CostReport) -> Html:
    """Show each turn whose choice is known, folded, the newest first."""
    lines = {line.id: line for line in report.turns}
    several = len(report.repositories) > 1
    told = [
        _turn(detail, lines.get(detail.turn_id), index, several=several)
        for index, detail in enumerate(report.details, start=1)
    ]
    return joined(told) if told else element("p", "Of no turn is the choice told here.", class_="nothing")


def _turn(detail: TurnDetail, line: TurnLine | None, index: int, *, several: bool) -> Html:
    head = element("h3", ellipsize(line.task, HEAD_CHARS) or "(no task)" if line else detail.turn_id)
    said = [f"{counted(len(detail.selected), 'memory', 'memories')} chosen"]
    if line:
        said = [format_time(line.at), *said, format_spent(line.spent)]
    return element(
        "details",
        element("summary", head, element("span", " · ".join(said))),
        element(
            "div",
            _about(detail, line, several=several),
            _memories(f"Chosen ({len(detail.selected)})", detail.selected, "Nothing was chosen."),
            _memories(f"Near misses ({len(detail.near_misses)})", detail.near_misses, "Nothing came near."),
            id=f"turn-{index}",
        ),
        class_="turn",
    )


def _about(detail: TurnDetail, line: TurnLine | None, *, several: bool) -> Html:
    if line is None:
        return element("p", detail.turn_id, class_="about")
    facts = [
        detail.turn_id, line.repository if several else "", line.command, line.state,
        line.judge and f"judge {line.judge}",
        "" if line.threshold is None else f"threshold {line.threshold:.2f}",
        format_duration(line.latency.total) if line.latency else "",
    ]  # fmt: skip
    about = element("p", " · ".join(ellipsize(fact, WORDS_CHARS) for fact in facts if fact), class_="about")
    if line.task == ellipsize(line.task, HEAD_CHARS):
        return about
    task = line.task if len(line.task) <= TASK_CHARS else line.task[: TASK_CHARS - 1] + "…"
    return joined((element("p", task, class_="task"), about))


def _memories(caption: str, memories: Sequence[Selected], none: str) -> Html:
    if not memories:
        return element("p", none, class_="nothing")
    heads = (element("th", name, scope="col") for name in ("Score", "Raw", "Memory, boosts and reason"))
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *(_memory(memory) for memory in memories)),
        class_="memories",
    )


def _memory(memory: Selected) -> Html:
    name = memory.entity or memory.title or memory.id
    marks = [
        words
        for words, holds in (
            ("cached", memory.cached),
            ("below threshold", memory.below_threshold),
            ("stale", memory.is_stale),
        )
        if holds
    ]
    place = element("code", _place(memory)) if memory.path else ""
    kind = element("i", ellipsize(f"{memory.layer} {memory.kind}", 60))
    said = [
        element("b", ellipsize(name, WORDS_CHARS)), " ", place, " ", kind,
        *(joined((" ", element("em", mark))) for mark in marks),
        element("p", ellipsize(memory.reason, REASON_CHARS)) if memory.reason.strip() else "",
        *(element("small", _boost(boost)) for boost in memory.boosts),
    ]  # fmt: skip
    cells = (element("td", f"{memory.score:.2f}"), element("td", f"{memory.raw_score:.2f}"), element("td", *said))
    return joined((element("tr"), *cells))


def _boost(boost: Boost) -> str:
    sign = "−" if boost.amount < 0 else "+"
    return f"{sign}{abs(boost.amount):.2f} {ellipsize(boost.name, 60)}: {ellipsize(boost.because, WORDS_CHARS)}"


def _place(memory: Selected) -> str:
    lines = ""
    if memory.start_line:
        lines = f":{memory.start_line}" + (f"-{memory.end_line}" if memory.end_line > memory.start_line else "")
    return ellipsize(memory.path, WORDS_CHARS) + lines
