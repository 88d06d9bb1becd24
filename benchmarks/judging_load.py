"""What the load benchmarks share: a repository of many functions, the judge as a turn has it, and
bare SDK calls.

Not a benchmark itself. The judging is the pipeline's own from the open store on: packs, prompts,
claims, budget, ledger, limits, retries, parsing, and judgments committed before they are yielded;
the index and the selection are left out. The anchor sends the very same bodies through the SDK's
low-level `post`, on the same transport, and throws the replies away. CPU is of this process, all
threads; the server's is not in it, because it has a process of its own.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from measuring import served
from msgspec import Struct
from msgspec.structs import replace
from peer_programs.candidates import WORDS

from xscore.indexer.index import index_repository
from xscore.pipeline.describe_model import describe_model_judge
from xscore.pipeline.judge_description import JudgeDescription
from xscore.pipeline.judge_prompts import prompt_builder
from xscore.pipeline.judged_memories import judged_texts, pack_slots
from xscore.pipeline.pool import Pool, pool_among
from xscore.pipeline.resources import TurnResources, open_resources
from xscore.platform.paths import find_root
from xscore.providers.anthropic import AnthropicProvider
from xscore.providers.openai import OpenAIProvider
from xscore.providers.provider import Provider
from xscore.providers.spec import ModelSpec
from xscore.records.calls import Capability, Request, Stage, Usage
from xscore.records.candidates import Candidate
from xscore.records.judgment import Judgment
from xscore.records.turn import Turn
from xscore.scorer.fanout import StopSignal, workers_for
from xscore.scorer.lexical import lexical_priors
from xscore.scorer.model_judge import JudgingPlan, ModelJudge
from xscore.settings import (
    AnthropicSettings,
    JudgeSettings,
    OpenAISettings,
    Settings,
    StoreSettings,
    validate_group,
)
from xscore.store.store import Store

T = TypeVar("T")

A_FILE = 20
TASK = "why does the upload queue drop its last batch?"


class Cost(Struct, frozen=True):
    """What something took."""

    wall_s: float
    cpu_s: float
    calls: int


def server(latency_s: float) -> AbstractContextManager[str]:
    """Run the plain server."""
    return served(Path(__file__).with_name("plain_server.py"), "--latency-s", str(latency_s))


def write_tree(root: Path, functions: int) -> None:
    """Write functions of about 90 tokens, 20 a file, 50 files a folder."""
    for start in range(0, functions, A_FILE):
        words = random.Random(start)
        texts = []
        for number in range(start, min(functions, start + A_FILE)):
            first, second, third = (words.choice(WORDS) for _ in range(3))
            lines = [f"def {first}_{number:05}({second}, {third}):"]
            lines += [
                f"    {words.choice(WORDS)} = {second}.{words.choice(WORDS)}({third}, {n})"
                for n in range(7)
            ]
            texts.append("\n".join([*lines, f"    return {first}"]))
        place = root / f"part_{start // A_FILE // 50:02}" / f"module_{start // A_FILE:04}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n\n\n".join(texts) + "\n", "utf-8")


def settings_for(vendor: str, url: str, home: Path, **judge: Any) -> Settings:
    """Give the defaults, but for the server, the folder of the user's data, and what is given of
    the judge."""
    base_url = f"{url}/v1" if vendor == "openai" else url
    judge_fields = {"model": f"{vendor}:bench", "probe": False, **judge}
    dialect = validate_group(
        {"openai": OpenAISettings, "anthropic": AnthropicSettings}[vendor],
        {"base_url": base_url},
    )
    settings = Settings(
        judge=validate_group(JudgeSettings, judge_fields),
        store=StoreSettings(user_data_dir=home / "user"),
    )
    return replace(settings, **{vendor: dialect})


@contextmanager
def open_store(tree: Path, settings: Settings) -> Iterator[Store]:
    """Open the store of a tree, indexed."""
    assert settings.store.user_data_dir is not None
    with contextlib.closing(
        Store.open(find_root(tree), user_data_dir=settings.store.user_data_dir)
    ) as store:
        index_repository(store.connection, store.root, settings.index, now=time.time())
        yield store


def a_little(provider: str, model: str, host: str, usage: Usage) -> Decimal | None:
    """Price every call, far below the cap: at $0, as a loopback host is, nothing would be
    reserved."""
    return Decimal(usage.input_tokens + usage.output_tokens) / 1_000_000_000


class Bench(Struct, frozen=True):
    """A store and the judge described at the server."""

    store: Store
    described: JudgeDescription
    settings: Settings
    candidates: tuple[Candidate, ...]

    @classmethod
    def of(cls, store: Store, settings: Settings) -> "Bench":
        """Describe the judge of these settings."""
        vendor, _, model = settings.judge.model.partition(":")
        described = describe_model_judge(ModelSpec(vendor, model), settings, store=store)
        return cls(store, described, settings, store.pool())

    @asynccontextmanager
    async def resources(
        self, turn_id: str, wrapping: Callable[[Provider], Provider] = lambda provider: provider
    ) -> AsyncIterator[tuple[TurnResources, Provider]]:
        """Open what a turn spends through, and the judge's provider with all that is wrapped around
        it.

        wrapping: the innermost wrapper, around the bare provider.
        """
        async with open_resources(self.store, self.settings, turn_id=turn_id) as resources:
            resources.price_of = a_little
            described = describe_model_judge(
                self.described.spec, self.settings, store=self.store
            )
            line = resources.judging_provider(
                wrapping(described.connected()),
                model=described.spec.model,
                concurrency=self.described.concurrency,
            )
            yield resources, line

    async def judge(
        self,
        resources: TurnResources,
        wrapped: Provider,
        turn: Turn,
        candidates: Sequence[Candidate],
    ) -> Cost:
        """Judge candidates as the turn `turn.task` would, every one of them a miss."""
        wall, cpu = time.perf_counter(), time.process_time()
        before = resources.usage.spent(Stage.JUDGE).calls
        judge = self.judge_of(
            resources, wrapped, turn, pool_among(self.candidates, self.candidates, {})
        )
        judged = 0
        async for result in judge.judge(turn, candidates):
            judged += isinstance(result, Judgment)
        assert judged == len(candidates), f"{len(candidates) - judged} candidates are unjudged"
        calls = resources.usage.spent(Stage.JUDGE).calls - before
        return Cost(time.perf_counter() - wall, time.process_time() - cpu, calls)

    def judge_of(
        self, resources: TurnResources, wrapped: Provider, turn: Turn, pool: Pool
    ) -> ModelJudge:
        """Put the judge together as `open_model_judge` does, around a provider that may be warm."""
        described = self.described
        return ModelJudge(
            wrapped,
            prompt_builder(described),
            JudgingPlan(
                texts=partial(judged_texts, described),
                write=resources.spending.judgments.writer(turn.task, described.identity),
                claims=resources.spending.judgments.claims(turn.task, described.identity),
                slots=pack_slots(described, pool),
                priors=lexical_priors(turn, pool.candidates, self.store.term_vectors),
                concurrency=workers_for(described.concurrency),
                stop=StopSignal(resources.halt_queued_calls),
            ),
        )

    def requests(self, turn: Turn) -> list[Request]:
        """Give the requests that judging everything sends first."""
        described = self.described
        slots = pack_slots(described, pool_among(self.candidates, self.candidates, {}))
        planner = ModelJudge(
            described.connected(),
            prompt_builder(described),
            JudgingPlan(
                texts=partial(judged_texts, described),
                write=_never,
                slots=slots,
                priors={},
            ),
        )
        return list(planner.requests(turn, self.candidates))

    def body(self, request: Request) -> dict[str, Any]:
        """Give a request's JSON body in the vendor's dialect."""
        if self.described.spec.provider == "anthropic":
            return AnthropicProvider("https://api.anthropic.com", "").fields(
                request, UNPROBED, stream=False
            )
        return OpenAIProvider("https://openrouter.ai/api/v1", "").fields(
            request, UNPROBED, stream=False
        )


UNPROBED = Capability(provider="", host="", model="", probed_at=0.0)


async def _never(judgments: object) -> None:
    raise AssertionError("a plan writes no judgments")


async def bare_calls(
    vendor: str, url: str, bodies: Sequence[dict[str, Any]], *, in_flight: int
) -> Cost:
    """Send the bodies through the SDK's low-level `post` on its aiohttp transport."""
    import httpx2

    client = bare_client(vendor, url)
    path = "/chat/completions" if vendor == "openai" else "/v1/messages"

    async def send(body: dict[str, Any]) -> None:
        response = await client.post(path, cast_to=httpx2.Response, body=body)
        assert response.content

    try:
        return await all_of(send, bodies, in_flight)
    finally:
        await client.close()


