"""Whole turns with Claude as judge and answerer, at a loopback host of the Anthropic dialect."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from tests.scorer.shapes import candidate
from tests.servers import AnthropicServer, Fault, table
from xscore.pipeline.build import Pipeline
from xscore.platform.errors import NoUsableModel
from xscore.prompts.judge import turn_block
from xscore.providers.anthropic import AnthropicDialect
from xscore.providers.attempts import Metered
from xscore.providers.prices import call_price, cost_upper_bound
from xscore.providers.wire import WireProvider
from xscore.records import Answer, CallRecord, Turn, Usage
from xscore.scorer.drafts import JudgeModel, PromptDrafts
from xscore.scorer.packs import Pack, choose_profile
from xscore.settings import AnthropicSettings, BudgetSettings, JudgeSettings, PrimarySettings, Settings

TASK = Turn(task="The discount of total is taken twice; take it once.")
VENDOR = "api.anthropic.com"
HAIKU = "claude-haiku-5-5"


@pytest.fixture
def claude_server() -> Iterator[AnthropicServer]:
    """A loopback host of the Anthropic dialect."""
    with AnthropicServer(score=table({"shop/prices.py::total": 95, "shop/prices.py::discount": 80})) as running:
        yield running


def settings_for(server: AnthropicServer, *, max_usd: str = "1", probe: bool = False) -> Settings:
    """Judge with a small Claude, answer with a large one."""
    return Settings(
        judge=JudgeSettings(model=f"anthropic:{HAIKU}", probe=probe),
        primary=PrimarySettings(model="anthropic:claude-opus-5-5"),
        anthropic=AnthropicSettings(base_url=server.url),
        budget=BudgetSettings(max_usd=Decimal(max_usd)),
    )


@asynccontextmanager
async def opened(shop: Path, server: AnthropicServer) -> AsyncIterator[Pipeline]:
    """Open the shop with these judges."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        yield pipeline


def names(answer: Answer) -> set[str]:
    """The entities that were kept."""
    return {f"{memory.path}::{memory.entity}" for memory in answer.selected}


async def test_a_turn_judges_everything_and_answers_once(shop: Path, claude_server: AnthropicServer) -> None:
    """Every memory is judged, the account adds up, and there is exactly one answering call, which streams."""
    async with opened(shop, claude_server) as pipeline:
        answer = await pipeline.ask(TASK)
    assert answer.exit_code == 0
    assert answer.answer == claude_server.answer
    assert names(answer) == {"shop/prices.py::total", "shop/prices.py::discount"}
    assert answer.coverage.candidates == answer.coverage.judged == len(claude_server.counts.judgments)
    assert claude_server.counts.answering_requests == 1
    assert claude_server.counts.refused_requests == 0
    assert answer.judge.provider == "anthropic" and answer.judge.host == claude_server.host
    assert (
        answer.judge_usage.usage.input_tokens + (answer.primary_usage.usage.input_tokens if answer.primary_usage else 0)
        == claude_server.counts.prompt_tokens
    )
    *judging, answering = claude_server.counts.bodies
    assert all(body["thinking"] == {"type": "disabled"} for body in judging)
    assert answering["stream"] is True and "output_config" not in answering


async def test_the_same_task_again_costs_no_judging_call(shop: Path, claude_server: AnthropicServer) -> None:
    """A repeated turn is answered from the cache, with the same scores, reasons and order."""
    async with opened(shop, claude_server) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
    claude_server.reset()
    async with opened(shop, claude_server) as pipeline:
        again = await pipeline.ask(TASK, answer=False)
    assert claude_server.counts.requests == 0
    assert again.coverage.cached == again.coverage.candidates == first.coverage.judged
    assert [(m.id, m.score, m.reason) for m in again.selected] == [(m.id, m.score, m.reason) for m in first.selected]


