"""`xscore eval probe`: the same task with and without a part of the memory, and what it costs."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, xscore
from tests.conftest import MakeRepo
from tests.extensions.evaluation.shop_run import SCORES, priced
from tests.pipeline.conftest import FILES, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.extensions.evaluation.answer_grading import Better
from xscore.extensions.evaluation.probe_parts import arms_of
from xscore.extensions.evaluation.probing import ProbeOptions, run_probe
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import Question
from xscore.platform.errors import ExitCode, UsageError
from xscore.records.memory import Kind, Layer
from xscore.records.turn import Scope

__all__ = ["xscore"]

TASK = "The discount of total is taken twice; take it once."
RULE = "discounts are rounded down, never twice"


@pytest.fixture
def repo(make_repo: MakeRepo) -> Path:
    """The shop."""
    return make_repo(FILES)


@pytest.fixture(autouse=True)
def host(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """A host that judges and answers, as the environment names it."""
    server.score = table({**SCORES, RULE: 90})
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", "openai:judge-2")
    monkeypatch.setenv("XSCORE_PRIMARY_MODEL", "openai:strong-1")
    monkeypatch.setenv("XSCORE_JUDGE_PROBE", "false")
    return server


def probed(run: Run, repo: Path, *arguments: str) -> dict[str, Any]:
    """Run the command on the task; return its JSON."""
    done = run("eval", "probe", TASK, *arguments, "--yes", "--json", cwd=repo)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def kept(side: dict[str, Any]) -> set[str]:
    """Return the kinds and names of what an arm kept."""
    return {f"{memory['kind']} {memory['entity']}".strip() for memory in side["kept"]}


def test_a_part_is_in_one_arm_alone(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """Both arms judge the same otherwise, and the second pays nothing for it."""
    xscore("memory", "add", RULE, "--kind", "decision", cwd=repo)
    report = probed(xscore, repo, "--without", "decisions")
    (task,) = report["tasks"]
    with_part, without_part = task["with_part"], task["without_part"]
    assert kept(with_part) - kept(without_part) == {"decision"}
    assert with_part["coverage"]["judged"] == with_part["coverage"]["candidates"]
    assert without_part["coverage"]["judged"] == 0
    assert without_part["coverage"]["candidates"] == with_part["coverage"]["candidates"] - 1
    assert max(host.counts.judgments.values()) == 1
    assert report["ended"] == "" and with_part["answer"] is None


def test_commits_and_sessions_are_parts(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """Past exchanges and commits are candidates here, though a probe belongs to no session."""
    xscore("ask", "what does the shop sell?", cwd=repo)
    for part, kind in (("sessions", "exchange"), ("decisions", "decision")):
        (task,) = probed(xscore, repo, "--without", part)["tasks"]
        lacking = task["with_part"]["coverage"]["candidates"]
        lacking -= task["without_part"]["coverage"]["candidates"]
        assert lacking == int(kind == "exchange")


@pytest.mark.parametrize(
    ("replies", "better"),
    [
        (["first", "second"], Better.WITH),
        (["second", "first"], Better.WITHOUT),
        (["first", "first"], Better.SAME),
        (["no JSON", "first"], Better.UNREADABLE),
    ],
)
def test_answers_are_compared_in_both_orders(
    xscore: Run, repo: Path, host: OpenAIServer, replies: list[str], better: Better
) -> None:
    """A model that prefers what it reads first prefers neither."""
    unused_replies = list(replies)

    def answer(prompt: str) -> str:
        if "<first>" not in prompt:
            return "The rule says so." if RULE in prompt else "There is no rule."
        return json.dumps({"better": unused_replies.pop(0), "because": "it names the rule"})

    host.answer = answer
    xscore("memory", "add", RULE, "--kind", "decision", cwd=repo)
    (task,) = probed(xscore, repo, "--without", "decisions", "--grade")["tasks"]
    assert task["with_part"]["answer"] == "The rule says so."
    assert task["without_part"]["answer"] == "There is no rule."
    assert task["grade"]["better"] == better and unused_replies == []
    stages = json.loads(xscore("report", "--by", "stage", "--json", cwd=repo).stdout)
    assert "grade" in json.dumps(stages)


async def test_a_probe_ends_at_the_cap(repo: Path, server: OpenAIServer) -> None:
    """A task that a cap cut short is not shown as compared."""
    questions = [Question(id="a", task=TASK), Question(id="b", task="Where is the sum?")]
    settings = settings_for(server, max_usd="0.5", pack_size=1, concurrency=1)
    async with Pipeline.open(repo, settings) as pipeline:
        parts = priced(pipeline.parts, "0.2")
        report = await run_probe(parts, questions, arms_of("tests", Scope()), ProbeOptions())
    assert (report.tasks, report.of, report.ended) == ((), 2, "budget")
    assert report.exit_code == ExitCode.PARTLY
    assert report.cost_usd is not None and 0 < report.cost_usd <= Decimal("0.5")


def test_arms_stay_within_the_scope() -> None:
    """What the user leaves out is in neither arm."""
    arms = arms_of("commits", Scope(kinds=("commit", "function"), paths=("src/",)))
    assert arms.without_part.scope.kinds == ("function",)
    assert arms.with_part.scope.kinds == ("commit", "function")
    assert arms.with_part.scope.paths == arms.without_part.scope.paths == ("src/",)
    arms = arms_of("graph", Scope())
    assert set(arms.without_part.scope.layers) == {*Layer} - {Layer.GRAPH}
    assert set(arms.without_part.scope.kinds) == {*Kind}


@pytest.mark.parametrize("part", ["bogus", "checkpoint", "sessions"])
def test_an_impossible_part_is_refused(part: str) -> None:
    """Unknown ones, a checkpoint without a name, and what the scope leaves out."""
    with pytest.raises(UsageError) as refused:
        arms_of(part, Scope(layers=("graph",)))
    assert refused.value.hint


def test_the_brief_is_in_one_arm_alone(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """Both arms judge the same; one answer is given with what a hook tells a session, one
    without."""

    def answer(prompt: str) -> str:
        if "<first>" in prompt:
            return json.dumps({"better": "same", "because": ""})
        assert "xscore_context" in prompt
        return "The rule says so." if RULE in prompt else "There is no rule."

    host.answer = answer
    xscore("memory", "add", RULE, "--kind", "decision", cwd=repo)
    (task,) = probed(xscore, repo, "--without", "brief", "--grade")["tasks"]
    with_part, without_part = task["with_part"], task["without_part"]
    assert RULE in with_part["brief"] and without_part["brief"] == ""
    assert kept(with_part) - kept(without_part) == {"decision"}
    assert kept(without_part) and kept(without_part) < kept(with_part)
    assert with_part["answer"] == "The rule says so."
    assert without_part["answer"] == "There is no rule."
    assert without_part["coverage"]["judged"] == 0
    assert with_part["coverage"]["candidates"] == without_part["coverage"]["candidates"]


def test_without_a_brief_no_answer_is_paid(xscore: Run, repo: Path, host: OpenAIServer) -> None:
    """Where nothing said before bears on a task, both arms are shown the same."""
    (task,) = probed(xscore, repo, "--without", "brief", "--answers")["tasks"]
    assert task["with_part"]["brief"] == task["without_part"]["brief"] == ""
    assert task["with_part"]["answer"] is task["without_part"]["answer"] is None
    assert kept(task["with_part"]) == kept(task["without_part"])
    done = xscore("eval", "probe", TASK, "--without", "brief", "--yes", cwd=repo)
    assert "no brief" in done.stdout


def test_a_brief_of_code_alone_is_refused() -> None:
    """A scope without what is said, and a checkpoint, which no agent's session has."""
    for scope, checkpoint in ((Scope(layers=("graph",)), ""), (Scope(), "before-lunch")):
        with pytest.raises(UsageError) as refused:
            arms_of("brief", scope, checkpoint=checkpoint)
        assert refused.value.hint
