"""Calls to any vendor's Batch API, each within its deadline and bounds, and what became of each request.

Reads are tried again a few times; a create is sent once, because it may have succeeded without an answer. Results are
streamed, and a stream that breaks is opened again without giving a line twice. No sentence of a host is passed on: it
may repeat the prompt. Trade-off: a hash of each line is kept while a stream is read, 4 MB for the largest batch.
"""

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import IO, Any, Protocol

from xscore.platform.errors import (
    CallTimedOut,
    NoBatchApi,
    PromptTooLong,
    ProviderError,
    RequestRejected,
    UnreadableResponse,
)
from xscore.providers.attempts import may_retry
from xscore.providers.concurrency import FIRST_BACKOFF_S
from xscore.providers.transport import MIB, expecting_tokens
from xscore.providers.wire import HostConnection
from xscore.providers.wire_errors import CallContext, DialectProfile, clean_completion, unwrapped
from xscore.records import Completion, Finish, RateLimits, Usage
from xscore.records.batch import BatchResult, BatchState, RequestOutcome, VendorBatch

LOOK_TIMEOUT_S = 30.0
"""Deadline of a look, a page of a list, and of the next bytes of a stream."""
CREATE_TIMEOUT_S = 120.0
SLOWEST_BYTES_S = 64 * 1024
"""An upload slower than this is given up."""
ATTEMPTS = 4
"""At what only reads."""
LINE_BYTES = 16 * MIB
"""Of one result; a longer one is not read."""
RESULT_TOKENS = 8_192
"""What a result may have on average, for the bound of the whole stream."""
CLOCK_DIFFERENCE_S = 3_600.0
"""How far the vendor's clock may be behind ours before a batch is not found again."""
PAGES = 1_000
"""Of a list, read at most: 100,000 batches or files."""
GONE = 404
ABSENT = (GONE, 405, 501)
"""Statuses of a path that a host does not serve, and of a batch or file that is not there."""

_ID = re.compile(r"[!-~]{1,256}")

Send = Callable[[Any], Awaitable[Any]]
"""Takes the SDK's client; gives its raw response."""


