"""Server-sent events: how hosts stream an answer.

Source: the HTML standard, section 9.2.6 "Interpreting an event stream". Only the data of an event
is returned, because every dialect repeats the event's name in it. Trade-off: an event that the
stream cuts off before its blank line is dropped, as the standard asks.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

END_OF_STREAM = "[DONE]"
"""The data of the OpenAI dialect's last event."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


async def event_data(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
    """Yield the data of each event of this stream, and close it.

    Raises UnicodeDecodeError for data that is not UTF-8.
    """
    data: list[bytes] = []
    async with aclosing(_lines(pieces)) as lines:
        async for line in lines:
            if not line and data:
                yield b"\n".join(data).decode()
                data.clear()
            field, _, value = line.partition(b":")
            if field == b"data":
                data.append(value.removeprefix(b" "))


async def _lines(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield each line that has ended, in LF, CR or both."""
    unfinished = bytearray()
    ended_in_cr = False
    is_first = True
    async with aclosing(pieces):
        async for piece in pieces:
            # The LF of the line end that the last piece began.
            rest = piece.removeprefix(b"\n") if ended_in_cr else piece
            ended_in_cr = rest.endswith(b"\r") if rest else ended_in_cr and not piece
            for part in rest.splitlines(keepends=True):
                unfinished += part
                if not part.endswith((b"\n", b"\r")):
                    continue
                line = bytes(unfinished).rstrip(b"\r\n")
                unfinished.clear()
                yield line.removeprefix(BYTE_ORDER_MARK) if is_first else line
                is_first = False
