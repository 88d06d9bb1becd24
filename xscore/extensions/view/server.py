"""The server: a socket on loopback, one thread for each connection, one page at a time.

Python's own HTTP server does it: a framework would add 7 MB and more lines than this file has. A
connection asks once and is closed; it has three seconds and a bounded number of bytes to ask,
however slowly they come. Only so many may be open at once: of those that have not asked yet, the
oldest makes room for another. Pages are made one after the other, since they share one processor
and the store. It knows no page. Trade-off: without keep-alive each request
opens a connection, which takes a tenth of a millisecond here.
"""

import ctypes
import gc
import io
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from xscore.extensions.view.exchange import PageRequest, PageResponse
from xscore.extensions.view.guard import (
    MAX_BODY_BYTES,
    Door,
    RefusedRequest,
    body_length,
    check_headers,
    read_request,
)
from xscore.platform.processes import random_hex

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16
HEAD_S = 3.0
"""From the connection to the end of a request's head."""
ASKING_S = 10.0
"""From there to the last byte of a form; and how long a reply may stay unread."""
MAX_HEAD_BYTES = 32_768
MAX_CONNECTIONS = 32
ROOM_S = 1.0
"""How long a dropped connection may take to make room for another one."""
LOOKS_EVERY_S = 0.5
"""How often the server looks whether it is idle, or is to end."""
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


class PageServer(ThreadingMixIn, TCPServer):
    """Serves pages until no request has come for a while."""

    # Not `HTTPServer`, which looks up the name of this host, and may ask a network for it.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    timeout: float | None = LOOKS_EVERY_S

    def __init__(
        self, *, port: int, idle_s: float, on_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        """port: 0 takes a free one. on_failure: told of a page that could not be made."""
        self._maker = ThreadPoolExecutor(max_workers=1)  # first: a taken port closes the server
        super().__init__((LOOPBACK, port), _Connection)
        self.door: Door = Door(random_hex(TOKEN_BYTES), self.server_address[1])
        self.make_page: MakePage = _nothing_yet
        self._idle_s = idle_s
        self._on_failure = on_failure
        self._last_use = time.monotonic()
        self._is_ending = False
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._silent: dict[socket.socket, None] = {}
        """Connections that have not asked yet, the oldest first."""

    def serve(self, make_page: MakePage) -> None:
        """Answer requests until none has come for long enough.

        make_page: returns the response to a request that passed the guard.
        """
        self.make_page = make_page
        while not self._is_ending and time.monotonic() - self._last_use < self._idle_s:
            self.handle_request()

    def end(self) -> None:
        """Answer no further request; called from another thread."""
        self._is_ending = True

    def response_to(self, request: PageRequest) -> PageResponse:
        """Make a page, after those that were asked for before.

        All are made in one thread: in a thread each, glibc would keep memory for each of them, and
        a server that had shown two large pages held 105 MB instead of 70.
        """
        response = self._maker.submit(self.make_page, request).result()
        self._maker.submit(_give_memory_back)
        return response

    def server_close(self) -> None:
        """Close the socket, and make no further page."""
        super().server_close()
        self._maker.shutdown(wait=False, cancel_futures=True)

    def note_use(self) -> None:
        """Count the idle time from now."""
        self._last_use = time.monotonic()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; close the connection where too many are open and have asked."""
        if not self._places.acquire(blocking=False):
            self._drop_oldest_silent()
            if not self._places.acquire(timeout=ROOM_S):
                self.shutdown_request(request)
                return
        self._silent[request] = None
        super().process_request(request, client_address)

    def _drop_oldest_silent(self) -> None:
        for connection in list(self._silent):
            # Another thread may have found it asking meanwhile.
            if self._silent.pop(connection, self) is None:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                return

    def note_request(self, connection: socket.socket) -> None:
        """Keep a connection that has asked, however many others come."""
        self._silent.pop(connection, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._silent.pop(request, None)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a page that could not be made; a browser that closes its connection is no news."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError | ValueError):
            self._on_failure(f"a page could not be made: {type(error).__name__}: {error}")


def _give_memory_back() -> None:
    """Free what a page took: its records are in cycles, and the next page may come in an hour."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def _nothing_yet(_request: PageRequest) -> PageResponse:
    return PageResponse(status=503)


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


class _Connection(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.1"  # one without a version gets a status and headers, too
    timeout = ASKING_S

    def setup(self) -> None:
        super().setup()
        self.reader = _BoundedReader(
            self.connection,
            until=time.monotonic() + HEAD_S,
            byte_limit=MAX_HEAD_BYTES + MAX_BODY_BYTES,
        )
        self.rfile = io.BufferedReader(self.reader)

    def do_GET(self) -> None:
        """Answer a request that reads."""
        self._answer()

    def do_POST(self) -> None:
        """Answer a request that changes something."""
        self._answer()

    def _answer(self) -> None:
        self.server.note_request(self.connection)
        self.reader.until = time.monotonic() + ASKING_S
        try:
            request = self._checked_request()
        except RefusedRequest as refused:
            self._send(PageResponse(status=refused.status, body=f"{refused.reason}\n"))
            return
        self.server.note_use()
        response = self.server.response_to(request)
        self.server.note_use()
        self._send(response)

    def _checked_request(self) -> PageRequest:
        headers: dict[str, list[str]] = {}
        for name, value in self.headers.items():
            headers.setdefault(name.lower(), []).append(value.strip())
        parts = check_headers(self.server.door, self.command, self.path, headers)
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

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse in one plain line; Python's own page would repeat what was asked."""
        self._send(PageResponse(status=code, body="this request is not answered\n"))

    def version_string(self) -> str:
        """Name the program, without Python's version."""
        return "xscore"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as the base has it
        """Write nothing: the address holds the token."""
