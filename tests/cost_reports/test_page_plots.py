"""The plots of the page: few bars for many turns, matching sums, readable letters."""

import re
from decimal import Decimal
from importlib.resources import files

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.cost_reports.page_reports import MODELS, memory, report_of, timings
from xscore.cost_reports import plots
from xscore.cost_reports.choice_plots import agreement_plot, answer_use_plot
from xscore.cost_reports.gate import measure_report
from xscore.cost_reports.latency_plot import latency_plot
from xscore.cost_reports.page import templates
from xscore.cost_reports.plot_shapes import Figure, Panel
from xscore.cost_reports.plots import MAX_BUCKETS, bucket_turns
from xscore.cost_reports.records import ScoreHistogram, Spent, StageP95, TurnDetail, TurnLine

STYLE = files("xscore.cost_reports").joinpath("page_parts/page.css").read_text()
NAMED = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w]+): light-dark\((#\w{6}), (#\w{6})\);", STYLE)
}
ZERO = Decimal(0)


def linear(colour: str) -> list[float]:
    """Return red, green and blue in linear light."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]


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
    [
        turn_of(1, 0, 0, Decimal(1)),
        turn_of(1, 1, 0, Decimal(1)),
        turn_of(2, 1, 1, Decimal("1.3")),
    ]
    * 30
)
def test_bars_are_as_high_as_their_numbers(turns: list[TurnLine]) -> None:
    """Parts of a bar lie on each other from zero up, and add up to what the turns took."""
    buckets = bucket_turns(turns)

    for figure in (plots.cost_plot(buckets), plots.calls_plot(buckets)):
        for panel in figure.panels:
            assert len(panel.times) == len(panel.stacks) == len(buckets)
            for _, bar in panel.stacks:
                ends = [0.0, *[high for _, _, high in bar]]
                assert [low for _, low, _ in bar] == ends[:-1]
    heights = [bar[0][2] for _, bar in plots.calls_plot(buckets).panels[0].stacks]
    answered = [
        sum(turn.spent.calls for turn in bucket.turns) / len(bucket.turns) for bucket in buckets
    ]
    assert heights == pytest.approx(answered)


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
    figure = latency_plot(timings())
    (panel,) = figure.panels

    assert [
        spread.hint for spread in panel.spreads if "turn: judging, cached" in spread.hint
    ] == []
    assert [row[1] for row in figure.numbers.rows if row[0] == "turn: judging"] == [
        "live",
        "cached",
    ]


def test_latencies_are_shown_with_those_of_the_baseline() -> None:
    """A stage that the baseline has shows its p95 of then; others show none."""
    before = StageP95(of="turn", stage="judge", kind="live", count=9, p95_s=12.5)
    baseline = replace(measure_report(report_of(1, 0)), timings=(before,))
    figure = latency_plot(timings(), baseline)

    marks = {spread.name: spread.before for spread in figure.panels[0].spreads if spread.before}
    assert marks == {"turn: judging": 12.5}
    assert ("tick ink", "p95 of the baseline") in figure.legend
    assert ("tick ink", "p95 of the baseline") not in latency_plot(timings()).legend


def histogram(threshold: float | None) -> Panel:
    """Return the plot of a judge's scores."""
    scores = (900, 4, *(5,) * 18)
    of_judge = ScoreHistogram(judge="lexical", turns=2, scores=scores, threshold=threshold)
    (panel,) = plots.score_plot(of_judge).panels
    return panel


def test_the_cut_is_drawn_where_it_is() -> None:
    """Every bin has its count; turns of several cuts show none, which would be wrong for some."""
    assert [bar[0][2] for _, bar in histogram(0.35).stacks] == [900, 4, *(5,) * 18]
    assert (histogram(0.35).threshold, histogram(0.35).threshold_title) == (0.35, "cut 0.35")
    assert (histogram(None).threshold, histogram(None).threshold_title) == (None, "")


def test_a_judge_asked_twice_is_held_to_itself() -> None:
    """How far two scores lie apart, and how often both fall on the same side of the cut."""
    pairs = ((0.7, 0.72), (0.6, 0.8), (0.1, 0.9), ())
    selected = [replace(memory(score=0.8), threshold=0.7, draws=draws) for draws in pairs]
    detail = TurnDetail(selected=tuple(selected), near_misses=(), turn_id="t_1")
    figure = agreement_plot([detail])

    heights = [bar[0][2] for _, bar in figure.panels[0].stacks]
    assert sum(heights) == 3 and (heights[0], heights[4], heights[-1]) == (1, 1, 1)
    assert "33 %" in figure.summary
    assert agreement_plot([replace(detail, selected=())]).why_empty


def test_what_answers_used_is_counted() -> None:
    """A turn with an answer has a bar of what it chose, and of that what it cites."""
    line = report_of(1, 0).turns[0]
    chosen = (memory(id="m_1"), memory(id="m_2"))
    detail = TurnDetail(selected=chosen, near_misses=(), turn_id=line.id, cited=(chosen[0].id,))
    figure = answer_use_plot([detail, replace(detail, cited=None)], [line])

    assert [bar for _, bar in figure.panels[0].stacks] == [[("c1", 0, 1), ("quiet", 1, 2)]]
    assert answer_use_plot([replace(detail, cited=None)], [line]).why_empty
