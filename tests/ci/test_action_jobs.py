"""The action as a job runs it: each step's shell under bash, the real command line, a host on
loopback.

Its store comes from the cache and from nowhere else; a failed gate fails the job after everything
is saved.
"""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.ci.fake_runner import ActionRun, Runner
from tests.ci.github_api import GitHubApi
from tests.ci.jobs import (
    EVAL,
    FORK,
    OURS,
    baseline_of,
    edit,
    judged_on_main,
    report_of,
    without_key,
)
from tests.conftest import git
from tests.cost_reports.gate_reports import MEASURED
from tests.servers.billing import BillingServer, vendor
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from xscore.cost_reports import gate

HOSTILE = (
    "$(touch made) `touch made`; touch made\n"
    "::error title=planted::x\n"
    "::set-output name=a::b ${{ github.token }}"
)
ASK = {"command": "ask - --no-user-learning", "stdin": "task.txt"}


def test_with_a_key_it_judges_and_tells(runner: Runner, host: OpenAIServer) -> None:
    """Summary, page, report, outputs and comment show what this run paid for."""
    with GitHubApi() as api:
        runner.api_url = api.url
        ran = runner.use({**EVAL, "comment": "true"}, event_name="pull_request", event=OURS)
        bodies = [comment["body"] for comment in api.comments]
    assert ran.code == 0, ran.log
    assert host.counts.requests > 0
    assert ran.outputs["exit-code"] == "0"
    report = report_of(ran)
    assert report["spent"]["calls"] == host.counts.requests
    assert Decimal(ran.outputs["cost-usd"]) == 0
    [evaluated] = report["evaluations"]
    row = (
        f"openai:judge-2 | 2 | {evaluated['k']} | {evaluated['recall']:.3f} |"
        f" {evaluated['precision']:.3f} |"
    )
    assert row in ran.summary
    assert [row in body for body in bodies] == [True]
    [page] = runner.artifacts
    assert page == Path(ran.outputs["page"]).name
    assert report["repositories"][0] in runner.artifacts[page]
    assert len(runner.caches) == 1
    assert ran.titles("error") == []


@pytest.mark.verify
def test_what_is_unjudged_is_a_warning(runner: Runner, host: OpenAIServer) -> None:
    """If the judge never answers for some memories, the job passes with a warning; the gate checks
    coverage."""
    host.misbehave(Fault.MODERATED, times=1000, when=lambda body: "checkout" in str(body))
    ran = runner.use({**EVAL, "command": "eval questions.jsonl --pack-size 5"})
    assert ran.steps["command"]["outputs"]["exit-code"] == "1", ran.log
    assert ran.code == 0
    assert ran.titles("warning") == ["xscore: not everything was judged"]


@pytest.mark.verify
def test_a_question_has_the_page_of_its_turn(runner: Runner, host: OpenAIServer) -> None:
    """It is uploaded with the page of the report, and the comment leads there."""
    host.answer = "In total."
    (runner.workspace / "task.txt").write_text("Where is the total computed?")
    with GitHubApi() as api:
        runner.api_url = api.url
        ran = runner.use({**ASK, "comment": "true"}, event_name="pull_request", event=OURS)
        [body] = [comment["body"] for comment in api.comments]
    assert ran.code == 0, ran.log
    name = Path(ran.outputs["turn"]).name
    assert set(runner.artifacts) == {name, Path(ran.outputs["page"]).name}
    assert "Where is the total computed?" in runner.artifacts[name]
    assert f"({ran.steps['turn']['outputs']['artifact-url']})" in body
    assert "| folder | best score |" in body and "| folder | best score |" in ran.summary
    assert runner.use(EVAL).outputs["turn"] == ""


@pytest.mark.verify
def test_text_of_others_is_never_run(runner: Runner, host: OpenAIServer) -> None:
    """A hostile task, branch or answer has no effect wherever it is shown; the answer output is
    unchanged."""
    host.answer = HOSTILE + "\n```\n</details>"
    (runner.workspace / "task.txt").write_text(HOSTILE)
    git(runner.workspace, "checkout", "-qb", "$(touch${IFS}made)`id`;'\"")
    ran = runner.use(ASK)
    assert ran.code == 0, ran.log
    _assert_nothing_happened(runner, ran)
    assert HOSTILE.splitlines()[0] in Path(ran.outputs["stdout"]).read_text("utf-8")
    assert "    ::set-output name=a::b" in ran.summary
    assert [line for line in ran.summary.splitlines() if line.startswith(("```", "::"))] == []


def _assert_nothing_happened(runner: Runner, ran: ActionRun) -> None:
    assert [path for path in (runner.workspace, runner.temp) if (path / "made").exists()] == []
    assert "planted" not in [annotation.title for annotation in ran.annotations]
    assert "a" not in ran.steps["command"]["outputs"]


