"""Every failure of a dialect becomes the right error of ours, and what it shows is safe to show."""

from collections.abc import Iterator
from typing import Any, get_args

import anthropic
import httpx2
import openai
import pytest
from anthropic._error_classes import ERROR_CLASSES
from anthropic.types.shared import ErrorType
from hypothesis import given, settings
from hypothesis import strategies as st

from xscore.platform.errors import (
    AuthenticationFailed,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
)
from xscore.providers.anthropic import ANTHROPIC, BY_CODE
from xscore.providers.openai import OPENAI
from xscore.providers.wire_errors import MIN_ECHO_CHARS, CallContext, DialectProfile, shown_message

CALL = CallContext("h", "sk-1", "m", ("prompt",))


def _below(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)


def _unmapped(root: type[Exception], status_error: type[Exception], profile: DialectProfile) -> set[str]:
    """Name the classes without a status that neither the table nor, short of the root, a class above covers."""
    covering = set(profile.by_class) - {"OpenAIError", "AnthropicError"}
    return {
        error.__name__
        for error in _below(root)
        if error is not root and not issubclass(error, status_error)
        if not covering.intersection(base.__name__ for base in error.__mro__)
    }


def _openai_error(status: int, body: object, headers: dict[str, str] | None = None) -> ProviderError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(status, request=request, headers=headers or {})
    return OPENAI.translate(openai.APIStatusError("raw server words", response=response, body=body), CALL)


def _anthropic_error(status: int, error: dict[str, Any]) -> ProviderError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/messages")
    body = {"type": "error", "error": error, "request_id": "req_1"}
    raised = anthropic.APIStatusError("raw", response=httpx2.Response(status, request=request, json=body), body=body)
    return ANTHROPIC.translate(raised, CALL)


def test_every_class_of_the_sdks_is_mapped() -> None:
    """An error class that a new SDK brings fails here until the table names it or one above it."""
    assert _unmapped(openai.OpenAIError, openai.APIStatusError, OPENAI) == set()
    assert _unmapped(anthropic.AnthropicError, anthropic.APIStatusError, ANTHROPIC) == set()

    class Root(Exception):
        pass

    class BrandNewError(Root):
        pass

    assert _unmapped(Root, KeyError, OPENAI) == {"BrandNewError"}


@pytest.mark.parametrize("status", [500, 529, 408, 409])
def test_a_host_in_trouble_is_tried_again(status: int) -> None:
    """Every 5xx, a 408 and a 409 are retryable."""
    assert type(_openai_error(status, None)) is Overloaded
    assert Overloaded.retryable


@pytest.mark.parametrize("code", ["insufficient_quota", "credit_balance_exhausted", "org_spend_limit_exceeded"])
def test_out_of_money_stops_the_run(code: str) -> None:
    """Out of money comes as a 429 and must not be retried, whether it stands in code or type."""
    for body in ({"code": code}, {"type": code, "code": None}, {"type": code, "code": "rate_limit_exceeded"}):
        error = _openai_error(429, body)
        assert type(error) is QuotaExhausted
        assert error.stops_run
        assert not error.retryable


def test_anthropics_codes_about_money_stop_the_run_and_no_others_do() -> None:
    """Of all codes the SDK knows, those of spend and billing are out of money, whatever their status and type."""
    for status, code in ((status, code) for status, code in ERROR_CLASSES if code):
        error = _anthropic_error(status, {"type": "rate_limit_error", "details": {"error_code": code}})
        about_money = "spend_limit_reached" in code or code == "linked_organization_billing_unavailable"
        assert (type(error) is QuotaExhausted) == (about_money or status == 402), code


def test_every_type_of_anthropics_api_is_known() -> None:
    """Every `error.type` that the SDK lists and that a message can meet is in the table."""
    of_other_endpoints = {"memory_precondition_failed_error", "memory_path_conflict_error"}
    assert set(get_args(ErrorType)) - of_other_endpoints <= set(BY_CODE)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}, RequestRejected),
        (400, {"type": "billing_error"}, QuotaExhausted),
        (400, {"type": "invalid_request_error", "details": {"error_code": "credit_balance_too_low"}}, QuotaExhausted),
        (429, {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}}, RateLimited),
        (404, {"type": "invalid_request_error"}, UnknownModel),
        (200, {"type": "invalid_request_error"}, RequestRejected),
    ],
)
def test_the_most_exact_name_decides(status: int, error: dict[str, Any], expected: type[ProviderError]) -> None:
    """A code outranks a type, a type the status; `invalid_request_error` says least, and words say nothing."""
    assert type(_anthropic_error(status, error)) is expected


def test_an_error_inside_a_success_is_taken_by_its_code() -> None:
    """OpenRouter's numeric codes are statuses."""
    for code, expected in ((429, RateLimited), (402, QuotaExhausted), (404, UnknownModel)):
        assert type(OPENAI.from_body({"code": code}, CALL)) is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "150", "retry-after": "2"}, 0.15),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], expected: float | None) -> None:
    """Seconds, milliseconds and dates are read; nonsense counts as silence."""
    assert _openai_error(429, None, headers).retry_after_s == expected


@pytest.mark.parametrize("name", ["error", "detail", "message"])
def test_a_message_that_stands_alone_is_shown(name: str) -> None:
    """A body such as `{"error": "text"}`, which the SDK hands on as bare text, keeps its text."""
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(400, request=request, json={name: "no such model is loaded"})
    body: object = "no such model is loaded" if name == "error" else response.json()
    error = openai.BadRequestError("raw server words", response=response, body=body)
    assert str(OPENAI.translate(error, CALL)) == "h answered 400: no such model is loaded"


def test_an_error_in_googles_wrapping_is_unwrapped() -> None:
    """Google's endpoint answers a list around the error, and says 400 to a wrong key with the reason in its details."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    error = _openai_error(400, [{"error": {"code": 400, "message": "API key not valid.", "details": details}}])
    assert type(error) is AuthenticationFailed
    assert "API key not valid." in str(error)


def test_only_a_short_message_of_the_body_is_shown() -> None:
    """A page is not shown, a long message is shortened, and a plain 400 stops only its own request."""
    assert "secret page" not in str(_openai_error(500, "<html>secret page</html>"))
    error = _openai_error(400, {"message": "long " * 500})
    assert len(str(error)) < 250
    assert type(error) is RequestRejected and not error.retryable and not error.stops_run
    assert "raw server words" not in str(_openai_error(400, None))


@settings(max_examples=25)
@given(
    prompt=st.text(alphabet=st.characters(codec="ascii", exclude_categories=["C"]), min_size=40, max_size=120),
    before=st.text(max_size=30),
    start=st.integers(0, 10),
)
def test_a_message_never_repeats_the_prompt(prompt: str, before: str, start: int) -> None:
    """No run of the prompt longer than a few words can come back through an error."""
    shown = shown_message({"message": before + prompt[start : start + 60]}, secret="", prompt=(prompt,))
    flat = " ".join(prompt.split())
    assert not any(shown[at : at + MIN_ECHO_CHARS] in flat for at in range(len(shown) - MIN_ECHO_CHARS + 1))


def test_a_message_never_repeats_the_key() -> None:
    """A host that quotes the key it was sent is not quoted."""
    shown = shown_message({"message": "bad key sk-live-12345 given \ud800"}, secret="sk-live-12345", prompt=())
    assert shown == "bad key [key] given \ufffd"
