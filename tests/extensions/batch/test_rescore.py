"""What `rescore` asks: only memories that an edit, or another judge, has made new."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, xscore
from tests.conftest import git
from tests.extensions.batch.question_lists import QUESTIONS
from tests.servers.openai_server import OpenAIServer
from tests.waiting import rows

__all__ = ["xscore"]
PRICES = "shop/prices.py"


@pytest.fixture
def environ(server: OpenAIServer) -> dict[str, str]:
    """The loopback judge, one memory a call."""
    return {
        "OPENAI_BASE_URL": server.url,
        "XSCORE_JUDGE_MODEL": "openai:judge-2",
        "XSCORE_JUDGE_PROBE": "false",
        "XSCORE_JUDGE_PACK_SIZE": "1",
    }


@pytest.fixture
def queries(tmp_path: Path) -> str:
    """The list as a file."""
    path = tmp_path / "queries.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": question.id, "task": question.task}) + "\n"
            for question in QUESTIONS.all[:2]
        )
    )
    return str(path)


def edit(root: Path) -> None:
    """Change one function."""
    path = root / PRICES
    path.write_text(path.read_text().replace("amount * 9 // 10", "amount * 8 // 10"))


def test_after_an_edit_only_what_changed_is_judged(
    shop: Path, xscore: Run, server: OpenAIServer, environ: dict[str, str], queries: str
) -> None:
    """One changed function: one memory a question is paid for; again, it costs nothing."""
    assert xscore("batch", "run", queries, "-q", cwd=shop, environ=environ).returncode == 0
    sent = server.counts.requests
    edit(shop)
    done = xscore("batch", "rescore", "--queries", queries, "--json", cwd=shop, environ=environ)
    summary = json.loads(done.stdout)
    assert done.returncode == 0 and summary["command"] == "rescore"
    assert server.counts.requests == sent + 2 == sent + summary["coverage"]["judged"]
    repeated = json.loads(
        xscore(
            "batch", "rescore", "--queries", queries, "--json", cwd=shop, environ=environ
        ).stdout
    )
    assert server.counts.requests == sent + 2 and repeated["hit_rate"] == 1.0


def test_a_revision_names_what_was_merged(
    shop: Path, xscore: Run, server: OpenAIServer, environ: dict[str, str], queries: str
) -> None:
    """--since REV includes committed edits, which --changed does not; an unknown revision is a
    usage error."""
    edit(shop)
    git(shop, "commit", "-qam", "cheaper")
    rescore = ("batch", "rescore", "--queries", queries, "--json")
    repeated = xscore(*rescore, cwd=shop, environ=environ)
    assert json.loads(repeated.stdout)["candidates"] == 0
    since = xscore(
        "batch",
        "rescore",
        "--queries",
        queries,
        "--since",
        "HEAD~1",
        "--json",
        cwd=shop,
        environ=environ,
    )
    assert json.loads(since.stdout)["coverage"]["judged"] == server.counts.requests > 0
    for revision in ("no-such", "--output=x"):
        refused = xscore(
            "batch",
            "rescore",
            "--queries",
            queries,
            "--since",
            revision,
            cwd=shop,
            environ=environ,
        )
        assert refused.returncode == 2, refused.stderr


def test_a_dry_run_sends_nothing_and_shows_the_plan(
    shop: Path, xscore: Run, server: OpenAIServer, environ: dict[str, str], queries: str
) -> None:
    """Questions, candidates, cache hits, calls, tokens and dollars; no job is recorded."""
    done = xscore(
        "batch",
        "rescore",
        "--queries",
        queries,
        "--all",
        "--dry-run",
        "--json",
        cwd=shop,
        environ=environ,
    )
    plan = json.loads(done.stdout)
    assert (plan["questions"], plan["cached"], plan["dry_run"]) == (2, 0, True)
    assert plan["candidates"] == plan["to_judge"] == plan["calls"] > 0
    assert not server.counts.requests and rows(shop, "SELECT count(*) FROM job") == [(0,)]
    words = xscore(
        "batch",
        "rescore",
        "--queries",
        queries,
        "--all",
        "--dry-run",
        cwd=shop,
        environ=environ,
    )
    assert "hit rate 0 %" in words.stdout and "by batch" in words.stdout


def test_recent_tasks_are_asked_once_each_and_no_evaluations(
    shop: Path, xscore: Run, server: OpenAIServer, environ: dict[str, str], tmp_path: Path
) -> None:
    """Without a file it is what the user asked here, each task once, without questions of an
    evaluation."""
    none = xscore("batch", "rescore", "--all", "--batch", cwd=shop, environ=environ)
    assert none.returncode == 0 and "no job was made" in none.stderr, none.stderr
    golden = tmp_path / "gold.jsonl"
    golden.write_text(
        '{"id": "g", "query": "where is the sum?", "gold": [{"path": "shop/prices.py"}]}\n'
    )
    for task in (
        "how is the discount taken?",
        "how is the discount taken?",
        "what does the cart hold?",
    ):
        assert (
            xscore("ask", task, "--no-answer", "-q", cwd=shop, environ=environ).returncode == 0
        )
    assert xscore("eval", str(golden), "-q", cwd=shop, environ=environ).returncode == 0
    edit(shop)
    sent = server.counts.requests
    done = xscore("batch", "rescore", cwd=shop, environ=environ)
    assert "2 recent tasks" in done.stderr and server.counts.requests == sent + 2
    assert done.stdout == ""


def test_another_judge_judges_anew(
    shop: Path, xscore: Run, server: OpenAIServer, environ: dict[str, str], queries: str
) -> None:
    """Judgments of the old judge do not count for the new one."""
    xscore("batch", "run", queries, "-q", cwd=shop, environ=environ)
    plan = xscore(
        "batch",
        "rescore",
        "--queries",
        queries,
        "--all",
        "--dry-run",
        "--json",
        "--judge",
        "openai:judge-3",
        cwd=shop,
        environ=environ,
    )
    assert json.loads(plan.stdout)["cached"] == 0
