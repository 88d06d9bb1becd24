"""Requests in the OpenAI dialect are what the vendor's own SDK says a request is."""

from typing import Any

import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic_core import ValidationError

from tests.providers.conftest import MakeRequest
from tests.providers.contracts import requests, strictly
from xscore.providers.catalog import OPENAI_FAMILIES
from xscore.providers.openai import AcceptedFields, openai_body
from xscore.records import ReplyForm

WHOLE = strictly(CompletionCreateParamsNonStreaming)
STREAMING = strictly(CompletionCreateParamsStreaming)
OFFICIAL = AcceptedFields(official=True)
MODELS = [*(f"{family}-9" for family, _ in OPENAI_FAMILIES), "llama3.2:3b", "anthropic/claude-haiku-5.5"]


def check(fields: dict[str, Any]) -> None:
    """Validate a body against the SDK's request type."""
    (STREAMING if fields.get("stream") else WHOLE).validate_python(fields, strict=True)


TEXT = {"type": "text", "text": "x"}
BAD: list[dict[str, Any]] = [
    {"temperature": "hot"},
    {"max_completion_tokens": "900"},
    {"max_output_tokens": 5},
    {"stop_sequences": ["x"]},
    {"reasoning_effort": "lowest"},
    {"stream_options": {"include_usage": True, "include_prices": True}},
    {"messages": [{"role": "alien", "content": "x"}]},
    {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
    {"messages": [{"role": "user", "content": [TEXT | {"cache_control": {"type": "ephemeral"}}]}]},
    {"messages": [{"role": "user", "content": [TEXT | {"prompt_cache_breakpoint": {"mode": "implied"}}]}]},
    {"response_format": {"type": "json_schema", "json_schema": {"strict": True}}},
    {"response_format": {"type": "xml"}},
    {"prompt_cache_options": {"mode": "sometimes"}},
    {"output_config": {"effort": "low"}},
    {"thinking": {"type": "disabled"}},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: next(iter(change)))
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_known_bad_request_is_seen_to_fail(judging: MakeRequest, change: dict[str, Any], stream: bool) -> None:
    """The check below can fail: each of these requests is wrong and is caught."""
    good = openai_body(judging(model="gpt-6-luna", prefix_ttl_s=1_800), OFFICIAL, stream=stream)
    check(good)
    with pytest.raises(ValidationError):
        check(good | change)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("form", ReplyForm)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_fits_the_sdks_own_type(model: str, form: ReplyForm, stream: bool) -> None:
    """Packed, plain, throwaway, retried, marked or not, answering: for every family, strict or degraded."""
    seen = set()
    for name, request in requests("openai", model):
        seen.add(name.partition(",")[0])
        check(openai_body(request, AcceptedFields(official=True, form=form), stream=stream))
    assert seen == {"packed", "plain", "throwaway", "retried", "answering"}


def test_only_a_pack_that_lasts_is_marked() -> None:
    """A model whose host charges for keeping a prefix is sent marks only where the request asks for it."""
    marked = set()
    for name, request in requests("openai", "gpt-6-luna"):
        fields = openai_body(request, OFFICIAL, stream=False)
        content = fields["messages"][1]["content"]
        if isinstance(content, list):
            marked.add(name)
            assert "".join(part["text"] for part in content) == "\n\n".join(request.content)
        assert fields["prompt_cache_options"] == {"mode": "explicit"}
    assert marked == {"packed, kept for 30 min", "plain, kept for 30 min"}
