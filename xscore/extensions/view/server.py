"""The server: a socket on loopback, one thread for each connection, one page at a time.

It keeps at most 32 connections; a new one replaces the oldest that has sent nothing. Pages are made
one after the other, since they share one processor and the store. It knows no page, and what a
request may look like is a connection's business (`connection.py`). Trade-off: a page that takes
long holds up the next one.
"""

import ctypes
import gc
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from xscore.extensions.view.connection import MakePage, PageConnection
from xscore.extensions.view.guard import ServerAddress
from xscore.extensions.view.messages import PageRequest, PageResponse
from xscore.platform.processes import random_hex

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16
MAX_CONNECTIONS = 32
ROOM_S = 1.0
"""How long a dropped connection may take to make room for another one."""
IDLE_CHECK_S = 0.5
"""Seconds between two checks whether the server is idle, or is to end."""


class PageServer(ThreadingMixIn, TCPServer):
    """Serves pages until no request has come for a while."""

    # Not `HTTPServer`, which looks up the name of this host, and may ask a network for it.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    timeout: float | None = IDLE_CHECK_S

    def __init__(
        self, *, port: int, idle_s: float, on_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        """port: 0 takes a free one. on_failure: called with a page that could not be made."""
        self._maker = ThreadPoolExecutor(max_workers=1)  # first: a taken port closes the server
        super().__init__((LOOPBACK, port), self._answer_connection)
        self.address: ServerAddress = ServerAddress(
            random_hex(TOKEN_BYTES), self.server_address[1]
        )
        self.make_page: MakePage = _nothing_yet
        self._idle_s = idle_s
        self._on_failure = on_failure
        self._last_use = time.monotonic()
        self._is_ending = False
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._silent: dict[socket.socket, None] = {}
        """Connections that have sent no request yet, the oldest first."""

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

    def _answer_connection(self, *accepted: Any) -> PageConnection:
        """Answer what a client asks. accepted: the socket, its address, and this server."""
        connection = accepted[0]
        return PageConnection(
            *accepted,
            address=self.address,
            respond=self._respond,
            on_head=partial(self._silent.pop, connection, None),
        )

    def _respond(self, request: PageRequest) -> PageResponse:
        """Make a page, after those that were asked for before; count the idle time from now.

        All are made in one thread: in a thread each, glibc would keep memory for each of them, and
        a server that had shown two large pages held 105 MB instead of 70.
        """
        self._last_use = time.monotonic()
        response = self._maker.submit(self.make_page, request).result()
        self._maker.submit(_give_memory_back)
        self._last_use = time.monotonic()
        return response

    def server_close(self) -> None:
        """Close the socket, and make no further page."""
        super().server_close()
        self._maker.shutdown(wait=False, cancel_futures=True)

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
            # None: it was still silent. `self`: another thread has removed it meanwhile, since its
            # request came or it was closed.
            if self._silent.pop(connection, self) is None:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                return

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
