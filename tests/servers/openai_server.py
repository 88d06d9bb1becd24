"""A loopback server of the OpenAI dialect that judges without a model, counts, and misbehaves on demand.

It really parses what it is sent: ids from the schema's `required` list, memories from their blocks. It accounts
prompt prefixes as the vendor does (`prefix_cache`), counts how often each memory was judged, and streams answers.
It runs in a thread of its own: `with OpenAIServer() as server: … server.url`. As a program
(`python -m tests.servers`) it prints its URL and serves until killed, for CPU measurements.
"""

import asyncio
import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from tests.servers import faults, scoring
from tests.servers.faults import Fault, Planned
from tests.servers.prefix_cache import PrefixCache, prompt_text, tokens
from tests.servers.streaming import stream
from xscore.hashing import content_hash
from xscore.providers.pack_reading import around_memories, shown_memories

Answer = Callable[[str], str]
_SCORED = re.compile(r"<(memory|code)\b[^>]*\bscore=")
"""Memories that carry a score are shown for answering, not for judging."""


@dataclass
class Counts:
    """What the server saw since it started or since `reset`."""

    requests: int = 0
    judging_requests: int = 0
    answering_requests: int = 0
    refused_requests: int = 0
    """Answered with an error or not at all."""
    in_flight: int = 0
    peak_in_flight: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    judgments: Counter[str] = field(default_factory=Counter)
    """content hash of (path, entity, text) -> how often it was scored in a reply that was sent whole."""
    judged_places: Counter[str] = field(default_factory=Counter)
    """`path::entity` -> how often."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Every request body, in order of arrival."""
    keys: set[str] = field(default_factory=set)
    """Bearer tokens seen."""
    header_names: set[str] = field(default_factory=set)
    """Names of the request headers seen, in lower case."""


