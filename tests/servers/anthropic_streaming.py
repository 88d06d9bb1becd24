"""Send a finished reply as server-sent events, in pieces of twelve characters, as the Anthropic dialect streams."""

import json
from typing import Any

from aiohttp import web

PIECE_CHARS = 12


async def stream(
    request: web.Request,
    reply: dict[str, Any],
    *,
    headers: dict[str, str],
    is_cut: bool,
    error: dict[str, Any] | None = None,
) -> web.StreamResponse:
    """Stream this reply; `is_cut`: stop halfway without a finish, optionally with this error."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
    await response.prepare(request)
    await _send(response, "message_start", {"message": _begun(reply)})
    await _send(response, "ping", {})
    for index, block in enumerate(reply["content"]):
        await _send(response, "content_block_start", {"index": index, "content_block": block | {"text": ""}})
        pieces = [block["text"][at : at + PIECE_CHARS] for at in range(0, len(block["text"]), PIECE_CHARS)]
        for piece in pieces[: len(pieces) // 2] if is_cut else pieces:
            await _send(
                response, "content_block_delta", {"index": index, "delta": {"type": "text_delta", "text": piece}}
            )
        if not is_cut:
            await _send(response, "content_block_stop", {"index": index})
    if is_cut:
        if error is not None:
            await _send(response, "error", error)
        return response
    ended = {"delta": {"stop_reason": reply["stop_reason"], "stop_sequence": None}}
    if "usage" in reply:
        ended["usage"] = {"output_tokens": reply["usage"]["output_tokens"], "input_tokens": None}
    await _send(response, "message_delta", ended)
    await _send(response, "message_stop", {})
    return response


def _begun(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the message as at its start: nothing written, one token counted."""
    begun = reply | {"content": [], "stop_reason": None}
    return begun | {"usage": reply["usage"] | {"output_tokens": 1}} if "usage" in reply else begun


async def _send(response: web.StreamResponse, event: str, data: dict[str, Any]) -> None:
    await response.write(f"event: {event}\ndata: {json.dumps({'type': event} | data)}\n\n".encode())
