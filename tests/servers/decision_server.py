"""A loopback host of decision models for every wire: scores each question's memory, counts, and
misbehaves on demand.

`/v1/decisions` is OpenAI's shape, or TypeSafe's where that comes, `/v1/systemone` TypeSafe's.
Limits of tokens a second and requests a minute are kept as vendors keep them: 429 with Retry-After.
`spoil` changes a finished reply, `status` answers with an error instead.
"""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from tests.servers import scoring
from tests.servers.threaded_server import ThreadedServer, serve_app
from xscore.providers.scripted import shown_memories
from xscore.records.calls import DecisionWire

Reply = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.Response]]
ANSWER_WIRES = (DecisionWire.DECISIONS, DecisionWire.SYSTEM_ONE)
"""Wires whose `questions` get `answers`, each an object; many tests damage one of these."""
CHARS_PER_TOKEN = 3.6
PATIENCE_S, STEP_S = 60.0, 0.01
"""How long a call is held at most, and how often it is looked whether it still must be."""


class DecisionServer(ThreadedServer):
    """One server; attributes may change while it runs."""

    def __init__(
        self,
        *,
        score: scoring.ScoringFunction = scoring.by_words,
        latency_s: float = 0.0,
        tokens_per_second: float | None = None,
        rpm: int | None = None,
        api_key: str | None = None,
        model: str = "",
        most_tokens: int | None = None,
    ) -> None:
        """model: the id in replies; empty: the requested one. most_tokens: of one request,
        otherwise 413."""
        super().__init__()
        self.score, self.latency_s, self.api_key, self.model = score, latency_s, api_key, model
        self.tokens_per_second, self.rpm, self.most_tokens = tokens_per_second, rpm, most_tokens
        self.spoil: Callable[[Reply], Reply | bytes] = lambda reply: reply
        self.status: Callable[[Reply], tuple[int, str] | None] = lambda body: None
        """Body of a request -> status and message of its refusal."""
        self.may_reply: Callable[[], bool] = lambda: True
        """Every call waits until this is true, or for `PATIENCE_S`."""
        self.headers: dict[str, str] = {}
        self.bodies: list[Reply] = []
        self.keep_bodies = True
        self.requests = self.refused = self.tokens = self.questions = self.in_flight = 0
        self.judged: Counter[str] = Counter()
        """`path::entity` -> how often it was scored in a sent reply."""
        self._spent: deque[tuple[float, int]] = deque()

    @property
    def url(self) -> str:
        """The base URL, as in the setting."""
        return f"http://{self.host}/v1"

    async def serve(self) -> None:
        """Serve every wire."""
        app = web.Application(client_max_size=1 << 28)
        for path, handler in self.routes().items():
            app.router.add_post(path, handler)
        await serve_app(self, app)

    def routes(self) -> Mapping[str, Handler]:
        """Return what answers at each path."""
        return {"/v1/decisions": self._decisions, "/v1/systemone": self._system_one}

    def key_of(self, request: web.Request) -> str:
        """Return the key that came with a request, from where its wire has it."""
        return request.headers.get("Authorization", "").removeprefix("Bearer ")

    async def _decisions(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        if "state" in body:  # one vendor takes TypeSafe's shape at this path
            return await self._system_one(request)
        state = "\n".join(part["content"] for part in body["input"])
        questions = [
            (entry["name"], entry["instructions"], entry) for entry in body["questions"]
        ]

        def answer(name: str, score: float, question: Reply) -> Reply:
            if question["type"] == "predicate":
                return {"name": name, "type": "predicate", "probability": score}
            labels = [level["label"] for level in question["levels"]]
            shares = shares_of(score, len(labels))
            levels = zip(labels, shares, range(len(labels)), strict=True)
            return {
                "name": name,
                "type": "score",
                "score": sum(at * share for at, share in enumerate(shares)),
                "confidence": max(shares),
                "probabilities": [
                    {"label": label, "probability": p, "value": at} for label, p, at in levels
                ],
            }

        def whole(answers: list[Reply], tokens: int) -> Reply:
            details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
            usage: dict[str, Any] = {
                "input_tokens": tokens,
                "output_tokens": len(answers),
                "total_tokens": tokens + len(answers),
            }
            usage["output_tokens_details"] = {"reasoning_tokens": 0}
            return {
                "model": self.model or body["model"],
                "answers": answers,
                "usage": usage | details,
            }

        return await self.answer_questions(request, body, state, questions, answer, whole)

    async def _system_one(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        questions = [
            (name, entry["instructions"], entry) for name, entry in body["questions"].items()
        ]

        def answer(name: str, score: float, question: Reply) -> Reply:
            if question["type"] == "noul":
                return {"name": name, "type": "noul", "noul": score}
            shares = shares_of(score, len(question["criteria"]))
            return {
                "name": name,
                "type": "score",
                "score": sum(at * share for at, share in enumerate(shares)),
                "confidence": max(shares),
                "legend": {str(at): text for at, text in enumerate(question["criteria"])},
                "probabilities": {str(at): share for at, share in enumerate(shares)},
            }

        def whole(answers: list[Reply], tokens: int) -> Reply:
            named = {named_answer.pop("name"): named_answer for named_answer in answers}
            usage = {"input_tokens": tokens, "output_tokens": len(answers)}
            return {"model": self.model or body["model"], "answers": named, "usage": usage}

        return await self.answer_questions(
            request, body, body["state"], questions, answer, whole
        )

    async def answer_questions(
        self,
        request: web.Request,
        body: Reply,
        state: str,
        questions: list[tuple[str, str, Reply]],
        answer: Callable[[str, float, Reply], Reply],
        complete_reply: Callable[[list[Reply], int], Reply],
    ) -> web.Response:
        """Score every question, or refuse.

        questions: name, text and the question as it was sent.
        answer: writes one answer, from its name, its score (0..1) and its question.
        complete_reply: writes the reply, from the answers and the tokens read.
        """
        self.requests += 1
        self.in_flight += 1
        try:
            return await self._answered(request, body, state, questions, answer, complete_reply)
        finally:
            self.in_flight -= 1

    async def _answered(
        self,
        request: web.Request,
        body: Reply,
        state: str,
        questions: list[tuple[str, str, Reply]],
        answer: Callable[[str, float, Reply], Reply],
        complete_reply: Callable[[list[Reply], int], Reply],
    ) -> web.Response:
        if self.keep_bodies:
            self.bodies.append(json.loads(json.dumps(body)))
        tokens = round(
            (len(state) + sum(len(text) for _, text, _ in questions)) / CHARS_PER_TOKEN
        )
        refused = self._refused(request, body, tokens)
        if refused is not None:
            self.refused += 1
            return refused
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        await self._wait_until_it_may()
        self.tokens += tokens
        self.questions += len(questions)
        answers, places = [], []
        for name, text, question in questions:
            (memory,) = shown_memories(text)
            scored = self.score(memory, state)
            answers.append(
                answer(
                    name, (scored[0] if isinstance(scored, tuple) else scored) / 100, question
                )
            )
            places.append(f"{memory.path}::{memory.entity}")
        spoiled = self.spoil(complete_reply(answers, tokens))
        self.judged.update(places)
        data = spoiled if isinstance(spoiled, bytes) else json.dumps(spoiled).encode()
        return web.Response(body=data, content_type="application/json", headers=self.headers)

    async def _wait_until_it_may(self) -> None:
        waited_s = 0.0
        while not self.may_reply() and waited_s < PATIENCE_S:
            await asyncio.sleep(STEP_S)
            waited_s += STEP_S

    def _refused(self, request: web.Request, body: Reply, tokens: int) -> web.Response | None:
        if self.api_key is not None and self.key_of(request) != self.api_key:
            return problem(401, "This key is not known.")
        if self.most_tokens is not None and tokens > self.most_tokens:
            return problem(413, "The request is too large.")
        planned = self.status(body)
        if planned is not None:
            return problem(*planned)
        return self._over_limit(tokens)

    def _over_limit(self, tokens: int) -> web.Response | None:
        """Apply the limits of tokens a second and requests a minute, over sliding windows."""
        now = time.monotonic()
        while self._spent and now - self._spent[0][0] >= 60:
            self._spent.popleft()
        second = [(at, spent) for at, spent in self._spent if now - at < 1]
        wait = None
        if self.rpm is not None and len(self._spent) >= self.rpm:
            wait = 60 - (now - self._spent[0][0])
        elif self.tokens_per_second is not None and second:
            over = sum(spent for _, spent in second) + tokens - self.tokens_per_second
            wait = 1 - (now - second[0][0]) if over > 0 else None
        if wait is None:
            self._spent.append((now, tokens))
            return None
        return problem(429, "Too fast.", headers={"Retry-After": f"{wait:.3f}"})


def problem(
    status: int, message: str, *, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an error as these hosts word it."""
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


def shares_of(score: float, levels: int) -> list[float]:
    """Put all probability on the level of this score, 0..1."""
    bounds = (0.1, 0.4, 0.7, 0.9)[: levels - 1]
    at = sum(score >= bound for bound in bounds)
    return [float(number == at) for number in range(levels)]
