"""A loopback server of Anthropic's message batches, in addition to its live calls.

States as documented: in_progress, canceling, ended. No mark is kept; counts move from `processing`
only once all is over. Results come in no order.
"""

import json
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.batching import BatchFault, BatchServer, Outcome, Phase, Step, StoredBatch

LONGEST_ID = 64
MOST_REQUESTS = 100_000
PATH = "/v1/messages/batches"
UNRUN = {"expired": "expired", "cancelled": "canceled"}


class AnthropicBatchServer(BatchServer, AnthropicServer):
    """One server; attributes may change while it runs."""

    cursor = "after_id"

    def add_routes(self, app: web.Application) -> None:
        """Serve batches."""
        app.router.add_post(PATH, self.at(Step.CREATE, self._create))
        app.router.add_get(PATH, self.at(Step.LIST, self.list_batches))
        app.router.add_get(PATH + "/{id}", self.at(Step.LOOK, self.look))
        app.router.add_post(PATH + "/{id}/cancel", self.at(Step.CANCEL, self.cancel))
        app.router.add_get(PATH + "/{id}/results", self.at(Step.RESULTS, self._results))

    def struck(self, step: Step, request: web.Request) -> BatchFault | web.Response | None:
        """Refuse a request without a version first."""
        if "anthropic-version" not in request.headers:
            return self.problem(400, "anthropic-version: header is required", None)
        return super().struck(step, request)

    def shown_page(
        self, data: list[dict[str, Any]], ends: dict[str, Any], *, has_more: bool
    ) -> dict[str, Any]:
        """Return a page; without batches its ends are null."""
        return {"data": data, "has_more": has_more, "first_id": None, "last_id": None, **ends}

    def already_over(self, batch: StoredBatch) -> web.Response:
        """Refuse with 400."""
        return self.problem(400, "The batch has ended.", None)

    async def _create(self, request: web.Request) -> web.Response:
        fields = json.loads(data := await request.read())
        requests = [(entry["custom_id"], entry["params"]) for entry in fields["requests"]]
        names = [name for name, _ in requests]
        if (
            not names
            or len(set(names)) < len(names)
            or max(map(len, names)) > LONGEST_ID
            or len(names) > MOST_REQUESTS
        ):
            return self.problem(
                400, "requests: ids must be unique and at most 64 characters", None
            )
        book, tokens = self.batches, len(data) // 4
        if (
            book.enqueued_tokens is not None
            and book.waiting_tokens() + tokens > book.enqueued_tokens
        ):
            return self.problem(429, "Too many batch requests are being processed.", None)
        return web.json_response(self.shown(book.add(requests, tokens=tokens, name="msgbatch")))

    async def _results(self, request: web.Request) -> web.Response:
        batch = self.batches.all.get(request.match_info["id"])
        if batch is None or not batch.is_over:
            return self.problem(404, "No results.", None)
        data = b"".join(
            json.dumps(_line(outcome)).encode() + b"\n" for outcome in batch.outcomes
        )
        return web.Response(body=data, content_type="application/x-jsonl")

    def shown(self, batch: StoredBatch) -> dict[str, Any]:
        """Return a batch; counts move from `processing` only once all is over."""
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if batch.is_over:
            for outcome in batch.outcomes:
                counts[_kind(outcome)] += 1
        else:
            counts["processing"] = batch.total
        status = "ended" if batch.is_over else "in_progress"
        if batch.phase is Phase.CANCELLING:
            status = "canceling"
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
