"""A baseline given to the action: a failed gate is annotated and fails the job after everything is saved."""

import pytest

from tests.ci.fake_runner import Runner
from tests.ci.jobs import EVAL, FORK, baseline_of, edit, report_of, without_key
from tests.cost_reports.gate_reports import MEASURED
from xscore.cost_reports import gate


@pytest.mark.verify
def test_a_failed_gate_is_annotated_and_fails_the_job(runner: Runner) -> None:
    """Each failed gate is an error, the job exits with 5, and summary, page and store are still saved."""
    path = runner.temp / "baseline.json"
    gate.write_baseline(path, MEASURED)
    ran = runner.use({**EVAL, "baseline": str(path)})
    assert (ran.code, ran.outputs["exit-code"]) == (5, "5"), ran.log
    failed = [one.message for one in ran.annotations if one.title == "xscore: gate failed"]
    assert [one for one in failed if one.startswith(f"turns: {MEASURED.turns} in the baseline, 2 now")], failed
    assert ran.summary and len(runner.caches) == 1
    assert ran.outputs["page"]


@pytest.mark.verify
def test_a_gate_that_a_run_without_a_key_fails_is_a_warning(runner: Runner) -> None:
    """What a fork cannot judge does not fail the gate."""
    runner.use(EVAL)
    path = baseline_of(runner)
    edit(runner)
    without_key(runner)
    ran = runner.use({**EVAL, "baseline": str(path)}, event_name="pull_request", event=FORK)
    assert ran.code == 0, ran.log
    assert ran.titles("error") == []
    assert ran.titles("warning") != []
    assert ran.titles("notice") == ["xscore: no key"]


@pytest.mark.verify
def test_a_baseline_that_is_none_fails_with_its_report_kept(runner: Runner) -> None:
    """A malformed baseline exits with 2, and the figures are still shown."""
    (runner.workspace / "baseline.json").write_text("{")
    ran = runner.use({**EVAL, "baseline": "baseline.json"})
    assert ran.code == 2, ran.log
    assert "baseline.json" in ran.log
    assert ran.summary and report_of(ran)["spent"]["calls"] > 0
