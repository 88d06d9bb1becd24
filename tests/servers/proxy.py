"""A forward proxy on loopback: passes on plain HTTP, tunnels CONNECT, and counts both.

Whatever name a client asks for, the call goes to `target`, so that tests may use names that no DNS
knows:
`with ForwardProxy(target) as proxy: … proxy.url`. It keeps no connection alive.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.servers.threaded_server import ThreadedServer


class ForwardProxy(ThreadedServer):
    """One proxy; attributes may change while it runs."""

    def __init__(self, target: str) -> None:
        """target: `address:port` that every call really goes to."""
        super().__init__()
        self.target = target
        self.refuse_with = 0
        """A status for every answer; 0: pass on."""
        self.asked: list[str] = []
        """Requests received: `CONNECT name:port` or `POST http://name/path`."""
        self.authorizations: set[str] = set()
        self.heads: list[str] = []
        """Heads of all requests, as they came."""

    @property
    def url(self) -> str:
        """URL as in `HTTPS_PROXY`."""
        return f"http://{self.host}"

    async def serve(self) -> None:
        """Accept connections until it is stopped; then cut off open ones."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        await self.listening(server.sockets[0].getsockname()[1])
        server.close()
        carrying = asyncio.all_tasks() - {asyncio.current_task()}
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with _closing(writer):
                await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        line, _, rest = head.decode().partition("\r\n")
        method, target, version = line.split(" ")
        self.asked.append(f"{method} {target}")
        headers = dict(entry.split(": ", 1) for entry in rest.strip().split("\r\n"))
        self.authorizations.add(headers.get("Proxy-Authorization", ""))
        if self.refuse_with:
            refusal = (
                f"HTTP/1.1 {self.refuse_with} No\r\nContent-Length: "
                "0\r\nConnection: close\r\n\r\n"
            )
            writer.write(refusal.encode())
            await writer.drain()
        else:
            await self._pass_on(
                f"{method} {_path(target)} {version}\r\n{rest}", method, reader, writer
            )

    async def _pass_on(
        self, head: str, method: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        address, port = self.target.rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(address, int(port))
        async with _closing(far_writer):
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                far_writer.write(head.encode())
            pumps = [
                asyncio.create_task(_pump(reader, far_writer)),
                asyncio.create_task(_pump(far_reader, writer)),
            ]
            # Until either side leaves: a client that was killed must not hold the far connection.
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()


def _path(target: str) -> str:
    """Return the path of an absolute URL, as a proxy sends it to the server."""
    _, slashes, rest = target.partition("://")
    return "/" + rest.partition("/")[2] if slashes else target
