"""Every failure of a dialect becomes the right error, and a host's text is shown safely."""

import re
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
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
)
from xscore.providers.anthropic import ANTHROPIC
from xscore.providers.attempts import may_retry
from xscore.providers.openai import OPENAI
from xscore.providers.wire_errors import (
    BY_CLASS,
    BY_CODE,
    MIN_ECHO_CHARS,
    MIN_KEY_CHARS,
    CallContext,
    StreamCleaner,
    clean_text,
    shown_message,
)

CALL = CallContext("h", "sk-1", "m")


def _below(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for child in error.__subclasses__():
        yield from _below(child)


def _unmapped(root: type[Exception], status_error: type[Exception]) -> set[str]:
    """Return the classes without a status that neither the table nor a parent below the root
    covers."""
    covering = set(BY_CLASS) - {"OpenAIError", "AnthropicError"}
    return {
        error.__name__
        for error in _below(root)
        if error is not root and not issubclass(error, status_error)
        if not covering.intersection(base.__name__ for base in error.__mro__)
    }


def _openai_error(
    status: int, body: object, headers: dict[str, str] | None = None
) -> ProviderError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response = httpx2.Response(status, request=request, headers=headers or {})
    return OPENAI.translate(
        openai.APIStatusError("raw server words", response=response, body=body), CALL
    )


def _anthropic_error(status: int, error: dict[str, Any]) -> ProviderError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/messages")
    body = {"type": "error", "error": error, "request_id": "req_1"}
    raised = anthropic.APIStatusError(
        "raw", response=httpx2.Response(status, request=request, json=body), body=body
    )
    return ANTHROPIC.translate(raised, CALL)


def test_every_class_of_the_sdks_is_mapped() -> None:
    """An error class of a new SDK fails here until the table has it or a parent."""
    assert _unmapped(openai.OpenAIError, openai.APIStatusError) == set()
    assert _unmapped(anthropic.AnthropicError, anthropic.APIStatusError) == set()

    class Root(Exception):
        pass

    class BrandNewError(Root):
        pass

    assert _unmapped(Root, KeyError) == {"BrandNewError"}


def test_anthropics_codes_about_money_stop_the_run_and_no_others_do() -> None:
    """Of all SDK codes, those about spending and billing mean out of money, whatever their status
    and type."""
    for status, code in ((status, code) for status, code in ERROR_CLASSES if code):
        error = _anthropic_error(
            status, {"type": "rate_limit_error", "details": {"error_code": code}}
        )
        about_money = (
            "spend_limit_reached" in code or code == "linked_organization_billing_unavailable"
        )
        assert (type(error) is QuotaExhausted) == (about_money or status == 402), code


def test_every_type_of_anthropics_api_is_known() -> None:
    """Every `error.type` of the SDK that a message can meet is in the table."""
    of_other_endpoints = {"memory_precondition_failed_error", "memory_path_conflict_error"}
    assert set(get_args(ErrorType)) - of_other_endpoints <= set(BY_CODE)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (
            400,
            {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"},
            RequestRejected,
        ),
        (400, {"type": "billing_error"}, QuotaExhausted),
        (
            400,
            {
                "type": "invalid_request_error",
                "details": {"error_code": "credit_balance_too_low"},
            },
            QuotaExhausted,
        ),
        (
            429,
            {"type": "rate_limit_error", "details": {"error_code": "ramp_limit_exceeded"}},
            RateLimited,
        ),
        (404, {"type": "invalid_request_error"}, UnknownModel),
        (200, {"type": "invalid_request_error"}, RequestRejected),
    ],
)
def test_the_most_exact_name_decides(
    status: int, error: dict[str, Any], expected: type[ProviderError]
) -> None:
    """A code outranks a type, a type the status; `invalid_request_error` is the weakest, and words
    do not count."""
    assert type(_anthropic_error(status, error)) is expected


