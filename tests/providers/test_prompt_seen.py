"""A prompt silently truncated by the host is an error, for any model name."""

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import Fault, OpenAIServer
from tests.servers.lesser_server import LesserServer
from xscore.platform.errors import PromptCut
from xscore.providers.host_facts import PromptCount, count_prompt, is_prompt_cut
from xscore.providers.openai import OpenAIProvider
from xscore.records.calls import Capability


@pytest.mark.parametrize("model", ["judge-2", "gpt-oss:20b", "gpt-4.1-nano"])
async def test_a_cut_prompt_is_an_error_at_any_host_but_the_vendors(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, model: str
) -> None:
    """A vendor's model name does not exempt another host: Ollama serves gpt-oss, and truncates."""
    server.misbehave(Fault.CUT_PROMPT)
    async with connected(server.url) as provider:
        with pytest.raises(PromptCut, match="cut the prompt") as caught:
            await provider.complete(judging(model=model, chars=900))
    assert "num_ctx" in caught.value.hint
    assert caught.value.may_be_charged  # the host answered, and counts what it read


def test_the_vendors_own_host_is_spared() -> None:
    """The vendor answers 400 to an overlong prompt, and counts its own models' tokens."""
    for url, is_own in (
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://openai.com.example.test/v1", False),
        ("https://notopenai.com/v1", False),
    ):
        assert OpenAIProvider(url, "k").is_vendors_own is is_own


async def test_a_prompt_that_fills_the_known_context_was_cut(judging: MakeRequest, connected: Connected) -> None:
    """With a known context a cut of a few percent is detected: the count stops at the limit."""
    with LesserServer(num_ctx=1_024) as server:
        async with connected(server.url) as provider:
            whole = judging(chars=1_100)
            assert (await provider.complete(whole)).usage.input_tokens < 1_010
            slightly_more = judging(chars=1_400)
            assert (await provider.complete(slightly_more)).usage.input_tokens == 1_024
            provider.adopt(
                Capability(provider="openai", host=provider.host, model="judge-2", probed_at=1.0, context_tokens=1_024)
            )
            await provider.complete(whole)
            with pytest.raises(PromptCut):
                await provider.complete(slightly_more)


def test_short_prompts_are_not_suspected(judging: MakeRequest) -> None:
    """Below some hundred tokens an estimate is too rough, and every context is long enough."""
    assert not is_prompt_cut(judging(), count_prompt(judging(), 10))


def test_a_ratio_learned_from_cut_prompts_hides_no_cut(judging: MakeRequest) -> None:
    """A truncating host inflates the learned characters per token; estimates made with them do not decide."""
    chars = count_prompt(judging(chars=9_000), 0).chars
    for learned in (3.0, 3.7, 9.0, 30.0):
        estimated = judging(chars=9_000, input_tokens=round(chars / learned))
        assert is_prompt_cut(estimated, count_prompt(estimated, chars // 8))
        assert not is_prompt_cut(estimated, count_prompt(estimated, round(chars / min(learned, 4.8))))
    dense = judging(chars=9_000, input_tokens=chars // 2)
    assert is_prompt_cut(dense, count_prompt(dense, chars // 4))


def test_what_came_on_top_of_the_shortest_prompt_is_looked_at_by_itself(judging: MakeRequest) -> None:
    """Neither a rubric that is always read nor the host's own additions hide a cut pack."""
    short, long = judging(chars=700), judging(chars=2_000)
    shortest = PromptCount(count_prompt(short, 0).chars, count_prompt(short, 0).chars // 4 + 90)
    chars = count_prompt(long, 0).chars
    cut = count_prompt(long, shortest.tokens + (chars - shortest.chars) // 6)
    assert not is_prompt_cut(long, count_prompt(long, cut.tokens)) and is_prompt_cut(long, cut, shortest=shortest)
    assert not is_prompt_cut(long, count_prompt(long, chars // 4 + 90), shortest=shortest)


def test_long_rules_and_indentation_are_not_taken_for_a_cut(judging: MakeRequest) -> None:
    """A run of one character is one or two tokens: a prompt full of them counts few tokens and was read whole."""
    table = judging(content=("word " * 400 + "\n".join("-" * 100 for _ in range(60)) + "    " * 1_000,))
    assert not is_prompt_cut(table, count_prompt(table, 700))
    assert is_prompt_cut(table, count_prompt(table, 250))
