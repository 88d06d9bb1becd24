"""What is declared of models, of hosts, and of the reply they owe."""

from typing import get_args

import pytest
from anthropic.types import ModelParam
from openai.types.shared.reasoning_effort import ReasoningEffort

from xscore.providers.anthropic import THINKING
from xscore.providers.catalog import CLAUDE_FAMILIES, HOUR_S, OPENAI_FAMILIES, UNKNOWN, model_settings
from xscore.providers.prices import call_price
from xscore.records import Usage
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY

EFFORTS = [word for union in get_args(ReasoningEffort) for word in get_args(union)]


@pytest.mark.parametrize("spec", [DEFAULT_JUDGE, DEFAULT_PRIMARY])
def test_the_default_models_are_declared(spec: str) -> None:
    """The models that the settings name run with declared settings, reasoning at its lowest."""
    settings = model_settings(*spec.split(":", 1))
    assert settings.known
    assert settings.reasoning == "none"
    assert settings.temperature is None


@pytest.mark.parametrize(
    ("model", "effort"),
    [
        ("gpt-6-luna-2026-09-22", "none"),
        ("openai/gpt-5.4-nano", "none"),
        ("gpt-5-mini", "minimal"),
        ("o4-mini", "low"),
        ("gpt-4.1-nano", ""),
        ("qwen3:8b", ""),
    ],
)
def test_a_family_shares_its_settings(model: str, effort: str) -> None:
    """Dated names and vendor prefixes find their family; a model without reasoning gets no such field."""
    assert model_settings("openai", model).reasoning == effort


def test_an_unknown_model_is_treated_with_care() -> None:
    """What is not listed has a small context, no effort, and says that it is not known."""
    assert model_settings("openai", "my-own-model") is UNKNOWN
    assert not UNKNOWN.known and UNKNOWN.context_tokens <= 8_192 and not UNKNOWN.reasoning


@pytest.mark.parametrize(("family", "settings"), OPENAI_FAMILIES, ids=[family for family, _ in OPENAI_FAMILIES])
def test_a_declared_family_makes_sense(family: str, settings: object) -> None:
    """Efforts are the SDK's words, reserves exist where the model reasons, and no family is hidden by another."""
    found = model_settings("openai", family + "x")
    assert found is settings
    assert found.reasoning in ("", *EFFORTS)
    assert (found.reasoning_reserve > 0) == (found.reasoning in ("minimal", "low"))
    assert bool(found.cache_writes) == found.cache_breakpoints


@pytest.mark.parametrize(("family", "settings"), CLAUDE_FAMILIES, ids=[family for family, _ in CLAUDE_FAMILIES])
def test_a_declared_claude_makes_sense(family: str, settings: object) -> None:
    """No temperature, a known word for thinking, a reserve where that cannot be turned off, a known floor."""
    found = model_settings("anthropic", family + "x")
    assert found is settings
    assert found.temperature is None
    assert found.reasoning in ("", "low", *THINKING)
    assert (found.reasoning_reserve > 0) == (found.reasoning == "low")
    assert found.cache_floor in (512, 1_024, 2_048, 4_096)
    assert found.cache_breakpoints


def test_every_claude_that_the_sdk_names_is_declared() -> None:
    """A model that a new SDK brings fails here until its family is declared."""
    names = next(get_args(option) for option in get_args(ModelParam) if get_args(option))
    assert len(names) > 15
    assert [name for name in names if not model_settings("anthropic", name).known] == []


@pytest.mark.parametrize(
    ("provider", "host", "model"),
    [
        *(
            ("openai", "api.openai.com", model)
            for model in ("gpt-6-luna", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-5.6-sol")
        ),
        *(
            ("anthropic", "api.anthropic.com", f"claude-{model}")
            for model in ("haiku-5-5", "haiku-4-5", "sonnet-5-5", "sonnet-5", "opus-5-5", "opus-5", "fable-5-1")
        ),
    ],
)
def test_the_factors_are_those_of_the_price_tables(provider: str, host: str, model: str) -> None:
    """What writing and reading a prefix costs in the catalogue is what calls are priced at."""

    def usd(**parts: int) -> float:
        found = call_price(provider, model, host, Usage(input_tokens=10_000, **parts))
        assert found
        return float(found)

    settings, plain = model_settings(provider, model), usd()
    assert usd(cached_input_tokens=10_000) / plain == pytest.approx(settings.cache_read_factor)
    for write in settings.cache_writes:
        hour = {"cache_write_1h_tokens": 10_000} if write.ttl_s == HOUR_S else {}
        assert usd(cache_write_tokens=10_000, **hour) / plain == pytest.approx(write.price_factor)


def test_a_dialect_has_words_of_its_own() -> None:
    """A Claude behind the OpenAI dialect gets none of the Anthropic dialect's words."""
    assert model_settings("anthropic", "claude-haiku-5-5").reasoning == "disabled"
    assert not model_settings("openai", "anthropic/claude-haiku-5.5").known
