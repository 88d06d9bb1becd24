"""A host, key or model other than configured: exit 3 before any repository text is sent."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.conftest import store_dir
from tests.programs import run
from tests.proof.faults_setup import (
    ALWAYS,
    EACH_DIALECT,
    JUDGE,
    KEYS,
    OF_THE_REPOSITORY,
    THINKING,
    ask,
    by_truth,
    by_turns,
    environment_at,
    failure,
    host_of_dialect,
    settings_at,
)
from tests.servers import Fault
from tests.servers.threaded_server import ThreadedServer, serve_app
from xscore.platform.errors import XscoreError
from xscore.settings import Settings

KEY = "sk-harbour-0123456789-abcdefghij"
Reply = Callable[[web.Request], web.StreamResponse]


def page(status: int) -> Reply:
    """A web page with this status."""
    text = "<!doctype html><html><body><h1>Welcome to the harbour</h1></body></html>"
    return lambda request: web.Response(text=text, content_type="text/html", status=status)


def object_of(text: str) -> Reply:
    """JSON of some other service."""
    return lambda request: web.Response(text=text, content_type="application/json")


def redirect(url: str, *, status: int) -> Reply:
    """A redirect."""
    return lambda request: web.Response(status=status, headers={"Location": url})


class WrongHost(ThreadedServer):
    """A host that is no model host, where a mistyped base URL may lead: one reply to all, and all
    remembered."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply
        self.requests = 0
        self.headers: list[str] = []
        """The values of all headers."""
        self.bodies: list[str] = []

    @property
    def url(self) -> str:
        """The host's address as a base URL."""
        return f"http://{self.host}"

    @property
    def heard(self) -> str:
        """Return everything it received."""
        return "\n".join([*self.headers, *self.bodies])

    async def serve(self) -> None:
        """Serve any request."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._take)
        await serve_app(self, app)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.headers.extend(request.headers.values())
        self.bodies.append((await request.read()).decode())
        return self.reply(request)


async def outcome(root: Path, settings: Settings) -> tuple[int, str]:
    """Ask a judge that cannot judge; return the exit code, and what was said and hinted.

    Unknown models and refused requests end the turn; after anything else words rank.
    """
    try:
        ended = await ask(root, settings)
    except XscoreError as error:
        assert error.hint
        return error.exit_code, f"{error.message} {error.hint}"
    assert (ended.answer.ranked_by, ended.answer.coverage.judged) == ("lexical", 0)
    return ended.answer.exit_code, ended.said


ELSEWHERE: dict[str, tuple[Reply, str]] = {
    "a web page": (page(200), "answered 200 with"),
    "a page that is not found": (page(404), "answered 404"),
    "a page that forbids": (page(403), "answered 403"),
    "a page that takes no POST": (page(405), "answered 405"),
    "a gateway without a server": (page(502), "answered 502"),
    "another service's JSON": (
        object_of('{"status": "ok", "version": "2.1"}'),
        "answered 200 with",
    ),
    "a list": (object_of("[1, 2, 3]"), "answered 200 with"),
    "nothing": (object_of(""), "answered 200 with"),
}
"""What answers at the base URL, and the message about it."""


@pytest.mark.parametrize(("dialect", "reply_kind"), by_turns(ELSEWHERE))
async def test_a_base_url_that_answers_as_something_else(
    root: Path, dialect: str, reply_kind: str
) -> None:
    """The probe detects it: exit 3, the setting is named, and no repository text was sent."""
    reply, says = ELSEWHERE[reply_kind]
    with WrongHost(reply) as host:
        code, message = await outcome(root, settings_at(dialect, host.url, key=KEY, probe=True))
        assert code == 3
        assert says in message and host.url.removeprefix("http://") in message
        assert OF_THE_REPOSITORY not in host.heard and "harbour</h1>" not in message
        assert host.requests <= 10


@pytest.mark.parametrize(
    ("dialect", "status", "probe"),
    by_turns(
        [(301, False), (302, True), (303, False), (307, True), (307, False), (308, False)]
    ),
)
async def test_the_key_follows_no_redirect(
    root: Path, dialect: str, status: int, probe: bool
) -> None:
    """A redirecting host is an error: neither key nor text reaches the target."""
    with (
        WrongHost(page(200)) as target,
        WrongHost(redirect(f"{target.url}/v1", status=status)) as host,
    ):
        settings = settings_at(dialect, host.url, key=KEY, probe=probe, concurrency=1)
        if probe:
            error = await failure(root, settings)
            message, code = error.message, error.exit_code
        else:
            ended = await ask(root, settings)
            message, code = ended.said, ended.answer.exit_code
        assert code == 3 and f"answered {status}" in message
        assert KEY in host.heard, "the host that was named is given its key"
        assert target.requests == 0
        assert KEY not in message


@pytest.mark.parametrize(
    ("dialect", "fault", "says"),
    by_turns(
        [
            (Fault.WRONG_KEY, "answered 401"),
            (Fault.UNKNOWN_MODEL, "answered 404"),
            (Fault.QUOTA, "answered"),
            (Fault.SERVER_ERROR, "answered 500"),
            (Fault.HTML, "answered 200 with"),
            (Fault.MALFORMED_CONTENT, "no readable scores"),
            (Fault.REFUSAL, "declines to judge"),
        ]
    ),
)
async def test_a_fault_that_the_probe_meets(
    root: Path, dialect: str, fault: Fault, says: str
) -> None:
    """A host that cannot judge even our two sample memories gets no repository text; the message
    says why."""
    with host_of_dialect(dialect) as host:
        host.misbehave(fault, times=ALWAYS)
        code, message = await outcome(
            root, settings_at(dialect, host.url, key=KEY, probe=True, timeout_s=4.0)
        )
        assert code == 3 and says in message
        assert KEY not in message
        assert OF_THE_REPOSITORY not in json.dumps(host.counts.bodies)
        host.reset()
        sound = await ask(root, settings_at(dialect, host.url, key=KEY, probe=True))
        assert sound.answer.exit_code == 0


@EACH_DIALECT
@pytest.mark.parametrize(
    ("fault", "says"),
    [(Fault.RESET, "the connection broke"), (Fault.SILENCE, "did not finish its reply")],
)
async def test_a_host_that_the_probe_does_not_reach(
    root: Path, dialect: str, fault: Fault, says: str
) -> None:
    """It gets no repository text; words rank instead, with the reason."""
    with host_of_dialect(dialect) as host:
        host.misbehave(fault, times=ALWAYS)
        timeout_s = 0.2 if fault is Fault.SILENCE else 60.0
        settings = settings_at(dialect, host.url, key=KEY, probe=True, timeout_s=timeout_s)
        ended = await ask(root, settings)
        assert (ended.answer.exit_code, ended.answer.ranked_by) == (1, "lexical")
        assert says in ended.said and KEY not in ended.said
        assert OF_THE_REPOSITORY not in json.dumps(host.counts.bodies)


@EACH_DIALECT
async def test_a_model_that_only_thinks_is_found_by_the_probe(root: Path, dialect: str) -> None:
    """Reasoning that uses up the output cap ends the judging with its figures, before a paid repair
    ladder."""
    with THINKING[dialect](score=by_truth) as host:
        code, message = await outcome(root, settings_at(dialect, host.url, probe=True))
        assert code == 3
        assert "of reasoning" in message and "without reasoning" in message
        assert OF_THE_REPOSITORY not in json.dumps(host.counts.bodies)
        assert host.counts.requests <= 3


@EACH_DIALECT
def test_no_key(root: Path, dialect: str) -> None:
    """Exit 3 without a key for a named judge, with --json and without; the variable is named."""
    failed = run("ask", "mend it", "--judge", f"{dialect}:{JUDGE}", "--json", cwd=root)
    error = json.loads(failed.stdout)["error"]
    assert failed.returncode == error["code"] == 3
    assert error["kind"] == "no_usable_model"
    assert "there is no key" in error["message"] and KEYS[dialect] in error["hint"]
    words = run("ask", "mend it", "--judge", f"{dialect}:{JUDGE}", cwd=root)
    assert words.returncode == 3 and words.stdout == ""
    assert KEYS[dialect] in words.stderr and "Traceback" not in words.stderr


@EACH_DIALECT
def test_a_wrong_key(root: Path, dialect: str) -> None:
    """Words rank and exit 3 after one call; the key that the host repeats is shown in no stream and
    no file."""
    with host_of_dialect(dialect) as host:
        host.misbehave(Fault.WRONG_KEY, times=ALWAYS)
        models = ("--judge", f"{dialect}:{JUDGE}", "--model", f"{dialect}:{JUDGE}")
        environ = environment_at(dialect, host.url, key=KEY, probe=True)
        ended = run("ask", "mend it", *models, "--json", cwd=root, environ=environ)
        answer = json.loads(ended.stdout)
        assert ended.returncode == 3
        assert answer["ranked_by"] == "lexical"
        assert any(
            "[key]" in warning and host.host in warning for warning in answer["warnings"]
        )
        assert host.counts.requests == 1
        assert OF_THE_REPOSITORY not in json.dumps(host.counts.bodies)
    assert KEY not in ended.stdout + ended.stderr
    assert all(
        KEY.encode() not in file.read_bytes()
        for file in (store_dir(root)).iterdir()
        if file.is_file()
    )
