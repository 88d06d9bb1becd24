"""`xscore batch submit` as a user sees it: what is shown, what is sent, what is never paid twice."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.servers.openai_batches import OpenAIBatchServer
from tests.waiting import rows

LIST = '{"id": "a", "task": "is the discount taken once?"}\n{"id": "b", "task": "what is a cart?"}\n'


@pytest.fixture
def server() -> Iterator[OpenAIBatchServer]:
    """A loopback host with a Batch API."""
    with OpenAIBatchServer() as running:
        yield running


@pytest.fixture
def run(xscore: Run, server: OpenAIBatchServer, shop: Path) -> Run:
    """Run a command in the shop, with the judge at the loopback host."""
    (shop / "q.jsonl").write_text(LIST)

    def submit(*arguments: str, **how: str) -> subprocess.CompletedProcess[str]:
        environ = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-000000"}
        return xscore(*arguments, cwd=shop, environ=environ, **how)

    return submit


SUBMIT = ("batch", "submit", "q.jsonl", "--judge", "openai:judge-2")


def test_a_list_is_shown_and_sent(run: Run, server: OpenAIBatchServer) -> None:
    """The plan is on stdout with hit rate, calls, tokens and dollars, followed by the job and the next command."""
    done = run(*SUBMIT)
    assert done.returncode == 0, done.stderr
    assert "2 questions" in done.stdout and "hit rate 0 %" in done.stdout
    assert "by batch" in done.stdout and "live" in done.stdout and "b_" in done.stdout
    assert "xscore batch" in done.stderr
    assert server.batches.created == 1


def test_a_dry_run_keeps_and_sends_nothing(run: Run, server: OpenAIBatchServer, shop: Path) -> None:
    """--dry-run prints only the figures."""
    done = run(*SUBMIT, "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["job"], told["standing"]) == (0, None, None)
    assert told["questions"] == 2 and told["requests"] == 2 * told["prompts"] > 0
    assert told["to_judge"] == told["candidates"] and told["hit_rate"] == 0.0 and told["batches"] == 1
    assert rows(shop, "SELECT count(*) FROM job") == [(0,)] and not server.batches.created


def test_the_same_list_is_not_paid_twice(run: Run, server: OpenAIBatchServer, shop: Path) -> None:
    """Questions of a running job are refused with its id, in any list; a new question is sent alone."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    again = run(*SUBMIT)
    assert again.returncode == 2 and job in again.stderr and f"xscore batch collect {job}" in again.stderr
    (shop / "q.jsonl").write_text(LIST + '{"id": "c", "task": "how are sums made?"}\n')
    told = json.loads(run(*SUBMIT, "--json").stdout)
    assert told["elsewhere_jobs"] == [job] and told["elsewhere"] == 2 * told["to_judge"]
    assert rows(shop, "SELECT DISTINCT question FROM job_request WHERE job = ?", told["job"]) == [(2,)]


def test_live_calls_for_what_a_batch_judges_are_warned_of(run: Run, server: OpenAIBatchServer) -> None:
    """`batch run` and `rescore`, dry runs included, say how many would be paid twice and how to avoid it."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    judge = ("--judge", "openai:judge-2")
    dry = run("batch", "rescore", "--all", "--queries", "q.jsonl", "--dry-run", "--json", *judge)
    told = json.loads(dry.stdout)
    assert told["elsewhere_jobs"] == [job] and told["elsewhere"] == told["to_judge"] > 0
    for done in (dry, run("batch", "run", "q.jsonl", "--yes", *judge)):
        assert done.returncode == 0 and f"under way by batch in {job}" in done.stderr
        assert f"xscore batch wait {job}" in done.stderr
    assert "under way" not in run("batch", "run", "q.jsonl", *judge).stderr


def test_nothing_left_to_judge_makes_no_job(run: Run, server: OpenAIBatchServer, shop: Path) -> None:
    """Cached judgments are not sent again: exit code 0, no job, a hit rate of 100 %."""
    job = json.loads(run(*SUBMIT, "--json").stdout)["job"]
    assert run("batch", "wait", job, "--json").returncode == 0
    done = run(*SUBMIT)
    assert done.returncode == 0 and "hit rate 100 %" in done.stdout and "no job was made" in done.stderr
    assert rows(shop, "SELECT id FROM job") == [(job,)] and server.batches.created == 1


def test_secrets_are_not_sent(run: Run, server: OpenAIBatchServer, shop: Path) -> None:
    """A key in a question is redacted before it is stored or sent."""
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"
    (shop / "q.jsonl").write_text(json.dumps({"id": "a", "task": f"why is {secret} refused?", "errors": secret}))
    assert run(*SUBMIT).returncode == 0
    assert secret not in str(rows(shop, "SELECT context FROM job_question"))
    sent = str(server.files)
    assert "<SECRET:openai_key>" in sent and secret not in sent
