"""Batch requests match the vendors' own SDKs."""

import json
from typing import Any

import pytest
from anthropic.types.messages.batch_create_params import Request as ClaudeRequest
from openai.types.batch_create_params import BatchCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.file_create_params import ExpiresAfter
from openai.types.file_purpose import FilePurpose
from pydantic import TypeAdapter
from pydantic_core import ValidationError

from tests.providers.contracts import requests, strictly
from xscore.extensions.batch.vendor_batches import (
    ENDPOINT,
    batch_fields,
    batch_host,
    file_fields,
)
from xscore.extensions.batch.vendor_calls import BatchHost
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.settings import AnthropicSettings, OpenAISettings, Settings

LOCAL = Settings(
    openai=OpenAISettings(base_url="http://127.0.0.1:9/v1"),
    anthropic=AnthropicSettings(base_url="http://127.0.0.1:9"),
)
CLAUDE = strictly(ClaudeRequest)
CHAT = strictly(CompletionCreateParamsNonStreaming)
BATCH = strictly(BatchCreateParams)
EXPIRY = strictly(ExpiresAfter)
PURPOSE: TypeAdapter[str] = TypeAdapter(FilePurpose)


def lines_of(provider: str, model: str) -> list[dict[str, Any]]:
    """Return the parsed lines of every kind of request."""
    host: BatchHost = batch_host(connect_provider(ModelSpec(provider, model), LOCAL))
    lines = [
        host.line(f"xs_1-q{at}-a0", request)
        for at, (_, request) in enumerate(requests(provider, model))
    ]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "model", ["claude-haiku-5-5", "claude-sonnet-5-5", "a-compatible-model"]
)
def test_claude_lines_fit_the_sdks_own_type(model: str) -> None:
    """Packed, plain, throwaway, retried, marked or not: custom_id and all params."""
    for line in lines_of("anthropic", model):
        CLAUDE.validate_python(line, strict=True)


@pytest.mark.parametrize("model", ["gpt-6-luna", "gpt-4.1-mini", "llama3.2:3b"])
def test_openai_lines_hold_what_the_sdk_takes(model: str) -> None:
    """The documented frame around a live request body, never streamed."""
    for line in lines_of("openai", model):
        body = line.pop("body")
        assert (line.pop("method"), line.pop("url"), len(line)) == ("POST", ENDPOINT, 1)
        assert "stream" not in body
        CHAT.validate_python(body, strict=True)


def test_what_creates_files_and_batches_fits_the_sdks_own_types() -> None:
    """The vendor's own host is asked to expire the input, a compatible host is not."""
    BATCH.validate_python(batch_fields(mark="xs_1", file_id="file-1"), strict=True)
    official, compatible = file_fields(is_vendors_own=True), file_fields(is_vendors_own=False)
    anchor = official.pop("expires_after[anchor]")
    seconds = int(official.pop("expires_after[seconds]"))
    EXPIRY.validate_python({"anchor": anchor, "seconds": seconds}, strict=True)
    assert official == compatible
    for fields in (official, compatible):
        PURPOSE.validate_python(fields.pop("purpose"))
        assert not fields
    with pytest.raises(ValidationError):
        PURPOSE.validate_python("batches")
    with pytest.raises(ValidationError):
        EXPIRY.validate_python({"anchor": "now", "seconds": 3_600}, strict=True)
