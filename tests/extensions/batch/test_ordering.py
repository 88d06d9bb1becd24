"""Which asks of a batch go first: the most promising where a cap binds; else they stand as the pool has them."""

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.extensions.batch.bureau import WIDE, rows, settings_at
from tests.pipeline.conftest import shop
from xscore.extensions.batch.submitting import JobDraft, draft_job
from xscore.pipeline.build import Pipeline
from xscore.records import Scope
from xscore.records.batch import Question, QuestionList
from xscore.settings import Secret

__all__ = ["shop"]

ASKED = QuestionList((Question(id="q", task="how does Cart.add add a line to the cart?"),), "digest")
HOST = "https://api.openai.com/v1"


async def drawn(root: Path, budget: dict[str, object]) -> JobDraft:
    """Plan a list for a priced model, a memory an ask; nothing is sent."""
    judge = {"model": "openai:gpt-5-nano", "pack_size": 1}
    settings = settings_at("openai", HOST, judge=judge, budget=budget)
    keyed = replace(settings.openai, api_key=Secret("sk-test-000000"))
    async with Pipeline.open(root, replace(settings, openai=keyed)) as pipeline:
        await pipeline.index()
        return draft_job(pipeline.parts, ASKED, scope=Scope(), limits=WIDE)


@pytest.mark.parametrize("cap", ["max_usd", "max_usd_day"])
async def test_where_a_cap_binds_the_best_guess_goes_first(shop: Path, cap: str) -> None:
    """Whichever cap it is; the requests are the same ones in another order."""
    plain, bound = await drawn(shop, {}), await drawn(shop, {cap: Decimal("0.0001")})
    assert {ask.pack for ask in plain.plan.asks} == {ask.pack for ask in bound.plan.asks}
    first = bound.plan.asks[0].pieces[0].memory
    assert rows(shop, "SELECT entity FROM memory WHERE content_hash = ?", first) == [("Cart.add",)]
    assert plain.plan.asks[0] != bound.plan.asks[0]


async def test_a_cap_that_leaves_room_moves_nothing(shop: Path) -> None:
    """Priors are not looked at for it."""
    plain, wide = await drawn(shop, {}), await drawn(shop, {"max_usd": Decimal(50)})
    assert plain.plan.asks == wide.plan.asks and plain.plan.requests == wide.plan.requests
