"""The action's comment, against a server with GitHub's API: one comment, found again, never a
failed job."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci import comment
from ci.comment import mark
from tests.ci.fake_runner import annotations, job_environment
from tests.ci.github_api import BOT, PERSON, GitHubApi
from tests.ci.jobs import FORK, OURS

MARK = "<!-- xscore xscore.questions -->"


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    """GitHub, with the token of a job."""
    with GitHubApi() as running:
        yield running


class Step:
    """The step that writes the comment."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder, self.monkeypatch, self.capsys = folder, monkeypatch, capsys
        self.log = ""
        self.code = -1

    def run(
        self, api_url: str, *, markdown: str = "# kept 3", event: object = OURS, **inputs: str
    ) -> None:
        """Run the step once."""
        (self.folder / "report.md").write_text(markdown, "utf-8")
        job = job_environment(self.folder, event=event, event_name="pull_request")
        defaults = {
            "TOKEN": "t0ken",
            "MARKDOWN": str(self.folder / "report.md"),
            "GITHUB_API_URL": api_url,
        }
        for name, value in (job | defaults | inputs).items():
            self.monkeypatch.setenv(name, value)
        self.code = comment.main()
        self.log = self.capsys.readouterr().out

    @property
    def levels(self) -> list[str]:
        """Return the levels of the annotations."""
        return [annotation.level for annotation in annotations(self.log)]


@pytest.fixture
def step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Step:
    """The step, in a new folder."""
    return Step(tmp_path, monkeypatch, capsys)


def test_it_is_made_once_and_then_changed(step: Step, api: GitHubApi) -> None:
    """The second run updates the first run's comment and writes no other."""
    step.run(api.url, markdown="first")
    step.run(api.url, markdown="second")
    assert step.code == 0, step.log
    assert [comment["body"].splitlines()[:2] for comment in api.comments] == [[MARK, "second"]]
    assert api.tokens == {"Bearer t0ken"}


def test_it_leads_to_the_page_of_a_turn(step: Step, api: GitHubApi) -> None:
    """Where one was uploaded."""
    step.run(api.url)
    assert "map" not in api.comments[0]["body"]
    address = "https://github.invalid/someone/shop/actions/runs/77/artifacts/5"
    step.run(api.url, TURN_PAGE=address)
    assert f"]({address})" in api.comments[0]["body"]


def test_a_check_that_finds_nothing_makes_no_comment(step: Step, api: GitHubApi) -> None:
    """Nothing is said at first; a comment that named something says once that it is done."""
    step.run(api.url, markdown="", COMMAND="check --diff a...")
    assert (step.code, api.comments) == (0, [])
    step.run(api.url, markdown="**docs/a.md** names what is gone", COMMAND="check --diff a...")
    step.run(api.url, markdown="", COMMAND="check --diff a...")
    [body] = [comment["body"] for comment in api.comments]
    assert "docs/a.md" not in body
    assert comment.NOTHING_LEFT in body


def test_a_person_who_writes_our_mark_keeps_their_comment(step: Step, api: GitHubApi) -> None:
    """Another user's comment is never changed, whatever it begins with."""
    api.say(PERSON, f"{MARK}\nmine")
    step.run(api.url)
    assert api.comments[0]["body"] == f"{MARK}\nmine"
    assert api.comments[1]["user"] == BOT


def test_with_a_token_of_a_person_it_is_theirs(step: Step) -> None:
    """A personal token finds its own comment and ignores a bot's."""
    with GitHubApi(writer=PERSON) as api:
        api.say(BOT, f"{MARK}\nthe bot's")
        step.run(api.url, markdown="first")
        step.run(api.url, markdown="second")
        assert len(api.comments) == 2
        assert "second" in api.comments[1]["body"]


@pytest.mark.parametrize("status", [403, 404])
def test_what_the_token_may_not_is_a_line_in_the_log(status: int, step: Step) -> None:
    """A refusal is neither a failure nor an annotation."""
    with GitHubApi(status=status) as api:
        step.run(api.url)
    assert step.code == 0
    assert f"GitHub answers {status}" in step.log
    assert step.levels == []


def test_what_goes_wrong_at_github_is_a_warning(step: Step) -> None:
    """A host error is reported, and the job continues."""
    with GitHubApi(status=500) as api:
        step.run(api.url)
    assert step.code == 0
    assert step.levels == ["warning"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n[\xff",
    ],
    ids=["reset", "cut", "another-protocol", "no-text"],
)
def test_a_connection_that_breaks_is_a_warning(sent: bytes, step: Step) -> None:
    """A connection reset, a truncated answer or an unreadable one does not fail the job."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_and_reset, args=(server, sent), daemon=True).start()
        step.run(f"http://127.0.0.1:{server.getsockname()[1]}")
    assert step.code == 0
    assert step.levels == ["warning"]


def _answer_and_reset(server: socket.socket, sent: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(sent)
        if not sent:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_the_token_follows_no_redirection(step: Step) -> None:
    """A redirecting host gets no second request with the token."""
    with (
        GitHubApi() as elsewhere,
        GitHubApi(moved_to=f"{elsewhere.url}/repos/someone/shop/issues/5/comments") as api,
    ):
        step.run(api.url)
        assert elsewhere.asked == []
    assert step.code == 0


def test_without_a_token_nothing_is_asked(step: Step, api: GitHubApi) -> None:
    """Without a token no request is sent to GitHub."""
    step.run(api.url, TOKEN="")
    assert (step.code, api.asked) == (0, [])


@pytest.mark.parametrize(
    "event",
    [{}, {"pull_request": None}, {"pull_request": {"number": 5, "head": {"repo": None}}}, FORK],
    ids=["push", "none", "gone", "fork"],
)
def test_without_a_pull_request_of_ours_nothing_is_asked(
    event: object, step: Step, api: GitHubApi
) -> None:
    """A push, a fork's pull request and a closed one have no comment that we may write."""
    step.run(api.url, event=event)
    assert (step.code, api.asked) == (0, [])


def test_the_mark_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workflow whose name looks like the end of a comment does not end it."""
    monkeypatch.setenv("GITHUB_WORKFLOW", "a --> <b>")
    monkeypatch.setenv("GITHUB_JOB", "j")
    assert mark() == "<!-- xscore a.b..j -->"
