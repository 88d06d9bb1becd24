"""`provider:model`, its host, and the import of the HTTP client in a thread."""

import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from xscore.platform.errors import UsageError
from xscore.providers.decision_hosts import DECISION_HOSTS
from xscore.providers.hosts import default_concurrency, host_deadline_s, host_of, is_loopback
from xscore.providers.scripted import ScriptedProvider
from xscore.providers.spec import (
    BUILT_IN,
    BY_HTTP,
    ModelSpec,
    connect_provider,
    import_http_client,
    parse_model_spec,
)
from xscore.providers.wire import WireProvider
from xscore.settings import AnthropicSettings, OpenAISettings, Settings


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("openai:gpt-6-luna", ModelSpec("openai", "gpt-6-luna")),
        ("openai:llama3.2:3b", ModelSpec("openai", "llama3.2:3b")),
        ("anthropic:claude-haiku-5-5", ModelSpec("anthropic", "claude-haiku-5-5")),
        (" openai:openai/gpt-5-mini ", ModelSpec("openai", "openai/gpt-5-mini")),
        ("scripted:a/b.json", ModelSpec("scripted", "a/b.json")),
        ("lexical", ModelSpec("lexical", "")),
        ("gpt-6-luna", ModelSpec("openai", "gpt-6-luna")),
        ("claude-haiku-5-5", ModelSpec("anthropic", "claude-haiku-5-5")),
        # Of no family; the price table knows it.
        ("gpt-3.5-turbo", ModelSpec("openai", "gpt-3.5-turbo")),
    ],
)
def test_a_spec_is_read(text: str, spec: ModelSpec) -> None:
    """The first colon ends the provider; parsing and writing round-trip."""
    assert parse_model_spec(text) == spec
    assert parse_model_spec(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "nonsense-7",
        "gemini-2.5-pro",
        "openai",
        "",
        "nobody:x",
        "openai:",
        "lexical:x",
        "anthropic:",
    ],
)
def test_what_is_no_spec_is_a_usage_error_with_a_way_on(text: str) -> None:
    """Each mistake is answered with what to write instead."""
    with pytest.raises(UsageError) as caught:
        parse_model_spec(text)
    assert caught.value.hint


def test_our_own_providers_are_entry_points_too() -> None:
    """Our own providers use entry points too: the package declares exactly those found by name."""
    declared = {
        entry.name: entry.value
        for entry in entry_points(group="xscore.providers")
        if entry.dist and entry.dist.name == "xscore"
    }
    assert declared == BUILT_IN


def test_a_spec_leads_to_its_provider(tmp_path: Path) -> None:
    """The provider of a spec is made from the settings."""
    script = tmp_path / "script.json"
    script.write_text("{}")
    settings = Settings(
        openai=OpenAISettings(base_url="http://127.0.0.1:9/v1"),
        anthropic=AnthropicSettings(base_url="http://127.0.0.1:9"),
    )
    for name in ("anthropic", "openai"):
        provider = connect_provider(parse_model_spec(f"{name}:m"), settings)
        assert isinstance(provider, WireProvider) and provider.name == name
    assert isinstance(
        connect_provider(parse_model_spec(f"scripted:{script}"), settings), ScriptedProvider
    )
    with pytest.raises(UsageError):
        connect_provider(parse_model_spec("lexical"), settings)


def test_a_stranger_comes_in_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package with an entry point in our group serves its own name."""
    info = tmp_path / "stranger-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[xscore.providers]\nstranger = stranger_provider:connect\n"
    )
    (tmp_path / "stranger_provider.py").write_text(
        "from xscore.providers.scripted import ScriptedProvider\n"
        "def connect(model, settings):\n"
        "    provider = ScriptedProvider()\n"
        "    provider.name = 'stranger'\n"
        "    return provider\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    provider = connect_provider(parse_model_spec("stranger:anything"), Settings())
    assert provider.name == "stranger"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("http://LOCALHOST:11434/v1/", "localhost:11434"),
        ("http://[::1]:8080/v1", "[::1]:8080"),
    ],
)
def test_a_host_is_name_and_port(url: str, host: str) -> None:
    """Only host and port of a base URL are shown."""
    assert host_of(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "ftp://x",
        "http://",
        "http://a:99999/",
        "http://a..b/",
        f"http://{'a' * 64}.com/",
        "http://u:p@x/",
        "https://x/v1?key=secret",
    ],
)
def test_what_is_no_base_url_is_said(url: str) -> None:
    """Any other value is a usage error that repeats no secret."""
    with pytest.raises(UsageError, match=r"openai\.base_url") as raised:
        host_of(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:1", "127.0.0.1:80", "127.9.9.9", "[::1]:8080", "a.localhost", "-"],
)
def test_this_machine_is_recognised(host: str) -> None:
    """Every loopback name and address counts as this machine."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "api.openai.com",
        "localhost.example.com",
        "127.0.0.1.nip.io",
        "10.0.0.1",
        "0.0.0.0:80",
        "notlocalhost",
    ],
)
def test_another_machine_is_not_taken_for_this_one(host: str) -> None:
    """Names that only resemble loopback are remote: they are priced and need a key."""
    assert not is_loopback(host)


def test_a_local_model_is_given_time_and_few_calls() -> None:
    """A loopback host gets four calls in flight and five times the deadline."""
    assert default_concurrency("localhost:1") == 4
    assert default_concurrency("api.openai.com") == 64
    assert host_deadline_s(60, "localhost:1") == 300
    assert host_deadline_s(60, "api.openai.com") == 60


def program(body: str) -> str:
    """Run a program in a new process and return its output."""
    text = textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_the_loop_runs_on_while_the_client_is_imported() -> None:
    """A thread imports it, so that the loop keeps running; afterwards the first call has all it
    needs, and no vendor's SDK is among that."""
    printed = program(
        """
        import asyncio, sys, threading
        from xscore.providers.spec import import_http_client

        heavy = {"aiohttp", "httpx2", "openai", "anthropic"}
        in_threads = set()

        class Watch:
            def find_spec(self, name, path=None, target=None):
                if name in heavy:
                    in_threads.add(threading.current_thread() is not threading.main_thread())

        async def main():
            sys.meta_path.insert(0, Watch())
            await import_http_client("openai")
            print(*in_threads, *(heavy & set(sys.modules)))

        asyncio.run(main())
        """
    )
    assert printed.split() == ["True", "aiohttp"]


async def test_other_providers_have_nothing_imported() -> None:
    """A script, or a package's provider, imports for itself; each of ours that calls a host is
    listed."""
    for provider in ("scripted", "somebodys"):
        await import_http_client(provider)
    assert set(BY_HTTP) == {*BUILT_IN, *DECISION_HOSTS} - {"scripted"}