@pytest.mark.verify
def test_the_cap_holds_at_the_provider(runner: Runner) -> None:
    """A run stopped by its cap has spent no more than the cap, exits with 4 and keeps what it paid
    for."""
    with BillingServer(models=("gpt-4.1",)) as billing, vendor(billing) as environ:
        runner.environ |= environ
        ran = runner.use(
            {
                "command": "eval questions.jsonl --pack-size 1 --concurrency 1",
                "max-usd": "0.005",
            }
        )
        assert (ran.code, ran.outputs["exit-code"]) == (4, "4"), ran.log
        assert 0 < billing.charged <= Decimal("0.005")
        assert Decimal(ran.outputs["cost-usd"]) == billing.charged
        assert len(runner.caches) == 1
        assert "the budget came first" in ran.annotations[-1].message


@pytest.mark.verify
def test_a_cancelled_run_keeps_what_it_paid_for(runner: Runner, host: OpenAIServer) -> None:
    """The runner's interrupt reaches the command, which ends cleanly; what was judged is saved for
    the next run."""
    host.latency_s = 0.2
    runner.cancel_when = lambda: sum(host.counts.judgments.values()) >= 5
    ran = runner.use({"command": "eval questions.jsonl --pack-size 1 --concurrency 1"})
    assert ran.cancelled
    assert ran.steps["command"]["outputs"]["exit-code"] == "130", ran.log
    assert list(ran.steps)[-2:] == ["command", "save"]
    assert len(runner.caches) == 1


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_it_installs_once_in_a_job(runner: Runner) -> None:
    """The real installation, from this checkout, serves both uses of a job; its own environment
    runs the command."""
    runner.really_installs = True
    first = runner.use(EVAL)
    assert first.code == 0, first.log
    place = Path(first.steps["install"]["outputs"]["xscore"])
    assert place.is_relative_to(runner.temp)
    installed_at = place.stat().st_mtime_ns
    second = runner.use(EVAL, goes_on=True)
    assert second.code == 0, second.log
    assert place.stat().st_mtime_ns == installed_at


@pytest.mark.verify
def test_the_next_run_pays_for_what_changed(runner: Runner, host: OpenAIServer) -> None:
    """The store is restored from the cache: the same questions cost nothing, and no new cache is
    saved."""
    runner.use(EVAL)
    host.reset()
    second = runner.use(EVAL)
    assert second.code == 0, second.log
    assert host.counts.requests == 0
    assert len(runner.caches) == 1
    edit(runner)
    third = runner.use(EVAL)
    assert third.code == 0, third.log
    assert host.counts.requests > 0
    assert report_of(third)["coverage"]["cached"] > 0
    assert len(runner.caches) == 2


@pytest.mark.verify
def test_without_a_key_it_replays(runner: Runner, host: OpenAIServer) -> None:
    """A fork uses what the base branch judged, sends and saves nothing, and its log says so."""
    judged_on_main(runner)
    edit(runner)
    host.reset()
    without_key(runner)
    ran = runner.use({**EVAL, "comment": "true"}, event_name="pull_request", event=FORK)
    assert ran.code == 0, ran.log
    assert host.counts.requests == 0
    assert len(runner.caches) == 1
    assert ran.steps["command"]["outputs"]["exit-code"] == "1"
    assert ran.titles("notice") == ["xscore: no key"]
    assert ran.titles("error") == []
    coverage = report_of(ran)["coverage"]
    assert coverage["cached"] > 0 and coverage["unjudged"] > 0


@pytest.mark.verify
def test_a_store_of_no_use_is_put_away(runner: Runner, host: OpenAIServer) -> None:
    """A cache without a store is reported, and the run starts with an empty one."""
    runner.use(EVAL)
    (next(iter(runner.caches.values())) / "memory.db").write_bytes(b"no database")
    host.reset()
    ran = runner.use(EVAL)
    assert ran.code == 0, ran.log
    assert host.counts.requests > 0
    assert "cannot be used" in ran.annotations[0].message


@pytest.mark.verify
def test_two_uses_in_one_job_share_the_store(runner: Runner, host: OpenAIServer) -> None:
    """The second use finds what the first paid for, is not overwritten by the cache, and has files
    of its own."""
    first = runner.use(EVAL)
    outputs_of_first = {
        name: Path(first.outputs[name]).read_bytes() for name in ("report", "page", "stdout")
    }
    host.reset()
    ran = runner.use(EVAL, goes_on=True)
    assert ran.code == 0, ran.log
    assert host.counts.requests == 0
    assert "restore" not in ran.steps
    assert {
        name: Path(first.outputs[name]).read_bytes() for name in outputs_of_first
    } == outputs_of_first
    assert {first.outputs[name] for name in outputs_of_first}.isdisjoint(
        ran.outputs[name] for name in outputs_of_first
    )


@pytest.mark.verify
def test_a_failed_gate_is_annotated_and_fails_the_job(runner: Runner) -> None:
    """Each failed gate is an error, the job exits with 5, and summary, page and store are still
    saved."""
    path = runner.temp / "baseline.json"
    gate.write_baseline(path, MEASURED)
    ran = runner.use({**EVAL, "baseline": str(path)})
    assert (ran.code, ran.outputs["exit-code"]) == (5, "5"), ran.log
    failed = [
        annotation.message
        for annotation in ran.annotations
        if annotation.title == "xscore: gate failed"
    ]
    assert [
        annotation
        for annotation in failed
        if annotation.startswith(f"turns: {MEASURED.turns} in the baseline, 2 now")
    ], failed
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
