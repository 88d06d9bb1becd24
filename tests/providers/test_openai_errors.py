"""The table of errors covers the SDK, and what it shows is safe to show."""

from collections.abc import Iterator

import httpx2
import openai
import pytest
from hypothesis import given
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
from xscore.providers.openai import OPENAI, SDK_ERRORS
from xscore.providers.wire_errors import MIN_ECHO_CHARS, shown_message


def _below(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)


def _status_error(status: int, body: object, headers: dict[str, str] | None = None) -> openai.APIStatusError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(status, request=request, headers=headers or {})
    return openai.APIStatusError("raw server words", response=response, body=body)


def _translated(error: Exception) -> ProviderError:
    return OPENAI.translate(error, host="h", model="m", secret="sk-1", prompt=("prompt",))


def _unmapped(root: type[Exception]) -> set[str]:
    return {error.__name__ for error in _below(root)} - set(SDK_ERRORS)


def test_every_class_of_the_sdk_is_mapped() -> None:
    """An error class that a new SDK brings fails here until the table names it."""
    assert _unmapped(openai.OpenAIError) == set()


def test_an_unmapped_class_would_be_seen() -> None:
    """The walk above reaches classes of any depth and reports those the table does not name."""

    class Known(Exception):
        pass

    class BrandNewError(Known):
        pass

    Known.__name__ = "APIError"
    assert _unmapped(Known) == {"BrandNewError"}


@pytest.mark.parametrize("status", [500, 502, 503, 504, 520, 529, 408, 409])
def test_a_host_in_trouble_is_tried_again(status: int) -> None:
    """Every 5xx, a 408 and a 409 are retryable."""
    assert type(_translated(_status_error(status, None))) is Overloaded
    assert Overloaded.retryable


@pytest.mark.parametrize(
    "code",
    ["insufficient_quota", "credit_balance_exhausted", "project_spend_limit_exceeded", "org_spend_limit_exceeded"],
)
def test_out_of_money_stops_the_run(code: str) -> None:
    """Out of money comes as a 429 and must not be retried, whether it stands in code or type."""
    for body in ({"code": code}, {"type": code, "code": None}, {"type": code, "code": "rate_limit_exceeded"}):
        error = _translated(_status_error(429, body))
        assert type(error) is QuotaExhausted
        assert error.stops_run
        assert not error.retryable


def test_an_error_inside_a_success_is_taken_by_its_code() -> None:
    """OpenRouter's numeric codes are statuses; names are codes."""
    for body, expected in (
        ({"code": 429}, RateLimited),
        ({"code": 402}, QuotaExhausted),
        ({"code": 404}, UnknownModel),
    ):
        assert type(OPENAI.from_body(body, host="h", model="m", secret="", prompt=())) is expected


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
    assert _translated(_status_error(429, None, headers)).retry_after_s == expected


@pytest.mark.parametrize("name", ["error", "detail", "message"])
def test_a_message_that_stands_alone_is_shown(name: str) -> None:
    """A body such as `{"error": "text"}`, which the SDK hands on as bare text, keeps its text."""
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(400, request=request, json={name: "no such model is loaded"})
    body: object = "no such model is loaded" if name == "error" else response.json()
    error = openai.BadRequestError("raw server words", response=response, body=body)
    assert str(_translated(error)) == "h answered 400: no such model is loaded"


def test_an_error_in_googles_wrapping_is_unwrapped() -> None:
    """Google's endpoint answers a list around the error, and says 400 to a wrong key with the reason in its details."""
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    wrapped = [
        {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": details}}
    ]
    error = _translated(_status_error(400, wrapped))
    assert type(error) is AuthenticationFailed
    assert "API key not valid." in str(error)


def test_only_a_short_message_of_the_body_is_shown() -> None:
    """A body that is not the dialect's is not shown at all; a long message is shortened."""
    assert "secret page" not in str(_translated(_status_error(500, "<html>secret page</html>")))
    assert len(str(_translated(_status_error(400, {"message": "long " * 500})))) < 250
    assert "raw server words" not in str(_translated(_status_error(400, None)))


@given(
    prompt=st.text(alphabet=st.characters(codec="ascii", exclude_categories=["C"]), min_size=40, max_size=200),
    before=st.text(max_size=30),
    start=st.integers(0, 10),
)
def test_a_message_never_repeats_the_prompt(prompt: str, before: str, start: int) -> None:
    """No run of the prompt longer than a few words can come back through an error."""
    echoed = prompt[start : start + 60]
    shown = shown_message({"message": before + echoed}, secret="", prompt=(prompt,))
    flat = " ".join(prompt.split())
    assert not any(shown[at : at + MIN_ECHO_CHARS] in flat for at in range(len(shown) - MIN_ECHO_CHARS + 1))


def test_a_message_never_repeats_the_key() -> None:
    """A host that quotes the key it was sent is not quoted."""
    shown = shown_message({"message": "bad key sk-live-12345 given"}, secret="sk-live-12345", prompt=())
    assert shown == "bad key [key] given"


def test_a_plain_rejection_is_for_this_request_only() -> None:
    """A 400 without a known code neither stops the run nor is retried."""
    error = _translated(_status_error(400, {"message": "no"}))
    assert type(error) is RequestRejected
    assert not error.retryable and not error.stops_run
