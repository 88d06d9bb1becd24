"""`--require-shared` at every command that has it: without a configured or reachable server nothing
is sent."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.servers.openai_server import OpenAIServer

LIST = '{"id": "a", "task": "is the discount taken once?"}\n'
JUDGE = ("--judge", "openai:judge-2", "--require-shared")
COMMANDS = {
    "ask": ("ask", "why?", "--no-answer", *JUDGE),
    "context": ("context", "why?", *JUDGE),
    "run": ("batch", "run", "q.jsonl", *JUDGE),
    "rescore": ("batch", "rescore", "--all", "--queries", "q.jsonl", *JUDGE),
}
SENDING_NOTHING = {
    "estimate": ("estimate", "why?", *JUDGE),
    "dry": ("batch", "rescore", "--all", "--queries", "q.jsonl", "--dry-run", *JUDGE),
    "eval": ("eval", "gold.jsonl", *JUDGE),
    "continue": ("continue", *JUDGE),
}


@pytest.fixture
def run(xscore: Run, server: OpenAIServer, shop: Path) -> Run:
    """Run a command in the shop, with a judge and optionally a shared server."""
    (shop / "q.jsonl").write_text(LIST)
    (shop / "gold.jsonl").write_text(
        '{"id": "a", "query": "why?", "gold": [{"path": "README.md"}]}\n'
    )
    return lambda *arguments, **environ: xscore(
        *arguments,
        cwd=shop,
        environ={"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-test-000000", **environ},
    )


@pytest.mark.parametrize("name", [*COMMANDS, *SENDING_NOTHING])
def test_without_a_server_it_is_refused(run: Run, server: OpenAIServer, name: str) -> None:
    """Without shared.url nothing can be required: exit 2, before anything is opened or sent."""
    done = run(*(COMMANDS | SENDING_NOTHING)[name])
    assert done.returncode == 2 and "XSCORE_SHARED_URL" in done.stderr, done.stderr
    assert not server.counts.requests


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "run" else pytest.mark.verify)
        for name in COMMANDS
    ],
)
def test_with_a_server_that_is_away_nothing_is_sent(
    run: Run, server: OpenAIServer, name: str
) -> None:
    """An unreachable server ends the command with exit 6, whatever the settings say."""
    away = {
        "XSCORE_SHARED_URL": "redis://127.0.0.1:1",
        "XSCORE_SHARED_TIMEOUT_S": "0.2",
        "XSCORE_JUDGE_PROBE": "false",
    }
    done = run(*COMMANDS[name], **away)
    assert done.returncode == 6, done.stdout + done.stderr
    assert not server.counts.requests
