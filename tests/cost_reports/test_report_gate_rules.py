"""Figures compared with a baseline: failures, alerts, inconclusive results; and what a check prints
and ends with."""

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cost_reports.gate_reports import EVALUATION, MEASURED, SPENT, USAGE, made
from xscore.cli.terminal import Terminal
from xscore.cost_reports import gate
from xscore.cost_reports.gate import COUNT_GATES, check_gates, measure_report
from xscore.cost_reports.records import (
    CostReport,
    EvaluationRecall,
    GateFigures,
    GateLine,
    GateReport,
    GateVerdict,
    StageP95,
)
from xscore.cost_reports.report_files import check_report, print_gate, update_baseline
from xscore.platform.errors import UsageError
from xscore.records.calls import Usage
from xscore.records.receipt import Coverage
from xscore.settings import GateSettings

GATES = GateSettings()
RECALLED = EvaluationRecall(
    questions="q1", judge="openai:gpt-6-luna", cases=5, k=15, recall=0.9
)


def line(report: GateReport, name: str) -> GateLine:
    """Return the one line of this name."""
    (gate_line,) = (line for line in report.lines if line.what == name)
    return gate_line


def failed(
    now: GateFigures, baseline: GateFigures = MEASURED, gates: GateSettings = GATES
) -> set[str]:
    """Return the names of failed gates."""
    return {line.what for line in check_gates(now, baseline, gates).failed}


def with_usage(**changes: int) -> GateFigures:
    """Return the figures with other tokens."""
    return replace(MEASURED, usage=replace(USAGE, **changes))


def test_the_figures_of_a_report_are_measured() -> None:
    """Counters, tokens, dollars, the newest complete recall and every p95 are copied; running turns
    are not counted."""
    assert measure_report(made()) == MEASURED
    assert measure_report(made(evaluations=())).recall is None


def test_a_rise_within_the_tolerance_holds_and_one_beyond_fails() -> None:
    """The tolerance is exact: 63 calls for 60 are 5 % more and pass, 64 fail."""
    assert failed(replace(MEASURED, calls=63)) == set()
    assert failed(replace(MEASURED, calls=64)) == {"calls"}
    assert failed(replace(MEASURED, cost_usd=Decimal("0.022365"))) == set()
    assert failed(replace(MEASURED, cost_usd=Decimal("0.022365000001"))) == {"dollars"}


def test_each_kind_of_tokens_has_its_gate() -> None:
    """Uncached input, cached input, cache writes, output and reasoning are compared separately."""
    assert failed(with_usage(cached_input_tokens=0)) == {"tokens in, not from a prefix cache"}
    assert failed(with_usage(input_tokens=120_000, cached_input_tokens=60_000)) == {"tokens in"}
    assert failed(with_usage(output_tokens=6_000)) == {"tokens out"}
    assert failed(with_usage(reasoning_tokens=11)) == {"tokens of reasoning"}
    assert failed(with_usage(cache_write_tokens=3_000)) == {"tokens written to a prefix cache"}


def test_anything_above_a_baseline_of_zero_is_a_rise() -> None:
    """Any increase from zero fails: one call, one token or one picodollar."""
    nothing = replace(MEASURED, calls=0, attempts=0, usage=Usage(), cost_usd=Decimal(0))
    assert failed(nothing, nothing) == set()
    now = replace(
        nothing, calls=1, usage=Usage(output_tokens=1), cost_usd=Decimal("0.000000000001")
    )
    assert failed(now, nothing) == {"calls", "tokens out", "dollars"}


def test_an_improvement_is_told_and_passes() -> None:
    """A decrease passes and is named as better, so that the baseline can be tightened."""
    checked = check_gates(
        replace(MEASURED, calls=10, cost_usd=Decimal("0.001")), MEASURED, GATES
    )
    assert {line.what for line in checked.with_verdict(GateVerdict.BETTER)} == {
        "calls",
        "dollars",
    }
    assert checked.failed == ()


def test_coverage_may_not_fall() -> None:
    """One more unjudged candidate fails by default, and passes if the settings allow it."""
    now = replace(MEASURED, coverage=Coverage(1_000, 399, 590, 0, 11))
    assert failed(now) == {"coverage"}
    assert failed(now, gates=GateSettings(coverage=0.001)) == set()


