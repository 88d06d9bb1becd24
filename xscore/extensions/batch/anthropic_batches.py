"""Anthropic's Message Batches: all requests in the body that creates the batch, and one stream of results.

The vendor stores neither a mark nor a file. After a crash we look for batches with the same number of requests and
recognise ours by the ids in its results. The input is framed while it is sent and is never in memory as a whole.
Trade-off: if the connection breaks after the last byte, only a later look tells whether the batch was created.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any

from xscore.extensions.batch.records import BatchLimits, BatchResult, BatchState, RequestOutcome, VendorBatch
from xscore.extensions.batch.vendor_calls import BatchHost, input_size, upload_timeout_s
from xscore.providers.host_facts import sub_object, token_count

READ_BYTES = 1 << 16
"""Sent at a time."""
BEFORE, BETWEEN, AFTER = b'{"requests":[', b",", b"]}"
CLOCK_DIFFERENCE_S = 3_600.0
"""How far the vendor's clock may be behind ours before a batch is not found again."""
STATES = {"canceling": BatchState.CANCELLING, "ended": BatchState.ENDED}
"""Vendor's word -> ours; any other is still working."""
COUNTED = ("processing", "succeeded", "errored", "canceled", "expired")
NOT_RUN = {"expired": RequestOutcome.EXPIRED, "canceled": RequestOutcome.CANCELLED}


class AnthropicBatches(BatchHost):
    """The Batch API of one host that speaks the Anthropic dialect."""

    name = "anthropic"
    limits = BatchLimits(requests=100_000, bytes=256_000_000 - len(BEFORE) - len(AFTER))
    path = "/v1/messages/batches"

    def line(self, custom_id: str, body: bytes) -> bytes:
        """Return a request's line of the input."""
        return b'{"custom_id":%b,"params":%b}\n' % (json.dumps(custom_id).encode(), body)

    def create_timeout_s(self, size: int) -> float:
        """Return the deadline of `create`, which carries the input."""
        return upload_timeout_s(size)

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str, requests: int) -> VendorBatch:
        """Create the batch from its input, framed as it is sent."""
        import httpx2

        size = input_size(lines)
        headers = {"Content-Type": "application/json", "Content-Length": str(size + len(BEFORE) + len(AFTER) - 1)}
        found = await self._once(
            lambda client: client.post(
                self.path, cast_to=httpx2.Response, content=_framed(lines), options={"headers": headers}
            ),
            timeout_s=self.create_timeout_s(size),
        )
        return self._seen(found)

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the batches with the same number of requests; none has a mark."""
        found: list[VendorBatch] = []
        async with aclosing(self._listed(self.path, cursor="after_id")) as entries:
            async for entry in entries:
                seen = self._seen(entry)
                if 0 < seen.created_at < since - CLOCK_DIFFERENCE_S:
                    break
                if seen.requests == requests:
                    found.append(seen)
        return found

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

    def _seen(self, found: Mapping[str, Any]) -> VendorBatch:
        status = str(found.get("processing_status"))
        counts = sub_object(found, "request_counts")
        number = {name: token_count(counts.get(name)) or 0 for name in COUNTED}
        return VendorBatch(
            vendor_id=self._id_of(found),
            state=STATES.get(status, BatchState.WORKING),
            status=status,
            created_at=_created_at(found),
            requests=sum(number.values()),
            done=number["succeeded"],
            failed=number["errored"],
        )


async def _framed(lines: IO[bytes]) -> AsyncIterator[bytes]:
    lines.seek(0)
    before = BEFORE
    while piece := lines.readlines(READ_BYTES):
        yield before + BETWEEN.join(line.rstrip(b"\n") for line in piece)
        before = BETWEEN
    yield AFTER


def _created_at(found: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(found.get("created_at"))).timestamp()
    except ValueError:
        return 0.0
