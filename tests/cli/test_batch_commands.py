"""`xscore batch submit, status, wait, collect, cancel, list` as they are typed, at a vendor on
loopback."""

import json
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import store_dir
from tests.extensions.batch.batch_vendor import SCORES
from tests.servers.batching import Step
from tests.servers.billing import BillingServer, vendor
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.scoring import table
from tests.waiting import rows

LIST = "".join(
    json.dumps({"id": f"q{at}", "task": f"is the discount taken once? ({at})"}) + "\n"
    for at in range(3)
)


class PricedBatches(BillingServer, OpenAIBatchServer):
    """A vendor with a Batch API that adds up the live price of the same calls."""


@pytest.fixture
def server() -> Iterator[OpenAIBatchServer]:
    """A vendor whose batches end at the second poll."""
    with OpenAIBatchServer(score=table(SCORES)) as running:
        yield running


@pytest.fixture
def run(xscore: Run, server: OpenAIBatchServer, shop: Path) -> Run:
    """Run a command in the shop, with the judge at that vendor."""
    (shop / "q.jsonl").write_text(LIST)

    def typed(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "OPENAI_BASE_URL": server.url,
            "OPENAI_API_KEY": "sk-test-000000",
            "XSCORE_JUDGE_PROBE": "false",
            "XSCORE_BATCH_POLL_S": "0.05",
        }
        return xscore(*arguments, cwd=shop, environ=environ)

    return typed


SUBMIT = ("batch", "submit", "q.jsonl", "--judge", "openai:judge-2")


def job_in(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the one job in a command's --json output."""
    (job,) = json.loads(done.stdout)["jobs"]
    assert isinstance(job, dict)
    return job


def test_a_list_is_shown_and_sent(run: Run, server: OpenAIBatchServer) -> None:
    """The plan is on stdout with hit rate, calls, tokens and dollars, followed by the job and the
    next command."""
    done = run(*SUBMIT)
    assert done.returncode == 0, done.stderr
    assert "3 questions" in done.stdout and "hit rate 0 %" in done.stdout
    assert "by batch" in done.stdout and "live" in done.stdout and "b_" in done.stdout
    assert "xscore batch" in done.stderr
    assert server.batches.created == 1


def test_a_dry_run_keeps_and_sends_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, server: OpenAIBatchServer, shop: Path
) -> None:
    """--dry-run prints only the figures; a model for a final round, which batches have not, is
    named."""
    done = run(*SUBMIT, "--dry-run", "--json")
    plan = json.loads(done.stdout)
    assert (done.returncode, plan["job"], plan["standing"]) == (0, None, None)
    assert plan["questions"] == 3 and plan["requests"] == 3 * plan["prompts"] > 0
    assert plan["to_judge"] == plan["candidates"]
    assert plan["hit_rate"] == 0.0
    assert plan["batches"] == 1
    assert rows(shop, "SELECT count(*) FROM job") == [(0,)] and not server.batches.created
    assert "selection.final" not in done.stderr
    monkeypatch.setenv("XSCORE_SELECTION_FINAL", "openai:judge-2")
    assert "selection.final" in run(*SUBMIT, "--dry-run").stderr


RESCORE = (
    "batch",
    "rescore",
    "--queries",
    "q.jsonl",
    "--all",
    "--batch",
    "--judge",
    "openai:judge-2",
)


@pytest.mark.parametrize("submit", [SUBMIT, RESCORE])
def test_a_batch_names_its_own_judge_where_decisions_were_chosen(
    run: Run, monkeypatch: pytest.MonkeyPatch, submit: tuple[str, ...]
) -> None:
    """A Batch API takes chat prompts alone: plan and price are the chat judge's, and a note says
    who finds them."""
    by_chat = json.loads(run(*submit, "--dry-run", "--json").stdout)
    monkeypatch.setenv("XSCORE_JUDGE_WIRE", "decisions")
    done = run(*submit, "--dry-run", "--json")
    assert by_chat["judge"] == by_chat["judge_option"] == "openai:judge-2"
    assert json.loads(done.stdout) == by_chat | {"judge_option": "openai-chat:judge-2"}
    assert (
        "`--judge openai-chat:judge-2`" in done.stderr and "`xscore batch run`" in done.stderr
    )


