"""What a check says, and what the command ends with."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cost_reports.gate_reports import MEASURED, SPENT, USAGE, made
from xscore.cli.terminal import Terminal
from xscore.cost_reports import baseline
from xscore.cost_reports.records import CostReport
from xscore.cost_reports.report_markdown import check_report, print_gate, update_baseline
from xscore.pipeline.json_form import record_json
from xscore.platform.errors import UsageError
from xscore.records.receipt import Coverage
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
        update_baseline(report, baseline=place, terminal=terminal or Terminal())
        return 0
    return print_gate(check_report(report, baseline=place, gates=GATES), terminal or Terminal())


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


def test_another_workload_says_so(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Candidates of another number: one failing line that says why, and no sum is passed or failed."""
    assert gated(made(coverage=Coverage(2_000, 1_400, 590, 0, 10), spent=DEARER), place) == 5
    failed, summary = capfd.readouterr().err.splitlines()
    assert failed.startswith("gate failed: candidates: 1,000 in the baseline, 2,000 now (+100.0 %), 1,050 allowed (")
    assert "another workload" in failed
    assert "9 incomparable" in summary


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
