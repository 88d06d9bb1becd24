"""Replies by hosts that mean no good, or count what cannot be."""

from collections.abc import AsyncIterator

import pytest

from tests.providers.conftest import MakeRequest
from xscore.errors import UnreadableResponse
from xscore.providers.openai_reply import parse_json, rate_limits, reported_usage
from xscore.providers.openai_stream import StreamedReply
from xscore.records import RateLimits


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"])
def test_json_made_to_break_its_reader_is_unreadable(body: bytes) -> None:
    """Endless nesting and endless numbers are one more reply that cannot be read."""
    with pytest.raises(UnreadableResponse):
        parse_json(body, "application/json", host="h", model="m")


async def test_a_stream_made_to_break_its_reader_is_unreadable(judging: MakeRequest) -> None:
    """The same holds for an event of a stream, which the SDK reads for us."""

    async def chunks() -> AsyncIterator[object]:
        for event in range(2):
            if event:
                raise RecursionError
            yield {}

    reply = StreamedReply(judging(), host="h", secret="", on_text=lambda piece: None)
    with pytest.raises(UnreadableResponse):
        await reply.gather(chunks(), RateLimits())


@pytest.mark.parametrize("count", [10**30, -1, True, 1.5, "9", None])
def test_a_count_that_cannot_be_is_none(count: object) -> None:
    """Usage that makes no sense is as if it were not reported: it is neither believed nor able to break the ledger."""
    assert reported_usage({"prompt_tokens": count, "completion_tokens": 5}) is None
    assert reported_usage({"prompt_tokens": 5, "completion_tokens": count}) is None


@pytest.mark.parametrize("limit", ["9" * 5_000, "nan", "-1", "0", "1e9", ""])
def test_a_limit_that_cannot_be_is_none(limit: str) -> None:
    """A header that states no limit states none."""
    assert rate_limits({"x-ratelimit-limit-requests": limit}).requests_per_minute is None
