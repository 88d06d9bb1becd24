"""The tables of the Anthropic dialect cover its SDK, and its reader believes nothing."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, get_args

import anthropic
import httpx2
import pytest
from anthropic._error_classes import ERROR_CLASSES
from anthropic.types import StopReason
from anthropic.types.shared import ErrorType

from tests.providers.conftest import MakeRequest
from xscore.platform.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnreadableResponse,
)
from xscore.providers.anthropic import (
    ANTHROPIC,
    BY_CODE,
    FINISH,
    SDK_ERRORS,
    AnthropicStream,
    completion,
    rate_limits,
    reported_usage,
)
from xscore.providers.wire import gather_stream
from xscore.records import Finish, RateLimits, Usage

ROOTS = frozenset({"AnthropicError", "APIError", "APIStatusError"})
"""Entries that say too little for a class of the SDK to be mapped by them alone."""


def _below(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)


def _unmapped(root: type[Exception]) -> set[str]:
    """Name the classes that neither the table nor, short of its roots, a class above them covers."""
    found = set()
    for error in _below(root):
        names = [base.__name__ for base in error.__mro__]
        if names[0] not in SDK_ERRORS and not any(name in SDK_ERRORS for name in names if name not in ROOTS):
            found.add(names[0])
    return found


def _translated(status: int, error: dict[str, Any]) -> ProviderError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/messages")
    body = {"type": "error", "error": error, "request_id": "req_1"}
    raised = anthropic.APIStatusError("raw", response=httpx2.Response(status, request=request, json=body), body=body)
    return ANTHROPIC.translate(raised, host="h", model="m", secret="", prompt=())


def test_every_class_of_the_sdk_is_mapped() -> None:
    """An error class that a new SDK brings fails here unless it stands below one that the table names."""
    assert len(list(_below(anthropic.AnthropicError))) > 25
    assert _unmapped(anthropic.AnthropicError) == set()


def test_an_unmapped_class_would_be_seen() -> None:
    """The walk above reports a class that only a root covers, and spares what stands below a status."""

    class Known(Exception):
        pass

    class BrandNewError(Known):
        pass

    class BadRequestError(Known):
        pass

    class BelowIt(BadRequestError):
        pass

    Known.__name__ = "APIStatusError"
    assert issubclass(BelowIt, Known)
    assert _unmapped(Known) == {"BrandNewError"}


def test_every_type_of_the_api_is_known() -> None:
    """Every `error.type` that the SDK lists and that a message can meet is in the table."""
    of_other_endpoints = {"memory_precondition_failed_error", "memory_path_conflict_error"}
    assert set(get_args(ErrorType)) - of_other_endpoints <= set(BY_CODE)


@pytest.mark.parametrize(("status", "code"), [key for key in ERROR_CLASSES if key[1]], ids=str)
def test_a_code_about_money_stops_the_run_and_no_other_does(status: int, code: str) -> None:
    """Of all codes the SDK knows, those of spend and billing are out of money, whatever their status and type."""
    error = _translated(status, {"type": "rate_limit_error", "message": "x", "details": {"error_code": code}})
    about_money = "spend_limit_reached" in code or code == "linked_organization_billing_unavailable"
    assert (type(error) is QuotaExhausted) == (about_money or status == 402)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}, RequestRejected),
        (400, {"type": "billing_error"}, QuotaExhausted),
        (400, {"type": "invalid_request_error", "details": {"error_code": "credit_balance_too_low"}}, QuotaExhausted),
        (429, {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}}, RateLimited),
        (
            400,
            {"type": "invalid_request_error", "details": {"error_code": "organization_on_hold"}},
            AuthenticationFailed,
        ),
        (404, {"type": "invalid_request_error"}, type(_translated(404, {}))),
        (200, {"type": "invalid_request_error"}, RequestRejected),
    ],
)
def test_the_most_exact_name_decides(status: int, error: dict[str, Any], expected: type[ProviderError]) -> None:
    """A code stands over a type, a type over the status; `invalid_request_error` says least, and words say nothing."""
    assert type(_translated(status, error)) is expected


def test_every_stop_reason_is_decided() -> None:
    """Each reason the SDK lists is a stop, a cut or a refusal."""
    assert set(FINISH) == set(get_args(StopReason))
    assert {reason for reason, finish in FINISH.items() if finish is Finish.LENGTH} == {
        "max_tokens",
        "model_context_window_exceeded",
        "pause_turn",
    }


def test_usage_is_the_sum_of_what_the_host_counts_apart() -> None:
    """Input is fresh, read and written together; thinking is a part of the output."""
    found = {
        "input_tokens": 10,
        "cache_read_input_tokens": 300,
        "cache_creation_input_tokens": 50,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        "output_tokens": 40,
        "output_tokens_details": {"thinking_tokens": 25},
    }
    assert reported_usage(found) == Usage(
        input_tokens=360,
        cached_input_tokens=300,
        cache_write_tokens=50,
        cache_write_1h_tokens=30,
        output_tokens=40,
        reasoning_tokens=25,
    )
    assert reported_usage({"input_tokens": 0, "cache_read_input_tokens": 300, "output_tokens": 1}) is not None


@pytest.mark.parametrize("count", [10**30, -1, True, 1.5, "9", None])
def test_a_count_that_cannot_be_is_none(count: object) -> None:
    """Usage that makes no sense is as if it were not reported."""
    assert reported_usage({"input_tokens": count, "output_tokens": 5}) is None
    assert reported_usage({"input_tokens": 5, "output_tokens": count}) is None
    assert rate_limits({"anthropic-ratelimit-requests-limit": str(count)}).requests_per_minute in (None, 9)


def test_a_total_of_tokens_is_left_out_where_input_is_stated_apart() -> None:
    """The total counts what the cache served, which the limit of input does not; alone it is a limit like any other."""
    total = {"anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-tokens-limit": "60000"}
    apart = {"anthropic-ratelimit-input-tokens-limit": "50000", "anthropic-ratelimit-output-tokens-limit": "10000"}
    assert rate_limits(total) == RateLimits(50, 60_000)
    assert rate_limits(total | apart) == RateLimits(50, None, 50_000, 10_000)


def test_thinking_is_no_text(judging: MakeRequest) -> None:
    """Blocks of thinking, which a model may put before its reply, do not reach the scorer."""
    blocks = [{"type": "thinking", "thinking": "hm", "text": "no"}, {"type": "text", "text": "{}"}, "junk", {"text": 1}]
    found = {"content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    done = completion(found, judging(), host="h", secret="", limits=RateLimits())
    assert done.text == "{}"


async def _gather(judging: MakeRequest, *events: object, fails: Exception | None = None) -> None:
    async def stream() -> AsyncIterator[object]:
        for event in events:
            yield event
        if fails is not None:
            raise fails

    reply = AnthropicStream(judging(), host="h", secret="", on_text=lambda piece: None)
    await gather_stream(stream(), reply, judging(), words=ANTHROPIC, host="h", limits=RateLimits())


async def test_a_stream_made_to_break_its_reader_is_unreadable(judging: MakeRequest) -> None:
    """Events that are no objects or no JSON cannot be read; a stream without an end has broken off."""
    with pytest.raises(UnreadableResponse):
        await _gather(judging, {"type": "ping"}, fails=RecursionError())
    with pytest.raises(UnreadableResponse):
        await _gather(judging, ["message_start"])
    with pytest.raises(ConnectionFailed):
        await _gather(judging, {"type": "message_start", "message": "nonsense"}, {"type": "message_stop"})
