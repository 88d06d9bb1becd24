"""The plots of the page: round ticks, few bars for many turns, matching sums, readable letters."""

import re
from decimal import Decimal
from importlib.resources import files

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cost_reports.page_reports import MODELS, report_of, timings
from xscore.cost_reports import plots
from xscore.cost_reports.latency_plot import latency_plot
from xscore.cost_reports.page import templates
from xscore.cost_reports.plot_shapes import Figure, ticks
from xscore.cost_reports.plots import MAX_BUCKETS, bucket_turns
from xscore.cost_reports.records import ScoreHistogram, Spent, TurnLine

BAR = re.compile(r'<rect x="[^"]*" y="([^"]*)" width="[^"]*" height="([^"]*)"')
STYLE = files("xscore.cost_reports").joinpath("page_parts/page.css").read_text()
NAMED = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w]+): light-dark\((#\w{6}), (#\w{6})\);", STYLE)
}
ZERO = Decimal(0)


def linear(colour: str) -> list[float]:
    """Return red, green and blue in linear light."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, by WCAG."""
    lights = sorted(
        (
            0.2126 * red + 0.7152 * green + 0.0722 * blue
            for red, green, blue in (linear(first), linear(second))
        )
    )
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_letters_can_be_read(theme: int) -> None:
    """Text has a contrast of 4.5 with its background, plot marks 3, in light and dark mode."""
    for ink, grounds in (
        ("ink", ("page", "card", "wash", "hover")),
        ("soft", ("page", "card", "hover")),
        ("link", ("page", "card", "hover")),
        ("alert", ("wash",)),
    ):
        for ground in grounds:
            assert contrast(NAMED[ink][theme], NAMED[ground][theme]) >= 4.5, (ink, ground)
    for mark in ("c1", "c2", "c3", "c4", "c5", "c6", "focus"):
        assert contrast(NAMED[mark][theme], NAMED["card"][theme]) >= 3, mark


def drawn(figure: Figure) -> str:
    """Return a plot as drawn in the page; nothing for an empty one."""
    if figure.why_empty:
        return ""
    return str(templates().get_template("macros.html.j2").module.figure(figure, "plot"))  # type: ignore[attr-defined]  # a macro of the template


@given(st.floats(min_value=1e-6, max_value=1e9), st.sampled_from([2, 4]))
@example(1.3, 4)
@example(1.5, 2)
@settings(max_examples=25)
def test_ticks_are_round_few_and_reach_the_highest(top: float, max_ticks: int) -> None:
    """An axis starts at 0, reaches the maximum, and has at most six ticks in steps of 1, 2 or 5."""
    marks = ticks(top, max_ticks)

    assert marks[0] == 0 and marks[-1] >= top * 0.999
    assert 2 <= len(marks) <= 6
    assert f"{marks[1]:.0e}"[0] in "125"


def turn_of(calls: int, limited: int, failed: int, usd: Decimal) -> TurnLine:
    """Return a turn that made N calls."""
    spent = Spent(
        calls=calls,
        rate_limited=limited,
        failed=failed,
        attempts=calls + limited + failed,
        cost_usd=usd,
    )
    return replace(
        report_of(1, 0).turns[0],
        spent=spent,
        cost_by_model={MODELS[0]: usd / 3, MODELS[1]: usd - usd / 3},
    )


FEW = st.integers(min_value=0, max_value=9)
USD = st.decimals(min_value=0, max_value=9, places=12)


@given(st.lists(st.builds(turn_of, FEW, FEW, FEW, USD), min_size=1, max_size=2 * MAX_BUCKETS))
@settings(deadline=None, max_examples=20)
@example(
    [turn_of(1, 0, 0, Decimal(1)), turn_of(1, 1, 0, Decimal(1)), turn_of(2, 1, 1, Decimal("1.3"))]
    * 30
)
def test_no_bar_leaves_its_frame(turns: list[TurnLine]) -> None:
    """Whatever the averages, each bar starts below the top of its frame."""
    buckets = bucket_turns(turns)

    for figure, tops in (
        (plots.cost_plot(buckets), {160.0: 20}),
        (plots.calls_plot(buckets), {110.0: 20, 200.0: 146}),
    ):
        for stack in re.findall(r"<g><title>.*?</g>", drawn(figure), re.DOTALL):
            bars = [[float(number) for number in bar] for bar in BAR.findall(stack)]
            if bars:
                lowest = max(y + height for y, height in bars)
                distances = {abs(bottom - lowest): bottom for bottom in tops}
                foot = distances[min(distances)]
                assert min(y for y, _ in bars) >= tops[foot] - 0.6


@pytest.mark.parametrize("count", [0, 1, 51, 1_000])
def test_turns_are_gathered_without_loss(count: int) -> None:
    """However many turns there are, a plot has few steps, each turn is in one, and the dollars add
    up."""
    report = report_of(count, 0)
    buckets = bucket_turns(report.turns)

    assert len(buckets) <= MAX_BUCKETS
    assert [turn for bucket in buckets for turn in bucket.turns] == list(reversed(report.turns))
    total = sum(
        (
            bucket.cost(frozenset({model})) * len(bucket.turns)
            for bucket in buckets
            for model in MODELS
        ),
        ZERO,
    )
    assert abs(total - report.spent.cost_usd) < Decimal("1e-20"), "no float has touched it"


def test_many_models_share_a_colour() -> None:
    """The five most expensive models have a colour each; the others share one, and the dollars add
    up."""
    line = report_of(1, 0).turns[0]
    bill = {f"vendor:model-{at}": Decimal(at + 1) for at in range(9)}
    page = drawn(plots.cost_plot(bucket_turns([replace(line, cost_by_model=bill)])))

    assert "4 others" in page and "vendor:model-8" in page and "vendor:model-0" not in page
    assert "<td>$10.00" in page  # 1 + 2 + 3 + 4


def test_a_stage_without_time_stands_in_the_table_alone() -> None:
    """Cached turns judge nothing and leave no mark at the edge of the plot."""
    page = drawn(latency_plot(timings()))

    assert "turn: judge, cached" not in page
    assert page.count("turn: judge") == 4  # its label and hint, and two lines of the table


def test_the_threshold_is_drawn_where_it_is() -> None:
    """Bins below the threshold have the other colour, and small ones stay visible beside large
    ones."""
    page = drawn(
        plots.score_plot(
            ScoreHistogram(judge="lexical", turns=2, scores=(900, 4, *(5,) * 18), threshold=0.35)
        )
    )

    assert page.count('class="quiet"') == 7
    assert "threshold 0.35" in page


def test_turns_of_several_thresholds_show_none() -> None:
    """One line through all of them would be wrong for some; every bar has one colour."""
    page = drawn(
        plots.score_plot(
            ScoreHistogram(judge="lexical", turns=2, scores=(900, 4, *(5,) * 18), threshold=None)
        )
    )

    assert 'class="quiet"' not in page and "threshold 0." not in page
