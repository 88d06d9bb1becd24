"""A prompt silently truncated by the host is an error, for any model name."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import Fault, OpenAIServer
from tests.servers.limited_server import LimitedServer
from tests.servers.prefix_cache import Tally
from xscore.platform.errors import PromptCut
from xscore.providers.host_facts import (
    PromptCount,
    count_prompt,
    is_cache_uncounted,
    is_prompt_cut,
)
from xscore.providers.openai import OpenAIProvider, reported_usage
from xscore.records.calls import Capability, Completion, Finish, Usage


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


async def test_a_prompt_that_fills_the_known_context_was_cut(
    judging: MakeRequest, connected: Connected
) -> None:
    """With a known context a cut of a few percent is detected: the count stops at the limit."""
    with LimitedServer(num_ctx=1_024) as server:
        async with connected(server.url) as provider:
            request = judging(chars=1_100)
            assert (await provider.complete(request)).usage.input_tokens < 1_010
            slightly_more = judging(chars=1_400)
            assert (await provider.complete(slightly_more)).usage.input_tokens == 1_024
            provider.adopt(
                Capability(
                    provider="openai",
                    host=provider.host,
                    model="judge-2",
                    probed_at=1.0,
                    context_tokens=1_024,
                )
            )
            await provider.complete(request)
            with pytest.raises(PromptCut):
                await provider.complete(slightly_more)


def test_short_prompts_are_not_suspected(judging: MakeRequest) -> None:
    """Below some hundred tokens an estimate is too rough, and every context is long enough."""
    assert not is_prompt_cut(judging(), count_prompt(judging(), 10))


def test_a_ratio_learned_from_cut_prompts_hides_no_cut(judging: MakeRequest) -> None:
    """A truncating host inflates the learned characters per token; estimates made with them do not
    decide."""
    chars = count_prompt(judging(chars=9_000), 0).chars
    for learned in (3.0, 3.7, 9.0, 30.0):
        estimated = judging(chars=9_000, input_tokens=round(chars / learned))
        assert is_prompt_cut(estimated, count_prompt(estimated, chars // 8))
        assert not is_prompt_cut(
            estimated, count_prompt(estimated, round(chars / min(learned, 4.8)))
        )
    dense = judging(chars=9_000, input_tokens=chars // 2)
    assert is_prompt_cut(dense, count_prompt(dense, chars // 4))


def test_what_came_on_top_of_the_shortest_prompt_is_looked_at_by_itself(
    judging: MakeRequest,
) -> None:
    """Neither a rubric that is always read nor the host's own additions hide a cut pack."""
    short, long = judging(chars=700), judging(chars=2_000)
    shortest = PromptCount(count_prompt(short, 0).chars, count_prompt(short, 0).chars // 4 + 90)
    chars = count_prompt(long, 0).chars
    cut = count_prompt(long, shortest.tokens + (chars - shortest.chars) // 6)
    assert not is_prompt_cut(long, count_prompt(long, cut.tokens)) and is_prompt_cut(
        long, cut, shortest=shortest
    )
    assert not is_prompt_cut(long, count_prompt(long, chars // 4 + 90), shortest=shortest)


def test_long_rules_and_indentation_are_not_taken_for_a_cut(judging: MakeRequest) -> None:
    """A run of one character is one or two tokens: a prompt full of them counts few tokens and was
    read whole."""
    table = judging(
        content=("word " * 400 + "\n".join("-" * 100 for _ in range(60)) + "    " * 1_000,)
    )
    assert not is_prompt_cut(table, count_prompt(table, 700))
    assert is_prompt_cut(table, count_prompt(table, 250))


UNCACHED, CACHED = 30, 2_500
SPELLINGS: dict[str, dict[str, object]] = {
    "OpenAI": {"prompt_tokens_details": {"cached_tokens": CACHED}},
    "OpenAI's newer": {"input_tokens_details": {"cached_tokens": CACHED}},
    "Anthropic": {"cache_read_input_tokens": CACHED},
    "DeepSeek": {"prompt_cache_hit_tokens": CACHED},
    "Moonshot": {"cached_tokens": CACHED},
}


class UncachedOnly(OpenAIServer):
    """Counts only what its cache did not serve, and says in one of several ways what it served."""

    stated: Mapping[str, object] = {}

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return a chat completion with such a usage."""
        reply = super().envelope(body, content, tally, fault)
        reply["usage"] = {"prompt_tokens": UNCACHED, "completion_tokens": 9, **self.stated}
        return reply


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_what_the_cache_served_is_added_in_every_spelling(
    judging: MakeRequest, connected: Connected, spelling: str
) -> None:
    """A gateway that counts 30 of 2,530 tokens has read all of them."""
    with UncachedOnly() as server:
        server.stated = SPELLINGS[spelling]
        async with connected(server.url) as provider:
            usage = (await provider.complete(judging(chars=2_500))).usage
    assert (usage.input_tokens, usage.cached_input_tokens) == (UNCACHED + CACHED, CACHED)


def test_a_count_without_its_cached_part_is_told_by_the_estimate(judging: MakeRequest) -> None:
    """Half of a prompt and its cached other half are a whole; with the cached part among it, it
    is what is stated."""
    usage = {
        "prompt_tokens": 600,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 500},
    }
    for expected, input_tokens in ((0, 600), (620, 600), (1_150, 1_100), (5_000, 600)):
        counted = reported_usage(usage, judging(input_tokens=expected))
        assert counted is not None
        assert (counted.input_tokens, counted.cached_input_tokens) == (
            input_tokens,
            500,
        )


async def test_a_reply_that_answers_everything_is_whole_where_nothing_is_said_of_the_cache(
    judging: MakeRequest, connected: Connected
) -> None:
    """Its usage is our estimate, marked as such; a reply that lacks an id is of a cut prompt."""
    with UncachedOnly() as server:
        async with connected(server.url) as provider:
            request = judging(chars=2_500)
            completion = await provider.complete(request)
            assert completion.usage.input_tokens == request.input_tokens
            assert not completion.usage_reported
            server.misbehave(Fault.MISSING_ID)
            with pytest.raises(PromptCut):
                await provider.complete(request)


async def test_a_prompt_beyond_the_known_context_was_cut_whatever_is_answered(
    judging: MakeRequest, connected: Connected
) -> None:
    """A decoder held to a schema answers every id of a prompt that it never saw."""
    with UncachedOnly() as server:
        async with connected(server.url) as provider:
            provider.adopt(
                Capability(
                    provider="openai",
                    host=provider.host,
                    model="judge-2",
                    probed_at=1.0,
                    context_tokens=1_024,
                )
            )
            with pytest.raises(PromptCut):
                await provider.complete(judging(chars=2_500))


def test_a_local_host_of_unknown_context_is_suspected(judging: MakeRequest) -> None:
    """It may have cut to its context, unless it has read as much before or no context is as short
    as its count."""
    request = judging(chars=9_000)
    uncut = Completion(
        text=json.dumps({"scores": dict.fromkeys(request.reply_ids, 5)}),
        finish=Finish.STOP,
        usage=Usage(input_tokens=2_048, output_tokens=9),
        model="judge-2",
    )
    few = replace(uncut, usage=Usage(input_tokens=300, output_tokens=9))

    def is_whole(reply: Completion, host: str, *, longest: int = 0) -> bool:
        return is_cache_uncounted(
            request, reply, host=host, context_tokens=None, longest=longest
        )

    assert not is_whole(uncut, "localhost:11434") and is_whole(few, "localhost:11434")
    assert is_whole(uncut, "localhost:11434", longest=request.input_tokens)
    assert is_whole(uncut, "gateway.example")
    assert not is_whole(replace(uncut, finish=Finish.LENGTH), "gateway.example")
