"""Which models judge and answer, from settings alone: nothing is opened or sent."""

import pytest

from xscore.pipeline.factories import choose_answerer, choose_judge
from xscore.platform.errors import NoUsableModel
from xscore.settings import (
    AnthropicSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    Secret,
    Settings,
)

OPENAI = OpenAISettings(api_key=Secret("sk-o"))
ANTHROPIC = AnthropicSettings(api_key=Secret("sk-a"))


@pytest.mark.parametrize(
    ("settings", "judge", "answerer"),
    [
        (Settings(), "lexical", None),
        (Settings(openai=OPENAI), "openai-decisions:gpt-6-luna", "gpt-6.1-sol"),
        (Settings(anthropic=ANTHROPIC), "anthropic:claude-haiku-5-5", "claude-sonnet-5-5"),
        (
            Settings(openai=OPENAI, anthropic=ANTHROPIC),
            "openai-decisions:gpt-6-luna",
            "gpt-6.1-sol",
        ),
        (
            Settings(openai=OpenAISettings(base_url="http://127.0.0.1:9/v1")),
            "openai:gpt-6-luna",
            "gpt-6.1-sol",
        ),
    ],
)
def test_the_vendor_whose_key_is_there_takes_both_seats(
    settings: Settings, judge: str, answerer: str | None
) -> None:
    """Without model settings the key decides; without any key the lexical judge scores and no model
    answers."""
    spec, notice = choose_judge(settings)
    chosen = choose_answerer(settings)
    assert str(spec) == judge and (chosen.model if chosen else None) == answerer
    assert bool(notice) is (judge == "lexical")


def test_a_named_model_is_had_or_refused() -> None:
    """A named model without its key is an error with the variable, never a fallback to another
    model."""
    named = Settings(
        judge=JudgeSettings(model="openai:gpt-5"),
        primary=PrimarySettings(model="openai:gpt-5"),
        anthropic=ANTHROPIC,
    )
    for choose in (choose_judge, choose_answerer):
        with pytest.raises(NoUsableModel) as raised:
            choose(named)
        assert "OPENAI_API_KEY" in raised.value.hint
