"""Before the store is restored: who started the run, and that no store came with the code."""

from pathlib import Path

import pytest

from ci import prepare
from ci.prepare import may_save
from ci.runner import own_pull_request
from tests.ci.fake_runner import REPOSITORY, annotations, job_environment, outputs_of
from tests.conftest import MakeRepo, git


@pytest.mark.parametrize(
    ("event_name", "head", "saves"),
    [
        ("push", None, True),
        ("schedule", None, True),
        ("workflow_dispatch", None, True),
        ("pull_request", REPOSITORY, True),
        ("pull_request", "mallory/shop", False),
        ("pull_request", None, False),
        ("pull_request_target", REPOSITORY, False),
        ("pull_request_target", "mallory/shop", False),
        ("workflow_run", None, False),
        ("issue_comment", None, False),
        ("merge_group", None, False),
    ],
)
def test_who_may_save(
    event_name: str,
    head: str | None,
    saves: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No event that runs a stranger's code may write a cache that the default branch reads."""
    payload = {"pull_request": {"number": 5, "head": {"repo": head and {"full_name": head}}}}
    for name, value in job_environment(tmp_path, event=payload).items():
        monkeypatch.setenv(name, value)
    assert own_pull_request() == (5 if head == REPOSITORY else None)
    assert may_save(event_name, own_pull_request()) is saves


@pytest.fixture
def prepared(make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which the first step can run, and its inputs."""
    root = make_repo({"a.py": "A = 1\n"})
    for name, value in job_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "runner").mkdir()
    monkeypatch.chdir(root)
    return root


def test_the_store_of_a_checkout_is_in_its_git_folder(prepared: Path, tmp_path: Path) -> None:
    """The cache keeps the git folder's store; one that a commit brings is not looked at."""
    (prepared / ".xscore").mkdir()
    (prepared / ".xscore" / "memory.db").write_bytes(b"scores")
    git(prepared, "add", "-f", ".xscore")
    assert prepare.main() == 0
    outputs = dict(outputs_of((tmp_path / "output").read_text()))
    assert outputs["path"] == ".git/xscore"
    assert outputs["restore"] == "true"


def test_without_a_git_folder_a_store_is_not_believed(
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without git no store may come with the code, nor a link; one that this job made is trusted
    later in it."""
    (prepared / ".git").rename(tmp_path / "git")
    (prepared / ".xscore").symlink_to(tmp_path)
    assert prepare.main() == 2
    (prepared / ".xscore").unlink()
    capsys.readouterr()
    (prepared / ".xscore").mkdir()
    assert prepare.main() == 2
    [annotation] = annotations(capsys.readouterr().out)
    assert annotation.title == "xscore: a store came with the code"
    (prepared / ".xscore").rmdir()
    assert prepare.main() == 0
    (prepared / ".xscore").mkdir()
    assert prepare.main() == 0
    outputs = dict(outputs_of((tmp_path / "output").read_text()))
    assert outputs["restore"] == "false"
    assert outputs["key"].endswith(outputs["use"])
    without_git = tmp_path / "other"
    (without_git / ".xscore").mkdir(parents=True)
    monkeypatch.chdir(without_git)
    assert prepare.main() == 2
