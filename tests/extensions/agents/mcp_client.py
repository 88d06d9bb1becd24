"""A client that reads and writes Model Context Protocol lines itself, so that it can break the
rules."""

import asyncio
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xscore.cli.flags import Flags
from xscore.extensions.agents.mcp_server import McpServer
from xscore.extensions.agents.mcp_stdio import ClientPipes
from xscore.extensions.agents.mcp_workplace import Workplace
from xscore.platform.paths import find_root

PATIENCE_S = 60.0
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
FILES = {
    "shop/cart.py": (
        '"""Carts."""\n\n\ndef total(items):\n    """Sum the prices."""\n    return sum(items)\n'
    ),
    "shop/mail.py": '"""Mail."""\n\n\ndef greet(name):\n    return f"Hello {name}"\n',
    "README.md": "# Shop\n\nSells things, and sums the prices of carts.\n",
}
TASK = "Where are the prices of a cart summed?"


class RawClient:
    """The client's ends of the two pipes."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self.write_fd, self.read_fd = write_fd, read_fd
        self.notices: list[dict[str, Any]] = []
        """Notifications read while waiting for an answer."""
        self._rest = b""
        self._lines: list[bytes] = []
        self._next = 0

    def raw(self, data: bytes) -> None:
        """Write raw bytes."""
        while data:
            data = data[os.write(self.write_fd, data) :]

    def send(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id_: int | str | None = None,
    ) -> None:
        """Write a request, or without an id a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if id_ is None else {"id": id_}
        message |= {} if params is None else {"params": params}
        self.raw(json.dumps(message).encode() + b"\n")

    def begin(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Write a request and return its id."""
        self._next += 1
        self.send(method, params, id_=self._next)
        return self._next

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Write a request and return its answer."""
        return self.answer(self.begin(method, params))

    def call(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        name: str = "context",
    ) -> int:
        """Start a tool call."""
        about = {} if meta is None else {"_meta": meta}
        return self.begin("tools/call", {"name": name, "arguments": arguments, **about})

    def call_until_judged(self, task: str) -> int:
        """Start a call of `context`; return its id once its first judgment arrives."""
        id_ = self.call({"task": task}, meta={"progressToken": "first"})
        while (message := self.read()) is not None:
            if message.get("params", {}).get("progress", 0) >= 1:
                return id_
        raise AssertionError("nothing was judged")

    def initialize(self, version: str = "2025-06-18") -> dict[str, Any]:
        """Do the handshake."""
        about = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        reply = self.ask("initialize", about)
        self.send("notifications/initialized")
        return reply

    def answer(self, id_: int | str) -> dict[str, Any]:
        """Read until a request's answer; every line must be a message."""
        while True:
            message = self.read()
            assert message is not None, "the server has left"
            if message.get("id") == id_ and "method" not in message:
                return message
            assert "method" in message, message
            self.notices.append(message)

    def read(self, within_s: float = PATIENCE_S) -> dict[str, Any] | None:
        """Read one message; None at the end or on timeout."""
        until = time.monotonic() + within_s
        while not self._lines:
            remaining_s = until - time.monotonic()
            if remaining_s <= 0 or not select.select([self.read_fd], [], [], remaining_s)[0]:
                return None
            data = os.read(self.read_fd, 65_536)
            if not data:
                assert not self._rest, self._rest
                return None
            *self._lines, self._rest = (self._rest + data).split(b"\n")
        message = json.loads(self._lines.pop(0))
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        return message

    def leave(self) -> None:
        """Close the server's standard input."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1


@contextmanager
def served(root: Path, *, everything: bool = False, **settings: object) -> Iterator[RawClient]:
    """Serve a repository in a thread of this process. settings: by name, with `__` for the dot."""
    overrides = {name.replace("__", "."): value for name, value in settings.items()}
    (to_server, from_client), (to_client, from_server) = os.pipe(), os.pipe()
    place = Workplace(find_root(root), Flags({}, overrides))

    async def serve() -> None:
        server = McpServer(place, everything=everything)
        await server.serve(ClientPipes(to_server, from_server))

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    client = RawClient(from_client, to_client)
    try:
        yield client
    finally:
        client.leave()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        for fd in (to_server, from_server, to_client):
            os.close(fd)


@contextmanager
def started(
    root: Path, *arguments: str, code: str = "", **environ: str
) -> Iterator[tuple[RawClient, subprocess.Popen[bytes]]]:
    """Start `xscore mcp` in a new process. code: runs instead of the command line."""
    program = ["-c", code] if code else ["-m", "xscore"]
    process = subprocess.Popen(
        [sys.executable, "-P", *program, "mcp", *arguments],
        cwd=root,
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    client = RawClient(os.dup(process.stdin.fileno()), process.stdout.fileno())
    process.stdin.close()
    try:
        yield client, process
    finally:
        client.leave()
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def script(folder: Path, **about: object) -> str:
    """Write a script and return its judge's name: 0.9 for the cart, 0 for the rest."""
    file = folder / "script.json"
    file.write_text(
        json.dumps(
            {"rules": [{"path": "shop/cart.py", "score": 0.9, "reason": "it sums"}], **about}
        )
    )
    return f"scripted:{file}"
