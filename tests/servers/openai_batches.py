"""A loopback server of OpenAI's files and batches, in addition to its live calls.

States as documented: validating, in_progress, finalizing, completed, failed, expired,
cancelling, cancelled. Results are in an output file, all that went wrong in an error file, both
in no order.
"""

import json
from typing import Any

from aiohttp import web
from msgspec import Struct

from tests.servers.batching import BatchServer, Outcome, Phase, Step, StoredBatch
from tests.servers.openai_server import OpenAIServer

LONGEST_ID = 64
MOST_REQUESTS = 50_000
ENDPOINT = "/v1/chat/completions"


class StoredFile(Struct):
    """One uploaded file."""

    id: str
    filename: str
    created_at: float
    data: bytes


class OpenAIBatchServer(BatchServer, OpenAIServer):
    """One server; attributes may change while it runs."""

    cursor = "after"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.files: dict[str, StoredFile] = {}

    def add_routes(self, app: web.Application) -> None:
        """Serve files and batches."""
        app.router.add_post("/v1/files", self.at(Step.UPLOAD, self._upload))
        app.router.add_get("/v1/files/{id}/content", self.at(Step.RESULTS, self._content_of))
        app.router.add_post("/v1/batches", self.at(Step.CREATE, self._create))
        app.router.add_get("/v1/batches", self.at(Step.LIST, self.list_batches))
        app.router.add_get("/v1/batches/{id}", self.at(Step.LOOK, self.look))
        app.router.add_post("/v1/batches/{id}/cancel", self.at(Step.CANCEL, self.cancel))

    def shown_page(
        self, data: list[dict[str, Any]], ends: dict[str, Any], *, has_more: bool
    ) -> dict[str, Any]:
        """Return a page; without batches it has no ends."""
        return {"object": "list", "data": data, "has_more": has_more, **ends}

    def already_over(self, batch: StoredBatch) -> web.Response:
        """Refuse with 409."""
        return self.problem(
            409, f"Cannot cancel a batch with status '{self._status(batch)}'.", None
        )

    async def _upload(self, request: web.Request) -> web.Response:
        form, book = await request.post(), self.batches
        file = form["file"]
        if form.get("purpose") != "batch" or not isinstance(file, web.FileField):
            return self.problem(
                400, "A file with the purpose `batch` is wanted.", None, param="purpose"
            )
        book.uploaded += 1
        kept = StoredFile(
            f"file-{book.uploaded:04}", file.filename, book.clock(), file.file.read()
        )
        self.files[kept.id] = kept
        return web.json_response(_shown_file(kept))

    async def _content_of(self, request: web.Request) -> web.Response:
        kind, _, batch_id = request.match_info["id"].partition("-of-")
        batch = self.batches.all.get(batch_id)
        if batch is None or not batch.is_over:
            return self.problem(404, "No such File object.", None, param="id")
        outcomes = [
            outcome for outcome in batch.outcomes if _is_answer(outcome) == (kind == "output")
        ]
        data = b"".join(json.dumps(_line(outcome)).encode() + b"\n" for outcome in outcomes)
        return web.Response(body=data, content_type="application/jsonl")

    async def _create(self, request: web.Request) -> web.Response:
        fields, book = await request.json(), self.batches
        file = self.files.get(str(fields.get("input_file_id")))
        if (
            file is None
            or fields.get("endpoint") != ENDPOINT
            or fields.get("completion_window") != "24h"
        ):
            return self.problem(
                400, "Invalid input file, endpoint or window.", None, param="input_file_id"
            )
        requests, failure = _read(file.data)
        waiting, tokens = book.waiting_tokens(), len(file.data) // 4
        batch = book.add(requests, tokens=tokens, name="batch")
        batch.mark, batch.file_id = fields.get("metadata") or {}, file.id
        if (
            failure is None
            and book.enqueued_tokens is not None
            and waiting + tokens > book.enqueued_tokens
        ):
            failure = ("token_limit_exceeded", None)
        batch.failure = failure
        return web.json_response(self.shown(batch))

    def shown(self, batch: StoredBatch) -> dict[str, Any]:
        """Return a batch."""
        answers = sum(map(_is_answer, batch.outcomes))
        has_output = batch.is_over and answers > 0
        has_errors = batch.is_over and answers < len(batch.outcomes)
        code, line = batch.failure or ("", None)
        error = {"code": code, "line": line, "message": "The input is refused.", "param": None}
        is_failed = batch.phase is Phase.FAILED
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": ENDPOINT,
            "completion_window": "24h",
            "status": self._status(batch),
            "created_at": int(batch.created_at),
            "input_file_id": batch.file_id,
            "output_file_id": f"output-of-{batch.id}" if has_output else None,
            "error_file_id": f"errors-of-{batch.id}" if has_errors else None,
            "errors": {"object": "list", "data": [error]} if is_failed else None,
            "metadata": batch.mark or None,
            "request_counts": {
                "total": 0 if is_failed or not batch.looks else batch.total,
                "completed": answers,
                "failed": len(batch.outcomes) - answers,
            },
        }

    def _status(self, batch: StoredBatch) -> str:
        if batch.phase is not Phase.WORKING:
            return batch.phase.value
        if not batch.looks:
            return "validating"
        return "finalizing" if not batch.todo else "in_progress"


def _read(
    data: bytes,
) -> tuple[list[tuple[str, dict[str, Any]]], tuple[str, int | None] | None]:
    """Return an input's requests, and its errors by the vendor's validation."""
    requests: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            request_line = json.loads(line)
            custom_id, body = request_line["custom_id"], request_line["body"]
        except (ValueError, KeyError, TypeError):
            return [], ("invalid_json_line", number)
        if custom_id in requests:
            return [], ("duplicate_custom_id", number)
        if (
            request_line.get("method") != "POST"
            or request_line.get("url") != ENDPOINT
            or not 0 < len(custom_id) <= LONGEST_ID
        ):
            return [], ("invalid_request", number)
        requests[custom_id] = body
    if len({body.get("model") for body in requests.values()}) > 1:
        return [], ("mismatched_model", None)
    if not requests:
        return [], ("empty_file", None)
    return list(requests.items()), ("too_many_tasks", None) if len(
        requests
    ) > MOST_REQUESTS else None


def _is_answer(outcome: Outcome) -> bool:
    return not outcome.unrun and outcome.status == 200


def _line(outcome: Outcome) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": f"batch_req_{outcome.custom_id}",
        "custom_id": outcome.custom_id,
    }
    if outcome.unrun:
        unrun = {
            "code": f"batch_{outcome.unrun}",
            "message": "This request could not be executed.",
        }
        return shown | {"response": None, "error": unrun}
    error = {"message": "The server had an error.", "type": "server_error", "code": None}
    reply = outcome.reply if outcome.reply or outcome.status == 200 else {"error": error}
    response = {"status_code": outcome.status, "request_id": "req_loopback", "body": reply}
    return shown | {"response": response, "error": None}


def _shown_file(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.data),
        "created_at": int(file.created_at),
        "filename": file.filename,
        "purpose": "batch",
    }
