"""The vendors' Batch APIs, and which of their failures mean that no batch was created.

It knows nothing of questions, judgments or money. Key, address and size limits are those of live
calls; nothing is retried here. A create that failed without an answer may have succeeded: look it
up with `find`, unless the error is one of `CERTAINLY_NOT_CREATED`. Whether a compatible host has a
Batch API is known only once it is asked.

Anthropic: all requests are in the body that creates the batch. The vendor stores neither a mark nor
a file. After a crash we look for batches with the same number of requests and recognise ours by the
ids in its results. The input is framed while it is sent and is never in memory as a whole. If the
connection breaks after the last byte, only a later look tells whether the batch was created.

OpenAI: a file of requests, a batch over it, and files of what came back. The mark is stored in the
batch's metadata and in the file's name, so that both can be found again. Trade-off: OpenAI is asked
to delete the input after `INPUT_KEPT_S`, because it contains memories; results stay as long as the
host keeps them.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any
from urllib.parse import quote

import msgspec

from xscore.extensions.batch.records import (
    BatchLimits,
    BatchResult,
    RequestOutcome,
    VendorBatch,
    VendorBatchState,
)
from xscore.extensions.batch.vendor_calls import (
    LIVE_HINT,
    BatchHost,
    input_size,
    unreadable_result,
    upload_timeout_s,
)
from xscore.platform.errors import (
    AuthenticationFailed,
    NoBatchApi,
    PromptTooLong,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
    UsageError,
)
from xscore.providers.connection import JSON_BODY
from xscore.providers.host_facts import sub_object, token_count
from xscore.providers.provider import Provider
from xscore.providers.wire import WireProvider
from xscore.records.calls import Request

READ_BYTES = 1 << 16
"""Bytes sent at a time."""
BEFORE, BETWEEN, AFTER = b'{"requests":[', b",", b"]}"
CLOCK_DIFFERENCE_S = 3_600.0
"""How far the vendor's clock may be behind ours before a batch is no longer found."""
STATES = {"canceling": VendorBatchState.CANCELLING, "ended": VendorBatchState.ENDED}
"""Vendor's word -> ours; any other is still working."""
COUNTED = ("processing", "succeeded", "errored", "canceled", "expired")
NOT_RUN = {"expired": RequestOutcome.EXPIRED, "canceled": RequestOutcome.CANCELLED}


