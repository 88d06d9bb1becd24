"""Questions about the shop, and a priced judge for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.quality import Evaluation
from xscore.extensions.evaluation.run import run_evaluation
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import JudgingParts, PipelineParts
from xscore.pipeline.resources import TurnResources, open_resources
from xscore.records.estimates import Estimate
from xscore.records.events import Observer
from xscore.settings import Settings

TOTAL, DISCOUNT = EntityRef("shop/prices.py", "total"), EntityRef("shop/prices.py", "discount")
QUESTIONS = CaseFile(
    (
        EvalCase(
            id="twice",
            task="The discount of total is taken twice; take it once.",
            gold=(TOTAL, DISCOUNT),
        ),
        EvalCase(
            id="cart",
            task="Where does the cart ask for its sum?",
            gold=(EntityRef("shop/cart.py", "Cart.checkout"), TOTAL),
        ),
    ),
    "digest-of-the-file",
)
SCORES = {"shop/prices.py::total": 95, "shop/prices.py::discount": 80}


class Counts(Observer):
    """An observer that answers confirmations and keeps the estimates."""

    can_confirm = True

    def __init__(self, *, agrees: bool) -> None:
        self.agrees = agrees
        self.estimates: list[Estimate] = []

    def confirm(self, estimate: Estimate) -> bool:
        """Return the planned answer."""
        self.estimates.append(estimate)
        return self.agrees


def priced(parts: PipelineParts, usd_a_call: str) -> PipelineParts:
    """The same at a priced host."""

    @asynccontextmanager
    async def resources(parts: JudgingParts, turn_id: str) -> AsyncIterator[TurnResources]:
        async with open_resources(parts.store, parts.settings, turn_id=turn_id) as opened:
            opened.price_of = lambda *_: Decimal(usd_a_call)
            yield opened

    return replace(parts, resources_opener=resources)


async def evaluated(
    shop: Path, settings: Settings, questions: CaseFile = QUESTIONS
) -> Evaluation:
    """Evaluate in a new pipeline."""
    async with Pipeline.open(shop, settings) as pipeline:
        return await run_evaluation(pipeline.parts, questions)


def rows(pipeline: Pipeline, query: str) -> list[tuple[object, ...]]:
    """Query the store."""
    return pipeline.store.connection.execute(query).fetchall()
