"""Both ends of the pipes between `xscore mcp` and its client: lines in, and a file for the answers.

While it serves, file descriptor 1 is standard error and descriptor 0 is empty, so neither a stray
`print` nor a child process can disturb the protocol. A separate thread reads, so that a silent
client does not keep the server from ending. Trade-off: what is read waits in memory, however many
calls a client sends at once.
"""

import asyncio
import fcntl
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from io import TextIOWrapper
from threading import Thread
from typing import BinaryIO, NamedTuple

import msgspec

from xscore.platform.json_lines import decode_agent_json

MOST_LINE_BYTES = 4_000_000
"""Longest line that is read. A longer one is dropped to its end; a request among them is
refused."""
_KEPT_OF_LONG_BYTES = 500
_ID = rb'"id"\s{0,9}:\s{0,9}(-?\d{1,18}|"[^"\\]{1,200}")'
_VERSION = rb'"jsonrpc"\s{0,9}:\s{0,9}"2\.0"\s{0,9},\s{0,9}'
_ID_FIRST = re.compile(rb"\s{0,9}\{\s{0,9}(?:" + _VERSION + rb")?" + _ID)
_ID_LAST = re.compile(rb",\s{0,9}" + _ID + rb"\s{0,9}\}\s{0,9}\Z")
"""Matches the id of a request, before or after all that can be long: clients write it at one
end of the line."""
_SURROGATE = b"\\ud"


class ClientPipes(NamedTuple):
    """File descriptors of the client's two pipes."""

    in_fd: int
    out_fd: int


def claim_standard_streams() -> ClientPipes:
    """Take standard input and output for the protocol; this process and its children get
    substitutes."""
    in_fd, out_fd = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # A client may have made its ends non-blocking, which some pipes share.
    for fd in (in_fd, out_fd):
        os.set_blocking(fd, True)
    return ClientPipes(in_fd, out_fd)


def answer_file(out_fd: int) -> TextIOWrapper:
    """Return the file that answers go out by."""
    return TextIOWrapper(os.fdopen(out_fd, "wb", closefd=False), encoding="utf-8")


async def read_lines(in_fd: int) -> AsyncIterator[str]:
    """Yield the client's lines until it closes its end."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        # The loop has ended, or the client is gone.
        with suppress(RuntimeError, OSError), open(in_fd, "rb", closefd=False) as source:
            for line in _bounded_lines(source):
                loop.call_soon_threadsafe(arrived.put_nowait, _readable(line))
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(arrived.put_nowait, None)

    Thread(target=read, daemon=True).start()
    while (line := await arrived.get()) is not None:
        if line.strip():
            yield line


def _bounded_lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield every line of at most `MOST_LINE_BYTES`, and in place of a longer request a short one
    that the server refuses."""
    head = tail = b""
    while line := source.readline(MOST_LINE_BYTES):
        is_cut = len(line) == MOST_LINE_BYTES and not line.endswith(b"\n")
        if not (is_cut or head):
            yield line
            continue
        # The rest of a line that is too long could look like a message of its own.
        head = head or line[:_KEPT_OF_LONG_BYTES]
        tail = (tail + line)[-_KEPT_OF_LONG_BYTES:]
        if not is_cut:
            yield _refused_request(head, tail)
            head = tail = b""


def _refused_request(head: bytes, tail: bytes) -> bytes:
    """Return a request with the id of the long one for a method that no server has, so that its
    client need not wait; empty: its ends tell no id."""
    id_ = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    if id_ is None:
        return b""
    method = f"a message of more than {MOST_LINE_BYTES:,} bytes".encode()
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b"}' % (id_[1], method)


def _readable(line: bytes) -> str:
    """Return a line as text; half an emoji that a client cut, a lone surrogate, becomes U+FFFD.

    The SDK would drop the whole message, and its client wait for an answer.
    """
    if _SURROGATE in line.lower():
        with suppress(ValueError, RecursionError):
            line = msgspec.json.encode(decode_agent_json(line, object))
    return line.decode("utf-8", "replace")
