"""What strangers send to the socket: nothing is answered but what came from our own link."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.extensions.view.conftest import Served
from xscore.extensions.view import connection as connection_module
from xscore.extensions.view import server as server_module
from xscore.extensions.view.guard import MAX_BODY_BYTES


def sent(served: Served, request: str) -> bytes:
    """Send raw text, in which `{token}` and `{port}` mean the server's; return all it says."""
    address = served.server.address
    text = request.replace("{token}", address.token).replace("{port}", str(address.port))
    with socket.create_connection(("127.0.0.1", address.port), timeout=30) as client:
        client.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        reply = b""
        while piece := client.recv(65_536):
            reply += piece
    return reply


def status(reply: bytes) -> int:
    """Return the status of a reply; 0: the connection was closed without one."""
    return int(reply.split()[1]) if reply else 0


OWN = "Host: 127.0.0.1:{port}\n"
FROM_HERE = (
    OWN + "Origin: http://127.0.0.1:{port}\nContent-Type: application/x-www-form-urlencoded\n"
)
STRANGERS = {
    "a name that was made to point here": (
        421,
        "GET /{token}/ HTTP/1.1\nHost: evil.example:{port}\n\n",
    ),
    "another port's name": (421, "GET /{token}/ HTTP/1.1\nHost: 127.0.0.1:1\n\n"),
    "no name": (421, "GET /{token}/ HTTP/1.1\n\n"),
    "two names": (421, "GET /{token}/ HTTP/1.1\n" + OWN + "Host: evil.example\n\n"),
    "no token": (404, "GET / HTTP/1.1\n" + OWN + "\n"),
    "a wrong token": (404, "GET /0123456789abcdef0123456789abcdef/ HTTP/1.1\n" + OWN + "\n"),
    "a token of other letters": (404, "GET /\xe9/ HTTP/1.1\n" + OWN + "\n"),
    "a whole address": (400, "GET http://127.0.0.1:{port}/{token}/ HTTP/1.1\n" + OWN + "\n"),
    "another page's script": (
        403,
        "GET /{token}/ HTTP/1.1\n" + OWN + "Origin: http://evil.example\n\n",
    ),
    "a page of another port": (
        403,
        "GET /{token}/ HTTP/1.1\n" + OWN + "Origin: http://127.0.0.1:3000\n\n",
    ),
    "an image of another page": (
        403,
        "GET /{token}/ HTTP/1.1\n"
        + OWN
        + "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\n\n",
    ),
    "a form of another page": (
        403,
        "POST /{token}/x HTTP/1.1\n"
        + OWN
        + "Origin: http://evil.example\nContent-Length: 0\n\n",
    ),
    "a form of a sandbox": (
        403,
        "POST /{token}/x HTTP/1.1\n" + OWN + "Origin: null\nContent-Length: 0\n\n",
    ),
    "a form of nobody": (403, "POST /{token}/x HTTP/1.1\n" + OWN + "Content-Length: 0\n\n"),
    "a form without a length": (411, "POST /{token}/x HTTP/1.1\n" + FROM_HERE + "\n"),
    "a form in pieces": (
        411,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + "Transfer-Encoding: chunked\n\n0\n\n",
    ),
    "two lengths": (
        411,
        "POST /{token}/x HTTP/1.1\n"
        + FROM_HERE
        + "Content-Length: 0\nContent-Length: 5\n\nhello",
    ),
    "a length below nothing": (
        411,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + "Content-Length: -1\n\n",
    ),
    "a form that is too large": (
        413,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + f"Content-Length: {MAX_BODY_BYTES + 1}\n\n",
    ),
    "a length of a million digits": (
        413,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + f"Content-Length: {'9' * 15_000}\n\n",
    ),
    "JSON": (
        415,
        "POST /{token}/x HTTP/1.1\n"
        + FROM_HERE.replace("x-www-form-urlencoded", "json")
        + "Content-Length: 2\n\n{}",
    ),
    "a form cut short": (
        400,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + "Content-Length: 50\n\na=b",
    ),
    "too many fields": (
        400,
        "POST /{token}/x HTTP/1.1\n" + FROM_HERE + "Content-Length: 100\n\n" + "a=b&" * 25,
    ),
    "another method": (501, "DELETE /{token}/ HTTP/1.1\n" + OWN + "\n"),
    "no path": (400, "GET http://[ HTTP/1.1\n" + OWN + "\n"),
    "no HTTP": (400, "\x16\x03\x01 hello there you\n\n"),
}


@pytest.mark.parametrize("who", STRANGERS)
def test_strangers_are_not_answered(stub: Served, who: str) -> None:
    """Each is refused, before a page is made, and never repeats what was sent."""
    expected, request = STRANGERS[who]
    reply = sent(stub, request)
    assert status(reply) == expected
    assert b"the page" not in reply and b"evil" not in reply


@pytest.mark.parametrize(
    "request_text",
    [
        "GET /{token}/ HTTP/1.1\n" + OWN + "\n",
        "GET /{token}/ HTTP/1.1\nHost: localhost:{port}\n\n",
        "GET /{token}/ HTTP/1.1\n" + OWN + "Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\n\n",
        "GET /{token}/ HTTP/1.1\n"
        + OWN
        + "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\n\n",
        "POST /{token}/ HTTP/1.1\n" + FROM_HERE + "Content-Length: 3\n\na=b",
    ],
)
def test_our_own_link_is_answered(stub: Served, request_text: str) -> None:
    """The printed link, a link that is clicked elsewhere, and our own forms."""
    reply = sent(stub, request_text)
    assert status(reply) == 200 and reply.endswith(b"the page")
    for header in (
        b"no-store",
        b"nosniff",
        b"Content-Security-Policy",
        b"X-Frame-Options: DENY",
    ):
        assert header in reply


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that waits half a second for a request."""
    monkeypatch.setattr(connection_module, "HEAD_S", 0.5)
    yield


def test_a_request_that_trickles_in_is_dropped(hurried: None, stub: Served) -> None:
    """A byte now and then keeps a connection no longer than the time for the whole request, and
    others are answered meanwhile."""
    address = stub.server.address
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", address.port), timeout=30) as slow:
        with pytest.raises(OSError):
            for letter in f"GET /{address.token}/ HTTP/1.1\r\n" + "X-A: b\r\n" * 100:
                slow.sendall(letter.encode())
                time.sleep(0.02)
        assert time.monotonic() - began < 10
    assert stub.ask("").read() == b"the page"


def test_endless_headers_are_dropped(stub: Served) -> None:
    """A client that sends headers without end is cut off at a bounded number of bytes."""
    head = "GET /{token}/ HTTP/1.1\n" + OWN + f"X-Long: {'a' * 60_000}\n" * 5
    try:
        reply = sent(stub, head)
    except OSError:
        reply = b""
    assert b"the page" not in reply


def test_silent_connections_stop_nobody(stub: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many connections are open: of those that ask nothing, the oldest are closed, and who
    asks is answered at once."""
    address = stub.server.address
    count = server_module.MAX_CONNECTIONS + 4
    # They are closed because they are too many, long before their time is over.
    monkeypatch.setattr(connection_module, "HEAD_S", 60.0)
    silent = [socket.create_connection(("127.0.0.1", address.port), 30) for _ in range(count)]
    try:
        began = time.monotonic()
        assert stub.ask("").read() == b"the page"
        assert time.monotonic() - began < connection_module.HEAD_S
        for client in silent[:5]:
            client.settimeout(30)
            assert client.recv(1) == b""
    finally:
        for client in silent:
            client.close()
