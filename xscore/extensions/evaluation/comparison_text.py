"""Comparisons in words: for the terminal, and what the page says about them."""

from collections.abc import Iterator, Sequence

from xscore.cli.text_layout import bold, faint, render_table
from xscore.extensions.evaluation.comparison import (
    DECIDES,
    MEASURES,
    CaseComparison,
    WorstCase,
)
from xscore.extensions.evaluation.statistics import (
    ENOUGH_REPOSITORIES,
    FEWEST_PAIRS,
    PairedDifference,
)
from xscore.platform.text import counted, ellipsize, one_line

FIGURE_HEADS = ("cases", "A", "B", "B - A", "95 %", "better", "worse")
WORST_SHOWN = 5
MISSES_SHOWN = 5
TASK_CHARS = 70


def figure_cells(difference: PairedDifference) -> tuple[str, ...]:
    """Return the cells under `FIGURE_HEADS`."""
    interval = "-"
    if difference.interval is not None:
        interval = f"{difference.interval.low:+.3f} to {difference.interval.high:+.3f}"
    return (
        f"{difference.cases:,}",
        f"{difference.a:.3f}",
        f"{difference.b:.3f}",
        f"{difference.difference:+.3f}",
        interval,
        f"{difference.better:,}",
        f"{difference.worse:,}",
    )


def headline(comparison: CaseComparison) -> str:
    """Say in one sentence what came out."""
    pair = f"{one_line(comparison.b)} against {one_line(comparison.a)}"
    difference = comparison.overall.get(DECIDES)
    if difference is None:
        return f"{pair}: {counted(comparison.cases, 'case')}, none with gold."
    cases = counted(difference.cases, "case")
    if not difference.better + difference.worse:
        return f"{pair}: no difference in {MEASURES[DECIDES]} in any of {cases}."
    amount = f"{difference.difference:+.3f}"
    if difference.interval is None:
        return f"{pair}: {amount} {MEASURES[DECIDES]} in {cases}, too few for an interval."
    ends = f"[{difference.interval.low:+.3f}, {difference.interval.high:+.3f}]"
    verdict = "a clear difference" if difference.is_clear else "no clear difference"
    return f"{pair}: {amount} {ends} {MEASURES[DECIDES]} over {cases}: {verdict}."


def interval_note(comparison: CaseComparison) -> str:
    """Say how the intervals were made, and how far they can be trusted."""
    difference = comparison.overall.get(DECIDES) or next(
        iter(comparison.overall.values()), None
    )
    if difference is None:
        return ""
    repositories = counted(difference.repositories, "repository", "repositories")
    match difference.drawn:
        case "repositories":
            return f"Intervals: {repositories}, drawn again as a whole."
        case "wider":
            return (
                f"Intervals: {repositories}, fewer than {ENOUGH_REPOSITORIES}: the wider of drawing"
                " repositories and drawing cases; rough."
            )
        case "cases":
            return (
                "Intervals: cases of one repository, drawn again; they say nothing of others."
            )
    if difference.cases < FEWEST_PAIRS:
        return f"No interval: fewer than {FEWEST_PAIRS} cases."
    return "No interval: no case differs."


def render_comparisons(comparisons: Sequence[CaseComparison], *, verbose: bool) -> str:
    """Return all comparisons for the terminal."""
    return "\n\n".join(_render(comparison, verbose=verbose) for comparison in comparisons)


def _render(comparison: CaseComparison, *, verbose: bool) -> str:
    rows: list[tuple[str, ...]] = []
    for measure, difference in comparison.overall.items():
        rows.append((MEASURES[measure], *figure_cells(difference)))
    parts = [
        f"{bold(headline(comparison))}\n{faint(interval_note(comparison))}",
        render_table(("all cases", *FIGURE_HEADS), rows, right=FIGURE_HEADS),
    ]
    groups = _group_rows(comparison, verbose=verbose)
    if groups:
        by = ("by", "", "") if verbose else (f"{MEASURES[DECIDES]}, by", "")
        heads = (*by, *FIGURE_HEADS)
        parts.append(render_table(heads, groups, right=FIGURE_HEADS))
    worst = "\n".join(_worst_lines(comparison.worst, verbose=verbose))
    return "\n\n".join([*parts, *([worst] if worst else [])])


def _group_rows(comparison: CaseComparison, *, verbose: bool) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for group in comparison.groups:
        cells = figure_cells(group.difference)
        if verbose:
            rows.append((group.by, one_line(group.group), MEASURES[group.measure], *cells))
        elif group.measure == DECIDES:
            rows.append((group.by, one_line(group.group), *cells))
    return rows


def _worst_lines(worst: Sequence[WorstCase], *, verbose: bool) -> Iterator[str]:
    if not worst:
        return
    shown = worst if verbose else worst[:WORST_SHOWN]
    yield bold("worst cases of B")
    for case in shown:
        task = ellipsize(one_line(case.task), TASK_CHARS)
        yield f"{one_line(case.id)}  A {case.a:.2f}, B {case.b:.2f}  “{task}”"
        for miss in case.misses[:MISSES_SHOWN]:
            name = f"{miss.path}::{miss.name}" if miss.name else miss.path
            yield f"      {one_line(name)}  {faint(one_line(miss.why))}"
        if len(case.misses) > MISSES_SHOWN:
            yield faint(f"      and {len(case.misses) - MISSES_SHOWN} more")
    if len(worst) > len(shown):
        yield faint(f"and {len(worst) - len(shown)} more (--verbose, --output PAGE.html)")
