"""Plots of choices: whether a judge that is asked twice agrees with itself, and what answers used
of what was chosen.

Both look at the turns whose choices a report lists. Trade-off: a receipt has the two scores of what
was kept or came near, which are those for which agreement matters.
"""

from collections.abc import Sequence

from xscore.cost_reports.plot_shapes import Axis, Figure, Panel
from xscore.cost_reports.records import TurnDetail, TurnLine
from xscore.cost_reports.report_lines import ReportTable
from xscore.platform.figures import format_share, format_time
from xscore.platform.text import counted

STEP = 0.05
LARGEST = 0.5
"""Differences of this size and above share the last bar."""
PAIR = 2


def agreement_plot(details: Sequence[TurnDetail]) -> Figure:
    """Show how far two scores of the same memory lie apart."""
    title = "Judge agreement"
    differences: list[float] = []
    same_side = 0
    for detail in details:
        for memory in (*detail.selected, *detail.near_misses):
            if len(memory.draws) < PAIR:
                continue
            first, second = memory.draws[:PAIR]
            differences.append(abs(first - second))
            same_side += (first >= memory.threshold) == (second >= memory.threshold)
    if not differences:
        return Figure(title=title, why_empty="no memory was judged twice")
    bins = round(LARGEST / STEP)
    counts = [0] * bins
    for difference in differences:
        # A difference a hair below a step belongs to it.
        counts[min(bins - 1, int(difference / STEP + 1e-9))] += 1
    rows: list[tuple[str, str]] = []
    stacks: list[tuple[str, list[tuple[str, float, float]]]] = []
    for at, count in enumerate(counts):
        apart = f"{at * STEP:.2f} to {(at + 1) * STEP:.2f}"
        if at == bins - 1:
            apart = f"{at * STEP:.2f} and more"
        rows.append((apart, f"{count:,}"))
        stacks.append((f"{apart}: {count:,}", [("c1", 0.0, float(count))]))
    mean = sum(differences) / len(differences)
    return Figure(
        title=title,
        summary=(
            f"{counted(len(differences), 'memory', 'memories')} near the cut were judged twice:"
            f" {format_share(same_side, len(differences))} fell on the same side of it both times,"
            f" and the scores lie {mean:.2f} apart on average."
        ),
        panels=[
            Panel(
                y=Axis(title="memories"),
                x=Axis(title="between the two scores", form="score", low=0.0, high=LARGEST),
                stacks=stacks,
            )
        ],
        numbers=ReportTable(("apart", "memories"), rows, words=1),
    )


def answer_use_plot(details: Sequence[TurnDetail], turns: Sequence[TurnLine]) -> Figure:
    """Show how many of the chosen memories each answer cites or names."""
    title = "What answers used"
    began = {turn.id: turn.at for turn in turns}
    answered = [detail for detail in details if detail.cited is not None and detail.selected]
    answered = [detail for detail in reversed(answered) if detail.turn_id in began]
    if not answered:
        return Figure(title=title, why_empty="no listed turn has an answer")
    chosen = used = 0
    rows: list[tuple[str, ...]] = []
    stacks: list[tuple[str, list[tuple[str, float, float]]]] = []
    for detail in answered:
        cited = len(detail.cited or ())
        kept = len(detail.selected)
        chosen += kept
        used += cited
        name = format_time(began[detail.turn_id])
        rows.append((name, f"{kept:,}", f"{cited:,}"))
        parts = [("c1", 0.0, float(cited)), ("quiet", float(cited), float(kept))]
        stacks.append((f"{name}: {cited} of {kept}", parts))
    return Figure(
        title=title,
        summary=(
            f"The last {counted(len(answered), 'answer')} cite or name {used:,} of"
            f" {chosen:,} chosen memories ({format_share(used, chosen)})."
        ),
        panels=[
            Panel(
                y=Axis(title="chosen memories"),
                stacks=stacks,
                times=[began[detail.turn_id] for detail in answered],
                x_title="turns, oldest first (UTC)",
            )
        ],
        legend=[("c1", "cited or named"), ("quiet", "neither")],
        numbers=ReportTable(("from", "chosen", "cited or named"), rows, words=1),
    )
