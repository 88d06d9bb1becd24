"""Questions about the shop, and what it takes to put them to a judge at a price."""

import asyncio
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.quality import Evaluation
from xscore.extensions.evaluation.run import QrelCase, Qrels, run_evaluation
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.resources import TurnResources, open_resources
from xscore.records.reports import Estimate, Observer
from xscore.settings import Settings

TOTAL, DISCOUNT = EntityRef("shop/prices.py", "total"), EntityRef("shop/prices.py", "discount")
QUESTIONS = Qrels(
    (
        QrelCase("twice", "The discount of total is taken twice; take it once.", (TOTAL, DISCOUNT)),
        QrelCase("cart", "Where does the cart ask for its sum?", (EntityRef("shop/cart.py", "Cart.checkout"), TOTAL)),
    ),
    "digest-of-the-file",
)
SCORES = {"shop/prices.py::total": 95, "shop/prices.py::discount": 80}


class Counts(Observer):
    """Someone who can be asked; keeps the estimates."""

    can_confirm = True

    def __init__(self, *, agrees: bool) -> None:
        self.agrees = agrees
        self.estimates: list[Estimate] = []

    def confirm(self, estimate: Estimate) -> bool:
        """Answer as told."""
        self.estimates.append(estimate)
        return self.agrees


class Hears(Observer):
    """Waits for a stage."""

    def __init__(self, stage: str) -> None:
        self.awaited = stage
        self.heard = asyncio.Event()

    def stage(self, name: str) -> None:
        """Tell whoever waits."""
        if name == self.awaited:
            self.heard.set()


def priced(parts: PipelineParts, usd_a_call: str) -> PipelineParts:
    """The same at a host where every call has a price; under another cap what the real parts make of it."""
    under = parts.with_cap
    assert under is not None

    def resources(turn_id: str) -> AbstractAsyncContextManager[TurnResources]:
        price = Decimal(usd_a_call)
        return open_resources(parts.store, parts.settings, answerer=None, turn_id=turn_id, price_of=lambda *_: price)

    return replace(parts, open_resources=resources, with_cap=lambda max_usd: priced(under(max_usd), usd_a_call))


async def evaluated(shop: Path, settings: Settings, questions: Qrels = QUESTIONS) -> Evaluation:
    """Evaluate in a pipeline of its own."""
    async with Pipeline.open(shop, settings) as pipeline:
        return await run_evaluation(pipeline.parts, questions)


def rows(pipeline: Pipeline, query: str) -> list[tuple[object, ...]]:
    """Read the store."""
    return pipeline.store.connection.execute(query).fetchall()
