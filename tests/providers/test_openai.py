"""The OpenAI dialect against a real server on loopback."""

import json

import pytest

from tests.providers.conftest import Connected, MakeRequest
from tests.servers import OpenAIServer


async def test_a_marked_prefix_is_written_once_and_then_read(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """At a host with explicit cache marks, the pack's end is marked and the turn after it is never
    written."""
    async with connected(server.url) as provider:
        kept = {"model": "gpt-6-luna", "chars": 3_000, "prefix_ttl_s": 1_800}
        cold = await provider.complete(judging(**kept))
        warm = await provider.complete(judging(**kept, task="Another task"))
        unmarked = await provider.complete(judging(**kept, stable_parts=0))
        unasked = await provider.complete(judging(**kept | {"prefix_ttl_s": 0}))
    assert cold.usage.cache_write_tokens == warm.usage.cached_input_tokens > 1_024
    assert warm.usage.cache_write_tokens == 0
    assert unmarked.usage.cache_write_tokens == unasked.usage.cache_write_tokens == 0
    assert unasked.usage.cached_input_tokens == 0


@pytest.mark.parametrize(
    ("refused", "form"),
    [("json_schema", "json_object"), ("response_format", None)],
    ids=["object", "text"],
)
async def test_a_lesser_server_is_asked_for_less(
    server: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    refused: str,
    form: str | None,
) -> None:
    """A host that refuses the schema gets a JSON object request, then text; it is remembered."""
    server.refused_fields = (refused,)
    async with connected(server.url) as provider:
        first = await provider.complete(judging())
        refusals = server.counts.refused_requests
        second = await provider.complete(judging())
    assert (
        set(json.loads(first.text)["scores"])
        == {"k0", "k1", "k2"}
        == set(json.loads(second.text)["scores"])
    )
    assert server.counts.refused_requests == refusals
    assert server.counts.bodies[-1].get("response_format", {}).get("type") == form


@pytest.mark.parametrize(
    "field",
    [
        "prompt_cache_key",
        "prompt_cache_options",
        "max_completion_tokens",
        "stream_options",
        "temperature",
    ],
)
async def test_a_field_the_host_does_not_know_is_left_out(
    server: OpenAIServer, judging: MakeRequest, connected: Connected, field: str
) -> None:
    """A host that refuses an optional field, in Google's list too, gets the request without it from
    then on."""
    server.refused_fields, server.errors_in_a_list = (field,), field == "prompt_cache_key"
    request = judging(model="gpt-6-luna", temperature=0.0, prefix_ttl_s=1_800)
    async with connected(server.url) as provider:
        await provider.complete(request, lambda piece: None)
        await provider.complete(request, lambda piece: None)
    assert server.counts.refused_requests == 1
    assert all(field not in body for body in server.counts.bodies[1:])
    assert (
        field != "max_completion_tokens"
        or server.counts.bodies[-1]["max_tokens"] == request.max_output_tokens
    )


async def test_the_reasoning_effort_is_never_dropped(
    server: OpenAIServer, judging: MakeRequest, connected: Connected
) -> None:
    """The effort is part of the judge's identity: a host that refuses it refuses the judge."""
    server.refused_fields = ("reasoning_effort",)
    async with connected(server.url) as provider:
        with pytest.raises(Exception, match="reasoning_effort"):
            await provider.complete(judging(reasoning="none"))
    assert server.counts.requests == 1


async def test_another_host_learns_nothing_of_the_account(
    server: OpenAIServer,
    judging: MakeRequest,
    connected: Connected,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The organization and project in the vendor's variables are sent to the vendor only, whole or
    streamed."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with connected(server.url) as provider:
        await provider.complete(judging())
        await provider.complete(judging(), lambda piece: None)
    account = {"openai-organization", "openai-project"}
    assert not any(account & set(headers) for headers in server.counts.headers)
    async with connected("https://api.openai.com/v1", key="sk-test-1234567890") as provider:
        named = [name for name in provider.headers() if name.lower() in account]
    assert len(named) == 2