def test_recall_may_fall_by_its_tolerance_only() -> None:
    """Against 0.90 with a tolerance of 0.02, 0.88 passes and 0.87 fails."""

    def recalled(recall: float) -> GateFigures:
        return replace(MEASURED, recall=replace(RECALLED, recall=recall))

    assert failed(recalled(0.88)) == set()
    assert failed(recalled(0.87)) == {"recall"}
    assert (
        line(check_gates(recalled(0.95), MEASURED, GATES), "recall").verdict
        is GateVerdict.BETTER
    )


@pytest.mark.parametrize(
    "recall",
    [
        None,
        replace(RECALLED, questions="q2", recall=0.1),
        replace(RECALLED, k=5, recall=0),
        replace(RECALLED, judge="lexical", recall=0.1),
    ],
)
def test_recall_of_another_evaluation_is_not_compared(recall: EvaluationRecall | None) -> None:
    """No evaluation, other questions, another k or another judge: inconclusive, and reported so."""
    recall_line = line(check_gates(replace(MEASURED, recall=recall), MEASURED, GATES), "recall")
    assert recall_line.verdict is GateVerdict.INCONCLUSIVE
    assert recall_line.note


def test_an_evaluation_that_left_candidates_unjudged_is_passed_over() -> None:
    """The newest complete evaluation is compared; without one recall is inconclusive."""
    torn = replace(EVALUATION, recall=0.1, unjudged=3)
    assert measure_report(made(evaluations=(torn, EVALUATION))).recall == RECALLED
    none = measure_report(made(evaluations=(torn, torn)))
    assert (
        line(check_gates(none, MEASURED, GATES), "recall").verdict is GateVerdict.INCONCLUSIVE
    )


@pytest.mark.parametrize(
    "now",
    [replace(MEASURED, turns=5), replace(MEASURED, coverage=Coverage(1_051, 461, 590, 0, 0))],
)
def test_another_workload_is_named_and_its_sums_are_not_compared(now: GateFigures) -> None:
    """Other turns, or candidates beyond the tolerance: that line fails, and sums are
    inconclusive."""
    checked = check_gates(replace(now, calls=900, cost_usd=Decimal(0)), MEASURED, GATES)
    (only,) = checked.failed
    assert only.what in {"turns", "candidates"}
    assert "another workload" in only.note
    assert len(checked.with_verdict(GateVerdict.INCOMPARABLE)) == 1 + len(COUNT_GATES)
    assert line(checked, "coverage").verdict in {GateVerdict.HELD, GateVerdict.BETTER}


def test_what_lost_its_price_fails() -> None:
    """If attempts priced in the baseline are unpriced now, dollars are inconclusive and the check
    fails."""
    checked = check_gates(replace(MEASURED, unpriced=61, cost_usd=Decimal(0)), MEASURED, GATES)
    assert {line.what for line in checked.failed} == {"attempts without a price"}
    assert line(checked, "dollars").verdict is GateVerdict.INCONCLUSIVE


def test_what_gained_a_price_is_inconclusive() -> None:
    """A rise in dollars that comes only from newly priced attempts is no rise."""
    dollars = line(
        check_gates(MEASURED, replace(MEASURED, unpriced=61, cost_usd=Decimal(0)), GATES),
        "dollars",
    )
    assert dollars.verdict == GateVerdict.INCONCLUSIVE
    assert dollars.note == "more is priced than in the baseline"


def test_one_new_price_excuses_no_other_rise() -> None:
    """A newly priced attempt is assumed to have cost the average; any rise beyond that fails."""
    before = replace(MEASURED, unpriced=1)
    doubled = line(
        check_gates(replace(MEASURED, cost_usd=MEASURED.cost_usd * 2), before, GATES), "dollars"
    )
    assert doubled.verdict is GateVerdict.FAILED
    assert (
        doubled.note == "more is priced than in the baseline, by 1, which does not explain it"
    )
    half = replace(MEASURED, unpriced=30, cost_usd=MEASURED.cost_usd / 2)
    assert (
        line(check_gates(MEASURED, half, GATES), "dollars").verdict is GateVerdict.INCONCLUSIVE
    )
    assert line(
        check_gates(replace(MEASURED, cost_usd=MEASURED.cost_usd * 2), half, GATES), "dollars"
    ).note


