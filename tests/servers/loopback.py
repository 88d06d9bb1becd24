"""A loopback server of some dialect that judges without a model, counts, and misbehaves on demand.

It really parses what it is sent, counts how often each memory was judged, and streams answers in
pieces of twelve characters; what differs between dialects is left to its children: `with
OpenAIServer() as server: … server.url`.
"""

import asyncio
import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from aiohttp import web
from msgspec.structs import replace

from tests.servers import faults, scoring
from tests.servers.anthropic_cache import MarkedPrefixes
from tests.servers.faults import Fault, Planned
from tests.servers.judging import Counts, judged
from tests.servers.prefix_cache import PrefixCache, Tally
from tests.servers.threaded_server import ThreadedServer, serve_app

Answer = Callable[[str], str]
BROKEN_STREAMS = (Fault.CUT, Fault.ERROR_IN_STREAM)
PIECE_CHARS = 12
PATIENCE_S, STEP_S = 30.0, 0.01
"""How long a call is held for others to arrive, and how often they are counted."""


class LoopbackServer(ThreadedServer):
    """One server; attributes may change while it runs."""

    base_path: ClassVar[str]
    """The end of the base URL."""
    completions_path: ClassVar[str]
    models_path: ClassVar[str] = "/v1/models"
    rate_header: ClassVar[str]
    """The header with the limit of requests a minute."""
    error_in_200: ClassVar[dict[str, Any]]
    """An error that comes with a success, or in the middle of a stream."""
    status_faults: ClassVar[dict[Fault, tuple[int, str, str | None]]]
    prefixes: PrefixCache | MarkedPrefixes

    def __init__(
        self,
        *,
        score: scoring.ScoringFunction = scoring.by_words,
        answer: Answer | str = "The answer, citing nothing.",
        latency_s: float = 0.0,
        rpm: int | None = None,
        api_key: str | None = None,
        models: tuple[str, ...] = (),
        refused_fields: tuple[str, ...] = (),
        reasons_from: int = 30,
        headers: dict[str, str] | None = None,
        keep_bodies: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self.score = score
        self.answer = answer
        self.latency_s = latency_s
        self.may_reply: Callable[[Counts], bool] = lambda counts: True
        """Every call waits until this is true, or for `PATIENCE_S`."""
        self.rpm = rpm
        self.api_key = api_key
        self.models = models
        self.refused_fields = refused_fields
        self.reasons_from = reasons_from
        self.headers = headers or {}
        self.keep_bodies = keep_bodies
        self.tls = tls
        self.counts = Counts()
        self._planned: list[Planned] = []
        self._arrivals: deque[float] = deque()

    @property
    def url(self) -> str:
        """The base URL, as in the setting."""
        return f"{'https' if self.tls else 'http'}://{self.host}{self.base_path}"

    def misbehave(
        self,
        fault: Fault,
        *,
        times: int = 1,
        when: Callable[[dict[str, Any]], bool] = lambda body: True,
        retry_after_s: float | None = None,
    ) -> None:
        """Queue a fault for the next `times` requests that match `when`."""
        self._planned.append(Planned(fault, times, when, retry_after_s))

    def reset(self) -> None:
        """Reset counts and planned faults; the prefix cache stays warm."""
        self.counts = Counts(in_flight=self.counts.in_flight)
        self._planned.clear()

    def prompt(self, body: dict[str, Any]) -> str:
        """Return the text of the user's message."""
        raise NotImplementedError

    def asked(self, body: dict[str, Any], prompt: str) -> tuple[str, ...]:
        """Return the ids that the reply must score."""
        raise NotImplementedError

    def problem(
        self, status: int, message: str, code: str | None, *, param: str | None = None
    ) -> web.Response:
        """Return an error in the dialect's form."""
        raise NotImplementedError

    def refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        """Refuse what hosts of this dialect refuse."""
        raise NotImplementedError

    def account(self, body: dict[str, Any]) -> Tally:
        """Count a prompt's tokens as the vendor does; remember its prefixes."""
        return self.prefixes.account(body)

    def envelope(
        self, body: dict[str, Any], content: str, tally: Tally, fault: Fault | None
    ) -> dict[str, Any]:
        """Return the whole reply around this content."""
        raise NotImplementedError

    def events(
        self, body: dict[str, Any], reply: dict[str, Any], fault: Fault | None
    ) -> Iterator[bytes]:
        """Return a finished reply as the dialect streams it; a broken stream ends halfway, without
        a finish."""
        raise NotImplementedError

    def add_routes(self, app: web.Application) -> None:
        """Serve other paths too; none here."""

    def listing(self) -> list[dict[str, Any]]:
        """Return the entries of the list of models."""
        return [{"id": name, "object": "model"} for name in self.models]

    async def judge(
        self, request: web.Request, body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Answer a live call's body that arrived another way; return status and reply."""
        response = self._refused(request, body) or await self._reply(request, body)
        assert isinstance(response, web.Response) and isinstance(response.body, bytes), (
            "only replies that end well"
        )
        reply: dict[str, Any] = json.loads(response.body)
        return response.status, reply

    def rate_headers(self) -> dict[str, str]:
        """Return the stated limit and the test's own headers."""
        return ({} if self.rpm is None else {self.rate_header: str(self.rpm)}) | self.headers

    async def serve(self) -> None:
        """Serve the dialect's paths."""
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post(self.completions_path, self._completions)
        app.router.add_get(self.models_path, self._list_models)
        self.add_routes(app)
        await serve_app(self, app, tls=self.tls)

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        if not self._key_fits(request):
            return self._wrong_key()
        return web.json_response({"object": "list", "data": self.listing()})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        counts = self.counts
        counts.requests += 1
        counts.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, counts.in_flight)
        try:
            body = json.loads(await request.read())
            if self.keep_bodies:
                counts.bodies.append(body)
                counts.headers.append(
                    {name.lower(): value for name, value in request.headers.items()}
                )
            counts.keys.add(request.headers.get("Authorization", "").removeprefix("Bearer "))
            refused = self._refused(request, body)
            if refused is not None:
                counts.refused_requests += 1
                return refused
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            await self._wait_for_others()
            return await self._reply(request, body)
        finally:
            counts.in_flight -= 1

    async def _wait_for_others(self) -> None:
        waited_s = 0.0
        while not self.may_reply(self.counts) and waited_s < PATIENCE_S:
            await asyncio.sleep(STEP_S)
            waited_s += STEP_S

    def _refused(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if not self._key_fits(request):
            return self._wrong_key()
        if self.models and body.get("model") not in self.models:
            return self._by_status(Fault.UNKNOWN_MODEL)
        return self.refusal(request, body) or self._over_rate()

    def _over_rate(self) -> web.Response | None:
        if self.rpm is None:
            return None
        now = time.monotonic()
        while self._arrivals and now - self._arrivals[0] >= 60:
            self._arrivals.popleft()
        if len(self._arrivals) >= self.rpm:
            response = self._by_status(Fault.RATE_LIMITED)
            response.headers["Retry-After"] = f"{60 - (now - self._arrivals[0]):.3f}"
            return response
        self._arrivals.append(now)
        return None

    async def _reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        counts = self.counts
        planned = next((plan for plan in self._planned if plan.strikes(body)), None)
        if planned is not None:
            response = await self._faulty(planned, request, body)
            if response is not None:
                counts.refused_requests += 1
                return response
        fault = planned.fault if planned else None
        content, ids = self._content(body)
        if fault is not None:
            content = faults.spoil(fault, content, ids)
        tally = self.account(body)
        counts.prompt_tokens += tally.input_tokens
        counts.cached_tokens += tally.cached
        counts.written_tokens += tally.written
        stated = {Fault.CUT_PROMPT: tally.input_tokens // 10, Fault.VAST_USAGE: 10**12}
        if fault in stated:
            tally = replace(tally, input_tokens=stated[fault])
        reply = self.envelope(body, content, tally, fault)
        if fault is Fault.NO_USAGE:
            reply.pop("usage", None)
        if body.get("stream"):
            return await self._streamed(request, self.events(body, reply, fault))
        data = json.dumps(reply).encode()
        if fault is Fault.DRIP:
            return await faults.drip(request, data)
        if fault is Fault.CUT:
            return await faults.cut(request, data)
        if ids:
            counts.count_judged(self.prompt(body))
        return web.Response(
            body=data, content_type="application/json", headers=self.rate_headers()
        )

    async def _streamed(
        self, request: web.Request, events: Iterator[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", **self.rate_headers()}
        )
        await response.prepare(request)
        for event in events:
            await response.write(event)
        return response

    async def _faulty(
        self, planned: Planned, request: web.Request, body: dict[str, Any]
    ) -> web.StreamResponse | None:
        """Answer with the fault; None if the fault is in the reply's content, which is made as
        usual."""
        fault = planned.fault
        if fault in self.status_faults:
            response = self._by_status(fault, key=_bearer(request))
            if planned.retry_after_s is not None:
                response.headers["Retry-After"] = str(planned.retry_after_s)
            return response
        if fault is Fault.ECHO:
            echoed = (
                f"cannot take {_bearer(request)}: {json.dumps(body['messages'])}" + "x" * 5_000
            )
            return self.problem(400, echoed, None)
        if fault is Fault.ERROR_IN_200 or (
            fault is Fault.ERROR_IN_STREAM and not body.get("stream")
        ):
            return web.json_response(self.error_in_200)
        return await faults.broken_wire(fault, request)

    def _content(self, body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Judge, or answer if the request wants no judgments; return the text and the scored
        ids."""
        prompt = self.prompt(body)
        ids = self.asked(body, prompt)
        if not ids:
            self.counts.answering_requests += 1
            return (self.answer if isinstance(self.answer, str) else self.answer(prompt)), ()
        self.counts.judging_requests += 1
        return judged(prompt, ids, score=self.score, reasons_from=self.reasons_from), ids

    def _by_status(self, fault: Fault, *, key: str = "") -> web.Response:
        status, message, code = self.status_faults[fault]
        return self.problem(status, message.format(key=key), code)

    def _wrong_key(self) -> web.Response:
        return self._by_status(Fault.WRONG_KEY)

    def _key_fits(self, request: web.Request) -> bool:
        return self.api_key is None or _bearer(request) == self.api_key


def pieces(text: str, fault: Fault | None) -> list[str]:
    """Cut a text as a stream does; of a broken one only the first half is sent."""
    cut = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
    return cut[: len(cut) // 2] if fault in BROKEN_STREAMS else cut


def _bearer(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")
