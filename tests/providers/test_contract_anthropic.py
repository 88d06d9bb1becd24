"""Requests in the Anthropic dialect are what the vendor's own SDK says a request is."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from pydantic_core import ValidationError

from tests.providers.conftest import MakeRequest
from tests.providers.contracts import requests, strictly
from tests.servers.anthropic_server import BOUNDS, SAMPLING
from xscore.providers.anthropic import anthropic_body
from xscore.providers.catalog import CLAUDE_FAMILIES

WHOLE = strictly(MessageCreateParamsNonStreaming)
STREAMING = strictly(MessageCreateParamsStreaming)
MODELS = [*(f"{family}-9" for family, _ in CLAUDE_FAMILIES), "a-model-of-a-compatible-host"]


def check(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type, and against the rules that no type states."""
    (STREAMING if fields.get("stream") else WHOLE).validate_python(fields, strict=True)
    schema = fields.get("output_config", {}).get("format", {}).get("schema", {})
    if set(_keywords(schema)) & set(BOUNDS):
        raise ValueError("a numeric bound in the output schema")
    blocks = [block for block in fields["messages"][0]["content"] if isinstance(block, dict)]
    if any(not block["text"].strip() for block in [*fields.get("system", ()), *blocks]):
        raise ValueError("an empty text block")
    if sum("cache_control" in block for block in blocks) > 4:
        raise ValueError("more than four marks")


def _keywords(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema
        for part in schema.values():
            yield from _keywords(part)


TEXT = {"type": "text", "text": "x"}
BAD: list[dict[str, Any]] = [
    *({name: 0} for name in SAMPLING),
    {"max_tokens": "900"},
    {"max_completion_tokens": 900},
    {"stream": "yes"},
    {"messages": [{"role": "system", "content": "x"}], "system": 1},
    {"messages": [{"role": "alien", "content": "x"}]},
    {"messages": [{"role": "user", "content": [TEXT | {"prompt_cache_breakpoint": {"mode": "explicit"}}]}]},
    {"messages": [{"role": "user", "content": [TEXT | {"cache_control": {"type": "eternal"}}]}]},
    {"messages": [{"role": "user", "content": [TEXT | {"cache_control": {"type": "ephemeral", "ttl": "30m"}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]},
    {"messages": [{"role": "user", "content": [TEXT | {"cache_control": {"type": "ephemeral"}}] * 5}]},
    {"system": [{"type": "text", "text": 5}]},
    {"output_config": {"format": {"type": "json_schema"}}},
    {"output_config": {"format": {"type": "json_object", "schema": {}}}},
    {"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"k": {"maximum": 100}}}}}},
    {"output_config": {"effort": "none"}},
    {"output_config": {"verbosity": "low"}},
    {"thinking": {"type": "off"}},
    {"thinking": {"type": "disabled", "budget_tokens": 0}},
    {"reasoning_effort": "low"},
    {"response_format": {"type": "json_object"}},
]


@pytest.mark.parametrize("change", BAD, ids=" ".join)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_known_bad_request_is_seen_to_fail(judging: MakeRequest, change: dict[str, Any], stream: bool) -> None:
    """The check below can fail: each of these requests is wrong and is caught."""
    good = anthropic_body(judging(model="claude-haiku-5-5", reasoning="disabled", prefix_ttl_s=300), stream=stream)
    check(good)
    with pytest.raises((ValidationError, ValueError)):
        check(good | change)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_fits_the_sdks_own_type(model: str, stream: bool) -> None:
    """Packed, plain, throwaway, retried, marked or not, answering: for every family, well formed to the last field."""
    seen = set()
    for name, request in requests("anthropic", model):
        seen.add(name.partition(",")[0])
        check(anthropic_body(request, stream=stream))
    assert seen == {"packed", "plain", "throwaway", "retried", "answering"}


def test_only_a_pack_that_lasts_is_marked() -> None:
    """The mark stands at the end of the pack, names the hour where that is asked, and is nowhere else."""
    marks = {}
    for name, request in requests("anthropic", "claude-haiku-5-5"):
        content = anthropic_body(request, stream=False)["messages"][0]["content"]
        blocks = content if isinstance(content, list) else []
        marks[name] = [block.get("cache_control") for block in blocks]
        assert "".join(block["text"] for block in blocks) in ("", "\n\n".join(request.content))
    assert marks["packed, kept for 5 min"] == [{"type": "ephemeral"}, None]
    assert marks["packed, kept for an hour"] == [{"type": "ephemeral", "ttl": "1h"}, None]
    assert marks["plain, kept for 5 min"] == [{"type": "ephemeral"}, None]
    lasting = {name for name in marks if name.startswith(("packed", "plain")) and "not kept" not in name}
    assert {name for name, found in marks.items() if found} == lasting


def test_thinking_is_turned_off_where_it_can_be(judging: MakeRequest) -> None:
    """A way of thinking and an effort go to their own places; without a word neither is sent."""
    off = anthropic_body(judging(reasoning="disabled"), stream=False)
    low = anthropic_body(judging(reasoning="low"), stream=False)
    assert off["thinking"] == {"type": "disabled"} and "effort" not in off["output_config"]
    assert low["output_config"]["effort"] == "low" and "thinking" not in low
    plain = anthropic_body(judging(reply_ids=()), stream=False)
    assert set(plain) == {"model", "max_tokens", "messages", "system"}


def test_memories_never_stand_in_the_system_role(judging: MakeRequest) -> None:
    """The system text is ours alone, and an empty one is left out."""
    request = judging()
    fields = anthropic_body(request, stream=False)
    assert fields["system"] == [{"type": "text", "text": request.system}]
    assert "system" not in anthropic_body(judging(system=""), stream=False)
