"""A judge on this machine: a llama.cpp server of our own over one GGUF file, on loopback, for as
long as it is needed.

`llama:FILE` (extra `llama`). A model with a decision head answers by the System One wire.
Another one is asked each question by itself, and its score is the share of `yes` in `yes` and
`no` among its next tokens; the state comes first, so that the server's prefix cache holds it.
The server ends with this process, also when that is killed. Trade-off: without a decision head
every memory is a call, and a yes-or-no token is a weaker judgment than a trained head's.
"""

import asyncio
import json
import math
import stat
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from xscore.platform.errors import ProviderError, RequestRejected, Unreachable, UsageError
from xscore.platform.files import is_there
from xscore.providers.decisions import DecisionProvider
from xscore.providers.host_facts import make_completion, sub_object, token_count
from xscore.providers.hosts import NO_HOST
from xscore.providers.provider import OnText
from xscore.providers.wire_errors import CallContext
from xscore.records.calls import (
    Capability,
    Completion,
    Finish,
    RateLimits,
    ReplyForm,
    Request,
    Usage,
)
from xscore.settings import DecisionSettings, HostAccess, Settings

CONTEXT_TOKENS = 16_384
SLOTS = 4
START_S = 120.0
"""Seconds in which a server must have loaded its model."""
TOP_TOKENS = 20
"""How many of the likeliest next tokens are looked at."""
NOT_A_DECISION_MODEL = 501
YES_OR_NO = "Answer with one word, yes or no."
SERVE = """
import os, sys, time, urllib.request
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx, params.ui = sys.argv[1], 0, int(sys.argv[2]), False
params.n_parallel, params.kv_unified = int(sys.argv[3]), True
server = xllamacpp.Server(params)
while True:
    try:
        urllib.request.urlopen(server.listening_address + "/health", timeout=5)
        break
    except OSError:  # the model is being loaded
        time.sleep(0.1)
print(server.listening_address, flush=True)
sys.stdin.read()  # ends when the parent does
os._exit(0)
"""


def connect(model: str, settings: Settings) -> "LlamaProvider":
    """Return the provider of this GGUF file; the server starts with the first call.

    Raises UsageError where the file or the extra is missing.
    """
    file = Path(model).expanduser()
    if not is_there(file, stat.S_ISREG):
        raise UsageError(
            f"there is no model file {file}", hint="Write --judge llama:PATH/TO/MODEL.gguf."
        )
    if find_spec("xllamacpp") is None:
        raise UsageError(
            "a judge on this machine needs xllamacpp", hint="Install the extra `llama`."
        )
    return LlamaProvider(file, settings)


class LlamaProvider:
    """One server process. It is `Adaptable`, and takes decision requests only."""

    name = "llama"
    host = NO_HOST
    forms: tuple[ReplyForm, ...] = (ReplyForm.JSON_SCHEMA,)
    is_vendors_own = True
    """True in the sense of `Adaptable`: there is nothing to probe."""

    def __init__(self, file: Path, settings: Settings) -> None:
        self._file = file
        self._settings = settings
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._wire: DecisionProvider | None = None
        self._has_head: bool | None = None
        self._at_once = asyncio.Semaphore(SLOTS)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Completion:
        """Judge by the decision head, or by yes or no where the model has none.

        Raises leaves of `ProviderError`.
        """
        wire = await self._started()
        if self._has_head is not False:
            try:
                completion = await wire.complete(request)
            except ProviderError as error:
                if getattr(error.__cause__, "status_code", None) != NOT_A_DECISION_MODEL:
                    raise
                self._has_head = False
            else:
                self._has_head = True
                return replace(completion, model=request.model)
        if request.levels:
            raise RequestRejected(
                f"{self._file.name} has no decision head, and cannot rate on levels",
                hint="Leave judge.wire at auto, or use a decision model.",
            )
        return await self._by_yes_or_no(request)

    async def models(self) -> tuple[str, ...]:
        """Return the one model there is."""
        return (str(self._file),)

    async def context_tokens(self, model: str) -> int | None:
        """Return the server's context."""
        return CONTEXT_TOKENS // SLOTS

    def adopt(self, capability: Capability) -> None:
        """Do nothing: the server is ours."""

    def learned(self, model: str) -> Capability:
        """Return that nothing is limited."""
        return Capability(provider=self.name, host=self.host, model=model, probed_at=0.0)

    async def aclose(self) -> None:
        """Close the connections and end the server."""
        if self._wire is not None:
            await self._wire.aclose()
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
        self._wire = self._process = None

    async def _started(self) -> DecisionProvider:
        async with self._starting:
            if self._wire is None:
                address = await self._start()
                hosts = {"systemone": HostAccess(f"{address}/v1")}
                settings = replace(self._settings, decisions=DecisionSettings(hosts=hosts))
                self._wire = DecisionProvider("systemone", self._file.name, settings)
            return self._wire

    async def _start(self) -> str:
        """Start the server; return its address once the model is loaded. Raises Unreachable."""
        arguments = (
            sys.executable,
            "-c",
            SERVE,
            str(self._file),
            str(CONTEXT_TOKENS),
            str(SLOTS),
        )
        pipe = asyncio.subprocess.PIPE
        nowhere = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(
            *arguments, stdin=pipe, stdout=pipe, stderr=nowhere
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_S):
                address = (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            address = ""
        if not address:
            await self.aclose()
            raise Unreachable(
                f"llama.cpp could not serve {self._file.name}",
                hint="Check that it is a GGUF model that fits into memory.",
            )
        return address

    async def _by_yes_or_no(self, request: Request) -> Completion:
        state, *questions = request.content
        call = CallContext(self.host, model=request.model, request=request)
        async with asyncio.timeout(request.timeout_s * max(1, len(questions))):
            answers = await asyncio.gather(
                *(self._ask(request, state, text, call) for text in questions)
            )
        shares: dict[str, float | None] = {}
        input_tokens = 0
        for name, (share, tokens) in zip(request.reply_ids, answers, strict=True):
            shares[name] = share
            input_tokens += tokens
        usage = Usage(input_tokens=input_tokens)
        return make_completion(
            call,
            json.dumps(shares),
            Finish.STOP,
            usage,
            model=request.model,
            limits=RateLimits(),
        )

    async def _ask(
        self, request: Request, state: str, question: str, call: CallContext
    ) -> tuple[float | None, int]:
        """Return the share of `yes` in `yes` and `no`, None where neither is likely, and the
        tokens read."""
        assert self._wire is not None
        body = {
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": f"{state}\n\n{question}\n\n{YES_OR_NO}"},
            ],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": TOP_TOKENS,
        }
        try:
            async with self._at_once:
                reply = await self._wire.send("/chat/completions", json.dumps(body).encode())
        except self._wire.caught as error:
            raise self._wire.translated(error, call) from error
        decoded = json.loads(reply.data)
        return yes_share(decoded), token_count(
            sub_object(decoded, "usage").get("prompt_tokens")
        ) or 0


def yes_share(reply: Mapping[str, Any]) -> float | None:
    """Return the share of `yes` in `yes` and `no` among the likeliest next tokens; None where
    neither is among them."""
    try:
        likeliest = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        chances = {"yes": 0.0, "no": 0.0}
        for token in likeliest:
            word = str(token["token"]).strip().lower()
            if word in chances:
                chances[word] += math.exp(float(token["logprob"]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return None
    total = chances["yes"] + chances["no"]
    if total > 0 and math.isfinite(total):
        return chances["yes"] / total
    return None
