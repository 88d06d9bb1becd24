"""A loopback host of both chat dialects that records every judging request; it imports nothing from
the package."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORTH = {"discount": 92, "total": 81, "checkout": 74, "tax": 55}
"""The score of a memory by a word in its entity's name; any other scores 3."""


class Host(ThreadingHTTPServer):
    """Answers by a fixed rule; `requests` holds each raw body, `fault` is the HTTP status to answer
    with."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.fault = 0
        threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()

    @property
    def url(self) -> str:
        """The host's address without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Host
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "judge-model", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        if self.server.fault:
            self._send(
                self.server.fault,
                {"error": {"message": "no", "type": "x", "code": "invalid_api_key"}},
            )
        elif self.path.endswith("/messages"):
            self._anthropic(body)
        else:
            self._openai(body)

    def _openai(self, body: dict[str, Any]) -> None:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        text = reply(schema, json.dumps(body["messages"]))
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        if body.get("stream"):
            piece = {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": body["model"],
            }
            choice = {
                "index": 0,
                "delta": {"role": "assistant", "content": text},
                "finish_reason": None,
            }
            end = {"index": 0, "delta": {}, "finish_reason": "stop"}
            rows = [
                piece | {"choices": [choice]},
                piece | {"choices": [end]},
                piece | {"choices": [], "usage": usage},
            ]
            self._stream(
                [f"data: {json.dumps(row)}\n\n" for row in rows] + ["data: [DONE]\n\n"]
            )
            return
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        completion = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [choice],
        }
        self._send(200, completion | {"usage": usage})

    def _anthropic(self, body: dict[str, Any]) -> None:
        schema = body.get("output_config", {}).get("format", {}).get("schema")
        text = reply(schema, json.dumps(body["messages"]))
        usage = {"input_tokens": 1000, "output_tokens": 50}
        head = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_sequence": None,
        }
        if body.get("stream"):
            events: list[dict[str, Any]] = [
                {
                    "type": "message_start",
                    "message": head | {"content": [], "stop_reason": None, "usage": usage},
                },
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "text", "text": ""},
                },
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": text},
                },
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 50},
                },
                {"type": "message_stop"},
            ]
            self._stream(
                [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            )
            return
        content = [{"type": "text", "text": text}]
        self._send(200, head | {"content": content, "stop_reason": "end_turn", "usage": usage})

    def _stream(self, parts: list[str]) -> None:
        data = "".join(parts).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def reply(schema: dict[str, Any] | None, prompt: str) -> str:
    """Score each id in the schema by the entity shown with it; without a schema, answer."""
    if schema is None:
        return "Sum the items, then take the discount."
    scores: dict[str, Any] = {}
    codes = schema["properties"]["scores"]["required"]
    for code in codes:
        shown = re.search(rf'<memory id=\\"{code}\\"[^>]*?name=\\"([^"\\]*)', prompt)
        name = shown.group(1) if shown else ""
        worth = max((score for word, score in WORTH.items() if word in name), default=3)
        scores[code] = worth
    return json.dumps(
        {
            "scores": scores,
            "reasons": [
                {"id": code, "reason": "by its name"} for code in codes if scores[code] > 50
            ],
        }
    )
