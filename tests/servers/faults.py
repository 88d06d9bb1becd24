"""Ways in which the loopback server misbehaves on demand, each as seen at a real server.

A fault is queued with `server.misbehave(Fault.X, times=…)` and spends itself on the next requests
that it fits.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from aiohttp import web
from msgspec import Struct


class Fault(StrEnum):
    """The fault."""

    RATE_LIMITED = "429"
    """A 429, with Retry-After if `retry_after_s` is given."""
    QUOTA = "insufficient_quota"
    SPEND_LIMIT = "project_spend_limit_exceeded"
    PAYMENT = "402"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    OVERLOADED = "529"
    WRONG_KEY = "401"
    UNKNOWN_MODEL = "404"
    TOO_LONG = "context_length_exceeded"
    MODERATED = "content_policy_violation"
    ECHO = "400 that repeats the prompt and the key"
    RESET = "reset"
    SILENCE = "accept, then silence"
    DRIP = "one byte at a time"
    CUT = "half a reply, then closed"
    HTML = "HTML at 200"
    EMPTY_OBJECT = "{}"
    ERROR_IN_200 = "error in a 200 body"
    ERROR_IN_STREAM = "an error in the middle of a stream, or in a 200 body"
    NOT_JSON = "a 200 body that is not JSON"
    REDIRECT = "redirect to another host"
    MALFORMED_CONTENT = "content that is not JSON"
    MISSING_ID = "missing id"
    DUPLICATE_ID = "duplicate id"
    FOREIGN_ID = "foreign id"
    NAN = "NaN"
    OUT_OF_RANGE = "700"
    STRING_SCORE = '"0.9"'
    TRUE_SCORE = "true"
    REFUSAL = "refusal"
    TRUNCATION = "finish_reason=length"
    NO_USAGE = "no usage"
    VAST_USAGE = "usage of a million million tokens"
    CUT_PROMPT = "the host read a tenth of the prompt"


IN_THE_TEXT = (
    Fault.MALFORMED_CONTENT,
    Fault.MISSING_ID,
    Fault.DUPLICATE_ID,
    Fault.FOREIGN_ID,
    Fault.NAN,
    Fault.OUT_OF_RANGE,
    Fault.STRING_SCORE,
    Fault.TRUE_SCORE,
)
"""Faults in the model's text, in a valid reply of the dialect: for the scorer to handle."""


class Planned(Struct):
    """A fault waiting for its requests."""

    fault: Fault
    times: int
    when: Callable[[dict[str, Any]], bool] = lambda body: True
    retry_after_s: float | None = None

    def strikes(self, body: dict[str, Any]) -> bool:
        """Whether it applies to this request; counts it."""
        if self.times <= 0 or not self.when(body):
            return False
        self.times -= 1
        return True


async def broken_wire(fault: Fault, request: web.Request) -> web.StreamResponse | None:
    """Answer as no host of any dialect should; None if the fault is in the reply's content,
    which the server makes."""
    if fault is Fault.RESET:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()
    if fault is Fault.SILENCE:
        await asyncio.sleep(3_600)
    bodies = {
        Fault.HTML: ("<html><body>Sign in to the hotel network</body></html>", "text/html"),
        Fault.EMPTY_OBJECT: ("{}", "application/json"),
        Fault.NOT_JSON: ('{"choices": [', "application/json"),
    }
    if fault in bodies:
        text, content_type = bodies[fault]
        return web.Response(text=text, content_type=content_type)
    if fault is Fault.REDIRECT:
        raise web.HTTPTemporaryRedirect("http://192.0.2.1/elsewhere")
    return None


async def drip(request: web.Request, data: bytes) -> web.StreamResponse:
    """Send a whole reply one byte at a time."""
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Content-Length": str(len(data))}
    )
    await response.prepare(request)
    with suppress(ConnectionResetError):  # the client gave up, as it should
        for at in range(len(data)):
            await response.write(data[at : at + 1])
            await asyncio.sleep(0.02)
    return response


async def cut(request: web.Request, data: bytes) -> web.StreamResponse:
    """Send half of the announced length, then close."""
    response = web.StreamResponse(
        headers={"Content-Type": "application/json", "Content-Length": str(len(data))}
    )
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    assert request.transport is not None
    request.transport.close()
    return response


def spoil(fault: Fault, content: str, ids: tuple[str, ...]) -> str:
    """Return judging content with this fault in its first score; other content is unchanged."""
    if not ids:
        return content
    if fault is Fault.MALFORMED_CONTENT:
        return "Here are the scores you asked for: the first is quite relevant, I think."
    values = {
        Fault.NAN: "NaN",
        Fault.OUT_OF_RANGE: "700",
        Fault.STRING_SCORE: '"0.9"',
        Fault.TRUE_SCORE: "true",
    }
    reply = json.loads(content)
    scores: dict[str, Any] = reply["scores"]
    start = '{"scores": {'
    # Of the first question that shares the prompt.
    if scores and all(isinstance(score, dict) for score in scores.values()):
        scores, start = next(iter(scores.values())), f'{start}"{next(iter(scores))}": {{'
    first = ids[0]
    if fault is Fault.MISSING_ID:
        del scores[first]
    if fault is Fault.FOREIGN_ID:
        scores["zz-foreign"] = 99
    spoiled = json.dumps(reply)
    if fault in values:
        return spoiled.replace(f'"{first}": {scores[first]}', f'"{first}": {values[fault]}', 1)
    if fault is Fault.DUPLICATE_ID:
        other_score = 100 - scores[first] if scores[first] != 50 else 51
        return spoiled.replace(start, f'{start}"{first}": {other_score}, ', 1)
    return spoiled
