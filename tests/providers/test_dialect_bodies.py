"""Requests of both dialects match the vendors' SDKs, and refused fields are left out."""

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tests.providers.conftest import MakeRequest
from tests.providers.contracts import requests, strictly
from tests.servers.anthropic_server import BOUNDS
from xscore.providers.anthropic import AnthropicProvider
from xscore.providers.catalog import CLAUDE_FAMILIES, OPENAI_FAMILIES
from xscore.providers.openai import OpenAIProvider
from xscore.providers.wire import response_format
from xscore.records.calls import Capability, ReplyForm, Request

OFFICIAL, COMPATIBLE = (
    OpenAIProvider("https://api.openai.com/v1", ""),
    OpenAIProvider("http://127.0.0.1:1/v1", ""),
)
CLAUDE = AnthropicProvider("https://api.anthropic.com", "")
UNPROBED = Capability(provider="openai", host="h", model="m", probed_at=0.0)
OPENAI_TYPES = (
    strictly(CompletionCreateParamsNonStreaming),
    strictly(CompletionCreateParamsStreaming),
)
CLAUDE_TYPES = strictly(MessageCreateParamsNonStreaming), strictly(MessageCreateParamsStreaming)
OPENAI_MODELS = [
    *(f"{family}-9" for family, _ in OPENAI_FAMILIES),
    "llama3.2:3b",
    "anthropic/claude-haiku-5.5",
]
CLAUDE_MODELS = [
    *(f"{family}-9" for family, _ in CLAUDE_FAMILIES),
    "a-model-of-a-compatible-host",
]
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def openai_body(
    request: Request, *, form: ReplyForm = ReplyForm.JSON_SCHEMA, stream: bool = False
) -> dict[str, Any]:
    """Return a body for the vendor's own host."""
    capability = Capability(
        provider="openai", host="h", model="m", probed_at=0.0, reply_form=form
    )
    return OFFICIAL.fields(request, capability, stream=stream)


def claude_body(request: Request, *, stream: bool = False) -> dict[str, Any]:
    """Return a body for a host that takes the schema."""
    return CLAUDE.fields(request, UNPROBED, stream=stream)


def check_openai(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type."""
    OPENAI_TYPES[bool(fields.get("stream"))].validate_python(fields, strict=True)


def check_claude(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type, and against rules that no type states."""
    CLAUDE_TYPES[bool(fields.get("stream"))].validate_python(fields, strict=True)
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


@STREAMED
def test_a_request_fits_the_sdks_own_type(stream: bool) -> None:
    """Packed, plain, throwaway, retried, marked or not, answering: for every family, strict or
    degraded."""
    seen = set()
    for model in OPENAI_MODELS:
        for name, request in requests("openai", model):
            seen.add(name.partition(",")[0])
            for form in ReplyForm:
                check_openai(openai_body(request, form=form, stream=stream))
    for model in CLAUDE_MODELS:
        for _, request in requests("anthropic", model):
            check_claude(claude_body(request, stream=stream))
    assert seen == {"packed", "plain", "throwaway", "retried", "answering"}


def test_only_a_pack_that_lasts_is_marked() -> None:
    """The mark is at the end of the pack if requested, and the text stays the same."""
    marked = set()
    for name, request in requests("openai", "gpt-6-luna"):
        fields = openai_body(request)
        content = fields["messages"][1]["content"]
        if isinstance(content, list):
            marked.add(name)
            assert "".join(part["text"] for part in content) == "\n\n".join(request.content)
            assert content[0]["text"] == request.content[0]
        assert fields["prompt_cache_options"] == {"mode": "explicit"}
    assert marked == {"packed, kept for 30 min", "plain, kept for 30 min"}
    marks = {}
    for name, request in requests("anthropic", "claude-haiku-5-5"):
        content = claude_body(request)["messages"][0]["content"]
        blocks = content if isinstance(content, list) else []
        marks[name] = [block.get("cache_control") for block in blocks]
        assert "".join(block["text"] for block in blocks) in ("", "\n\n".join(request.content))
    assert marks["packed, kept for 5 min"] == [{"type": "ephemeral"}, None]
    assert marks["packed, kept for an hour"] == [{"type": "ephemeral", "ttl": "1h"}, None]
    lasting = {
        name
        for name in marks
        if name.startswith(("packed", "plain")) and "not kept" not in name
    }
    assert {name for name, markers in marks.items() if markers} == lasting


def test_a_request_carries_only_what_is_declared(judging: MakeRequest) -> None:
    """No effort, temperature or cache mark is sent unless declared; a mode of thinking has its own
    field."""
    plain = COMPATIBLE.fields(judging(cache_key=""), UNPROBED, stream=False)
    assert set(plain) == {"model", "messages", "max_completion_tokens", "response_format"}
    off, low = claude_body(judging(reasoning="disabled")), claude_body(judging(reasoning="low"))
    assert off["thinking"] == {"type": "disabled"} and "effort" not in off["output_config"]
    assert low["output_config"]["effort"] == "low" and "thinking" not in low
    assert set(claude_body(judging(reply_ids=(), temperature=0.0))) == {
        "model",
        "max_tokens",
        "messages",
        "system",
    }


def test_the_vendors_host_is_told_to_keep_nothing(judging: MakeRequest) -> None:
    """P08: the vendor's own host, which may keep completions, is asked not to; others do not get
    the field."""
    assert openai_body(judging())["store"] is False
    assert "store" not in COMPATIBLE.fields(judging(), UNPROBED, stream=False)


def test_weakening_ends(judging: MakeRequest) -> None:
    """A host that refuses everything gets a finite number of requests, and an unrelated refusal
    changes nothing."""
    request = judging(model="gpt-6-luna", temperature=0.0, prefix_ttl_s=1_800)
    capability: Capability | None = UNPROBED
    steps = 0
    words = (
        "response_format temperature store prompt_cache_key prompt_cache_options"
        " prompt_cache_breakpoint"
    )
    while capability is not None:
        capability = OFFICIAL.weaker(
            request, capability, {"message": f"{words} stream_options max_completion_tokens"}
        )
        steps += 1
    assert steps < 15
    assert OFFICIAL.weaker(request, UNPROBED, {"message": "the moon is full"}) is None
    assert OFFICIAL.weaker(request, UNPROBED, "plain text about response_format") is None


def test_a_field_named_by_its_place_is_recognised(judging: MakeRequest) -> None:
    """FastAPI servers name the field in `detail[].loc`; the input they repeat is not read."""
    echo = {
        "detail": [{"loc": ["body", "prompt_cache_key"], "input": {"text": "response_format"}}]
    }
    weaker = OFFICIAL.weaker(judging(), UNPROBED, echo)
    assert weaker is not None
    assert (weaker.without, weaker.reply_form) == (("prompt_cache_key",), ReplyForm.JSON_SCHEMA)


IDS = st.lists(
    st.text(alphabet="abcdefghij", min_size=2, max_size=2), min_size=1, max_size=60, unique=True
).map(tuple)


@given(IDS)
def test_every_id_is_a_required_integer(ids: tuple[str, ...]) -> None:
    """Strictly: each id of the pack is required, bounded, and nothing else is allowed."""
    json_schema = response_format(ids)["json_schema"]
    assert json_schema["strict"] is True
    scores = json_schema["schema"]["properties"]["scores"]
    assert scores["required"] == list(ids) == list(scores["properties"])
    assert scores["additionalProperties"] is False
    assert all(
        score == {"type": "integer", "minimum": 0, "maximum": 100}
        for score in scores["properties"].values()
    )
