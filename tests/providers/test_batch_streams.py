"""A batch of any size passes through bounded memory, up and down; measured in a new process."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.servers.threaded_server import ThreadedServer, serve_app
from xscore.extensions.batch.records import RequestOutcome
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.platform.errors import UnreadableResponse
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.settings import OpenAISettings, Settings

INPUT_BYTES = 60_000_000
MOST_BYTES = 12_000_000
RESULTS = 20_000

SCRIPT = """
import asyncio, json, sys, tracemalloc
from contextlib import aclosing
from xscore.extensions.batch.vendor_batches import batch_host
from xscore.providers.spec import ModelSpec, connect_provider
from xscore.settings import AnthropicSettings, OpenAISettings, Settings

async def main(name, url, path):
    urls = {"openai": url + "/v1", "anthropic": url}
    host = batch_host(connect_provider(ModelSpec(name, "m"), Settings(
        openai=OpenAISettings(base_url=urls["openai"]),
        anthropic=AnthropicSettings(base_url=urls["anthropic"]))))
    seen = await host.look("batch_1")
    tracemalloc.start()
    with open(path, "rb") as lines:
        file_id = await host.upload(lines, mark="xs_1")
        await host.create(lines, mark="xs_1", file_id=file_id)
    up = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    count = 0
    async with aclosing(host.results(seen, model="m")) as results:
        async for result in results:
            count += 1
    await host.aclose()
    print(json.dumps({"up": up, "down": tracemalloc.get_traced_memory()[1], "count": count}))

asyncio.run(main(*sys.argv[1:]))
"""


class Sink(ThreadedServer):
    """A server that takes either vendor's batches without storing them, and streams generated
    results."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0
        self.ends = b""

    async def serve(self) -> None:
        """Serve any request."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        await serve_app(self, app)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        first = last = b""
        async for piece in request.content.iter_chunked(1 << 16):
            self.taken += len(piece)
            first, last = first or piece[:13], (last + piece)[-2:]
        if self.taken and request.path.endswith("batches"):
            self.ends = first + last
        if request.path.endswith(("content", "results")):
            return await self._results(request)
        return web.json_response(
            {
                "id": "batch_1",
                "status": "completed",
                "processing_status": "ended",
                "created_at": 0,
                "output_file_id": "file_1",
                "request_counts": {"total": RESULTS, "succeeded": RESULTS},
            }
        )

    async def _results(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        text = json.dumps({"scores": {f"k{number}": 5 for number in range(20)}, "reasons": []})
        chat = {
            "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
            "usage": {},
        }
        claude = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
        for start in range(0, RESULTS, 100):
            lines = [
                {
                    "custom_id": f"xs_1-q{number}-a0",
                    "response": {"status_code": 200, "body": chat},
                    "result": {"type": "succeeded", "message": claude},
                }
                for number in range(start, start + 100)
            ]
            await response.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return response


@pytest.fixture
def sink() -> Iterator[Sink]:
    """The server, running."""
    with Sink() as running:
        yield running


@pytest.mark.verify
@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_no_batch_stands_in_memory(sink: Sink, tmp_path: Path, name: str) -> None:
    """60 MB up and 20,000 results down, each within 12 MB; the frame around Claude's requests is
    complete."""
    path = tmp_path / "input.jsonl"
    line = json.dumps({"custom_id": "x", "params": {"text": "y" * 100_000}}).encode() + b"\n"
    with path.open("wb") as lines:
        for _ in range(INPUT_BYTES // len(line)):
            lines.write(line)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, f"http://{sink.host}", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout)
    assert sink.taken >= path.stat().st_size
    assert measured["count"] == RESULTS
    assert measured["up"] < MOST_BYTES and measured["down"] < MOST_BYTES, measured
    assert name == "openai" or sink.ends == b'{"requests":[]}'


class Lines(Sink):
    """A server with the test's own results."""

    def __init__(self, *lines: bytes) -> None:
        super().__init__()
        self.lines = lines

    async def _results(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\n".join(self.lines))


async def test_a_line_that_cannot_be_read_is_told_and_the_rest_is_read() -> None:
    """Neither an unterminated line nor an invalid one stops the others; a success without a reply
    is charged."""
    good = {"custom_id": "xs_1-q3-a0", "response": {"status_code": 200, "body": []}}
    lines = (
        b'{"custom_id":"' + b"x" * 17 * 1024 * 1024,
        b"",
        b"<html>",
        json.dumps(good).encode(),
    )
    with Lines(*lines) as server:
        settings = Settings(openai=OpenAISettings(base_url=f"http://{server.host}/v1"))
        host = batch_host(connect_provider(ModelSpec("openai", "m"), settings))
        seen = await host.look("batch_1")
        results = [result async for result in host.results(seen, model="m")]
        await host.aclose()
    assert [read.custom_id for read in results] == ["", "", "xs_1-q3-a0"]
    assert {read.outcome for read in results} == {RequestOutcome.ERRED} and all(
        read.is_charged for read in results
    )


class CutLines(Lines):
    """A server whose packed results end too early, and which says that they are whole."""

    async def _results(self, request: web.Request) -> web.StreamResponse:
        packed = gzip.compress(b"\n".join(self.lines))
        return web.Response(
            body=packed[: len(packed) // 2], headers={"Content-Encoding": "gzip"}
        )


async def test_packed_results_that_end_too_early_are_not_taken_for_all() -> None:
    """What was unpacked is read; the rest was paid for, and is asked for again."""
    lines = [
        json.dumps({"custom_id": f"xs_1-q{number}-a0", "response": {}}).encode()
        for number in range(RESULTS)
    ]
    read = 0
    with CutLines(*lines) as server:
        settings = Settings(openai=OpenAISettings(base_url=f"http://{server.host}/v1"))
        host = batch_host(connect_provider(ModelSpec("openai", "m"), settings))
        seen = await host.look("batch_1")
        with pytest.raises(UnreadableResponse):
            async for _ in host.results(seen, model="m"):
                read += 1
        await host.aclose()
    assert 0 < read < RESULTS
