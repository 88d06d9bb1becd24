"""A loopback server as light as can be: it answers judging requests of both dialects and counts
nothing.

    python benchmarks/plain_server.py [--latency-s 1.0]

The first line on stdout is the base URL (without a dialect's path). Every memory gets the score
that its id draws, so replies differ and none is malformed. The servers in `tests/servers` are the
ones to test with; this one answers some 5,000 requests a second, so that a client's own cost is
what a benchmark sees. No faults, no keys, no streaming.
"""

import argparse
import asyncio
import json
from typing import Any

REASONED_FROM = 30


def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Judge what is asked; each score is drawn from the memory's id."""
    is_openai = path.endswith("/chat/completions")
    reply_format = (
        body["response_format"]["json_schema"] if is_openai else body["output_config"]["format"]
    )
    ids = reply_format["schema"]["properties"]["scores"]["required"]
    scores = {id_: (ord(id_[0]) * 7 + ord(id_[-1]) * 3) % REASONED_FROM for id_ in ids}
    text = json.dumps({"scores": scores, "reasons": []})
    input_tokens, output_tokens = (
        sum(len(str(message["content"])) for message in body["messages"]) // 4 + 500,
        len(text) // 4,
    )
    if is_openai:
        message = {"role": "assistant", "content": text, "refusal": None}
        usage = {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        }
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        return {**head, "choices": choices, "usage": usage}
    content = [{"type": "text", "text": text}]
    head = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "stop_sequence": None,
    }
    usage = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return {**head, "content": content, "stop_reason": "end_turn", "usage": usage}


class Connection(asyncio.Protocol):
    """HTTP/1.1 with Content-Length, kept alive, one request at a time: what both SDKs send."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to write."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once a whole request is there, after the latency."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:])
        length = int(fields.get("content-length", "0"))
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        asyncio.get_running_loop().call_later(
            self._latency_s, self._answer, head[0].split(" ")[1], body
        )

    def _answer(self, path: str, body: bytes) -> None:
        data = json.dumps(reply(path, json.loads(body))).encode()
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:"
            f" {len(data)}\r\n\r\n"
        )
        self._transport.write(head.encode() + data)


async def serve(latency_s: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(latency_s), "127.0.0.1", 0, backlog=1_024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency-s", type=float, default=0.0)
    asyncio.run(serve(parser.parse_args().latency_s))