def test_an_error_inside_a_success_is_taken_by_its_code() -> None:
    """OpenRouter's numeric codes are statuses."""
    for code, expected in ((429, RateLimited), (402, QuotaExhausted), (404, UnknownModel)):
        with pytest.raises(expected):
            OPENAI.raise_inner({"code": code}, CALL)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "150", "retry-after": "2"}, 0.15),
        (
            {
                "retry-after": "Sat, 21 Nov 2026 10:00:30 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "0x10"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "1e308"}, 1e308),
        ({"retry-after-ms": "-5", "retry-after": "2"}, 2.0),
        (
            {
                "retry-after": "Sat, 21 Nov 1999 10:00:00 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            0.0,
        ),
        (
            {
                "retry-after": f"Sat, 21 Nov {'9' * 20} 10:00:00 GMT",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            None,
        ),
        (
            {
                "retry-after": f"Sat, 21 Nov 2026 10:00:00 +{'9' * 20}",
                "date": "Sat, 21 Nov 2026 10:00:00 GMT",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(
    headers: dict[str, str], expected: float | None
) -> None:
    """Seconds, milliseconds and dates are read; invalid values are ignored."""
    assert _openai_error(429, None, headers).retry_after_s == expected


@pytest.mark.parametrize("value", ["1e308", "86401", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_unreasonable_wait_is_named_in_words(value: str) -> None:
    """No number of 300 digits is shown; the run ends as for any wait that is too long."""
    error = _openai_error(
        429, None, {"retry-after": value, "date": "Sat, 21 Nov 2026 10:00:00 GMT"}
    )
    assert error.message.endswith("asks to wait unreasonably long")
    assert not may_retry(error)


@pytest.mark.parametrize("status", [301, 307, 308])
def test_a_redirect_stops_the_run_and_names_its_target(status: int) -> None:
    """A redirect is not followed: it would take key and source to a host that the user did not
    name."""
    error = _openai_error(
        status, None, {"location": "https://user:secret@other.example/v1?key=sk-1"}
    )
    assert type(error) is UnknownModel and error.stops_run
    assert (
        error.message
        == f"h answered {status}, a redirect to https://other.example, which is not followed"
    )


def test_an_error_in_googles_wrapping_is_unwrapped() -> None:
    """Google's endpoint returns the error in a list, and a 400 for a wrong key with the reason in
    its details."""
    details = [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    ]
    error = _openai_error(
        400, [{"error": {"code": 400, "message": "API key not valid.", "details": details}}]
    )
    assert type(error) is AuthenticationFailed
    assert "API key not valid." in str(error)


def test_only_a_short_message_of_the_body_is_shown() -> None:
    """A page is not shown, a long message is shortened, and a plain 400 stops only its own
    request."""
    assert "secret page" not in str(_openai_error(500, "<html>secret page</html>"))
    error = _openai_error(400, {"message": "long " * 500})
    assert len(str(error)) < 250
    assert type(error) is RequestRejected and not error.retryable and not error.stops_run
    assert "raw server words" not in str(_openai_error(400, None))


@settings(max_examples=25)
@given(
    prompt=st.text(
        alphabet=st.characters(codec="ascii", exclude_categories=["C"]),
        min_size=40,
        max_size=120,
    ),
    before=st.text(max_size=30),
    start=st.integers(0, 10),
)
def test_a_message_never_repeats_the_prompt(prompt: str, before: str, start: int) -> None:
    """No more than a few words of the prompt can return in an error."""
    shown = shown_message(
        {"message": before + prompt[start : start + 60]}, secret="", prompt=(prompt,)
    )
    flat = " ".join(prompt.split())
    assert not any(
        shown[at : at + MIN_ECHO_CHARS] in flat for at in range(len(shown) - MIN_ECHO_CHARS + 1)
    )


KEY = "sk-sk-test-0123456789"
"""Its beginning repeats itself."""
PARTS = st.sampled_from(
    [
        KEY,
        KEY[:4],
        KEY[:15],
        KEY[3:],
        "s",
        "\ud83d",
        "\ude00",
        "😀",
        "é",
        "[key]",
        "\x1b",
        "\x00",
    ]
)
PIECES = st.lists(st.one_of(PARTS, st.text(alphabet=st.characters(), max_size=3)), max_size=12)


def streamed(pieces: list[str], *, secret: str = KEY) -> tuple[str, list[str]]:
    """Return the joined pieces and what was shown of them."""
    shown: list[str] = []
    text = StreamCleaner(secret=secret, on_text=shown.append)
    for piece in pieces:
        text.add(piece)
    text.end()
    return "".join(shown), shown


@given(pieces=PIECES)
def test_pieces_come_out_as_their_whole_would(pieces: list[str]) -> None:
    """However a text is cut, what is shown and kept equals the cleaned whole; no piece is empty."""
    text, shown = streamed(pieces)
    assert text == "".join(shown) == clean_text("".join(pieces), secret=KEY)
    assert all(shown)


@given(
    text=st.text(
        alphabet=st.one_of(st.characters(), st.sampled_from("\ud83d\ude00")), max_size=20
    )
)
def test_only_half_pairs_are_replaced(text: str) -> None:
    """A surrogate pair becomes its character, half a pair U+FFFD, and all else stays."""
    joined = re.sub(
        "([\ud800-\udbff])([\udc00-\udfff])",
        lambda pair: chr(0x10000 + (ord(pair[1]) - 0xD800) * 0x400 + ord(pair[2]) - 0xDC00),
        text,
    )
    assert clean_text(text, secret="") == re.sub("[\ud800-\udfff]", "\ufffd", joined)


@pytest.mark.parametrize("word", ["", "none", "ollama", "password"])
def test_a_word_that_serves_as_key_is_left_in_the_text(word: str) -> None:
    """A local server accepts any word as a key; answers may contain it."""
    assert len(word) < MIN_KEY_CHARS
    text = f"The {word} is none of ollama's password."
    assert clean_text(text, secret=word) == text
    assert streamed([text], secret=word) == (text, [text])
