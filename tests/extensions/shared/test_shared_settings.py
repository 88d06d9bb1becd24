"""`shared.url`: valid forms, who may set it and who sees it; when a server is opened; the doctor's
row."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis.asyncio as redis
from msgspec.structs import replace

from tests.conftest import MakeRepo
from tests.extensions.shared.server_processes import ServerProcess
from tests.pipeline.conftest import FILES, settings_for
from tests.servers.openai_server import OpenAIServer
from xscore.cli.config import effective_settings
from xscore.extensions.shared import connect as checks
from xscore.extensions.shared.connect import server_factory
from xscore.extensions.shared.redis_server import RedisDriver
from xscore.extensions.shared.server import SharedServer, displayed_url
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import SharedUnavailable, UsageError
from xscore.records.reports import ErasureRequest
from xscore.records.turn import Turn
from xscore.settings import Settings, load_settings, validate_group
from xscore.settings.model import SharedSettings
from xscore.store.removal import shared_servers

TURN = Turn(task="where is the discount taken?")
ACL = next(
    line.split()
    for line in (Path(__file__).parents[3] / "docs" / "shared.md")
    .read_text("utf-8")
    .splitlines()
    if line.startswith("ACL SETUSER")
)


def settings(url: str, **fields: object) -> SharedSettings:
    """Return settings with this URL."""
    return validate_group(SharedSettings, {"url": url, **fields})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://user:secret@host:6379/0", "redis://host:6379/0"),
        ("rediss://:secret@host/0?password=secret", "rediss://host/0"),
        (
            "postgresql://secret@[::1]:5432/database?password=secret#secret",
            "postgresql://[::1]:5432/database",
        ),
        ("postgres://host", "postgres://host"),
        ("redis://user:se/cret@host", "(unreadable)"),
        ("http://user:secret@host", "(unreadable)"),
        ("secret", "(unreadable)"),
        ("redis://[secret", "(unreadable)"),
    ],
)
def test_a_url_is_shown_without_what_it_keeps_secret(url: str, name: str) -> None:
    """Messages show only scheme, host, port and database."""
    assert displayed_url(url) == name


@pytest.mark.parametrize(
    "url", ["secret", "http://secret@host", "redis://", "redis://u:se/cret@host", "redis://h:0"]
)
def test_a_url_that_names_no_server_is_refused(url: str) -> None:
    """The error shows the valid form and nothing of the URL."""
    with pytest.raises(UsageError, match=r"shared\.url") as caught:
        server_factory(settings(url))
    assert "secret" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@localhost/0?db=hunter2",
        "redis://:hunter2@localhost/0?socket_timeout=hunter2",
        "redis://:hunter2@localhost/0?hunter2=1",
        "rediss://:hunter2@localhost/0?ssl_cert_reqs=hunter2",
        "postgresql://u:hunter2@localhost/d?hunter2=1",
        "postgresql://u:%hunter2@localhost/d",
    ],
)
async def test_options_that_a_driver_does_not_take_are_refused(url: str) -> None:
    """Refused before a connection, without showing a part that may be secret."""
    with pytest.raises(UsageError, match="cannot be read") as caught:
        server_factory(settings(url))()
    assert caught.value.hint
    assert "hunter2" not in str(caught.value) + caught.value.hint
    (finding,) = await checks.check_shared_server(Settings(shared=settings(url)))
    assert not finding.ok and "hunter2" not in finding.detail + finding.hint


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis.example/0",
        "redis://10.0.0.7/0",
        "rediss://redis.example/0?ssl_cert_reqs=none",
        "postgresql://db.example/x?sslmode=require",
        "postgresql://db.example/x?sslmode=prefer",
        "postgresql://localhost/x?host=db.example",
        "postgresql://localhost,db.example/x",
    ],
)
def test_beyond_this_machine_tls_is_required(url: str) -> None:
    """Judgments and a password leave this machine only to a server whose certificate is checked."""
    with pytest.raises(UsageError) as refused:
        server_factory(settings(url))
    assert refused.value.hint
    for safe in (
        "rediss://redis.example/0",
        "postgresql://db.example/x",
        "redis://127.0.0.1/0",
    ):
        server_factory(settings(safe))


def test_a_missing_extra_says_what_to_install() -> None:
    """Refused before anything is sent."""
    hidden = "import sys; sys.modules['redis'] = None\n"
    imports = (
        "from xscore.settings import validate_group\n"
        "from xscore.settings.model import SharedSettings\n"
        "from xscore.extensions.shared.connect import server_factory\n"
    )
    program = f"{hidden}{imports}server_factory(validate_group(SharedSettings, {{'url': 'redis://localhost'}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr.rstrip().endswith("UsageError: shared.url needs the extra `redis`")


def test_a_repository_cannot_name_a_server(tmp_path: Path) -> None:
    """A clone's URL is ignored with a message."""
    (tmp_path / ".xscore.toml").write_text(
        '[shared]\nurl = "redis://evil.example"\nrequire = true\n'
    )
    loaded = load_settings(repo_root=tmp_path, user_file=None, environ={})
    assert loaded.settings.shared == SharedSettings()
    assert len([warning for warning in loaded.warnings if "shared." in warning]) == 2


