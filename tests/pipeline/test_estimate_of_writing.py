"""Estimates at hosts that charge for keeping prompts: what is written to a prefix cache is priced as written."""

from pathlib import Path

import pytest

from xscore import Pipeline, Settings, Turn
from xscore.settings import AnthropicSettings, JudgeSettings, OpenAISettings, Secret

TURN = Turn(task="the discount is taken twice")
PLAIN = {"anthropic:claude-haiku-4-5": (1.0, 5.0), "openai:gpt-4.1": (2.0, 8.0)}
"""Dollars a million tokens, in and out, as the vendors' lists have them."""
KEY = Secret("sk-test-0123456789abcdef")


@pytest.mark.parametrize(
    ("model", "surcharge"), [("anthropic:claude-haiku-4-5", 0.25), ("openai:gpt-4.1", 0.0)], ids=["marks", "plain"]
)
async def test_prompts_that_will_be_written_are_priced_as_written(shop: Path, model: str, surcharge: float) -> None:
    """Where packs are marked the input costs a quarter more; where writing is free the estimate is the forecast's."""
    settings = Settings(
        judge=JudgeSettings(model=model), openai=OpenAISettings(api_key=KEY), anthropic=AnthropicSettings(api_key=KEY)
    )
    async with Pipeline.open(shop, settings) as pipeline:
        judge = (await pipeline.estimate(TURN)).judge
    assert judge.cost_usd is not None and judge.calls > 0
    plain = PLAIN[model]
    given, replied = judge.input_tokens * plain[0] / 1e6, judge.output_tokens * plain[1] / 1e6
    assert float(judge.cost_usd) == pytest.approx(given * (1 + surcharge) + replied, rel=0.01)
