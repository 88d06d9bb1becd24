"""Replies by malicious or careless hosts, and impossible numbers."""

import json
from collections.abc import AsyncGenerator
from typing import get_args

import pytest
from anthropic.types import StopReason

from tests.providers.conftest import DialectServer
from xscore.platform.errors import (
    ConnectionFailed,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    UnreadableResponse,
)
from xscore.providers import anthropic, openai
from xscore.providers.anthropic import AnthropicProvider
from xscore.providers.host_facts import json_object
from xscore.providers.openai import OPENAI, OpenAIProvider
from xscore.providers.wire import WireProvider
from xscore.providers.wire_errors import CallContext
from xscore.records.calls import Completion, Finish, RateLimits

CALL = CallContext("h", "", "m")
HOST = OpenAIProvider("https://api.openai.com/v1", "")
CLAUDE = AnthropicProvider("https://api.anthropic.com", "")


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"]
)
def test_json_made_to_break_its_reader_is_unreadable(body: bytes) -> None:
    """Endless nesting and endless numbers count as unreadable replies."""
    with pytest.raises(UnreadableResponse):
        json_object(body, {"content-type": "application/json"}, OPENAI, CALL)


async def _read_stream(provider: WireProvider, *events: object) -> Completion:
    """Read a stream of these events; bytes go in as they are."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for event in events:
            data = event if isinstance(event, bytes) else json.dumps(event).encode()
            yield b"data: %b\n\n" % data

    return await provider._read_stream(pieces(), {}, CALL, lambda piece: None)


async def test_a_stream_made_to_break_its_reader_is_unreadable(spoken: DialectServer) -> None:
    """Events that are no JSON objects are unreadable; a stream without an end is broken."""
    async with spoken.connected(spoken.server.url) as provider:
        for event in (b"[" * 100_000, b"{", b"\xff", b"7", ["message_start"]):
            with pytest.raises(UnreadableResponse):
                await _read_stream(provider, {}, event)
        with pytest.raises(ConnectionFailed):
            await _read_stream(
                provider,
                {"type": "message_start", "message": "nonsense"},
                {"type": "message_stop"},
            )


@pytest.mark.parametrize(
    ("code", "expected"),
    [("insufficient_quota", QuotaExhausted), ("rate_limit_exceeded", RateLimited)],
)
async def test_an_error_within_a_stream_is_taken_by_its_code(
    spoken: DialectServer, code: str, expected: type[ProviderError]
) -> None:
    """The status was sent before the host knew, and its message is shown."""
    event = {"type": "error", "error": {"code": code, "message": "No more of it."}}
    async with spoken.connected(spoken.server.url) as provider:
        with pytest.raises(expected, match="No more of it"):
            await _read_stream(provider, event)


REFUSED = {"error": {"code": "content_filter", "message": "No."}}
SAID = {"choices": [{"delta": {"content": "So far"}}]}
FINISHED = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
DONE = b"[DONE]"


async def test_a_prompt_declined_by_a_code_ends_alike_however_it_is_answered() -> None:
    """Whole or streamed it was not read; after the first text it was."""
    unstreamed = HOST._read(json.dumps(REFUSED).encode(), {}, CALL)
    streamed = await _read_stream(HOST, REFUSED, DONE)
    assert unstreamed == streamed
    assert unstreamed.finish is Finish.REFUSAL
    assert not unstreamed.usage.output_tokens
    later = await _read_stream(HOST, SAID, FINISHED, REFUSED, DONE)
    assert (later.text, later.finish) == ("So far", Finish.REFUSAL)
    assert later.usage.output_tokens


@pytest.mark.parametrize("end", [b"[DONE]", b"[DONE] ", b" [DONE]"])
async def test_events_that_say_nothing_are_skipped_and_the_end_may_have_spaces(
    end: bytes,
) -> None:
    """Nothing after the end is read."""
    completion = await _read_stream(HOST, SAID, b"", b" ", FINISHED, end, b"no JSON")
    assert (completion.text, completion.finish) == ("So far", Finish.STOP)


@pytest.mark.parametrize("name", ["type", "object"])
async def test_an_event_that_is_an_error_itself_is_one(
    spoken: DialectServer, name: str
) -> None:
    """Its fields are next to the word, not under it."""
    event = {name: "error", "message": "No more of it.", "code": "insufficient_quota"}
    async with spoken.connected(spoken.server.url) as provider:
        with pytest.raises(QuotaExhausted, match="No more of it"):
            await _read_stream(provider, event)


async def test_claudes_last_event_ends_the_stream_of_a_host_that_keeps_it_open() -> None:
    """Nothing after it is read."""
    completion = await _read_stream(
        CLAUDE,
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "So far"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
        b"no JSON",
    )
    assert (completion.text, completion.finish) == ("So far", Finish.STOP)


@pytest.mark.parametrize("count", [10**30, -1, True, 1.5, "9", None])
def test_a_count_that_cannot_be_is_none(count: object) -> None:
    """Invalid usage counts as unreported: it is neither believed nor able to break the ledger."""
    assert openai.reported_usage({"prompt_tokens": count, "completion_tokens": 5}) is None
    assert openai.reported_usage({"prompt_tokens": 5, "completion_tokens": count}) is None
    assert anthropic.reported_usage({"input_tokens": count, "output_tokens": 5}) is None
    assert anthropic.reported_usage({"input_tokens": 5, "output_tokens": count}) is None


def test_thinking_is_no_text_and_every_stop_reason_is_decided() -> None:
    """Thinking blocks do not reach the scorer, and only the SDK's reasons are in the table."""
    blocks = [
        {"type": "thinking", "thinking": "hm", "text": "no"},
        {"type": "text", "text": "{}"},
        "junk",
        {"text": 1},
    ]
    reply = {
        "content": blocks,
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    assert CLAUDE.completion(reply, CALL, RateLimits()).text == "{}"
    decided = {reason: CLAUDE.completion(reply | {"stop_reason": reason}, CALL, RateLimits()).finish
               for reason in get_args(StopReason)}  # fmt: skip
    stops = {"end_turn", "stop_sequence", "tool_use"}
    assert {reason for reason, finish in decided.items() if finish is Finish.STOP} == stops
    assert {reason for reason, finish in decided.items() if finish is Finish.REFUSAL} == {
        "refusal"
    }


@pytest.mark.parametrize("limit", ["9" * 5_000, "nan", "-1", "0", "1e9", ""])
def test_a_limit_that_cannot_be_is_none(limit: str) -> None:
    """A header without a valid limit states none."""
    assert HOST.rate_limits({"x-ratelimit-limit-requests": limit}).requests_per_minute is None
    assert (
        CLAUDE.rate_limits({"anthropic-ratelimit-requests-limit": limit}).requests_per_minute
        is None
    )


def test_a_total_of_tokens_is_left_out_where_input_is_stated_by_itself() -> None:
    """The total includes cached tokens, the input limit does not; alone it is a normal limit."""
    total = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-tokens-limit": "60000",
    }
    parts = {
        "anthropic-ratelimit-input-tokens-limit": "50000",
        "anthropic-ratelimit-output-tokens-limit": "10000",
    }
    assert CLAUDE.rate_limits(total) == RateLimits(50, 60_000)
    assert CLAUDE.rate_limits(total | parts) == RateLimits(50, None, 50_000, 10_000)
