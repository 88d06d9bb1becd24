"""Requests of both dialects are what the vendors' own SDKs say a request is, and what a host that refuses is spared."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic_core import ValidationError

from tests.providers.conftest import MakeRequest
from tests.providers.contracts import requests, strictly
from tests.servers.anthropic_server import BOUNDS, SAMPLING
from xscore.providers.anthropic import AnthropicDialect
from xscore.providers.catalog import CLAUDE_FAMILIES, OPENAI_FAMILIES
from xscore.providers.openai import OpenAIDialect
from xscore.records import Capability, ReplyForm, Request

OFFICIAL, COMPATIBLE = OpenAIDialect("https://api.openai.com/v1"), OpenAIDialect("http://127.0.0.1:1/v1")
CLAUDE = AnthropicDialect()
UNPROBED = Capability(provider="openai", host="h", model="m", probed_at=0.0)
OPENAI_TYPES = strictly(CompletionCreateParamsNonStreaming), strictly(CompletionCreateParamsStreaming)
CLAUDE_TYPES = strictly(MessageCreateParamsNonStreaming), strictly(MessageCreateParamsStreaming)
OPENAI_MODELS = [*(f"{family}-9" for family, _ in OPENAI_FAMILIES), "llama3.2:3b", "anthropic/claude-haiku-5.5"]
CLAUDE_MODELS = [*(f"{family}-9" for family, _ in CLAUDE_FAMILIES), "a-model-of-a-compatible-host"]
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def openai_body(request: Request, *, form: ReplyForm = ReplyForm.JSON_SCHEMA, stream: bool = False) -> dict[str, Any]:
    """Return a body for the vendor's own host."""
    known = Capability(provider="openai", host="h", model="m", probed_at=0.0, reply_form=form)
    return OFFICIAL.body(request, known, stream=stream)


def claude_body(request: Request, *, stream: bool = False) -> dict[str, Any]:
    """Return a body for a host that takes the schema."""
    return CLAUDE.body(request, UNPROBED, stream=stream)


def check_openai(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type."""
    OPENAI_TYPES[bool(fields.get("stream"))].validate_python(fields, strict=True)


def check_claude(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type, and against the rules that no type states."""
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


def _user(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


TEXT = {"type": "text", "text": "x"}
BAD_OPENAI: list[dict[str, Any]] = [
    {"temperature": "hot"},
    {"max_output_tokens": 5},
    {"reasoning_effort": "lowest"},
    {"messages": [{"role": "alien", "content": "x"}]},
    _user([{"type": "text"}]),
    _user([TEXT | {"cache_control": {"type": "ephemeral"}}]),
    {"response_format": {"type": "json_schema", "json_schema": {"strict": True}}},
    {"prompt_cache_options": {"mode": "sometimes"}},
    {"thinking": {"type": "disabled"}},
]
BAD_CLAUDE: list[dict[str, Any]] = [
    *({name: 0} for name in SAMPLING),
    {"max_completion_tokens": 900},
    {"messages": [{"role": "alien", "content": "x"}]},
    _user([TEXT | {"prompt_cache_breakpoint": {"mode": "explicit"}}]),
    _user([TEXT | {"cache_control": {"type": "ephemeral", "ttl": "30m"}}]),
    _user([{"type": "text", "text": " "}]),
    _user([TEXT | {"cache_control": {"type": "ephemeral"}}] * 5),
    {"output_config": {"format": {"type": "json_schema"}}},
    {"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"k": {"maximum": 100}}}}}},
    {"output_config": {"effort": "none"}},
    {"thinking": {"type": "off"}},
    {"response_format": {"type": "json_object"}},
]


def test_a_known_bad_request_is_seen_to_fail(judging: MakeRequest) -> None:
    """The checks below can fail: each of these requests is wrong and is caught."""
    cases: tuple[tuple[dict[str, Any], Callable[[dict[str, Any]], None], list[dict[str, Any]]], ...] = (
        (openai_body(judging(model="gpt-6-luna", prefix_ttl_s=1_800)), check_openai, BAD_OPENAI),
        (
            claude_body(judging(model="claude-haiku-5-5", reasoning="disabled", prefix_ttl_s=300)),
            check_claude,
            BAD_CLAUDE,
        ),
    )
    for good, check, changes in cases:
        check(good)
        for change in changes:
            with pytest.raises((ValidationError, ValueError)):
                check(good | change)


@STREAMED
def test_a_request_fits_the_sdks_own_type(stream: bool) -> None:
    """Packed, plain, throwaway, retried, marked or not, answering: for every family, strict or degraded."""
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
    """A mark stands at the end of the pack, where the request asks for it, and the text stays the same."""
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
    lasting = {name for name in marks if name.startswith(("packed", "plain")) and "not kept" not in name}
    assert {name for name, found in marks.items() if found} == lasting


def test_a_request_carries_only_what_is_declared(judging: MakeRequest) -> None:
    """No effort, temperature or cache mark is sent where none is declared; a way of thinking has its own place."""
    plain = COMPATIBLE.body(judging(cache_key=""), UNPROBED, stream=False)
    assert set(plain) == {"model", "messages", "max_completion_tokens", "response_format"}
    off, low = claude_body(judging(reasoning="disabled")), claude_body(judging(reasoning="low"))
    assert off["thinking"] == {"type": "disabled"} and "effort" not in off["output_config"]
    assert low["output_config"]["effort"] == "low" and "thinking" not in low
    assert set(claude_body(judging(reply_ids=()))) == {"model", "max_tokens", "messages", "system"}


def test_the_vendors_host_is_told_to_keep_nothing(judging: MakeRequest) -> None:
    """P08: the vendor's own host, which may keep completions, is asked not to; others are not sent the field."""
    assert openai_body(judging())["store"] is False
    assert "store" not in COMPATIBLE.body(judging(), UNPROBED, stream=False)


def test_memories_never_stand_in_the_system_role(judging: MakeRequest) -> None:
    """The system text is ours alone, and an empty one is left out."""
    request = judging()
    system, user = openai_body(request)["messages"]
    assert system == {"role": "system", "content": request.system}
    assert user["role"] == "user"
    assert claude_body(request)["system"] == [{"type": "text", "text": request.system}]
    assert "system" not in claude_body(judging(system=""))


def test_weakening_ends(judging: MakeRequest) -> None:
    """A host that refuses everything is asked finitely often, and an unrelated refusal changes nothing."""
    request = judging(model="gpt-6-luna", temperature=0.0, prefix_ttl_s=1_800)
    known: Capability | None = UNPROBED
    steps = 0
    words = "response_format temperature store prompt_cache_key prompt_cache_options prompt_cache_breakpoint"
    while known is not None:
        known = OFFICIAL.weaker(request, known, {"message": f"{words} stream_options max_completion_tokens"})
        steps += 1
    assert steps < 15
    assert OFFICIAL.weaker(request, UNPROBED, {"message": "the moon is full"}) is None
    assert OFFICIAL.weaker(request, UNPROBED, "plain text about response_format") is None


def test_a_field_named_by_its_place_is_recognised(judging: MakeRequest) -> None:
    """Servers built on FastAPI name the field in `detail[].loc`; the input they echo is not read."""
    echo = {"detail": [{"loc": ["body", "prompt_cache_key"], "input": {"text": "response_format"}}]}
    found = OFFICIAL.weaker(judging(), UNPROBED, echo)
    assert found is not None
    assert (found.without, found.reply_form) == (("prompt_cache_key",), ReplyForm.JSON_SCHEMA)
