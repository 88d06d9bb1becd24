"""What is declared of models, hosts and their replies."""

from typing import get_args

import pytest
from anthropic.types import ModelParam
from openai.types.shared.reasoning_effort import ReasoningEffort

from xscore.providers.catalog import HOUR_S, OPENAI_FAMILIES, UNKNOWN, model_settings
from xscore.providers.prices import call_price
from xscore.records.calls import Usage


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
    """Dated names and vendor prefixes find their family; a model without reasoning gets no such
    field."""
    assert model_settings("openai", model).reasoning == effort


def test_every_declared_effort_is_a_word_of_the_sdk() -> None:
    """A host would refuse any other."""
    efforts = {word for union in get_args(ReasoningEffort) for word in get_args(union)}
    assert {settings.reasoning for _, settings in OPENAI_FAMILIES} - {""} <= efforts


def test_every_claude_that_the_sdk_names_is_declared() -> None:
    """A model of a new SDK fails here until its family is declared."""
    names = next(get_args(option) for option in get_args(ModelParam) if get_args(option))
    assert len(names) > 15
    assert [name for name in names if model_settings("anthropic", name) is UNKNOWN] == []


@pytest.mark.parametrize(
    ("provider", "host", "model"),
    [
        *(
            ("openai", "api.openai.com", model)
            for model in ("gpt-6-luna", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-5.6-sol")
        ),
        *(
            ("anthropic", "api.anthropic.com", f"claude-{model}")
            for model in (
                "haiku-5-5",
                "haiku-4-5",
                "sonnet-5-5",
                "sonnet-5",
                "opus-5-5",
                "opus-5",
                "fable-5-1",
            )
        ),
    ],
)
def test_the_factors_are_those_of_the_price_tables(
    provider: str, host: str, model: str
) -> None:
    """The catalogue's prices for writing and reading a prefix are those charged."""

    def usd(**parts: int) -> float:
        price = call_price(provider, model, host, Usage(input_tokens=10_000, **parts))
        assert price
        return float(price)

    settings, plain = model_settings(provider, model), usd()
    assert usd(cached_input_tokens=10_000) / plain == pytest.approx(settings.cache_read_factor)
    for write in settings.cache_writes:
        hour = {"cache_write_1h_tokens": 10_000} if write.ttl_s == HOUR_S else {}
        assert usd(cache_write_tokens=10_000, **hour) / plain == pytest.approx(
            write.price_factor
        )


def test_a_dialect_has_words_of_its_own() -> None:
    """A Claude behind the OpenAI dialect gets no Anthropic fields."""
    assert model_settings("anthropic", "claude-haiku-5-5").reasoning == "disabled"
    assert model_settings("openai", "anthropic/claude-haiku-5.5") is UNKNOWN
