"""Calls to any vendor's Batch API, each with a deadline and size limits, and the result of each
request.

Reads are retried a few times. A create is sent once, because it may have succeeded without an
answer. Results are streamed. No text of a host's error is passed on, since it may repeat the
prompt. Trade-off: after a stream breaks, the next pass reads it from the start and skips what was
entered.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, contextmanager
from typing import IO, Any
from urllib.parse import quote

from xscore.extensions.batch.records import (
    BatchLimits,
    BatchResult,
    RequestOutcome,
    VendorBatch,
    VendorBatchState,
)
from xscore.platform.errors import (
    CallTimedOut,
    NoBatchApi,
    Overloaded,
    PromptTooLong,
    ProviderError,
    RequestRejected,
    UnreadableResponse,
)
from xscore.providers.attempts import may_retry, retry_wait_s
from xscore.providers.connection import OpenReply
from xscore.providers.host_facts import json_object
from xscore.providers.reply_bounds import MIB, expecting_tokens
from xscore.providers.wire import WireProvider, declined
from xscore.providers.wire_errors import (
    CallContext,
    clean_completion,
    is_declined,
    known_names,
    stated_kind,
    unwrapped,
)
from xscore.records.calls import RateLimits, Request

LOOK_TIMEOUT_S = 30.0
"""Deadline of reading a status or a page of a list, and of the next bytes of a stream."""
CREATE_TIMEOUT_S = 120.0
SLOWEST_BYTES_S = 64 * 1024
"""Slowest upload, in bytes a second; a slower one is given up."""
ATTEMPTS = 4
"""Attempts of a request that only reads."""
LINE_BYTES = 16 * MIB
"""Longest line of results that is read."""
RESULT_TOKENS = 8_192
"""Tokens allowed per result on average; they bound the size of the whole stream."""
PAGES = 1_000
"""Most pages read of a list: 100,000 batches."""
GONE = 404
ABSENT = (GONE, 405, 501)
"""Statuses of an unserved path, and of a missing batch or file."""

LIVE_HINT = "`xscore batch run` does the same job through live calls."
_ID = re.compile(r"[!-~]{1,256}")


def input_size(lines: IO[bytes]) -> int:
    """Return the size of an input in bytes, leaving it at its start."""
    size = lines.seek(0, 2)
    lines.seek(0)
    return size


def upload_timeout_s(size: int) -> float:
    """Return the deadline of uploading this many bytes."""
    return CREATE_TIMEOUT_S + size / SLOWEST_BYTES_S


NO_REPLY = "a success without a reply"


class BatchHost(ABC):
    """One vendor's Batch API, at one host. Methods raise leaves of `ProviderError`."""

    name: str
    limits: BatchLimits
    path: str

    def __init__(
        self,
        provider: WireProvider,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.provider: WireProvider = provider
        self._sleep = sleep

    @abstractmethod
    def line(self, custom_id: str, request: Request) -> bytes:
        """Return a request's line of the input: its id around the live call's JSON body, with a
        line break."""

    async def upload(self, lines: IO[bytes], *, mark: str) -> str:
        """Upload the input and return its file id; empty if it is sent with `create`.

        The HTTP client may close `lines` once they are sent.
        """
        return ""

    def create_timeout_s(self, size: int) -> float:
        """Return the deadline of `create` for an input of this many bytes."""
        return CREATE_TIMEOUT_S

    @abstractmethod
    async def create(self, lines: IO[bytes], *, mark: str, file_id: str) -> VendorBatch:
        """Create the batch from an input that begins at the start of `lines`, one line a
        request."""

    @abstractmethod
    async def find(self, *, mark: str, since: float, requests: int) -> Sequence[VendorBatch]:
        """Return the vendor's batches that may be the one of this mark, created from `since` (Unix
        seconds) on.

        One that certainly is bears the mark. Others, whose vendor keeps no mark, bear none and have
        as many requests; their results tell, once they have ended.
        """

    async def look(self, vendor_id: str) -> VendorBatch:
        """Return the current state of the batch."""
        return self._seen(await self._get(self._at(vendor_id), of=f"batch {vendor_id}"))

    async def cancel(self, vendor_id: str) -> VendorBatch:
        """Ask for its cancellation; finished requests are kept and charged.

        Asking twice is not an error.
        """
        try:
            reply = await self._post(f"{self._at(vendor_id)}/cancel", of=f"batch {vendor_id}")
        except ProviderError:
            seen = await self.look(vendor_id)
            if seen.state is VendorBatchState.WORKING:
                raise
            return seen
        return self._seen(reply)

    async def results(
        self, seen: VendorBatch, *, model: str
    ) -> AsyncGenerator[BatchResult, None]:
        """Yield the result of each request of an ended batch, in any order, streamed.

        A request that was never run may be missing. Where an answered one reports no usage, its
        input tokens are 0: the sender knows the estimate. No detail quotes the host: its words may
        repeat the prompt.
        """
        for path, of in self._result_paths(seen):
            async with aclosing(self._lines(path, of=of, results=seen.requests)) as lines:
                async for line in lines:
                    try:
                        record = json.loads(line)
                    except (ValueError, RecursionError):
                        record = None
                    custom_id = None
                    if isinstance(record, dict):
                        custom_id = record.get("custom_id")
                    if isinstance(custom_id, str):
                        yield self._result(custom_id, record, model)
                    else:
                        yield unreadable_result()

    async def aclose(self) -> None:
        """Release connections."""
        await self.provider.aclose()

    @contextmanager
    def _errors(self, timeout_s: float, of: str) -> Iterator[None]:
        """Raise leaves of ProviderError for whatever a call raises. of: what the path names, or
        empty."""
        host = self.provider.host
        profile = self.provider.profile
        try:
            yield
        except TimeoutError as error:
            # The HTTP client has one of its own kind, of a connection that was never made: then
            # nothing was created.
            if type(error) is not TimeoutError:
                raise self.provider.translated(error) from error
            raise CallTimedOut(
                f"{host} did not answer within {timeout_s:g} s",
                hint=(
                    f"Try again; check that the Batch API is served at {host} ({profile.setting})."
                ),
            ) from error
        except self.provider.caught as error:
            status = getattr(error, "status_code", None)
            if status not in ABSENT:
                raise self.provider.translated(error) from error
            if of and status == GONE:
                hint = "It may have been deleted there, or belong to another account or key."
                raise RequestRejected(f"{host} has no {of}", hint=hint) from error
            raise NoBatchApi(f"{host} has no Batch API", hint=LIVE_HINT) from error

    async def _post(
        self,
        path: str,
        data: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CREATE_TIMEOUT_S,
        of: str = "",
    ) -> dict[str, Any]:
        """Post once and return the JSON object of the reply. data: as aiohttp takes it; of: as in
        `_once`."""
        sent = self.provider.open_reply("POST", path, data, headers=headers)
        return await self._once(sent, timeout_s=timeout_s, of=of)

    async def _once(
        self, sent: AbstractAsyncContextManager[OpenReply], *, timeout_s: float, of: str
    ) -> dict[str, Any]:
        """Send once and return the JSON object of the reply.

        of: the batch or file that the path names; empty: a path that every Batch API has, so that
            its absence is NoBatchApi.
        """
        with self._errors(timeout_s, of):
            async with asyncio.timeout(timeout_s), sent as reply:
                data = await reply.read()
        call = CallContext(self.provider.host)
        return json_object(data, reply.headers, self.provider.profile, call)

    async def _get(
        self, path: str, *, of: str = "", query: Mapping[str, str | int] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object at this path, in up to `ATTEMPTS` tries."""
        failed = 0
        while True:
            sent = self.provider.open_reply("GET", path, query=query)
            try:
                return await self._once(sent, timeout_s=LOOK_TIMEOUT_S, of=of)
            except ProviderError as error:
                failed += 1
                if failed >= ATTEMPTS or not may_retry(error):
                    raise
                wait_s = retry_wait_s(failed, error)
            await self._sleep(wait_s)

    async def _listed(
        self, path: str, *, cursor: str
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the entries of a list, newest first. cursor: field that asks for the page after an
        entry."""
        query: dict[str, str | int] = {"limit": 100}
        for _ in range(PAGES):
            page = await self._get(path, query=query)
            data = page.get("data")
            listed = data if isinstance(data, list) else []
            entries = [entry for entry in listed if isinstance(entry, Mapping)]
            for entry in entries:
                yield entry
            last = entries[-1].get("id") if entries else None
            if (
                page.get("has_more") is not True
                or not isinstance(last, str)
                or query.get(cursor) == last
            ):
                return
            query[cursor] = last

    async def _lines(self, path: str, *, of: str, results: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a stream; only the first bytes of an overlong one. results: the
        expected maximum."""
        with self._errors(LOOK_TIMEOUT_S, of):
            async with AsyncExitStack() as stack:
                sent = self.provider.open_reply("GET", path)
                with expecting_tokens(max(1, results) * RESULT_TOKENS):
                    async with asyncio.timeout(LOOK_TIMEOUT_S):
                        reply = await stack.enter_async_context(sent)
                pieces = await stack.enter_async_context(aclosing(reply.pieces()))
                async for line in self._split(pieces):
                    yield line

    async def _split(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        rest = bytearray()
        while True:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                piece = await anext(pieces, None)
            if piece is None:
                break
            *lines, last = piece.split(b"\n")
            for line in lines:
                if text := bytes(rest + line).strip():
                    yield text
                rest.clear()
            rest += last[: LINE_BYTES + 1 - len(rest)]
        if text := bytes(rest).strip():
            yield text

    @abstractmethod
    def _seen(self, entry: Mapping[str, Any]) -> VendorBatch:
        """Return a batch from its vendor's reply."""

    @abstractmethod
    def _result_paths(self, seen: VendorBatch) -> Sequence[tuple[str, str]]:
        """Return each path with results, and its subject."""

    @abstractmethod
    def _result(self, custom_id: str, line: Mapping[str, Any], model: str) -> BatchResult:
        """Return the result in a line."""

    def _at(self, vendor_id: str) -> str:
        return f"{self.path}/{quote(vendor_id, safe='')}"

    def _id_of(self, entry: Mapping[str, Any]) -> str:
        """Return the id of a batch or file. Raises UnreadableResponse for an invalid one."""
        name = entry.get("id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise self.provider.profile.unreadable(
                "a JSON object without a usable id", CallContext(self.provider.host)
            )
        return name

    def _answered(self, custom_id: str, body: Mapping[str, Any], model: str) -> BatchResult:
        provider = self.provider
        try:
            raw_completion = provider.completion(
                body, CallContext(provider.host, provider.key, model), RateLimits()
            )
        except ProviderError as error:
            is_charged = isinstance(error, UnreadableResponse)
            return _failure(custom_id, type(error), NO_REPLY, is_charged=is_charged)
        cleaned = clean_completion(raw_completion, secret=provider.key)
        return BatchResult(
            custom_id=custom_id, outcome=RequestOutcome.ANSWERED, completion=cleaned
        )

    def _failed(
        self, custom_id: str, body: object, model: str, *, status: int | None = None
    ) -> BatchResult:
        """Return the result of a request from its error body. status: if the host states it."""
        error = unwrapped(body)
        names = known_names(error)
        if is_declined(error):
            return BatchResult(
                custom_id=custom_id,
                outcome=RequestOutcome.ANSWERED,
                completion=declined(model),
            )
        # An error without a known code is taken as passing, so that the request is planned again.
        kind = stated_kind(error, status=status) or Overloaded
        stated = ", ".join(
            filter(None, ("" if status is None else str(status), *dict.fromkeys(names)))
        )
        return _failure(custom_id, kind, f"answered {stated or 'an error'}")


def unreadable_result(custom_id: str = "") -> BatchResult:
    """Return the result of a request that the host counts as answered, with an unreadable reply."""
    return BatchResult(
        custom_id=custom_id, outcome=RequestOutcome.ERRED, detail=NO_REPLY, is_charged=True
    )


def _failure(
    custom_id: str, kind: type[ProviderError], detail: str, *, is_charged: bool = False
) -> BatchResult:
    refused = issubclass(kind, (PromptTooLong, RequestRejected))
    outcome = RequestOutcome.REFUSED if refused else RequestOutcome.ERRED
    return BatchResult(
        custom_id=custom_id,
        outcome=outcome,
        detail=detail,
        error_kind=kind.kind,
        is_charged=is_charged,
    )