def timed(p95_s: float, count: int = 58) -> GateFigures:
    """Return the figures with another p95 of judging calls."""
    return replace(
        MEASURED,
        timings=(StageP95(of="call", stage="judge", kind="live", count=count, p95_s=p95_s),),
    )


def test_a_slower_stage_is_an_alert() -> None:
    """B13: a p95 beyond its tolerance is reported and fails the check only if the settings say
    so."""
    slow = timed(0.31)
    checked = check_gates(slow, MEASURED, GATES)
    assert [line.what for line in checked.with_verdict(GateVerdict.ALERT)] == [
        "p95 of judge calls, live"
    ]
    assert checked.failed == ()
    assert failed(slow, gates=GateSettings(latency="fail")) == {"p95 of judge calls, live"}
    assert not [
        line
        for line in check_gates(slow, MEASURED, GateSettings(latency="off")).lines
        if line.unit == "s"
    ]
    assert check_gates(timed(0.29), MEASURED, GATES).with_verdict(GateVerdict.ALERT) == ()


@pytest.mark.parametrize(("now", "before"), [(29, 58), (58, 29), (29, 29)])
def test_few_samples_are_inconclusive(now: int, before: int) -> None:
    """B13: a p95 of fewer than 30 samples on either side is inconclusive, however large."""
    latency = line(
        check_gates(timed(9.0, now), timed(0.2, before), GATES), "p95 of judge calls, live"
    )
    assert latency.verdict is GateVerdict.INCONCLUSIVE
    assert latency.note == f"{before} samples in the baseline, {now} now"
    conclusive = check_gates(
        timed(9.0, now), timed(0.2, before), GateSettings(min_samples=29, latency="fail")
    )
    assert len(conclusive.failed) == 1


def test_milliseconds_of_noise_are_no_alert() -> None:
    """A p95 that doubles from 4 to 8 ms is within a machine's noise."""
    assert check_gates(timed(0.008), timed(0.004), GATES).with_verdict(GateVerdict.ALERT) == ()
    assert check_gates(timed(0.03), timed(0.0), GATES).with_verdict(GateVerdict.ALERT) != ()


def test_a_damaged_ledger_fails_by_name_and_is_not_compared() -> None:
    """Rows missing from every figure would look like savings: one failure counts them; other lines
    are silent."""
    report = check_gates(
        measure_report(made(left_out=11, spent=replace(SPENT, calls=1, attempts=1))),
        MEASURED,
        GATES,
    )
    (failure,) = report.failed
    assert (failure.what, failure.now, failure.allowed) == ("damaged rows", 11, 0)
    assert "the ledger cannot be compared" in failure.note
    assert {line.verdict for line in report.lines if line is not failure} == {
        GateVerdict.INCOMPARABLE
    }
    assert {line.allowed for line in report.lines if line is not failure} == {None}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The path of the ordinary report's baseline."""
    path = tmp_path / "baseline.json"
    gate.write_baseline(path, MEASURED)
    return path


def gated(report: CostReport, place: Path) -> int:
    """Run the gate as `xscore report --check` does."""
    return print_gate(check_report(report, baseline=place, gates=GATES), Terminal())


def test_nothing_is_no_baseline(place: Path) -> None:
    """A range without a finished turn would pass every gate: it is refused, and the file stays."""
    empty = made(turns_by_state={"running": 1}, coverage=Coverage(0, 0, 0, 0, 0))
    with pytest.raises(UsageError, match="no finished turn"):
        update_baseline(empty, baseline=place, terminal=Terminal())
    assert gate.read_baseline(place) == MEASURED
    assert gated(empty, place) == 5


def test_a_damaged_ledger_is_no_baseline(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A report with missing rows is neither checked nor saved as a baseline: exit 5, or a refusal
    with a remedy."""
    torn = made(left_out=11)
    with pytest.raises(UsageError, match=r"11 rows") as caught:
        update_baseline(torn, baseline=place, terminal=Terminal())
    assert "xscore store rebuild" in caught.value.hint
    assert gate.read_baseline(place) == MEASURED
    assert gated(torn, place) == 5
    failure, summary = capfd.readouterr().err.splitlines()
    assert failure.startswith(
        "gate failed: damaged rows: 0 in the baseline, 11 now, 0 allowed (damaged and left out of"
    )
    assert summary.startswith("gates: 1 failed, 14 incomparable")
