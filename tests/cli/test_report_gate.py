"""The output and exit code of a check."""

from pathlib import Path

import pytest

from tests.cost_reports.gate_reports import MEASURED, made
from xscore.cli.terminal import Terminal
from xscore.cost_reports import gate
from xscore.cost_reports.records import CostReport
from xscore.cost_reports.report_files import check_report, print_gate, update_baseline
from xscore.platform.errors import UsageError
from xscore.records.receipt import Coverage
from xscore.settings import GateSettings

GATES = GateSettings()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The path of the ordinary report's baseline."""
    path = tmp_path / "baseline.json"
    gate.write_baseline(path, MEASURED)
    return path


def gated(report: CostReport, place: Path, *, terminal: Terminal | None = None, update: bool = False) -> int:
    """Run the gate as `xscore report` does."""
    if update:
        update_baseline(report, baseline=place, terminal=terminal or Terminal())
        return 0
    return print_gate(check_report(report, baseline=place, gates=GATES), terminal or Terminal())


def test_nothing_is_no_baseline(place: Path) -> None:
    """A range without a finished turn would pass every gate: it is refused, and the file stays."""
    empty = made(turns_by_state={"running": 1}, coverage=Coverage(0, 0, 0, 0, 0))
    with pytest.raises(UsageError, match="no finished turn"):
        gated(empty, place, update=True)
    assert gate.read_baseline(place) == MEASURED
    assert gated(empty, place) == 5


def test_a_damaged_ledger_is_no_baseline(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A report with missing rows is neither checked nor saved as a baseline: exit 5, or a refusal with a remedy."""
    torn = made(left_out=11)
    with pytest.raises(UsageError, match=r"damaged ledger: 11 rows left out") as caught:
        gated(torn, place, update=True)
    assert "xscore store rebuild" in caught.value.hint
    assert gate.read_baseline(place) == MEASURED
    assert gated(torn, place) == 5
    failure, summary = capfd.readouterr().err.splitlines()
    assert failure.startswith(
        "gate failed: damaged rows: 0 in the baseline, 11 now, 0 allowed (left out of every figure"
    )
    assert summary.startswith("gates: 1 failed, 14 incomparable")