class AnthropicBatches(BatchHost):
    """The Batch API of one host that speaks the Anthropic dialect."""

    name = "anthropic"
    limits: BatchLimits = BatchLimits(
        requests=100_000, bytes=256_000_000 - len(BEFORE) - len(AFTER)
    )
    path = "/v1/messages/batches"

    def line(self, custom_id: str, request: Request) -> bytes:
        """Return a request's line of the input."""
        return b'{"custom_id":%b,"params":%b}\n' % (
            json.dumps(custom_id).encode(),
            self.provider.body(request),
        )

    def create_timeout_s(self, size: int) -> float:
        """Return the deadline of `create`, which carries the input."""
        return upload_timeout_s(size)

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str) -> VendorBatch:
        """Create the batch from its input, framed as it is sent."""
        size = input_size(lines)
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(size + len(BEFORE) + len(AFTER) - 1),
        }
        timeout_s = upload_timeout_s(size)
        reply = await self._post(
            self.path, _framed(lines), headers=headers, timeout_s=timeout_s
        )
        return self._seen(reply)

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the batches with the same number of requests; none has a mark."""
        batches: list[VendorBatch] = []
        async with aclosing(self._listed(self.path, cursor="after_id")) as entries:
            async for entry in entries:
                if 0 < _created_at(entry) < since - CLOCK_DIFFERENCE_S:
                    break
                seen = self._seen(entry)
                if seen.requests == requests:
                    batches.append(seen)
        return batches

    def _result_paths(self, seen: VendorBatch) -> Sequence[tuple[str, str]]:
        # the documented path, not the URL that the host returns, so that the key goes nowhere else
        return [(f"{self._at(seen.vendor_id)}/results", f"results of batch {seen.vendor_id}")]

    def _result(self, custom_id: str, line: Mapping[str, Any], model: str) -> BatchResult:
        result = sub_object(line, "result")
        kind = str(result.get("type"))
        if kind in NOT_RUN:
            return BatchResult(custom_id=custom_id, outcome=NOT_RUN[kind], detail=kind)
        if kind != "succeeded":
            return self._failed(custom_id, result.get("error"), model)
        return self._answered(custom_id, sub_object(result, "message"), model)

    def _seen(self, entry: Mapping[str, Any]) -> VendorBatch:
        status = str(entry.get("processing_status"))
        counts = sub_object(entry, "request_counts")
        number = {name: token_count(counts.get(name)) or 0 for name in COUNTED}
        return VendorBatch(
            vendor_id=self._id_of(entry),
            state=STATES.get(status, VendorBatchState.WORKING),
            status=status,
            requests=sum(number.values()),
            done=number["succeeded"],
        )


async def _framed(lines: IO[bytes]) -> AsyncIterator[bytes]:
    lines.seek(0)
    before = BEFORE
    while piece := lines.readlines(READ_BYTES):
        yield before + BETWEEN.join(line.rstrip(b"\n") for line in piece)
        before = BETWEEN
    yield AFTER


def _created_at(entry: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(entry.get("created_at"))).timestamp()
    except ValueError:
        return 0.0


ENDPOINT = "/v1/chat/completions"
INPUT_KEPT_S = 3 * 86_400
MARK_KEY = "xscore"
"""Key under which a batch's metadata holds our mark."""
OPENAI_STATES = {
    "cancelling": VendorBatchState.CANCELLING,
    "completed": VendorBatchState.ENDED,
    "expired": VendorBatchState.ENDED,
    "cancelled": VendorBatchState.ENDED,
    "failed": VendorBatchState.FAILED,
}
"""Vendor's word -> ours; any other is still working."""
OPENAI_NOT_RUN = {
    "batch_expired": RequestOutcome.EXPIRED,
    "batch_cancelled": RequestOutcome.CANCELLED,
}
"""Code in the error file -> outcome of the request."""
TOO_MUCH_WAITING = "token_limit_exceeded"
PROBLEMS = {
    TOO_MUCH_WAITING: "it would exceed the input tokens that your account may have queued there",
    "duplicate_custom_id": "two requests have one id",
    "empty_file": "its input is empty",
    "invalid_json_line": "a line of its input is not JSON",
    "mismatched_model": "its requests name different models",
    "model_not_found": "the host has no such model for batches",
    "too_many_tasks": "it has more requests than the host accepts",
    "billing_hard_limit_reached": "the account has reached its spending limit",
    "insufficient_quota": "the account has reached its spending limit",
}
"""Code of a failed batch -> the reason in our words."""