def test_the_same_list_is_not_paid_twice(run: Run, shop: Path) -> None:
    """Questions of a running job are refused with its id, in any list; a new question is sent
    alone."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    repeated = run(*SUBMIT)
    assert repeated.returncode == 2
    assert job in repeated.stderr
    assert f"xscore batch collect {job}" in repeated.stderr
    (shop / "q.jsonl").write_text(LIST + '{"id": "c", "task": "how are sums made?"}\n')
    plan = json.loads(run(*SUBMIT, "--json").stdout)
    assert plan["elsewhere_jobs"] == [job] and plan["elsewhere"] == 3 * plan["to_judge"]
    assert rows(
        shop, "SELECT DISTINCT question FROM job_request WHERE job = ?", plan["job"]
    ) == [(3,)]


def test_live_calls_for_what_a_batch_judges_are_warned_of(run: Run) -> None:
    """`batch run` and `rescore`, dry runs included, say how many would be paid twice and how to
    avoid it."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    judge = ("--judge", "openai:judge-2")
    dry = run(
        "batch", "rescore", "--all", "--queries", "q.jsonl", "--dry-run", "--json", *judge
    )
    plan = json.loads(dry.stdout)
    assert plan["elsewhere_jobs"] == [job] and plan["elsewhere"] == plan["to_judge"] > 0
    for done in (dry, run("batch", "run", "q.jsonl", "--yes", *judge)):
        assert done.returncode == 0 and f"under way by batch in {job}" in done.stderr
        assert f"xscore batch wait {job}" in done.stderr
    assert "under way" not in run("batch", "run", "q.jsonl", *judge).stderr


def test_nothing_left_to_judge_makes_no_job(
    run: Run, server: OpenAIBatchServer, shop: Path
) -> None:
    """Cached judgments are not sent again: exit code 0, no job, a hit rate of 100 %."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    assert run("batch", "wait", job, "--json").returncode == 0
    done = run(*SUBMIT)
    assert done.returncode == 0
    assert "hit rate 100 %" in done.stdout
    assert "no job was made" in done.stderr
    assert rows(shop, "SELECT id FROM job") == [(job,)] and server.batches.created == 1


def test_collect_ends_with_one_and_then_with_nought(
    run: Run, server: OpenAIBatchServer
) -> None:
    """A running job is pending, exit 1; a finished one 0, whatever judge the settings name; asked
    again, 0."""
    server.batches.looks_until_done = 3
    run(*SUBMIT)
    first = run("batch", "collect", "--json")
    assert first.returncode == 1 and job_in(first)["pending"] and job_in(first)["sent"] == 3
    second = run("batch", "collect", "--json")
    assert second.returncode == 0 and job_in(second)["judged"] == job_in(second)["asked"] > 0
    assert run("batch", "collect").returncode == 0


def test_status_asks_and_moves_nothing(run: Run, server: OpenAIBatchServer) -> None:
    """The vendor's state is shown; an ended job remains to be collected."""
    server.batches.looks_until_done = 4
    run(*SUBMIT)
    done = run("batch", "status")
    assert done.returncode == 0
    assert "3 at the vendor" in done.stdout
    assert "in_progress" in done.stdout
    assert "completed" in (run("batch", "status").stdout + run("batch", "status").stdout)
    assert job_in(run("batch", "status", "--offline", "--json"))["judged"] == 0
    assert server.batches.asked[Step.RESULTS] == 0


def test_results_are_written_ranked(run: Run, shop: Path) -> None:
    """--out has a row for each kept memory of each question."""
    run(*SUBMIT)
    run("batch", "wait")
    done = run("batch", "collect", "--output", "found.jsonl", "--json")
    lines = [json.loads(line) for line in (shop / "found.jsonl").read_text().splitlines()]
    assert done.returncode == 0 and json.loads(done.stdout)["results"]["rows"] == len(lines)
    assert [row["entity"] for row in lines if row["id"] == "q1"] == [
        "total",
        "discount",
        "Cart.add",
    ]
    assert lines[0]["reason"] and lines[0]["rank"] == 1


def test_a_cancelled_job_is_finished_live(run: Run, server: OpenAIBatchServer) -> None:
    """Cancel needs an id or --all; what did not run is unjudged, and `batch run` of the list judges
    only that."""
    server.batches.looks_until_done = 50
    run(*SUBMIT)
    assert run("batch", "cancel").returncode == 2
    assert run("batch", "cancel", "--all").returncode == 1
    waited = run("batch", "wait", "--json")
    before = job_in(waited)
    assert waited.returncode == 0 and before["unjudged"]["interrupted"] > 0
    live_before = server.counts.requests
    done = run("batch", "run", "q.jsonl", "--json", "--judge", "openai:judge-2")
    after = json.loads(done.stdout)["coverage"]
    assert done.returncode == 0
    assert after["judged"] == before["unjudged"]["interrupted"]
    assert not after["unjudged"]
    assert server.counts.requests - live_before == before["lost"]