class BatchCalls:
    """One host, asked for batches, files and lists."""

    def __init__(
        self,
        connection: HostConnection,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.connection = connection
        self._sleep = sleep
        self._jitter = jitter

    async def once(self, send: Send, *, timeout_s: float = CREATE_TIMEOUT_S, of: str = "") -> dict[str, Any]:
        """Send once and return the JSON object that came.

        of: the batch or file that the path names; empty: a path that every Batch API has, so that its absence is
        NoBatchApi.
        """
        connection = self.connection
        sdk = connection.open()
        try:
            async with asyncio.timeout(timeout_s):
                response = await send(sdk.client)
        except TimeoutError as error:
            raise self._late(timeout_s) from error
        except connection.caught as error:
            raise self._translated(error, of) from error
        return connection.json(response)

    async def again(self, send: Send, *, of: str = "") -> dict[str, Any]:
        """Send what only reads, up to `ATTEMPTS` times, and return the JSON object that came."""
        failed = 0
        while True:
            try:
                return await self.once(send, timeout_s=LOOK_TIMEOUT_S, of=of)
            except ProviderError as error:
                failed += 1
                await self._wait(failed, error)

    async def get(self, path: str, *, of: str = "", query: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        """Return the JSON object at this path."""
        import httpx2

        options = {"params": query} if query else {}
        return await self.again(lambda client: client.get(path, cast_to=httpx2.Response, options=options), of=of)

    async def cancel(
        self, path: str, *, of: str, look: Callable[[], Awaitable[VendorBatch]]
    ) -> dict[str, Any] | VendorBatch:
        """Ask for a batch to be cancelled; one that is over already comes back as `look` sees it."""
        import httpx2

        try:
            return await self.once(lambda client: client.post(path, cast_to=httpx2.Response), of=of)
        except ProviderError:
            seen = await look()
            if seen.state is BatchState.WORKING:
                raise
            return seen

    async def listed(
        self,
        path: str,
        *,
        cursor: str,
        created_at: Callable[[Mapping[str, Any]], float],
        since: float | None,
        **query: str | int,
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the entries of a list, newest first, that were created from `since` on, by whichever clock; None: all.

        cursor: name of the field that asks for the page after an entry. created_at: 0 where it cannot be read, which
        ends nothing.
        """
        for _ in range(PAGES):
            page = await self.get(path, query={"limit": 100, **query})
            entries = [entry for entry in _list(page.get("data")) if isinstance(entry, Mapping)]
            for entry in entries:
                if since is not None and 0 < created_at(entry) < since - CLOCK_DIFFERENCE_S:
                    return
                yield entry
            last = entries[-1].get("id") if entries else None
            if page.get("has_more") is not True or not isinstance(last, str) or query.get(cursor) == last:
                return
            query[cursor] = last

    async def lines(self, path: str, *, of: str, results: int) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the JSON objects of a stream of lines, each once; one that is none or too long is empty.

        results: how many there may be.
        """
        given: set[int] = set()
        failed = 0
        while True:
            before = frozenset(given) if failed else frozenset()
            try:
                async with aclosing(self._stream(path, of=of, results=results)) as stream:
                    async for line in stream:
                        name = hash(line)
                        if name in before:
                            continue
                        given.add(name)
                        yield _object(line)
            except ProviderError as error:
                failed += 1
                await self._wait(failed, error)
            else:
                return

    async def _stream(self, path: str, *, of: str, results: int) -> AsyncGenerator[bytes, None]:
        connection = self.connection
        sdk = connection.open()
        try:
            with expecting_tokens(max(1, results) * RESULT_TOKENS):
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    stream = await sdk.client.get(path, cast_to=object, stream=True, stream_cls=sdk.stream_class)
            async with stream, aclosing(stream.response.aiter_bytes()) as pieces:
                async for line in self._split(pieces):
                    yield line
        except TimeoutError as error:
            raise self._late(LOOK_TIMEOUT_S) from error
        except connection.caught as error:
            raise self._translated(error, of) from error

    async def _split(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Give the lines that are not blank; of one that is too long its beginning, which is no JSON."""
        rest = bytearray()
        while True:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                piece = await anext(pieces, None)
            if piece is None:
                break
            *lines, last = piece.split(b"\n")
            for line in lines:
                if whole := bytes(rest + line).strip():
                    yield whole
                rest.clear()
            rest += last[: LINE_BYTES + 1 - len(rest)]
        if whole := bytes(rest).strip():
            yield whole

    async def _wait(self, failed: int, error: ProviderError) -> None:
        """Wait before another attempt; raise the error where there is none to make."""
        if failed >= ATTEMPTS or not may_retry(error):
            raise error
        least = max(error.retry_after_s or 0.0, FIRST_BACKOFF_S * 2.0 ** (failed - 1))
        await self._sleep(least + self._jitter() * FIRST_BACKOFF_S)

    def _translated(self, error: Exception, of: str) -> ProviderError:
        host, status = self.connection.host, getattr(error, "status_code", None)
        if status not in ABSENT:
            return self.connection.translated(error)
        if of and status == GONE:
            return RequestRejected(
                f"{host} knows no {of}", hint="It may have been deleted there, or belong to another account or key."
            )
        return NoBatchApi(
            f"{host} has no Batch API", hint="`xscore batch run --live` does the same job through live calls."
        )

    def _late(self, timeout_s: float) -> CallTimedOut:
        host, setting = self.connection.host, self.connection.profile.setting
        return CallTimedOut(
            f"{host} did not answer within {timeout_s:g} s",
            hint=f"Try again; check that the Batch API is served at {host} ({setting}).",
        )


def input_size(lines: IO[bytes]) -> int:
    """Return how many bytes an input has, and stand at its start."""
    size = lines.seek(0, 2)
    lines.seek(0)
    return size


def upload_timeout_s(size: int) -> float:
    """Return the deadline of sending so many bytes."""
    return CREATE_TIMEOUT_S + size / SLOWEST_BYTES_S


def vendor_id_of(found: Mapping[str, Any], words: DialectProfile, *, host: str) -> str:
    """Return the id of a batch or file. Raises UnreadableResponse for what cannot be one."""
    name = found.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise words.unreadable("a JSON object without a usable id", host=host, model="")
    return name


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


NO_REPLY = "a success without a reply"


class ReplyReader(Protocol):
    """What reads a live reply of the dialect."""

    def completion(self, found: Mapping[str, Any], call: CallContext, limits: RateLimits) -> Completion:
        """Return the completion in this reply object; raise the error it carries, or UnreadableResponse."""


def answered_result(
    custom_id: str, body: Mapping[str, Any], *, replies: ReplyReader, model: str, host: str, secret: str
) -> BatchResult:
    """Return the result of a request whose reply this body is."""
    try:
        found = replies.completion(body, CallContext(host, secret, model), RateLimits())
    except ProviderError as error:
        return BatchResult(
            custom_id=custom_id,
            fate=_fate(type(error)),
            detail=NO_REPLY,
            tells=(error.kind,),
            is_charged=isinstance(error, UnreadableResponse),
        )
    return BatchResult(
        custom_id=custom_id, fate=RequestOutcome.ANSWERED, completion=clean_completion(found, secret=secret)
    )


def unreadable_result(custom_id: str = "") -> BatchResult:
    """Return the result of a request that the host says it answered, and whose reply is none; no id: of any."""
    return BatchResult(custom_id=custom_id, fate=RequestOutcome.ERRED, detail=NO_REPLY, is_charged=True)


def failed_result(
    custom_id: str, body: object, *, words: DialectProfile, model: str, status: int | None = None
) -> BatchResult:
    """Return the result of a request that was answered with this error body. status: where the host states it."""
    error = unwrapped(body)
    names = words.known_names(error)
    if words.refusal_codes.intersection(names):
        declined = Completion(text="", finish=Finish.REFUSAL, usage=Usage(), model=model, usage_reported=False)
        return BatchResult(custom_id=custom_id, fate=RequestOutcome.ANSWERED, completion=declined)
    kind = words.kept_kind(error, status=status)
    said = ", ".join(filter(None, ("" if status is None else str(status), *dict.fromkeys(names))))
    return BatchResult(
        custom_id=custom_id, fate=_fate(kind), detail=f"answered {said or 'an error'}", tells=(kind.kind,)
    )


def _fate(kind: type[ProviderError]) -> RequestOutcome:
    return RequestOutcome.REFUSED if issubclass(kind, (PromptTooLong, RequestRejected)) else RequestOutcome.ERRED
