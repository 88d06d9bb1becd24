"""A loopback host of the OpenAI dialect that also embeds: `POST /v1/embeddings`, by the letters of
each text."""

import asyncio
from typing import Any

from aiohttp import web

from tests.servers.openai_server import OpenAIServer

DIMS = 26


class EmbeddingServer(OpenAIServer):
    """One server; attributes may change while it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.embedded: list[str] = []
        """Texts in order of arrival."""
        self.batches: list[int] = []
        self.keys: list[str] = []
        self.statuses: list[int] = []
        """Statuses of the first answers, one a call."""
        self.reply: dict[str, Any] | None = None
        """The reply to every call, instead of vectors."""
        self.silent_s = 0.0
        """Seconds before each reply."""
        self.refuses_format = False

    def add_routes(self, app: web.Application) -> None:
        """Serve embeddings too."""
        app.router.add_post("/v1/embeddings", self._embed)

    async def _embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.keys.append(request.headers.get("authorization", ""))
        await asyncio.sleep(self.silent_s)
        if self.statuses:
            error = {"message": "Not now.", "type": None}
            return web.json_response(
                {"error": error}, status=self.statuses.pop(0), headers={"retry-after": "0"}
            )
        if self.refuses_format and "encoding_format" in body:
            error = {
                "message": "Unknown field",
                "type": "invalid_request_error",
                "param": "encoding_format",
            }
            return web.json_response({"error": error}, status=400)
        if self.reply is not None:
            return web.json_response(self.reply)
        texts = body["input"]
        self.embedded += texts
        self.batches.append(len(texts))
        rows = [
            {"object": "embedding", "index": at, "embedding": letters(text)}
            for at, text in enumerate(texts)
        ]
        tokens = sum(len(text) // 4 + 1 for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response(
            {"object": "list", "data": rows[::-1], "model": body["model"], "usage": usage}
        )


def letters(text: str) -> list[float]:
    """Count the letters of a text; never all zero."""
    return [text.lower().count(chr(ord("a") + at)) + 0.01 for at in range(DIMS)]
