"""The summary of a run as text: means with their intervals, and the surest cases."""

from xscore.cli.text_layout import faint, render_table
from xscore.extensions.evaluation.case_figures import FigureSummary, MeanFigure

NAMES = {
    "recall_at_5": "recall@5",
    "recall_at_15": "recall@15",
    "recall_at_20": "recall@20",
    "reciprocal_rank": "MRR",
    "bcy_8k": "whole within 8,000 tokens",
    "gold_kept": "gold kept",
    "any_kept": "any gold kept",
}


def render_summary(summary: FigureSummary) -> str:
    """Render the means as a table; empty without a case."""
    rows = [(NAMES[name], *_cells(mean)) for name, mean in summary.figures.items()]
    if summary.kept is not None:
        rows.append(("memories kept", *_cells(summary.kept)))
    if summary.kept_nothing is not None:
        rows.append(("nothing to find, nothing kept", *_cells(summary.kept_nothing)))
    for surest in summary.precision_at_coverage:
        rows.append((f"right in the surest {surest.coverage:.0%}", *_cells(surest.precision)))
    if not rows:
        return ""
    heads = ("final ranking", "mean", "95 %")
    note = "the interval of cases drawn again; of repositories where there are several"
    return f"{render_table(heads, rows, right=heads[1:])}\n{faint(note)}"


def _cells(figure: MeanFigure) -> tuple[str, str]:
    # Where all cases are alike, drawing them again says nothing about others.
    if figure.interval is None or figure.interval.low == figure.interval.high:
        return f"{figure.mean:.2f}", "-"
    return f"{figure.mean:.2f}", f"{figure.interval.low:.2f}–{figure.interval.high:.2f}"