def test_collecting_where_nothing_was_sent_makes_no_store(xscore: Run, tmp_path: Path) -> None:
    """It says that there is no job, and leaves the folder as it was."""
    done = xscore("batch", "collect", cwd=tmp_path)
    assert done.returncode == 1 and "there is no job yet" in done.stderr
    assert not (store_dir(tmp_path)).exists()


def test_list_names_jobs_newest_first(run: Run) -> None:
    """Every job has a line; an unknown id exits with 1."""
    assert run("batch", "list").returncode == 0
    run(*SUBMIT)
    run("batch", "wait")
    done = run("batch", "list")
    assert done.returncode == 0 and "all in" in done.stdout
    assert run("batch", "status", "b_nothing").returncode == 1
    (name,) = [job["job"] for job in json.loads(run("batch", "list", "--json").stdout)["jobs"]]
    assert job_in(run("batch", "status", name[:6], "--json"))["job"] == name


def test_one_host_that_cannot_be_used_stops_no_other_job(
    run: Run, xscore: Run, server: OpenAIBatchServer, shop: Path
) -> None:
    """A job whose host address changed is reported as unusable, exit 3, and the other job is still
    collected."""
    run(*SUBMIT)
    (shop / "other.jsonl").write_text(
        json.dumps({"id": "x", "task": "what is another total?"}) + "\n"
    )
    with OpenAIBatchServer(score=table(SCORES)) as second:
        environ = {
            "OPENAI_BASE_URL": second.url,
            "OPENAI_API_KEY": "sk-test-000000",
            "XSCORE_JUDGE_PROBE": "false",
        }
        xscore(
            "batch",
            "submit",
            "other.jsonl",
            "--judge",
            "openai:judge-2",
            cwd=shop,
            environ=environ,
        )
    run("batch", "collect")
    done = run("batch", "collect", "--json")
    assert done.returncode == 3, done.stderr
    unusable, *first = json.loads(done.stdout)["jobs"]
    assert unusable["is_unusable"] and "base_url" in unusable["problem"]
    assert not any(job["pending"] for job in first)
    assert run("batch", "cancel", "--all").returncode == 3
    assert run("batch", "cancel", "--all", "--forget").returncode == 0


@pytest.mark.verify
def test_a_cap_stops_the_rest_and_is_never_passed(xscore: Run, shop: Path) -> None:
    """What exceeds the cap waits; collected calls cost less than reserved, so more are sent; then
    exit 4."""
    (shop / "q.jsonl").write_text(LIST)
    with PricedBatches() as server, vendor(server) as environ:
        env = {**environ, "XSCORE_JUDGE_PROBE": "false", "XSCORE_BATCH_POLL_S": "0.05"}
        cap = Decimal("0.008")
        xscore(
            "batch",
            "submit",
            "q.jsonl",
            "--pack-size",
            "1",
            "--max-usd",
            str(cap),
            cwd=shop,
            environ=env,
        )
        waited = xscore("batch", "wait", "--json", cwd=shop, environ=env)
        job = job_in(waited)
        assert waited.returncode == 4, waited.stderr
        assert job["planned"] > 0 and job["over_budget"] and job["answered"] > 0
        assert Decimal(0) < server.charged / 2 <= cap and len(job["batches"]) > 1
        assert Decimal(job["spent_usd"]) == server.charged / 2
        further = xscore("batch", "collect", "--max-usd", "1", cwd=shop, environ=env)
        assert further.returncode == 1, further.stderr
        done = xscore("batch", "wait", "--json", cwd=shop, environ=env)
        assert done.returncode == 0 and job_in(done)["judged"] == job_in(done)["asked"]
        assert Decimal(job_in(done)["spent_usd"]) == server.charged / 2
        ((spent,),) = rows(shop, "SELECT spent FROM spending WHERE span = 'repository'")
        assert Decimal(spent) == server.charged / 2 * 10**12
        assert rows(shop, "SELECT count(*) FROM reservation") == [(0,)]