async def test_another_task_is_served_from_the_prefix_cache(shop: Path, claude_server: AnthropicServer) -> None:
    """The packs that the first turn has written are read by the next one, which writes nothing."""
    async with opened(shop, claude_server) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
        second = await pipeline.ask(Turn(task="Show the discount on the receipt."), answer=False)
    written = first.judge_usage.usage.cache_write_tokens
    assert written == second.judge_usage.usage.cached_input_tokens > 512
    assert first.judge_usage.usage.cached_input_tokens == second.judge_usage.usage.cache_write_tokens == 0


@pytest.mark.parametrize(
    "fault", [Fault.MISSING_ID, Fault.TRUNCATION, Fault.REFUSAL, Fault.OVERLOADED, Fault.MALFORMED_CONTENT]
)
async def test_a_fault_on_the_way_loses_nothing(shop: Path, claude_server: AnthropicServer, fault: Fault) -> None:
    """A reply that is wrong, cut short, refused or overloaded once is asked for again until all is judged."""
    claude_server.misbehave(fault)
    async with opened(shop, claude_server) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    assert answer.coverage.judged == answer.coverage.candidates
    assert names(answer) == {"shop/prices.py::total", "shop/prices.py::discount"}


async def test_out_of_money_stops_after_one_call(shop: Path, claude_server: AnthropicServer) -> None:
    """A host that wants payment is asked once; every candidate is accounted for, and the exit code says so."""
    claude_server.misbehave(Fault.PAYMENT, times=99)
    async with opened(shop, claude_server) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    assert claude_server.counts.requests == 1
    assert answer.coverage.unjudged == answer.coverage.candidates
    assert answer.exit_code == 3


@pytest.mark.parametrize(("ttl_s", "write_factor"), [(300, Decimal("1.25")), (3_600, Decimal(2))], ids=["5m", "1h"])
async def test_what_is_written_and_read_is_priced_as_the_vendor_does(
    claude_server: AnthropicServer, ttl_s: int, write_factor: Decimal
) -> None:
    """At the vendor's prices a pack costs 1.25 or 2 of its input when written, a tenth when read, within the bound."""
    members = tuple(candidate("a.py", f"f{number}", "x" * 600) for number in range(12))
    judge = JudgeModel(name=HAIKU, reasoning="disabled", prefix_ttl_s=ttl_s)
    drafts, pack = PromptDrafts(judge, choose_profile(), b"s"), Pack("p_1", members, is_kept=True)
    texts = {member.id: f"def {member.entity}(): return '{'x' * 600}'" for member in members}
    (ask,) = drafts.asks(pack, drafts.pieces_of(pack, texts))
    rows: list[CallRecord] = []

    def at_the_vendors(provider: str, model: str, host: str, usage: Usage) -> Decimal | None:
        assert host == claude_server.host
        return call_price(provider, model, VENDOR, usage)

    provider = WireProvider(AnthropicDialect(), base_url=claude_server.url, api_key="")
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
        assert row.cost_usd == (fresh + kept * factor) * input_usd + row.usage.output_tokens * output_usd
    assert cold.usage.cache_write_tokens == warm.usage.cached_input_tokens
    bound = cost_upper_bound("anthropic", VENDOR, requests[0])
    assert bound is not None and cold.cost_usd is not None and cold.cost_usd <= bound


@pytest.mark.parametrize("always", [False, True])
async def test_a_probe_asks_in_no_form_twice(shop: Path, claude_server: AnthropicServer, always: bool) -> None:
    """A host that answers prose is asked under the schema and in words: two requests, no two of them the same."""
    claude_server.misbehave(Fault.MALFORMED_CONTENT, times=99, when=lambda body: always or "output_config" in body)
    async with Pipeline.open(shop, settings_for(claude_server, probe=True)) as pipeline:
        if always:
            with pytest.raises(NoUsableModel, match="no readable scores"):
                await pipeline.ask(TASK, answer=False)
            assert claude_server.counts.requests == 2
        else:
            assert (await pipeline.ask(TASK, answer=False)).coverage.unjudged == 0
            said = {finding.name: finding.detail for finding in (await pipeline.doctor()).findings}
            assert "only when asked for it in words" in said["judge capability"]
    probes = [str(body) for body in claude_server.counts.bodies if "hello {name}" in str(body)]
    assert len(probes) == len(set(probes)) == 2
