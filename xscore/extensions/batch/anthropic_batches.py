"""Anthropic's Message Batches: all requests in the body that creates the batch, and one stream of results.

The vendor keeps no mark and no file, so what may be ours is found by its number of requests and its time; the ids in
its results tell in the end. The input is framed while it is sent and never stands in memory as a whole. The trade-off:
a create that is cut off after the last byte leaves a doubt that only time resolves.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import IO, Any
from urllib.parse import quote

from xscore.extensions.batch.vendor_calls import (
    BatchCalls,
    answered_result,
    failed_result,
    input_size,
    unreadable_result,
    upload_timeout_s,
    vendor_id_of,
)
from xscore.providers.anthropic import ANTHROPIC
from xscore.providers.host_facts import sub_object, token_count
from xscore.providers.wire import WireProvider
from xscore.records import Capability, Request
from xscore.records.batch import BatchLimits, BatchResult, BatchState, RequestOutcome, VendorBatch

PATH = "/v1/messages/batches"
READ_BYTES = 1 << 16
"""Sent at a time."""
BEFORE, BETWEEN, AFTER = b'{"requests":[', b",", b"]}"
STATES = {"canceling": BatchState.CANCELLING, "ended": BatchState.ENDED}
"""Vendor's word -> ours; any other is still working."""
COUNTED = ("processing", "succeeded", "errored", "canceled", "expired")
NOT_RUN = {"expired": RequestOutcome.EXPIRED, "canceled": RequestOutcome.CANCELLED}


class AnthropicBatches:
    """The Batch API of one host that speaks the Anthropic dialect."""

    name = "anthropic"
    limits = BatchLimits(requests=100_000, bytes=256_000_000 - len(BEFORE) - len(AFTER))

    def __init__(self, provider: WireProvider, *, calls: BatchCalls | None = None) -> None:
        self.host = provider.host
        self._provider = provider
        self._calls = calls or BatchCalls(provider.connection)

    def adopt(self, capability: Capability) -> None:
        """Make bodies from now on in this form and without these fields."""
        self._provider.adopt(capability)

    def line(self, custom_id: str, body: bytes) -> bytes:
        """Return a request's line of the input."""
        return b'{"custom_id":%b,"params":%b}\n' % (json.dumps(custom_id).encode(), body)

    def body(self, request: Request) -> bytes:
        """Return the JSON body of a request, as the live call would send it."""
        return self._provider.body(request)

    async def upload(self, lines: IO[bytes], *, mark: str) -> str:
        """Return an empty id: the input travels with `create`."""
        return ""

    async def create(self, lines: IO[bytes], *, mark: str, file_id: str, requests: int) -> VendorBatch:
        """Create the batch from its input, framed as it is sent."""
        import httpx2

        size = input_size(lines)
        headers = {"Content-Type": "application/json", "Content-Length": str(size + len(BEFORE) + len(AFTER) - 1)}
        found = await self._calls.once(
            lambda client: client.post(
                PATH, cast_to=httpx2.Response, content=_framed(lines), options={"headers": headers}
            ),
            timeout_s=upload_timeout_s(size),
        )
        return self._seen(found)

    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the batches with as many requests; none of them bears a mark."""
        entries = self._calls.listed(PATH, cursor="after_id", created_at=_created_at, since=since)
        async with aclosing(entries):
            return [seen async for entry in entries if (seen := self._seen(entry)).requests == requests]

    async def find_file(self, *, mark: str, since: float) -> str:
        """Return an empty id: no files are kept."""
        return ""

    async def look(self, vendor_id: str) -> VendorBatch:
        """Return the batch as it stands."""
        return self._seen(await self._calls.get(_at(vendor_id), of=f"batch {vendor_id}"))

    async def cancel(self, vendor_id: str) -> VendorBatch:
        """Ask for it to be cancelled; a batch that is over comes back as it stands."""
        path, of = f"{_at(vendor_id)}/cancel", f"batch {vendor_id}"
        found = await self._calls.cancel(path, of=of, look=lambda: self.look(vendor_id))
        return found if isinstance(found, VendorBatch) else self._seen(found)

    async def results(self, seen: VendorBatch, *, model: str) -> AsyncGenerator[BatchResult, None]:
        """Yield what became of each request.

        The documented path is asked, not the address that the host gives: the key goes nowhere else.
        """
        path, of = f"{_at(seen.vendor_id)}/results", f"results of batch {seen.vendor_id}"
        async with aclosing(self._calls.lines(path, of=of, results=seen.requests)) as lines:
            async for line in lines:
                yield self._result(line, model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._provider.aclose()

    def _result(self, line: Mapping[str, Any], model: str) -> BatchResult:
        custom_id, result = line.get("custom_id"), sub_object(line, "result")
        if not isinstance(custom_id, str):
            return unreadable_result()
        kind = str(result.get("type"))
        if kind in NOT_RUN:
            return BatchResult(custom_id=custom_id, fate=NOT_RUN[kind], detail=kind)
        if kind != "succeeded":
            return failed_result(custom_id, result.get("error"), words=ANTHROPIC, model=model)
        connection, replies = self._provider.connection, self._provider.dialect
        body = sub_object(result, "message")
        return answered_result(custom_id, body, replies=replies, model=model, host=self.host, secret=connection.key)

    def _seen(self, found: Mapping[str, Any]) -> VendorBatch:
        status = str(found.get("processing_status"))
        counts = sub_object(found, "request_counts")
        number = {name: token_count(counts.get(name)) or 0 for name in COUNTED}
        return VendorBatch(
            vendor_id=vendor_id_of(found, ANTHROPIC, host=self.host),
            state=STATES.get(status, BatchState.WORKING),
            status=status,
            created_at=_created_at(found),
            requests=sum(number.values()),
            done=number["succeeded"],
            failed=number["errored"],
        )


async def _framed(lines: IO[bytes]) -> AsyncIterator[bytes]:
    """Give the body around the input's lines, a piece at a time."""
    lines.seek(0)
    before = BEFORE
    while piece := lines.readlines(READ_BYTES):
        yield before + BETWEEN.join(line.rstrip(b"\n") for line in piece)
        before = BETWEEN
    yield AFTER


def _at(vendor_id: str) -> str:
    return f"{PATH}/{quote(vendor_id, safe='')}"


def _created_at(found: Mapping[str, Any]) -> float:
    """Read the time, RFC 3339; one that cannot be read is the beginning of time."""
    try:
        return datetime.fromisoformat(str(found.get("created_at"))).timestamp()
    except ValueError:
        return 0.0
