"""What is declared of models, of hosts, and of the reply they owe."""

from typing import get_args

import pytest
from openai.types.shared.reasoning_effort import ReasoningEffort

from xscore.providers.catalog import FAMILIES, UNKNOWN, declared
from xscore.settings.model import DEFAULT_JUDGE, DEFAULT_PRIMARY

EFFORTS = [word for union in get_args(ReasoningEffort) for word in get_args(union)]


@pytest.mark.parametrize("spec", [DEFAULT_JUDGE, DEFAULT_PRIMARY])
def test_the_default_models_are_declared(spec: str) -> None:
    """The models that the settings name run with declared settings, reasoning at its lowest."""
    settings = declared(*spec.split(":", 1))
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
    assert declared("openai", model).reasoning == effort


def test_an_unknown_model_is_treated_with_care() -> None:
    """What is not listed has a small context, no effort, and says that it is not known."""
    assert declared("openai", "my-own-model") is UNKNOWN
    assert not UNKNOWN.known and UNKNOWN.context_tokens <= 8_192 and not UNKNOWN.reasoning


@pytest.mark.parametrize(("family", "settings"), FAMILIES, ids=[family for family, _ in FAMILIES])
def test_a_declared_family_makes_sense(family: str, settings: object) -> None:
    """Efforts are the SDK's words, reserves exist where the model reasons, and no family is hidden by another."""
    found = declared("openai", family + "x")
    assert found is settings
    assert found.reasoning in ("", *EFFORTS)
    assert (found.reasoning_reserve > 0) == (found.reasoning in ("minimal", "low"))
    assert found.cache_step == (1 if found.cache_breakpoints else 128)
