"""`provider:model`, as a user writes it."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from xscore.platform.errors import UsageError
from xscore.providers.scripted import ScriptedProvider
from xscore.providers.spec import BUILT_IN, ENTRY_POINT_GROUP, ModelSpec, connect_provider, parse_model_spec
from xscore.providers.wire import WireProvider
from xscore.settings import AnthropicSettings, OpenAISettings, Settings
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY


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
        ("gpt-3.5-turbo", ModelSpec("openai", "gpt-3.5-turbo")),  # of no family; the price table knows it
    ],
)
def test_a_spec_is_read(text: str, spec: ModelSpec) -> None:
    """The first colon ends the provider; what is read is written the same."""
    assert parse_model_spec(text) == spec
    assert parse_model_spec(str(spec)) == spec


@pytest.mark.parametrize(
    "text", ["nonsense-7", "gemini-2.5-pro", "openai", "", "nobody:x", "openai:", "lexical:x", "anthropic:"]
)
def test_what_is_no_spec_is_a_usage_error_with_a_way_on(text: str) -> None:
    """Each mistake is answered with what to write instead."""
    with pytest.raises(UsageError) as caught:
        parse_model_spec(text)
    assert caught.value.hint


def test_the_default_models_are_specs() -> None:
    """What the settings name can be parsed."""
    assert {parse_model_spec(DEFAULT_JUDGE).provider, parse_model_spec(DEFAULT_PRIMARY).provider} == {"openai"}


def test_our_own_providers_are_entry_points_too() -> None:
    """Our own go through the same door: the package declares exactly what is found by name."""
    declared = {
        entry.name: entry.value
        for entry in entry_points(group=ENTRY_POINT_GROUP)
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
    assert isinstance(connect_provider(parse_model_spec(f"scripted:{script}"), settings), ScriptedProvider)
    with pytest.raises(UsageError):
        connect_provider(parse_model_spec("lexical"), settings)


def test_a_stranger_comes_in_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with an entry point in our group serves its own name."""
    info = tmp_path / "stranger-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[xscore.providers]\nstranger = stranger_provider:connect\n")
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
