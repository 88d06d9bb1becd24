"""One connection of a browser: its request is read within bounds, checked, and answered once.

Python's own HTTP server does it: a framework would add 7 MB and more lines than this file has. A
connection asks once and is closed; it has three seconds and a bounded number of bytes to ask,
however slowly they come, and ten for a form. Trade-off: without keep-alive each request opens a
connection, which takes a tenth of a millisecond here.
"""

import io
import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from xscore.extensions.view.guard import (
    MAX_BODY_BYTES,
    RefusedRequest,
    ServerAddress,
    body_length,
    check_headers,
    read_request,
)
from xscore.extensions.view.messages import PageRequest, PageResponse

HEAD_S = 3.0
"""Time from the connection to the end of a request's head."""
ASKING_S = 10.0
"""Time from there to the last byte of a form; also how long a reply may stay unread."""
MAX_HEAD_BYTES = 32_768
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a form would not say its origin
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Connection": "close",
}
MakePage = Callable[[PageRequest], PageResponse]


class _BoundedReader(io.RawIOBase):
    """Reads what a client sends, until a moment and a number of bytes."""

    def __init__(self, connection: socket.socket, *, until: float, byte_limit: int) -> None:
        self._connection = connection
        self.until = until
        self._left = byte_limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        time_left = self.until - time.monotonic()
        if time_left <= 0 or self._left <= 0:
            raise TimeoutError("the request took too long, or has too many bytes")
        self._connection.settimeout(time_left)
        count = self._connection.recv_into(buffer)
        self._left -= count
        return count


class PageConnection(BaseHTTPRequestHandler):
    """Reads one request of a client and sends its response."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # one without a version gets a status and headers, too
    timeout: ClassVar[float | None] = ASKING_S

    def __init__(
        self,
        *accepted: Any,
        address: ServerAddress,
        respond: MakePage,
        on_head: Callable[[], None],
    ) -> None:
        """accepted: as the server hands it on. respond: to a request that passed the guard.

        on_head: called once the request head is read.
        """
        # The base class answers before its own initialisation returns.
        self._address = address
        self._respond = respond
        self._on_head = on_head
        super().__init__(*accepted)

    def setup(self) -> None:
        """Bound what is read."""
        super().setup()
        self._reader = _BoundedReader(
            self.connection,
            until=time.monotonic() + HEAD_S,
            byte_limit=MAX_HEAD_BYTES + MAX_BODY_BYTES,
        )
        self.rfile: io.BufferedReader = io.BufferedReader(self._reader)

    def do_GET(self) -> None:
        """Answer a request that reads."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a request that changes something."""
        self._answer()

    def _answer(self) -> None:
        self._on_head()
        self._reader.until = time.monotonic() + ASKING_S
        try:
            request = self._checked_request()
        except RefusedRequest as refused:
            self._send(PageResponse(status=refused.status, body=f"{refused.reason}\n"))
            return
        self._send(self._respond(request))

    def _checked_request(self) -> PageRequest:
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value.strip())
        parts = check_headers(self._address, self.command, self.path, headers)
        body = None
        if self.command == "POST":
            length = body_length(headers)
            body = self.rfile.read(length)
            if len(body) < length:
                raise RefusedRequest(400, "the form is cut short")
        return read_request(parts, self.path, body=body)

    def _send(self, response: PageResponse) -> None:
        body = response.body.encode("utf-8", "backslashreplace")
        self.close_connection = True
        self.connection.settimeout(ASKING_S)
        self.send_response(response.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Security-Policy", response.policy)
        self.send_header("Content-Length", str(len(body)))
        if response.location:
            self.send_header("Location", response.location)
        self.end_headers()
        self.wfile.write(body)

    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """Refuse in one plain line; Python's own page would repeat what was asked."""
        self._send(PageResponse(status=code, body="this request is not answered\n"))

    def version_string(self) -> str:
        """Name the program, without Python's version."""
        return "xscore"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as the base has it
        """Write nothing: the address holds the token."""
