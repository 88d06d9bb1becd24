"""A small repository, a loopback judge, settings that name it, and a turn without an answer.

The judge scores all memories low: a test of an answer first says which pass, such as
`server.score = table({"::total": 95})`.
"""

from decimal import Decimal
from pathlib import Path

from tests.servers.openai_server import OpenAIServer
from xscore.pipeline.build import Pipeline
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import (
    BudgetSettings,
    JudgeSettings,
    LoadedSettings,
    MemorySettings,
    OpenAISettings,
    PrimarySettings,
    Settings,
    validate_group,
)

TASK = Turn(task="The discount of total is taken twice; take it once.")

FILES = {
    "shop/cart.py": '''"""The cart."""

from shop.prices import total


class Cart:
    """What a customer wants."""

    def __init__(self) -> None:
        self.lines: list[int] = []

    def add(self, price: int) -> None:
        """Put one thing into the cart."""
        self.lines.append(price)

    def checkout(self) -> int:
        """Ask for the sum."""
        return total(self.lines)
''',
    "shop/prices.py": '''"""Sums."""


def total(lines: list[int]) -> int:
    """Add the prices up, with the discount."""
    return discount(sum(lines))


def discount(amount: int) -> int:
    """Take a tenth off above one hundred."""
    return amount if amount < 100 else amount * 9 // 10
''',
    "tests/test_prices.py": '''from shop.prices import total


def test_total() -> None:
    """The discount is taken once."""
    assert total([100, 100]) == 180
''',
    "README.md": "# Shop\n\nSells things.\n\n## Discounts\n\nA tenth off above one hundred.\n",
    "pyproject.toml": '[project]\nname = "shop"\n\n[tool.other]\nflag = true\n',
}


def settings_for(server: OpenAIServer, *, max_usd: str = "1", **judge: object) -> Settings:
    """Settings that judge and answer at the loopback host, already probed, with prefix caching in
    steps of 128. What files show of conventions is not noted: these turns count their memories."""
    return Settings(
        judge=validate_group(
            JudgeSettings, {"model": "openai:judge-2", "probe": False, **judge}
        ),
        primary=PrimarySettings(model="openai:strong-1"),
        openai=OpenAISettings(base_url=server.url),
        budget=BudgetSettings(max_usd=Decimal(max_usd)),
        memory=MemorySettings(observe=False),
    )


async def ask(root: Path, settings: Settings | LoadedSettings, turn: Turn = TASK) -> Answer:
    """Run one turn without an answer, as a new process does."""
    async with Pipeline.open(root, settings) as pipeline:
        return await pipeline.ask(turn, answer=False)