class OpenAIBatches(BatchHost):
    """The Batch API of one host that speaks the OpenAI dialect."""

    name = "openai"
    limits: BatchLimits = BatchLimits(requests=50_000, bytes=200_000_000)
    path = "/batches"

    def line(self, custom_id: str, request: Request) -> bytes:
        """Return a request's line of the input."""
        name = json.dumps(custom_id).encode()
        body = self.provider.body(request)
        return b'{"custom_id":%b,"method":"POST","url":"%b","body":%b}\n' % (
            name,
            ENDPOINT.encode(),
            body,
        )

    async def upload(self, lines: IO[bytes], *, mark: str) -> str:
        """Upload the input, streamed, and return the id of its file. Closes `lines`."""
        from aiohttp import FormData  # most batch commands upload nothing

        timeout_s = upload_timeout_s(input_size(lines))
        form = FormData(file_fields(is_vendors_own=self.provider.is_vendors_own))
        form.add_field(
            "file", lines, filename=f"{mark}.jsonl", content_type="application/jsonl"
        )
        return self._id_of(await self._post("/files", form, timeout_s=timeout_s))

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str) -> VendorBatch:
        """Create the batch over an uploaded input."""
        body = msgspec.json.encode(batch_fields(mark=mark, file_id=file_id))
        of = f"file {file_id}, or no Batch API"
        return self._seen(await self._post("/batches", body, headers=JSON_BODY, of=of))

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the newest batch with this mark, whatever creation time the vendor's clock
        shows."""
        async with aclosing(self._listed("/batches", cursor="after")) as entries:
            async for entry in entries:
                if _mark(entry) == mark:
                    return [self._seen(entry)]
        return []

    def _result_paths(self, seen: VendorBatch) -> Sequence[tuple[str, str]]:
        return [
            (f"/files/{quote(file_id, safe='')}/content", f"file {file_id}")
            for file_id in seen.files
        ]

    def _result(self, custom_id: str, line: Mapping[str, Any], model: str) -> BatchResult:
        response = sub_object(line, "response")
        error = line.get("error")
        code = sub_object(line, "error").get("code")
        if isinstance(code, str) and code in OPENAI_NOT_RUN:
            return BatchResult(custom_id=custom_id, outcome=OPENAI_NOT_RUN[code], detail=code)
        status = token_count(response.get("status_code"))
        body = response.get("body")
        if status == 200:
            if isinstance(body, Mapping):
                return self._answered(custom_id, body, model)
            return unreadable_result(custom_id)
        return self._failed(custom_id, error if status is None else body, model, status=status)

    def _seen(self, entry: Mapping[str, Any]) -> VendorBatch:
        status = str(entry.get("status"))
        counts = sub_object(entry, "request_counts")
        files = (entry.get("output_file_id"), entry.get("error_file_id"))
        problem, code = _problem(entry) if status == "failed" else ("", "")
        return VendorBatch(
            vendor_id=self._id_of(entry),
            state=OPENAI_STATES.get(status, VendorBatchState.WORKING),
            status=status,
            mark=_mark(entry),
            requests=token_count(counts.get("total")) or 0,
            done=token_count(counts.get("completed")) or 0,
            problem=problem,
            is_queue_full=code == TOO_MUCH_WAITING,
            files=tuple(name for name in files if isinstance(name, str) and name),
        )


def file_fields(*, is_vendors_own: bool) -> dict[str, str]:
    """Return the fields of the form that uploads an input; only the vendor is asked to let it
    expire."""
    fields = {"purpose": "batch"}
    if is_vendors_own:
        fields |= {
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": str(INPUT_KEPT_S),
        }
    return fields


def batch_fields(*, mark: str, file_id: str) -> dict[str, Any]:
    """Return the body that creates a batch."""
    return {
        "completion_window": "24h",
        "endpoint": ENDPOINT,
        "input_file_id": file_id,
        "metadata": {MARK_KEY: mark},
    }


def _mark(entry: Mapping[str, Any]) -> str:
    mark = sub_object(entry, "metadata").get(MARK_KEY)
    return mark if isinstance(mark, str) else ""


def _problem(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a batch failed, and the host's code if we know it."""
    data = sub_object(entry, "errors").get("data")
    known_code = ""
    line: int | None = None
    for error in data if isinstance(data, list) else ():
        if not isinstance(error, Mapping):
            continue
        code = error.get("code")
        # No other word of the host is passed on: it may repeat the prompt.
        if not known_code and isinstance(code, str) and code in PROBLEMS:
            known_code = code
        if line is None:
            line = token_count(error.get("line"))
    where = "" if line is None else f" (line {line})"
    why = "the host refused its input"
    if known_code:
        why = f"{PROBLEMS[known_code]} ({known_code})"
    return why + where, known_code


CERTAINLY_NOT_CREATED: tuple[type[ProviderError], ...] = (
    AuthenticationFailed,
    NoBatchApi,
    PromptTooLong,
    QuotaExhausted,
    RateLimited,
    RequestRejected,
    UnknownModel,
    Unreachable,
)
"""Failures of `create` and `upload` that certainly created nothing; any other may have."""


def batch_host(provider: Provider) -> BatchHost:
    """Return the Batch API of a provider; nothing is sent yet.

    Closing either closes both. Raises UsageError.
    """
    if isinstance(provider, WireProvider) and provider.name == "anthropic":
        return AnthropicBatches(provider)
    if isinstance(provider, WireProvider) and provider.name == "openai":
        return OpenAIBatches(provider)
    raise UsageError(f"the provider `{provider.name}` has no Batch API", hint=LIVE_HINT)
