"""Whole turns with Claude as judge and answering model, at a loopback host of the Anthropic
dialect."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from tests.pipeline.conftest import TASK
from tests.scorer.stdlib_candidates import candidate
from tests.servers import AnthropicServer, table
from xscore.pipeline.build import Pipeline
from xscore.prompts.judge import JudgeModel
from xscore.prompts.turn_text import turn_block
from xscore.providers.anthropic import AnthropicProvider
from xscore.providers.attempts import Metered
from xscore.providers.prices import call_price, cost_upper_bound
from xscore.records.calls import CallRecord, Stage, Usage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.scorer.packs import Pack, PackProfile
from xscore.scorer.prompt_builder import PromptBuilder
from xscore.settings import (
    AnthropicSettings,
    BudgetSettings,
    JudgeSettings,
    PrimarySettings,
    Settings,
)

VENDOR = "api.anthropic.com"
HAIKU = "claude-haiku-5-5"


@pytest.fixture
def claude_server() -> Iterator[AnthropicServer]:
    """A loopback host of the Anthropic dialect."""
    with AnthropicServer(
        score=table({"shop/prices.py::total": 95, "shop/prices.py::discount": 80})
    ) as running:
        yield running


def settings_for(
    server: AnthropicServer, *, max_usd: str = "1", probe: bool = False
) -> Settings:
    """Judge with a small Claude, answer with a large one."""
    return Settings(
        judge=JudgeSettings(model=f"anthropic:{HAIKU}", probe=probe),
        primary=PrimarySettings(model="anthropic:claude-opus-5-5"),
        anthropic=AnthropicSettings(base_url=server.url),
        budget=BudgetSettings(max_usd=Decimal(max_usd)),
    )


@asynccontextmanager
async def opened(shop: Path, server: AnthropicServer) -> AsyncIterator[Pipeline]:
    """Open the shop with these models."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        yield pipeline


def names(answer: Answer) -> set[str]:
    """Return the kept entities."""
    return {f"{memory.path}::{memory.entity}" for memory in answer.selected}


async def test_a_turn_judges_everything_and_answers_once(
    shop: Path, claude_server: AnthropicServer
) -> None:
    """Every memory is judged, the counts add up, and there is exactly one streamed answering
    call."""
    async with opened(shop, claude_server) as pipeline:
        answer = await pipeline.ask(TASK)
    assert answer.exit_code == 0
    assert answer.answer == claude_server.answer
    assert names(answer) == {"shop/prices.py::total", "shop/prices.py::discount"}
    assert (
        answer.coverage.candidates
        == answer.coverage.judged
        == len(claude_server.counts.judgments)
    )
    assert claude_server.counts.answering_requests == 1
    assert claude_server.counts.refused_requests == 0
    assert answer.judge.provider == "anthropic" and answer.judge.host == claude_server.host
    spent = answer.spent(Stage.JUDGE, Stage.PRIMARY)
    assert spent.usage.input_tokens == claude_server.counts.prompt_tokens
    *judging, answering = claude_server.counts.bodies
    assert all(body["thinking"] == {"type": "disabled"} for body in judging)
    assert answering["stream"] is True and "output_config" not in answering


@pytest.mark.parametrize(
    ("ttl_s", "write_factor"), [(300, Decimal("1.25")), (3_600, Decimal(2))], ids=["5m", "1h"]
)
async def test_what_is_written_and_read_is_priced_as_the_vendor_does(
    claude_server: AnthropicServer, ttl_s: int, write_factor: Decimal
) -> None:
    """At list prices a pack costs 1.25 or 2 of its input when written, a tenth when read, within
    the reservation."""
    members = tuple(candidate("a.py", f"f{number}", "x" * 600) for number in range(12))
    judge = JudgeModel(name=HAIKU, reasoning="disabled", prefix_ttl_s=ttl_s)
    drafts, pack = (
        PromptBuilder(judge, PackProfile(), b"s"),
        Pack("p_1", members, is_lasting=True),
    )
    texts = {member.id: f"def {member.entity}(): return '{'x' * 600}'" for member in members}
    (ask,) = drafts.prompts_of(pack, drafts.pieces_of(pack, texts))
    rows: list[CallRecord] = []

    def at_the_vendors(provider: str, model: str, host: str, usage: Usage) -> Decimal | None:
        assert host == claude_server.host
        return call_price(provider, model, VENDOR, usage)

    provider = AnthropicProvider(claude_server.url, "")
    metered = Metered(provider, turn_id="t", record=rows.append, price=at_the_vendors)
    requests = [drafts.request(ask, turn_block(Turn(task=task)))[0] for task in ("one", "two")]
    for request in requests:
        await metered.complete(request)
    await metered.aclose()
    cold, warm = rows
    input_usd, output_usd = Decimal("0.0000001"), Decimal("0.0000005")
    for row, factor in ((cold, write_factor), (warm, Decimal("0.1"))):
        kept = row.usage.cache_write_tokens + row.usage.cached_input_tokens
        assert kept > 1_000
        fresh = row.usage.input_tokens - kept
        assert (
            row.cost_usd
            == (fresh + kept * factor) * input_usd + row.usage.output_tokens * output_usd
        )
    assert cold.usage.cache_write_tokens == warm.usage.cached_input_tokens
    bound = cost_upper_bound("anthropic", VENDOR, requests[0])
    assert bound is not None and cold.cost_usd is not None and cold.cost_usd <= bound
