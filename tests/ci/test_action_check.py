"""The action runs `xscore check` at a pull request: one comment that names what is missing."""

import pytest

from tests.ci.fake_runner import Runner
from tests.ci.github_api import GitHubApi
from tests.ci.jobs import FORK, OURS, without_key
from tests.conftest import git
from tests.servers.openai_server import OpenAIServer

CHECK = {"command": "check --diff main...", "comment": "true"}


def rename_total(runner: Runner) -> None:
    """On a branch, rename a function that a document names."""
    git(runner.workspace, "branch", "-M", "main")
    (runner.workspace / "docs").mkdir(exist_ok=True)
    (runner.workspace / "docs/prices.md").write_text("# Prices\n\n`price_total` adds up.\n")
    (runner.workspace / "shop/sums.py").write_text("def price_total(x):\n    return x\n")
    git(runner.workspace, "add", "-A")
    git(runner.workspace, "commit", "-qm", "sums")
    git(runner.workspace, "checkout", "-qb", "topic")
    (runner.workspace / "shop/sums.py").write_text("def price_sum(x):\n    return x\n")
    git(runner.workspace, "commit", "-qam", "call it a sum")


def test_without_a_key_it_names_the_page(runner: Runner) -> None:
    """Words and history need no key: the comment names the page, and is changed in place."""
    rename_total(runner)
    without_key(runner)
    with GitHubApi() as api:
        runner.api_url = api.url
        ran = runner.use(CHECK, event_name="pull_request", event=OURS)
        second = runner.use(CHECK, event_name="pull_request", event=OURS)
        bodies = [comment["body"] for comment in api.comments]
    assert (ran.code, second.code) == (0, 0), ran.log
    assert ["docs/prices.md" in body for body in bodies] == [True]
    assert "docs/prices.md" in ran.summary
    assert runner.artifacts == {}


def test_a_fork_without_a_key_is_left_alone(runner: Runner) -> None:
    """Nothing is printed, summed up or commented on."""
    rename_total(runner)
    without_key(runner)
    with GitHubApi() as api:
        runner.api_url = api.url
        ran = runner.use(CHECK, event_name="pull_request", event=FORK)
        assert api.asked == []
    assert ran.code == 0, ran.log
    assert "docs/prices.md" not in ran.log
    assert ran.summary.strip() == ""


@pytest.mark.verify
def test_where_nothing_is_missing_it_is_silent(runner: Runner, host: OpenAIServer) -> None:
    """With a key and a judge that finds nothing there is no comment and no summary."""
    git(runner.workspace, "branch", "-M", "main")
    with GitHubApi() as api:
        runner.api_url = api.url
        ran = runner.use(CHECK, event_name="pull_request", event=OURS)
        assert api.comments == []
    assert ran.code == 0, ran.log
    assert ran.summary.strip() == ""
