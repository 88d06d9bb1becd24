"""What a host may write in its replies, and what is kept and shown of it: whole turns in both
dialects."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.conftest import store_dir
from tests.observers import EventList
from tests.pipeline.conftest import TASK
from tests.servers import table
from tests.servers.flooding import (
    BadText,
    BadTextClaude,
    BadTextOpenAI,
    Flood,
    Flooding,
    FloodingClaude,
    FloodingOpenAI,
)
from tests.servers.loopback import LoopbackServer
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.events import AnswerText
from xscore.records.receipt import Answer
from xscore.settings import (
    AnthropicSettings,
    BudgetSettings,
    JudgeSettings,
    OpenAISettings,
    PrimarySettings,
    Secret,
    Settings,
)

KEY = "sk-test-0123456789abcdefghij"
RELEVANT = table({"shop/prices.py::total": 95})
SAYING: dict[str, type[BadText]] = {"openai": BadTextOpenAI, "anthropic": BadTextClaude}
FLOODING: dict[str, type[Flooding]] = {"openai": FloodingOpenAI, "anthropic": FloodingClaude}
DIALECTS = tuple(SAYING)


def settings_for(dialect: str, server: LoopbackServer) -> Settings:
    """Judge and answer in this dialect, with a key."""
    return Settings(
        judge=JudgeSettings(model=f"{dialect}:judge-2", probe=False, attempts=1),
        primary=PrimarySettings(model=f"{dialect}:strong-1"),
        openai=OpenAISettings(base_url=server.url, api_key=Secret(KEY))
        if dialect == "openai"
        else OpenAISettings(),
        anthropic=AnthropicSettings(base_url=server.url, api_key=Secret(KEY))
        if dialect == "anthropic"
        else AnthropicSettings(),
        budget=BudgetSettings(max_usd=Decimal(1)),
    )


async def ask(shop: Path, dialect: str, server: LoopbackServer) -> tuple[Answer, str]:
    """Ask once; return the answer and its streamed pieces."""
    reader = EventList()
    async with Pipeline.open(shop, settings_for(dialect, server), observer=reader) as pipeline:
        answer = await pipeline.ask(TASK)
    return answer, "".join(piece.text for piece in reader.of(AnswerText))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_half_a_surrogate_pair_costs_no_answer(shop: Path, dialect: str) -> None:
    """Characters that no store accepts are replaced in answers, reasons and names; a split pair is
    joined."""
    with SAYING[dialect](score=RELEVANT, bad_text="\ud800 or \ud83d\ude00 \ude00") as server:
        answer, shown = await ask(shop, dialect, server)
        repeated, _ = await ask(shop, dialect, server)
    assert answer.exit_code == 0
    assert answer.answer == shown == "The answer: \ufffd or 😀 \ufffd."
    assert repeated.answer == answer.answer
    assert any(memory.reason == "because \ufffd or 😀 \ufffd" for memory in answer.selected)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_key_that_a_host_repeats_is_neither_kept_nor_shown(
    shop: Path, dialect: str
) -> None:
    """The key is replaced by `[key]`, even if two pieces of a stream share it."""
    with SAYING[dialect](score=RELEVANT, bad_text=KEY) as server:
        answer, shown = await ask(shop, dialect, server)
    assert answer.answer == shown == "The answer: [key]."
    assert any(memory.reason == "because [key]" for memory in answer.selected)
    assert KEY not in repr(answer)
    kept = [path for path in (store_dir(shop)).rglob("*") if path.is_file()]
    assert kept and not any(KEY.encode() in path.read_bytes() for path in kept)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("flood", [Flood.SPACES, Flood.BOMB], ids=lambda flood: flood.name)
async def test_a_host_that_floods_leaves_its_memories_unjudged(
    shop: Path, dialect: str, flood: Flood
) -> None:
    """Every candidate is accounted for, and each aborted call is charged."""
    server = FLOODING[dialect]()
    server.flood = flood
    with server:
        answer, _ = await ask(shop, dialect, server)
    assert answer.exit_code != 0
    assert answer.coverage.unjudged == answer.coverage.candidates > 0
    assert answer.spent(Stage.JUDGE).usage.input_tokens > 0
    assert answer.unjudged.sample and "more than 4,194,304 bytes" in (
        answer.unjudged.sample[0].detail or ""
    )
