"""The JSON contract: the structure of every object, from real turns, kept as snapshots."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from tests.pipeline.conftest import TASK, settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.json_form import money_json, to_json
from xscore.platform.errors import BrokenReceipt
from xscore.records.calls import Stage
from xscore.records.receipt import Answer, Coverage
from xscore.records.turn import Scope

FREE_KEYS = {
    "by_kind",
    "by_language",
    "by_layer",
    "by_folder",
    "by_cause",
    "by_reason",
    "edges",
    "usage",
}
"""Objects whose keys are data."""


def shape(value: object, key: str = "") -> object:
    """Replace every value by its type, and every list by its first element's structure."""
    if isinstance(value, dict):
        if key in FREE_KEYS:
            return {"…": shape(next(iter(value.values()), 0))}
        return {name: shape(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


async def test_the_shape_of_every_object(
    shop: Path, server: OpenAIServer, snapshot: SnapshotAssertion
) -> None:
    """X25: schema 1 holds; fields may be added to a snapshot, never renamed or removed."""
    server.score = table({"shop/prices.py::total": 95, "shop/prices.py::discount": 66})
    (shop / "big.bin").write_bytes(b"\0" * 100)
    with (shop / "shop" / "prices.py").open("a") as edited:
        edited.write("\n# an edit of today\n")
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        objects = {
            "index": to_json(await pipeline.index()),
            "estimate": to_json(await pipeline.estimate(TASK)),
            "ask": to_json(
                await pipeline.ask(
                    replace(TASK, file="shop/prices.py", scope=Scope(paths=("shop/",)))
                )
            ),
            "context": to_json(await pipeline.context(TASK)),
            "explain": to_json(await pipeline.explain("shop/prices.py::total")),
            "status": to_json(await pipeline.status()),
            "doctor": to_json(await pipeline.doctor()),
        }
    assert all(
        next(iter(body)) == "schema" and body["schema"] == 1 for body in objects.values()
    )
    assert json.loads(json.dumps(objects)) == objects
    assert {name: shape(body) for name, body in objects.items()} == snapshot


async def test_the_page_names_what_calls_are_for(shop: Path, server: OpenAIServer) -> None:
    """A receipt has usage for every stage, as `docs/reference/json.md` lists them and in that
    order."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        usage = to_json(await pipeline.context(TASK))["usage"]
    page = (Path(__file__).parents[2] / "docs/reference/json.md").read_text("utf-8")
    (block,) = re.findall(r"^ usage: \{(judge: .*?)^ routing:", page, re.MULTILINE | re.DOTALL)
    listed = ["judge", *re.findall(r"(\w+): the same \| null", block)]
    assert listed == list(Stage)
    assert isinstance(usage, dict) and list(usage) == listed


async def test_a_context_that_chose_nothing_is_an_empty_bundle(
    shop: Path, server: OpenAIServer
) -> None:
    """`context` always has a bundle, even an empty one; `ask` only if there is no answer."""
    server.score = table({}, default=1)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        assert to_json(await pipeline.context(TASK))["bundle"] == ""
        assert "bundle" not in to_json(await pipeline.ask(TASK, answer_anyway=True))
        assert "bundle" not in to_json(await pipeline.ask(TASK, answer=False))


@pytest.mark.parametrize(
    ("amount", "written"),
    [
        (None, None),
        ("0", "0"),
        ("0.10", "0.1"),
        ("1E-9", "0.000000001"),
        ("120", "120"),
        ("0E-7", "0"),
    ],
)
def test_money_is_a_plain_decimal_string(amount: str | None, written: str | None) -> None:
    """No exponent, no trailing zeros; unpriced stays null."""
    assert money_json(None if amount is None else Decimal(amount)) == written


def test_a_receipt_that_does_not_add_up_cannot_exist() -> None:
    """X03: a sum that does not add up is an internal error, never an answer."""
    with pytest.raises(BrokenReceipt) as caught:
        Coverage(candidates=5, judged=2, cached=1, carried=0, unjudged=1)
    assert caught.value.exit_code == 70


async def test_a_stored_receipt_reads_back(shop: Path, server: OpenAIServer) -> None:
    """The store keeps of a turn what the command printed, without the bundle."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer: Answer = await pipeline.context(TASK)
        row = pipeline.parts.store.connection.execute(
            "SELECT body FROM receipt WHERE turn_id = ?", (answer.turn_id,)
        ).fetchone()
    assert json.loads(row[0]) == json.loads(json.dumps(to_json(replace(answer, bundle=None))))
