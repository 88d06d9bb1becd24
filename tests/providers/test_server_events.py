"""Server-sent events, cut anywhere."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscore.providers.server_events import event_data


def read(*pieces: bytes) -> list[str]:
    """Return the data of each event in a stream that comes in these pieces."""

    async def stream() -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece

    async def events() -> list[str]:
        return [data async for data in event_data(stream())]

    return asyncio.run(events())


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b"data: a: b\n\n", ["a: b"]),
        (b": a comment\nid: 7\nretry: 10\nevent: ping\ndata: a\n\n", ["a"]),
        (b"event: ping\n\ndata: a\n\n\n\n", ["a"]),
        ("data: é\u2028\u0085 😀\n\n".encode(), ["é\u2028\u0085 😀"]),
        (b"dat: a\nDATA: b\n\n", []),
        (b"data: a\n\ndata: cut", ["a"]),
        (b"data: a\n\ndata: cut\n", ["a"]),
        (b"", []),
    ],
)
def test_a_stream_is_read_as_the_standard_says(stream: bytes, expected: list[str]) -> None:
    """Whole, byte by byte, and with empty pieces between."""
    assert read(stream) == expected
    assert read(*[bytes([byte]) for byte in stream]) == expected
    with_empty: list[bytes] = []
    for byte in stream:
        with_empty += [b"", bytes([byte])]
    assert read(*with_empty) == expected


LINES = st.sampled_from([b"data: a", b"data:", b"data: b\xc3\xa9", b":", b"", b"event: x"])
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(
    lines=st.lists(st.tuples(LINES, ENDS), max_size=12),
    cuts=st.lists(st.integers(0, 120), max_size=6),
)
def test_where_a_stream_is_cut_changes_nothing(
    lines: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    """A piece may end in the middle of a line, of a character or of a line's end."""
    stream = b"".join(line + end for line, end in lines)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(stream)


def test_data_that_is_no_text_is_an_error() -> None:
    """The caller takes it for an unreadable reply."""
    with pytest.raises(UnicodeDecodeError):
        read(b"data: \xff\n\n")
