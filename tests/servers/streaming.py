"""Send a finished reply as server-sent events, in pieces of twelve characters, as the OpenAI dialect streams."""

import json
from typing import Any

from aiohttp import web

PIECE_CHARS = 12


async def stream(
    request: web.Request,
    body: dict[str, Any],
    reply: dict[str, Any],
    *,
    headers: dict[str, str],
    is_cut: bool,
    error: dict[str, Any] | None = None,
) -> web.StreamResponse:
    """Stream this reply; `is_cut`: stop halfway without a finish, optionally with this error."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    frame = {"id": reply["id"], "object": "chat.completion.chunk", "created": 1, "model": reply["model"]}
    choice = reply["choices"][0]
    pieces = _pieces(choice["message"])
    for delta in pieces[: len(pieces) // 2] if is_cut else pieces:
        await _send(response, frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if is_cut:
        if error is not None:
            await _send(response, frame | error)
        return response
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    await _send(response, frame | {"choices": [last]})
    if body.get("stream_options", {}).get("include_usage") and "usage" in reply:
        await _send(response, frame | {"choices": [], "usage": reply["usage"]})
    await response.write(b"data: [DONE]\n\n")
    return response


def _pieces(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["refusal"]:
        return [{"refusal": message["refusal"]}]
    text = message["content"] or ""
    return [{"content": text[at : at + PIECE_CHARS]} for at in range(0, len(text), PIECE_CHARS)]


async def _send(response: web.StreamResponse, chunk: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