class OpenAIServer:
    """One server; attributes may be changed while it runs."""

    def __init__(
        self,
        *,
        score: scoring.ScoringFunction = scoring.by_words,
        answer: Answer | str = "The answer, citing nothing.",
        latency_s: float = 0.0,
        rpm: int | None = None,
        api_key: str | None = None,
        models: tuple[str, ...] = (),
        reasons_from: int = 30,
        refused_fields: tuple[str, ...] = (),
        headers: dict[str, str] | None = None,
        keep_bodies: bool = True,
    ) -> None:
        self.score = score
        self.answer = answer
        self.latency_s = latency_s
        self.rpm = rpm
        self.api_key = api_key
        self.models = models
        self.reasons_from = reasons_from
        self.refused_fields = refused_fields
        self.headers = headers or {}
        self.keep_bodies = keep_bodies
        self.counts = Counts()
        self.prefixes = PrefixCache()
        self._planned: list[Planned] = []
        self._arrivals: deque[float] = deque()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._port = 0

    @property
    def url(self) -> str:
        """The base URL, ending in /v1."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def host(self) -> str:
        """`127.0.0.1:port`."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10), "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def misbehave(
        self,
        fault: Fault,
        *,
        times: int = 1,
        when: Callable[[dict[str, Any]], bool] = lambda body: True,
        retry_after_s: float | None = None,
        every: int = 1,
    ) -> None:
        """Queue a fault for the next `times` requests that `when` fits (of these, each `every`-th)."""
        self._planned.append(Planned(fault, times, when, retry_after_s, every))

    def reset(self) -> None:
        """Forget counts and planned faults; the prefix cache stays warm."""
        self.counts = Counts(in_flight=self.counts.in_flight)
        self._planned.clear()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_get("/v1/models", self._list_models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = runner.addresses[0][1]
        self._started.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _list_models(self, request: web.Request) -> web.Response:
        if not self._key_fits(request):
            return self._problem(401, "Incorrect API key provided.", "invalid_api_key")
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        counts = self.counts
        counts.requests += 1
        counts.in_flight += 1
        counts.peak_in_flight = max(counts.peak_in_flight, counts.in_flight)
        try:
            body = json.loads(await request.read())
            if self.keep_bodies:
                counts.bodies.append(body)
            counts.keys.add(request.headers.get("Authorization", "").removeprefix("Bearer "))
            counts.header_names |= {name.lower() for name in request.headers}
            refused = self._refusal(request, body)
            if refused is not None:
                counts.refused_requests += 1
                return refused
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            return await self._reply(request, body)
        finally:
            counts.in_flight -= 1

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if not self._key_fits(request):
            return self._problem(401, "Incorrect API key provided.", "invalid_api_key")
        if self.models and body.get("model") not in self.models:
            return self._problem(404, "The model does not exist.", "model_not_found")
        for name in self.refused_fields:
            form = body.get("response_format", {}).get("type")
            if name in body or name == form or f'"{name}"' in json.dumps(body["messages"][-1]["content"]):
                return self._problem(400, f"Unknown parameter: {name}", None, param=name)
        return self._over_rate()

    def _over_rate(self) -> web.Response | None:
        if self.rpm is None:
            return None
        now = time.monotonic()
        while self._arrivals and now - self._arrivals[0] >= 60:
            self._arrivals.popleft()
        if len(self._arrivals) >= self.rpm:
            response = self._problem(429, "Rate limit reached for requests.", "rate_limit_exceeded")
            response.headers["Retry-After"] = f"{60 - (now - self._arrivals[0]):.3f}"
            return response
        self._arrivals.append(now)
        return None

    async def _reply(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        counts = self.counts
        planned = next((plan for plan in self._planned if plan.strikes(body)), None)
        if planned is not None:
            response = await faults.answer_with(planned, request, body)
            if response is not None:
                counts.refused_requests += 1
                return response
        fault = planned.fault if planned else None
        content, ids = self._content(body)
        if fault is not None:
            content = faults.spoil(fault, content, ids)
        reply = self._envelope(body, content, fault)
        if body.get("stream"):
            return await stream(request, body, reply, headers=self._rate_headers(), is_cut=fault is Fault.CUT)
        data = json.dumps(reply).encode()
        if fault is Fault.DRIP:
            return await faults.drip(request, data)
        if fault is Fault.CUT:
            return await faults.cut(request, data)
        if ids:
            self._count_judged(body)
        return web.Response(body=data, content_type="application/json", headers=self._rate_headers())

    def _content(self, body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Judge, or answer where the request asks for no judgments; return the text and the ids it scores."""
        prompt = prompt_text(body)
        ids = _asked_ids(body, prompt)
        if not ids:
            self.counts.answering_requests += 1
            return (self.answer if isinstance(self.answer, str) else self.answer(prompt)), ()
        self.counts.judging_requests += 1
        shown = {memory.id: memory for memory in shown_memories(prompt)}
        turn = around_memories(prompt)
        scores: dict[str, int] = {}
        reasons: list[dict[str, str]] = []
        for code in ids:
            given = self.score(shown[code], turn)
            scores[code], reason = given if isinstance(given, tuple) else (given, "scored")
            if scores[code] >= self.reasons_from:
                reasons.append({"id": code, "reason": reason})
        return json.dumps({"scores": scores, "reasons": reasons}), ids

    def _count_judged(self, body: dict[str, Any]) -> None:
        for memory in shown_memories(prompt_text(body)):
            self.counts.judgments[content_hash(memory.path, memory.entity, memory.text)] += 1
            self.counts.judged_places[f"{memory.path}::{memory.entity}"] += 1

    def _envelope(self, body: dict[str, Any], content: str, fault: Fault | None) -> dict[str, Any]:
        given, cached, written = self.prefixes.account(body)
        self.counts.prompt_tokens += given
        self.counts.cached_tokens += cached
        self.counts.written_tokens += written
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        finish = "stop"
        cap = body.get("max_completion_tokens", body.get("max_tokens"))
        if fault is Fault.REFUSAL:
            message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        elif fault is Fault.TRUNCATION:
            message["content"], finish = content[: len(content) // 2], "length"
        elif cap is not None and tokens(content) > cap:
            message["content"], finish = content[: cap * 4], "length"
        usage = {
            "prompt_tokens": given // 10 if fault is Fault.CUT_PROMPT else given,
            "completion_tokens": tokens(message["content"] or ""),
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": 0},
        }
        usage["total_tokens"] = given + tokens(message["content"] or "")
        reply = {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 1,
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage,
        }
        if fault is Fault.NO_USAGE:
            del reply["usage"]
        return reply

    def _rate_headers(self) -> dict[str, str]:
        stated = {"x-ratelimit-limit-requests": str(self.rpm)} if self.rpm is not None else {}
        return stated | self.headers

    def _key_fits(self, request: web.Request) -> bool:
        return self.api_key is None or request.headers.get("Authorization") == f"Bearer {self.api_key}"

    def _problem(self, status: int, message: str, code: str | None, *, param: str | None = None) -> web.Response:
        error = {"message": message, "type": "invalid_request_error", "code": code, "param": param}
        return web.json_response({"error": error}, status=status)


def _asked_ids(body: dict[str, Any], prompt: str) -> tuple[str, ...]:
    """Return the ids to score: the schema's, or, for a request without one, those of unscored memory blocks."""
    asked = body.get("response_format", {})
    if asked.get("type") == "json_schema":
        scores = asked["json_schema"]["schema"].get("properties", {}).get("scores", {})
        return tuple(scores.get("required", ()))
    if _SCORED.search(prompt):
        return ()
    return tuple(dict.fromkeys(memory.id for memory in shown_memories(prompt)))
