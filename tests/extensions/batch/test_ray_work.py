"""One judging actor without Ray, through a real Redis: the tenant's dollars, and paid judgments
when Redis fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from tests.extensions.batch.question_lists import QUESTIONS
from tests.extensions.shared.server_processes import ServerProcess, run_redis
from tests.servers.billing import JUDGE, VENDOR, BillingServer, vendor
from xscore.costs.reservation import Budget
from xscore.extensions.batch.ray_actor import ChunkJudge, PackChunk, _CommonDollars
from xscore.extensions.batch.ray_engine import _RayRun, _SharedCap
from xscore.pipeline.build import Pipeline
from xscore.pipeline.list_judging import LiveEnd
from xscore.pipeline.live_judging import JudgingProgress
from xscore.pipeline.question_list import fetch_list_memories, prepare_questions
from xscore.pipeline.turn_clock import Deadline
from xscore.platform.errors import BudgetExhausted
from xscore.records.events import Observer
from xscore.records.turn import Scope
from xscore.settings import JudgeSettings, OpenAISettings, Secret, Settings
from xscore.settings.model import SharedSettings


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[ServerProcess]:
    """A new Redis for the test."""
    home = tmp_path / "redis"
    home.mkdir()
    started = run_redis(home)
    yield started
    started.kill()


@pytest.fixture
def billing(monkeypatch: pytest.MonkeyPatch) -> Iterator[BillingServer]:
    """A host whose calls have prices."""
    with BillingServer() as server, vendor(server) as environ:
        for name in ("HTTP_PROXY", "NO_PROXY", "OPENAI_API_KEY"):
            monkeypatch.setenv(name, environ[name])
        yield server


@asynccontextmanager
async def actor(
    root: Path, redis: ServerProcess, *, cap: str | None = None, timeout_s: float = 2.0
) -> AsyncIterator[tuple[ChunkJudge, PackChunk]]:
    """An actor with a question; one memory a call."""
    settings = Settings(
        judge=JudgeSettings(model=f"openai:{JUDGE}", probe=False, pack_size=1, concurrency=2),
        openai=OpenAISettings(base_url=VENDOR, api_key=Secret("sk-test-0123456789abcdef")),
        shared=SharedSettings(
            url=Secret(redis.url),
            max_usd_day=None if cap is None else Decimal(cap),
            timeout_s=timeout_s,
        ),
    )
    async with Pipeline.open(root, settings) as pipeline:
        parts = pipeline.parts
        await pipeline.index()
        memories = fetch_list_memories(parts, Scope())
        progress = JudgingProgress(Observer(), 0, 0)
        run = _RayRun(
            parts, "b_test", memories.candidates, 1, lambda _: None, progress, LiveEnd()
        )
        async with parts.open_resources("b_test") as resources:
            questions = prepare_questions(parts, enumerate(QUESTIONS.all[:1]), memories)
            context, chunks = await run.prepared(parts.judge, resources, questions, Deadline())
        yield ChunkJudge(context), chunks[0]


@pytest.mark.verify
async def test_the_cap_of_the_tenants_day_holds_for_actors(
    shop: Path, redis: ServerProcess, billing: BillingServer
) -> None:
    """Calls beyond the cap are not made; the next actor finds the day's cap used up."""
    cap = Decimal("0.008")
    async with actor(shop, redis, cap=str(cap)) as (scorer, chunk):
        scored = await scorer.score(chunk)
    assert 0 < billing.charged <= cap and scored.paid and scored.error is None
    assert {str(unjudged.cause) for unjudged in scored.unjudged} == {"budget"}
    calls = len(billing.charges)
    async with actor(shop, redis, cap=str(billing.charged)) as (scorer, chunk):
        later = await scorer.score(chunk)
    assert len(billing.charges) == calls and not later.calls and later.unjudged


@pytest.mark.verify
async def test_an_actor_outlasts_a_server_that_answers_late(
    shop: Path, redis: ServerProcess, billing: BillingServer
) -> None:
    """A pause many times as long as the deadline of a request ends no chunk: all of it is paid."""
    async with actor(shop, redis, timeout_s=0.1) as (scorer, chunk):
        redis.hang()
        asyncio.get_running_loop().call_later(1.0, redis.go_on)
        scored = await scorer.score(chunk)
    assert scored.error is None and scored.paid == len(chunk.places)


async def test_actors_together_spend_no_more_than_the_caps_leave() -> None:
    """Each actor has its own reservation; the unused part returns, and a call of unknown cost keeps
    it."""
    cap = _SharedCap(Decimal(1))

    async def take(usd: Decimal) -> bool:
        return cap.take(usd)

    common = [_CommonDollars(take) for _ in range(2)]
    first, second = (Budget(common_budget) for common_budget in common)
    call = await first.reserve(Decimal("0.6"))
    with pytest.raises(BudgetExhausted):
        await second.reserve(Decimal("0.5"))
    await first.settle(call, Decimal("0.2"))
    await second.settle(await second.reserve(Decimal("0.8")), None)
    assert [common_budget.charged for common_budget in common] == [
        Decimal("0.2"),
        Decimal("0.8"),
    ]
    with pytest.raises(BudgetExhausted):
        await first.reserve(Decimal("0.01"))
