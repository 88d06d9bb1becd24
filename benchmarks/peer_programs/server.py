"""One loopback server of the OpenAI dialect for all programs, with seeded faults and a count of
what was paid for.

    python server.py

The first line on stdout is the base URL. `POST /begin` names the program whose replies are wanted
and the faults; `GET /counts` tells what was seen since. Which fault strikes depends on the seed, on
the candidates of the prompt and on how often that very prompt came, so programs that send the same
prompts meet the same faults in any order. Trade-off: a reply takes 100 ms and 20 ms a judgment, a
guess at a small model's pace, equal for all.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import candidates
from aiohttp import web

from xscore.providers.scripted import shown_memories

FIRST_TOKEN_S, A_JUDGMENT_S = 0.1, 0.02
RETRY_AFTER_S = "1"
PROSE = "I would have to look at the other files first, sorry."
KINDS = ("prose", "cut short", "ids missing")


class Server:
    """The state between `POST /begin` and the next."""

    def __init__(self) -> None:
        self.begin({})

    def begin(self, plan: dict[str, Any]) -> None:
        """Forget what was, keep the bills if the plan says so, and speak to another program."""
        if not plan.get("keep_bills"):
            self.paid: Counter[int] = Counter()
            self.good: Counter[int] = Counter()
            self.tokens: Counter[str] = Counter()
        self.program = plan.get("program", "")
        self.seed = plan.get("seed", 0)
        self.rate_limited, self.bad = plan.get("rate_limited", 0.0), plan.get("bad", 0.0)
        self.broken = set(plan.get("broken", ()))
        self.seen: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.spoiled: Counter[str] = Counter()

    def counts(self) -> dict[str, Any]:
        """Tell what was seen."""
        paid_again = sum(count - 1 for count in self.good.values() if count > 1)
        return {
            "requests": self.statuses.total(),
            "statuses": dict(self.statuses),
            "spoiled": dict(self.spoiled),
            "tokens": dict(self.tokens),
            "judged": len(self.paid),
            "good_again": paid_again,
        }

    async def complete(self, request: web.Request) -> web.Response:
        """Answer one request."""
        body = json.loads(await request.read())
        prompt = "\n".join(_texts(body, system=False))
        shown = candidates.numbers_in(prompt)
        drawn, kind = self._draw(shown)
        if self.broken & set(shown):
            return self._problem(500, "The server had an error.")
        if shown and drawn < self.rate_limited:
            return self._problem(429, "Rate limit reached.")
        await asyncio.sleep(FIRST_TOKEN_S + A_JUDGMENT_S * max(1, len(shown)))
        spoiled = (
            kind if shown and self.rate_limited <= drawn < self.rate_limited + self.bad else ""
        )
        self.statuses["200"] += 1
        self.paid.update(shown)
        if spoiled:
            self.spoiled[spoiled] += 1
        else:
            self.good.update(shown)
        answer = _envelope(body, self._reply(body, prompt, shown, spoiled))
        self.tokens.update(answer["usage"])
        return web.json_response(answer)

    def _draw(self, shown: list[int]) -> tuple[float, str]:
        """Draw a number in 0..1 and a kind of bad reply for this prompt's next arrival."""
        key = ",".join(map(str, shown))
        self.seen[key] += 1
        named = f"{self.seed}|{key}|{self.seen[key]}"
        drawn = int.from_bytes(blake2b(named.encode(), digest_size=8).digest())
        return drawn / 2**64, KINDS[drawn % len(KINDS)]

    def _problem(self, status: int, message: str) -> web.Response:
        self.statuses[str(status)] += 1
        headers = {"Retry-After": RETRY_AFTER_S} if status == 429 else {}
        return web.json_response(
            {"error": {"message": message, "type": "", "code": None}},
            status=status,
            headers=headers,
        )

    def _reply(self, body: dict[str, Any], prompt: str, shown: list[int], spoiled: str) -> str:
        if spoiled == "prose":
            return PROSE
        missing = spoiled == "ids missing"
        full_reply = REPLIES[self.program](
            body, prompt, shown[::2] if missing and len(shown) > 1 else shown
        )
        if missing and len(shown) == 1:
            return "{}" if full_reply.startswith("{") else ""
        return full_reply[: len(full_reply) // 2] if spoiled == "cut short" else full_reply


def _for_xscore(body: dict[str, Any], prompt: str, numbers_asked: list[int]) -> str:
    scores = {}
    for memory in shown_memories(prompt):
        numbers = candidates.numbers_in(memory.text)
        if not numbers:
            scores[memory.id] = 3
        elif numbers[0] in numbers_asked:
            scores[memory.id] = candidates.score(numbers[0])
    named = [
        {"id": id_, "reason": "it is on the list"}
        for id_, score in scores.items()
        if score >= 30
    ]
    return json.dumps({"scores": scores, "reasons": named})


def _for_lotus(body: dict[str, Any], prompt: str, numbers_asked: list[int]) -> str:
    return str(candidates.is_relevant(numbers_asked[0]))


def _for_llama_index(body: dict[str, Any], prompt: str, numbers_asked: list[int]) -> str:
    places = {number: place for place, number in enumerate(candidates.numbers_in(prompt), 1)}
    return "\n".join(
        f"Doc: {places[number]}, Relevance: {candidates.out_of_ten(number)}"
        for number in numbers_asked
    )


def _for_litellm(body: dict[str, Any], prompt: str, numbers_asked: list[int]) -> str:
    return json.dumps({"score": candidates.score(numbers_asked[0])})


REPLIES = {
    "xscore": _for_xscore,
    "lotus": _for_lotus,
    "llama_index": _for_llama_index,
    "litellm": _for_litellm,
}


def _texts(body: dict[str, Any], *, system: bool) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        if system or message["role"] != "system":
            yield from (part.get("text", "") for part in parts)


def _envelope(body: dict[str, Any], text: str) -> dict[str, Any]:
    input_tokens, output_tokens = (
        -(-sum(map(len, _texts(body, system=True))) // 4),
        -(-len(text) // 4),
    )
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
    }


async def serve() -> None:
    server = Server()

    async def begin(request: web.Request) -> web.Response:
        server.begin(await request.json())
        return web.json_response({})

    async def counts(request: web.Request) -> web.Response:
        return web.json_response(server.counts())

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/begin", begin)
    app.router.add_get("/counts", counts)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
