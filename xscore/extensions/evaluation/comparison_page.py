"""Comparisons as one HTML page that loads nothing: plots of differences, tables, the worst cases.

Style, script, drawings and policy are those of a report's page (`cost_reports.page`). The same
comparisons give the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from xscore.cost_reports.page import page_assets, templates
from xscore.cost_reports.plot_shapes import Axis, Figure, Panel, Spread
from xscore.cost_reports.report_lines import ReportTable
from xscore.extensions.evaluation.comparison import (
    DECIDES,
    MEASURES,
    CaseComparison,
    GroupDifference,
)
from xscore.extensions.evaluation.comparison_text import (
    FIGURE_HEADS,
    figure_cells,
    headline,
    interval_note,
)
from xscore.extensions.evaluation.statistics import PairedDifference
from xscore.platform.text import counted, ellipsize

NO_SHARE = ("kept",)
"""Measures that are counts: they share no axis with shares."""
MOST_CASES_DRAWN = 120
MOST_GROUPS_DRAWN = 30
LABEL_CHARS = 24
BETTER, WORSE, UNCLEAR = "c1", "c2", "quiet"


class PageSection(Struct, frozen=True):
    """One comparison as the page shows it."""

    comparison: CaseComparison
    headline: str
    note: str
    figures: tuple[Figure, ...]
    overall: ReportTable
    groups: ReportTable


def render_comparison_page(comparisons: Sequence[CaseComparison]) -> str:
    """Return the page. comparisons: at least one."""
    sections = [_section(comparison) for comparison in comparisons]
    figures = [figure for section in sections for figure in section.figures]
    template = Path(__file__).with_name("comparison.html.j2").read_text(encoding="utf-8")
    return (
        templates()
        .from_string(template)
        .render(
            **page_assets(figures),
            sections=sections,
        )
    )


def _section(comparison: CaseComparison) -> PageSection:
    overall: list[tuple[str, ...]] = []
    for measure, difference in comparison.overall.items():
        overall.append((MEASURES[measure], *figure_cells(difference)))
    groups: list[tuple[str, ...]] = []
    for group in comparison.groups:
        name = f"{group.by}: {group.group}"
        groups.append((name, MEASURES[group.measure], *figure_cells(group.difference)))
    return PageSection(
        comparison=comparison,
        headline=headline(comparison),
        note=interval_note(comparison),
        figures=tuple(_figures(comparison)),
        overall=ReportTable(("measure", *FIGURE_HEADS), overall, words=1),
        groups=ReportTable(("group", "measure", *FIGURE_HEADS), groups, words=2),
    )


def _figures(comparison: CaseComparison) -> list[Figure]:
    drawn: list[tuple[str, PairedDifference]] = []
    for measure, difference in comparison.overall.items():
        if measure not in NO_SHARE:
            drawn.append((MEASURES[measure], difference))
    figures = [
        _forest("All cases", f"Mean of B - A over {counted(comparison.cases, 'case')}.", drawn)
    ]
    for by in dict.fromkeys(group.by for group in comparison.groups):
        of_division = [group for group in comparison.groups if _is_drawn(group, by)]
        rows = [(group.group, group.difference) for group in of_division[:MOST_GROUPS_DRAWN]]
        summary = f"Mean of B - A of {MEASURES[DECIDES]}, with the interval of each group."
        figures.append(_forest(f"By {by}", summary, rows))
    if comparison.differences:
        figures.append(_cases_plot(comparison.differences))
    return figures


def _is_drawn(group: GroupDifference, by: str) -> bool:
    return group.by == by and group.measure == DECIDES


def _forest(title: str, summary: str, rows: Sequence[tuple[str, PairedDifference]]) -> Figure:
    """Show each difference with its interval, around a line at no difference."""
    reach = 0.05
    for _, difference in rows:
        ends = [difference.difference]
        if difference.interval is not None:
            ends += [difference.interval.low, difference.interval.high]
        reach = max(reach, *map(abs, ends))
    reach = min(1.0, reach * 1.1)
    panel = Panel(
        x=Axis(
            title="A is better to the left, B to the right",
            form="signed",
            low=-reach,
            high=reach,
        ),
        spreads=[_spread(name, difference) for name, difference in rows],
        threshold=0.0,
        threshold_title="no difference",
    )
    table = [(name, *figure_cells(difference)) for name, difference in rows]
    return Figure(
        title=title,
        summary=summary,
        panels=[panel],
        legend=[
            (f"square {BETTER}", "B clearly better"),
            (f"square {WORSE}", "B clearly worse"),
            (f"square {UNCLEAR}", "no clear difference"),
        ],
        numbers=ReportTable(("", *FIGURE_HEADS), table, words=1),
    )


def _spread(name: str, difference: PairedDifference) -> Spread:
    colour = UNCLEAR
    if difference.is_clear:
        colour = BETTER if difference.difference > 0 else WORSE
    low = high = difference.difference
    if difference.interval is not None:
        low = difference.interval.low
        high = difference.interval.high
    cells = ", ".join(figure_cells(difference))
    label = ellipsize(name, LABEL_CHARS)
    return Spread(label, f"{name}: {cells}", colour, low, difference.difference, high)


def _cases_plot(differences: Sequence[float]) -> Figure:
    """Show a bar for each case, the one that B loses most of first."""
    step = max(1, -(-len(differences) // MOST_CASES_DRAWN))
    shown = differences[::step]
    stacks: list[tuple[str, list[tuple[str, float, float]]]] = []
    for difference in shown:
        colour = BETTER if difference > 0 else WORSE
        low, high = sorted((0.0, difference))
        # A case without a difference has no height; it is in the count all the same.
        stacks.append((f"{difference:+.2f}", [(colour, low, high)]))
    equal = sum(difference == 0 for difference in differences)
    every = "" if step == 1 else f" One of {step} is drawn."
    panel = Panel(
        y=Axis(title="B - A", form="signed", low=-1.0, high=1.0),
        stacks=stacks,
        x_title="cases, the largest loss of B first",
    )
    return Figure(
        title="Case by case",
        summary=f"B - A of {MEASURES[DECIDES]}; {counted(equal, 'case')} without one.{every}",
        panels=[panel],
        legend=[(BETTER, "B found more"), (WORSE, "A found more")],
        numbers=ReportTable(
            ("place", "B - A"),
            [(str(at), f"{value:+.2f}") for at, value in enumerate(differences, start=1)][
                :MOST_CASES_DRAWN
            ],
            words=1,
            more=max(0, len(differences) - MOST_CASES_DRAWN),
        ),
    )
