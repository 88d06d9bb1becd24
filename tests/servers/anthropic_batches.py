"""A loopback server of Anthropic's message batches, beside its live calls.

States as documented: in_progress, canceling, ended. No mark is kept; counts move from `processing` only once all is
over. Results come in no order.
"""

import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.batching import BatchBook, KeptBatch, Outcome, Phase, Step, Trouble, lost
from tests.servers.faults import cut

LONGEST_ID = 64
MOST_REQUESTS = 100_000
PATH = "/v1/messages/batches"
UNRUN = {"expired": "expired", "cancelled": "canceled"}


class AnthropicBatchServer(AnthropicServer):
    """One server; attributes may be changed while it runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.batches = BatchBook()

    def add_routes(self, app: web.Application) -> None:
        """Serve batches."""
        app.router.add_post(PATH, self._create)
        app.router.add_get(PATH, self._list)
        app.router.add_get(PATH + "/{id}", self._look)
        app.router.add_post(PATH + "/{id}/cancel", self._cancel)
        app.router.add_get(PATH + "/{id}/results", self._results)

    async def _create(self, request: web.Request) -> web.Response:
        fields = json.loads(data := await request.read())
        trouble = self._struck(Step.CREATE, request)
        if isinstance(trouble, web.Response):
            return trouble
        requests = [(entry["custom_id"], entry["params"]) for entry in fields["requests"]]
        names = [name for name, _ in requests]
        if not names or len(set(names)) < len(names) or max(map(len, names)) > LONGEST_ID or len(names) > MOST_REQUESTS:
            return self.problem(400, "requests: ids must be unique and at most 64 characters", None)
        book, tokens = self.batches, len(data) // 4
        if book.enqueued_tokens is not None and book.waiting_tokens() + tokens > book.enqueued_tokens:
            return self.problem(429, "Too many batch requests are being processed.", None)
        batch = book.add(requests, tokens=tokens, name="msgbatch")
        return await lost(request) if trouble is Trouble.LOST else web.json_response(self._shown(batch))

    async def _list(self, request: web.Request) -> web.Response:
        trouble = self._struck(Step.LIST, request)
        if isinstance(trouble, web.Response):
            return trouble
        page, has_more = self.batches.page(list(self.batches.all.values()), request, cursor="after_id")
        data = [self._shown(batch) for batch in page]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return web.json_response({"data": data, "has_more": has_more, **ends})

    async def _look(self, request: web.Request) -> web.Response:
        trouble = self._struck(Step.LOOK, request)
        if isinstance(trouble, web.Response):
            return trouble
        batch = self.batches.all.get(request.match_info["id"])
        if batch is None:
            return self.problem(404, "No such batch.", None)
        await self.batches.advance(batch, lambda body: self.judge(request, body))
        return web.json_response(self._shown(batch))

    async def _cancel(self, request: web.Request) -> web.Response:
        trouble = self._struck(Step.CANCEL, request)
        batch = self.batches.all.get(request.match_info["id"])
        if isinstance(trouble, web.Response):
            return trouble
        if batch is None:
            return self.problem(404, "No such batch.", None)
        if batch.is_over:
            return self.problem(400, "The batch has ended.", None)
        self.batches.cancel(batch)
        return await lost(request) if trouble is Trouble.LOST else web.json_response(self._shown(batch))

    async def _results(self, request: web.Request) -> web.StreamResponse:
        trouble = self._struck(Step.RESULTS, request)
        if isinstance(trouble, web.Response):
            return trouble
        batch = self.batches.all.get(request.match_info["id"])
        if batch is None or not batch.is_over:
            return self.problem(404, "No results.", None)
        data = b"".join(json.dumps(_line(outcome)).encode() + b"\n" for outcome in batch.outcomes)
        if trouble is Trouble.CUT:
            return await cut(request, data)
        return web.Response(body=data, content_type="application/x-jsonl")

    def _struck(self, step: Step, request: web.Request) -> Trouble | web.Response | None:
        if "anthropic-version" not in request.headers:
            return self.problem(400, "anthropic-version: header is required", None)
        if not self._key_fits(request):
            return self._wrong_key()
        trouble = self.batches.strikes(step)
        if trouble is Trouble.BUSY:
            return self.problem(429, "This request would exceed your rate limit.", None)
        return self.problem(500, "Internal server error.", None) if trouble is Trouble.FAILED else trouble

    def _shown(self, batch: KeptBatch) -> dict[str, Any]:
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if batch.is_over:
            for outcome in batch.outcomes:
                counts[_kind(outcome)] += 1
        else:
            counts["processing"] = batch.total
        status = "canceling" if batch.phase is Phase.CANCELLING else "ended" if batch.is_over else "in_progress"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": status,
            "created_at": _time(batch.created_at),
            "expires_at": _time(batch.created_at + 86_400),
            "ended_at": _time(batch.created_at) if batch.is_over else None,
            "cancel_initiated_at": None,
            "archived_at": None,
            "request_counts": counts,
            "results_url": f"{self.url}{PATH}/{batch.id}/results" if batch.is_over else None,
        }


def _kind(outcome: Outcome) -> str:
    if outcome.unrun:
        return UNRUN[outcome.unrun]
    return "succeeded" if outcome.status == 200 else "errored"


def _line(outcome: Outcome) -> dict[str, Any]:
    result: dict[str, Any] = {"type": _kind(outcome)}
    if result["type"] == "succeeded":
        result["message"] = outcome.reply
    elif result["type"] == "errored":
        error = {"type": "api_error", "message": "Internal server error"}
        result["error"] = outcome.reply or {"type": "error", "error": error}
    return {"custom_id": outcome.custom_id, "result": result}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