async def default_calls(
    vendor: str, url: str, bodies: Sequence[dict[str, Any]], *, in_flight: int
) -> Cost:
    """Send the bodies as each SDK's introduction does: a client with its defaults and its typed
    `create`."""
    client: Any
    if vendor == "openai":
        from openai import AsyncOpenAI

        client = AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
        create = client.chat.completions.create
    else:
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(api_key="none", base_url=url)
        create = client.messages.create

    async def send(body: dict[str, Any]) -> None:
        assert await create(**body)

    try:
        return await all_of(send, bodies, in_flight)
    finally:
        await client.close()


def bare_client(vendor: str, url: str) -> Any:
    """Return an SDK client with its fastest transport and no retries."""
    if vendor == "openai":
        import openai

        kind = openai.DefaultAioHttpClient
        return openai.AsyncOpenAI(
            api_key="none", base_url=f"{url}/v1", max_retries=0, http_client=kind()
        )
    import anthropic

    return anthropic.AsyncAnthropic(
        api_key="none",
        base_url=url,
        max_retries=0,
        http_client=anthropic.DefaultAioHttpClient(),
    )


async def all_of(
    send: Callable[[T], Awaitable[None]], things: Sequence[T], in_flight: int
) -> Cost:
    """Send all, N at a time."""
    wall, cpu = time.perf_counter(), time.process_time()
    waiting = iter(things)

    async def work() -> None:
        for thing in waiting:
            await send(thing)

    await asyncio.gather(*(work() for _ in range(in_flight)))
    return Cost(time.perf_counter() - wall, time.process_time() - cpu, len(things))
