"""The plot of final scores, with the line from which they are kept.

Most candidates score low and few pass: where the highest bar is far above the lowest, heights are logarithms of one
more than the count, so that none is nothing and the few can be seen. The axis says so.
"""

from collections.abc import Sequence
from math import log10

from xscore.cost_reports.page.axes import Frame, Mark, foot, label, side, whole_ticks
from xscore.cost_reports.page.figure import Sign, bar, figure, nothing, numbers
from xscore.cost_reports.page.markup import Html, element, joined
from xscore.wording import mean

UNEVEN = 30
"""Where the highest bar is so many times the lowest, the scale is of powers of ten."""
LEGEND = (Sign("c1", "at or above the threshold"), Sign("quiet", "below"))


def scores(counts: Sequence[int], threshold: float | None) -> Html:
    """Draw how many final scores fell in each bin."""
    title = "Scores"
    if threshold is None or not any(counts):
        return nothing(title, "No scores are known of these turns.")
    names = [f"{at / len(counts):.2f} to {(at + 1) / len(counts):.2f}" for at in range(len(counts))]
    says = (
        f"Final scores of all judged candidates, in bins of {1 / len(counts):.2f}. The threshold is the newest turn's."
    )
    table = numbers(
        "Final scores", ["Score", "Candidates"], [[name, f"{n:,}"] for name, n in zip(names, counts, strict=True)]
    )
    drawing = _drawing(names, counts, threshold)
    return figure("scores", title, says, drawing, 206, legend=LEGEND, numbers=table)


def _drawing(names: Sequence[str], counts: Sequence[int], threshold: float) -> Html:
    frame, most = Frame(top=34, bottom=174), max(counts)
    uneven = most > UNEVEN * min(count for count in counts if count)
    marks = _powers(most) if uneven else whole_ticks(most)

    def high(count: float) -> float:
        return log10(1 + count) / log10(1 + marks[-1]) if uneven else count / marks[-1]

    def column(index: int, count: int) -> Html:
        left, right = frame.x(index / len(counts)), frame.x((index + 1) / len(counts))
        colour = "c1" if (index + 0.5) / len(counts) >= threshold else "quiet"
        drawn = bar(left + 0.5, frame.y(high(count)), right - left - 1, frame.y(0) - frame.y(high(count)), colour)
        return element("g", element("title", f"{names[index]}: {count:,}"), drawn)

    return joined(
        (
            side(
                frame,
                [Mark(high(mark), mean(mark)) for mark in marks],
                "candidates, by powers of ten" if uneven else "candidates",
            ),
            *(column(index, count) for index, count in enumerate(counts)),
            *_line(frame, threshold),
            foot(frame, [Mark(tenth / 10, f"{tenth / 10:.1f}") for tenth in range(0, 11, 2)], "final score"),
        )
    )


def _line(frame: Frame, threshold: float) -> tuple[Html, Html]:
    at = frame.x(threshold)
    anchor = "start" if threshold < 0.2 else "end" if threshold > 0.8 else "middle"
    return (
        element("line", x1=at, x2=at, y1=17, y2=frame.bottom, class_="threshold"),
        label(at, 13, f"threshold {threshold:.2f}", anchor, "strong"),
    )


def _powers(most: int) -> tuple[float, ...]:
    """Return 0 and powers of ten up to the first at or above `most`; every second where they would crowd."""
    last = len(str(most - 1))
    return 0.0, *(10.0**power for power in reversed(range(last, 0, -2 if last > 5 else -1)))
