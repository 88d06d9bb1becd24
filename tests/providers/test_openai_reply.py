"""Replies by hosts that mean no good, or count what cannot be."""

from collections.abc import AsyncIterator

import pytest

from tests.providers.conftest import MakeRequest
from xscore.platform.errors import UnreadableResponse
from xscore.providers.host_facts import duration_s, json_object
from xscore.providers.openai import OPENAI, OpenAIStream, rate_limits, reported_usage
from xscore.providers.wire import gather_stream
from xscore.records import RateLimits


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"])
def test_json_made_to_break_its_reader_is_unreadable(body: bytes) -> None:
    """Endless nesting and endless numbers are one more reply that cannot be read."""
    with pytest.raises(UnreadableResponse):
        json_object(body, {"content-type": "application/json"}, words=OPENAI, host="h", model="m")


async def test_a_stream_made_to_break_its_reader_is_unreadable(judging: MakeRequest) -> None:
    """The same holds for an event of a stream, which the SDK reads for us."""

    async def chunks() -> AsyncIterator[object]:
        for event in range(2):
            if event:
                raise RecursionError
            yield {}

    reply = OpenAIStream(judging(), host="h", secret="", on_text=lambda piece: None)
    with pytest.raises(UnreadableResponse):
        await gather_stream(chunks(), reply, judging(), words=OPENAI, host="h", limits=RateLimits())


@pytest.mark.parametrize("count", [10**30, -1, True, 1.5, "9", None])
def test_a_count_that_cannot_be_is_none(count: object) -> None:
    """Usage that makes no sense is as if it were not reported: it is neither believed nor able to break the ledger."""
    assert reported_usage({"prompt_tokens": count, "completion_tokens": 5}) is None
    assert reported_usage({"prompt_tokens": 5, "completion_tokens": count}) is None


@pytest.mark.parametrize("limit", ["9" * 5_000, "nan", "-1", "0", "1e9", ""])
def test_a_limit_that_cannot_be_is_none(limit: str) -> None:
    """A header that states no limit states none."""
    assert rate_limits({"x-ratelimit-limit-requests": limit}).requests_per_minute is None


@pytest.mark.parametrize(
    ("limit", "remaining", "reset", "is_taken"),
    [
        (60, 59, "1s", True),
        (500, 499, "120ms", True),
        (5_000, 4_999, "12ms", True),
        (30_000, 29_999, "2ms", True),
        (150_000, 149_999, "0s", True),
        (30_000, 29_000, "2s", True),
        (14_400, 14_370, "2m59.56s", False),
        (1_000, 999, "1m26.4s", False),
        (10_000, 9_999, "8.64s", False),
        (200, 150, "6h0m0s", False),
        (100, 50, "500ms", False),
        (60, 60, "24h0m0s", True),
        (60, 59, "2026-11-22T03:00:00Z", True),
        (60, 59, "1795316640", True),
        (60, 59, "", True),
    ],
)
def test_a_limit_of_a_day_is_not_taken_for_a_minutes(limit: int, remaining: int, reset: str, is_taken: bool) -> None:
    """Groq's limit of requests is a day's: where the reset header shows another time than a minute, none is stated."""
    headers = {
        "x-ratelimit-limit-requests": str(limit),
        "x-ratelimit-remaining-requests": str(remaining),
        "x-ratelimit-reset-requests": reset,
        "x-ratelimit-limit-tokens": "6000",
    }
    assert rate_limits(headers) == RateLimits(limit if is_taken else None, 6_000)


@pytest.mark.parametrize("remaining", ["-1", "many", "9" * 5_000, ""])
def test_what_remains_is_not_believed(remaining: str) -> None:
    """A number that cannot be what remains shows nothing of the limit."""
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": remaining,
        "x-ratelimit-reset-requests": "1h",
    }
    assert rate_limits(headers).requests_per_minute == 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6m0s", 360.0),
        ("1ms", 0.001),
        ("1h2m3.5s", 3_723.5),
        ("0s", 0.0),
        ("1d", 86_400.0),
        *((junk, None) for junk in ("", "5", "m", "-1s", "1 s", "1s!", "٣s", "9" * 5_000 + "s")),
    ],
)
def test_a_time_is_read_as_it_is_written(text: str, expected: float | None) -> None:
    """Times until a reset come as Go writes durations; a bare number may be seconds or a date and says nothing."""
    assert duration_s(text) == expected
