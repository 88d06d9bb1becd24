"""Every failure of a dialect becomes the right error, and a host's text is shown safely."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import aiohttp
import pytest
from anthropic._error_classes import ERROR_CLASSES
from anthropic.types.shared import ErrorType
from hypothesis import given, settings
from hypothesis import strategies as st

from xscore.platform.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
)
from xscore.providers.anthropic import ANTHROPIC
from xscore.providers.attempts import may_retry
from xscore.providers.connection import HostRefused, HttpReply
from xscore.providers.openai import OPENAI
from xscore.providers.wire_errors import (
    BY_CODE,
    MIN_ECHO_CHARS,
    MIN_KEY_CHARS,
    CallContext,
    StreamCleaner,
    clean_text,
    shown_message,
)

CALL = CallContext("h", "sk-1", "m")


def _refusal(status: int, body: object, headers: dict[str, str] | None = None) -> HostRefused:
    """Return what is raised for a reply with this status, JSON body and headers."""
    return HostRefused(HttpReply(status, headers or {}, json.dumps(body).encode()))


def _openai_error(
    status: int, body: object, headers: dict[str, str] | None = None
) -> ProviderError:
    return OPENAI.translate(_refusal(status, body, headers), CALL)


def _anthropic_error(status: int, error: dict[str, Any]) -> ProviderError:
    body = {"type": "error", "error": error, "request_id": "req_1"}
    return ANTHROPIC.translate(_refusal(status, body), CALL)


def _clients_errors(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for child in root.__subclasses__():
        yield from _clients_errors(child)


def test_what_the_http_client_raises_says_whether_anything_was_sent() -> None:
    """Its errors of making a connection are `Unreachable`, and may be asked of another host at
    once; after any other the call may have been charged."""
    never_made = set()
    for kind in _clients_errors(aiohttp.ClientError):
        ours = type(OPENAI.translate(kind.__new__(kind), CALL))
        assert ours in (Unreachable, ConnectionFailed), kind
        if ours is Unreachable:
            never_made.add(kind)
    assert never_made == {
        aiohttp.ConnectionTimeoutError,
        *_clients_errors(aiohttp.ClientConnectorError),
    }


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
    assert "raw words" not in str(_openai_error(400, "raw words"))


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
"""A key whose beginning repeats itself."""
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