def test_config_show_has_no_password() -> None:
    """The setting is shown as in messages."""
    environ = {"XSCORE_SHARED_URL": "redis://user:hunter2@host:6379/0?password=hunter2"}
    effective = effective_settings(
        load_settings(repo_root=None, user_file=None, environ=environ)
    )
    assert [setting.value for setting in effective if setting.name == "shared.url"] == [
        "redis://…@host:6379/0?password=…"
    ]
    assert "hunter2" not in str(effective)


def with_server(server: OpenAIServer, shared: SharedSettings) -> Settings:
    """Settings with the loopback judge and a shared server."""
    return replace(settings_for(server), shared=shared)


async def test_a_cached_turn_opens_no_server(make_repo: MakeRepo) -> None:
    """The server is never asked for what the local store has, and need not even run."""
    root = make_repo(FILES)
    with OpenAIServer() as host:
        async with Pipeline.open(root, settings_for(host)) as pipeline:
            first = await pipeline.ask(TURN, answer=False)
        unreachable = settings("redis://127.0.0.1:1/0", require=True, timeout_s=0.1)
        async with Pipeline.open(root, with_server(host, unreachable)) as pipeline:
            repeated = await pipeline.ask(TURN, answer=False)
    assert first.coverage.judged == repeated.coverage.cached == repeated.coverage.candidates
    assert repeated.warnings == first.warnings


async def test_a_refused_server_is_owed_no_erasure(make_repo: MakeRepo) -> None:
    """Nothing was sent there: every later erasure would end with an error for a mistyped URL."""
    with OpenAIServer() as judge:
        named = replace(settings_for(judge), shared=settings("redis://db.example:6379"))
        async with Pipeline.open(make_repo(FILES), named) as pipeline:
            with pytest.raises(UsageError):
                await pipeline.ask(TURN)
            assert shared_servers(pipeline.store.connection) == ()


async def test_the_doctor_says_whether_it_answers(
    shared: SharedSettings, running: ServerProcess
) -> None:
    """It says the server's type, the tenant, and what a run does without it; nothing if sharing
    is off."""
    assert await checks.check_shared_server(Settings(shared=SharedSettings())) == []
    (finding,) = await checks.check_shared_server(Settings(shared=shared))
    assert finding.ok
    assert shared.tenant in finding.detail
    assert "continues without it" in finding.detail
    (away,) = await checks.check_shared_server(
        Settings(shared=settings("redis://:hunter2@127.0.0.1:1/0", timeout_s=0.3))
    )
    assert not away.ok and away.hint and "hunter2" not in away.detail
    running.hang()
    try:
        (hung,) = await checks.check_shared_server(
            Settings(shared=replace(shared, timeout_s=0.3))
        )
    finally:
        running.go_on()
    assert not hung.ok and "0.3 s" in hung.detail


@pytest.mark.parametrize("running", ["redis"], indirect=True)
async def test_the_documented_account_suffices(running: ServerProcess) -> None:
    """On Redis an account with the rights listed in the docs can do everything, for its tenant
    only."""
    admin = redis.Redis.from_url(running.url)
    await admin.execute_command(*ACL)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    await admin.aclose()
    url = running.url.replace("redis://", "redis://our-team:password@")
    mine, other_tenant = (
        SharedServer(RedisDriver(url, tenant=name)) for name in ("our-team", "other")
    )
    assert (await mine.check()).startswith("Redis ")
    await mine.claim(("t", "j", 0), [["a"]], at_most=1, runner="one", lease_s=30)
    await mine.release_runner("one")
    assert await mine.erase(ErasureRequest(contents=("a",), turns=(("t", "j", 0, ()),))) == 0
    with pytest.raises(SharedUnavailable, match="permission"):
        await other_tenant.claim(("t", "j", 0), [["a"]], at_most=1, runner="one", lease_s=30)
    await mine.aclose()
    await other_tenant.aclose()
