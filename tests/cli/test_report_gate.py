"""What a check says, and what the command ends with."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cost_reports.gate_reports import COVERAGE, EVALUATION, MEASURED, SPENT, TIMING, USAGE, made
from xscore.cli.terminal import Terminal
from xscore.cost_reports import baseline
from xscore.cost_reports.report_markdown import check_report, format_figure, gate_markdown, print_gate, update_baseline
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import UsageError
from xscore.records import Coverage
from xscore.records.cost_report import CostReport
from xscore.settings import GateSettings

GATES = GateSettings()
DEARER = replace(SPENT, calls=120, attempts=122, cost_usd=Decimal("0.0302"), usage=USAGE + USAGE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the baseline of the ordinary report stands."""
    path = tmp_path / "baseline.json"
    baseline.write_baseline(path, MEASURED)
    return path


def gated(report: CostReport, place: Path, *, terminal: Terminal | None = None, update: bool = False) -> int:
    """Run the gate as `xscore report` does."""
    if update:
        return update_baseline(report, baseline=place, terminal=terminal or Terminal())
    return print_gate(check_report(report, baseline=place, gates=GATES), terminal or Terminal())


def test_what_holds_is_one_line(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing failed: exit 0, one line on stderr, nothing on stdout."""
    assert gated(made(), place) == 0
    assert capfd.readouterr() == ("", "gates: 14 held\n")


def test_each_failed_gate_is_one_line(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 5; each line says what, the baseline, the figure now, by how much, and what was allowed."""
    assert gated(made(spent=DEARER), place) == 5
    out, err = capfd.readouterr()
    assert out == ""
    *failed, summary = err.splitlines()
    assert failed[0] == "gate failed: dollars: $0.021300 in the baseline, $0.030200 now (+41.8 %), $0.022365 allowed"
    assert failed[1] == "gate failed: calls: 60 in the baseline, 120 now (+100.0 %), 63 allowed"
    assert len(failed) == 8
    assert summary == "gates: 8 failed, 6 held"


def test_failures_are_told_whatever_is_quiet(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Under --quiet the reason for exit 5 still stands on stderr; the summary and alerts do not."""
    slow = replace(TIMING, p95_s=0.9)
    assert gated(made(spent=DEARER, timings=(slow,)), place, terminal=Terminal(quiet=True)) == 5
    err = capfd.readouterr().err
    assert len(err.splitlines()) == 8
    assert all(line.startswith("gate failed: ") for line in err.splitlines())


def test_an_alert_is_told_and_does_not_fail(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """B13: a slower p95 is a line of its own, and the command ends with 0."""
    assert gated(made(timings=(replace(TIMING, p95_s=0.9),)), place) == 0
    alert, summary = capfd.readouterr().err.splitlines()
    assert alert == (
        "gate alert: p95 of judge calls, live: 0.200 s in the baseline, 0.900 s now (+350.0 %), 0.300 s allowed"
    )
    assert summary == "gates: 1 alert, 13 held"


def test_what_is_better_is_named(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Less than in the baseline: exit 0, and the summary says of what and by how much."""
    assert gated(made(spent=replace(SPENT, calls=30)), place) == 0
    assert capfd.readouterr().err == "gates: 1 better (calls (-50.0 %)), 13 held\n"


def test_a_figure_that_held_may_need_a_word(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """That a newer evaluation left candidates unjudged, and was passed over, is said beside the recall that held."""
    torn = replace(EVALUATION, unjudged=1)
    assert gated(made(evaluations=(torn, EVALUATION)), place) == 0
    said, summary = capfd.readouterr().err.splitlines()
    assert said.startswith("gate: recall: 90.0 % in the baseline, 90.0 % now")
    assert said.endswith("(passed over: a newer evaluation that left candidates unjudged)")
    assert summary == "gates: 14 held"


def test_few_samples_are_counted_and_not_listed(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Many stages of few samples take a few words; what else is inconclusive is named."""
    assert gated(made(timings=(replace(TIMING, count=3),), evaluations=()), place) == 0
    assert capfd.readouterr().err == "gates: 12 held, 2 inconclusive (recall; 1 p95 of too few samples)\n"


def test_another_workload_says_so(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Candidates of another number: one failing line that says why, and no sum is passed or failed."""
    assert gated(made(coverage=Coverage(2_000, 1_400, 590, 0, 10), spent=DEARER), place) == 5
    failed, summary = capfd.readouterr().err.splitlines()
    assert failed.startswith("gate failed: candidates: 1,000 in the baseline, 2,000 now (+100.0 %), 1,050 allowed (")
    assert "another workload" in failed
    assert "9 incomparable" in summary


def test_a_missing_baseline_is_usage(tmp_path: Path) -> None:
    """No file: exit 2 and the flag that writes one, never a pass."""
    with pytest.raises(UsageError) as caught:
        gated(made(), tmp_path / "none.json")
    assert caught.value.exit_code == 2
    assert "--update-baseline" in caught.value.hint


def test_a_first_baseline_is_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`--update-baseline` makes the file, says so, and a check against it holds."""
    path = tmp_path / "new" / "baseline.json"
    assert gated(made(), path, update=True) == 0
    assert capfd.readouterr().err == f"{path} is written: 4 turns, 60 calls\n"
    assert gated(made(), path) == 0


def test_an_update_says_what_changed(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each figure that differs, from what to what; a second update changes nothing, to the byte."""
    dearer = made(spent=replace(SPENT, calls=61, cost_usd=Decimal("0.0302")))
    assert gated(dearer, place, update=True) == 0
    assert capfd.readouterr().err.splitlines() == [
        "baseline: dollars: $0.021300 -> $0.030200 (+41.8 %)",
        "baseline: calls: 60 -> 61 (+1.7 %)",
        f"{place} is written anew: 2 figures changed",
    ]
    before = place.read_bytes()
    assert gated(dearer, place, update=True) == 0
    assert capfd.readouterr().err == f"{place} is written anew: 0 figures changed\n"
    assert place.read_bytes() == before


def test_nothing_is_no_baseline(place: Path) -> None:
    """A range without a finished turn would pass everything: it is refused, and the file stays."""
    empty = made(turns_by_state={"running": 1}, coverage=Coverage(0, 0, 0, 0, 0))
    with pytest.raises(UsageError, match="no finished turn"):
        gated(empty, place, update=True)
    assert baseline.read_baseline(place) == MEASURED
    assert gated(empty, place) == 5


def test_a_damaged_ledger_is_no_baseline(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What lacks rows is neither held to a baseline nor made one: exit 5 for the check, a refusal with the way back."""
    torn = made(left_out=11)
    with pytest.raises(UsageError, match=r"damaged ledger: 11 rows left out") as caught:
        gated(torn, place, update=True)
    assert "xscore store rebuild" in caught.value.hint
    assert baseline.read_baseline(place) == MEASURED
    assert gated(torn, place) == 5
    failure, summary = capfd.readouterr().err.splitlines()
    assert failure.startswith(
        "gate failed: damaged rows: 0 in the baseline, 11 now, 0 allowed (left out of every figure"
    )
    assert summary.startswith("gates: 1 failed, 14 incomparable")


def test_the_check_as_json(place: Path) -> None:
    """Lines with figures as numbers, dollars as a decimal string, and the verdict of each."""
    found = record_json(check_report(made(spent=DEARER), baseline=place, gates=GATES))
    text = json.dumps(found, allow_nan=False)
    lines = {line["what"]: line for line in json.loads(text)["lines"]}
    assert lines["dollars"] == {
        "what": "dollars",
        "unit": "usd",
        "baseline": "0.0213",
        "now": "0.0302",
        "allowed": "0.022365",
        "verdict": "failed",
        "note": "",
    }
    assert lines["coverage"] | {"note": ""} == {
        "what": "coverage",
        "unit": "share",
        "baseline": 0.99,
        "now": 0.99,
        "allowed": 0.99,
        "verdict": "held",
        "note": "",
    }


def test_the_check_as_markdown(place: Path) -> None:
    """A table whose first rows are what failed, in a form that a step summary shows."""
    found = check_report(made(spent=replace(DEARER, usage=USAGE), coverage=COVERAGE), baseline=place, gates=GATES)
    head, rule, first, *rest = gate_markdown(found).splitlines()
    assert head == "| gate | baseline | now | allowed | |"
    assert rule == "|---|---:|---:|---:|---|"
    assert first == "| dollars | \\$0.021300 | \\$0.030200 | \\$0.022365 | **failed** |"
    assert len(rest) == 13
    assert all(row.count("|") == 6 for row in rest)


def test_figures_in_their_units() -> None:
    """Dollars to a millionth, small ones in full, shares in percent, seconds to a millisecond, counts in thousands."""
    assert format_figure(Decimal("0.0213456789"), "usd") == "$0.021346"
    assert format_figure(Decimal("12345.6"), "usd") == "$12,345.600000"
    assert format_figure(Decimal("0.000000000001"), "usd") == "$0.000000000001"
    assert format_figure(Decimal(0), "usd") == "$0.000000"
    assert format_figure(0.9901, "share") == "99.0 %"
    assert format_figure(0.1234, "s") == "0.123 s"
    assert format_figure(1_234_567, "count") == "1,234,567"
    assert format_figure(None, "s") == "–"
