"""Whole turns against a loopback host: what is sent, what is kept, what is paid again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.conftest import store_dir
from tests.pipeline.conftest import TASK, ask, settings_for
from tests.servers.faults import Fault
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore.pipeline.build import Pipeline
from xscore.pipeline.parts import JudgingParts, TurnOptions
from xscore.pipeline.resources import TurnResources, open_resources
from xscore.pipeline.turn import run_turn
from xscore.platform.errors import UsageError
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Scope


def names(answer: Answer) -> set[str]:
    """Return the kept entities."""
    return {f"{memory.path}::{memory.entity}" for memory in answer.selected}


async def test_a_turn_judges_everything_and_answers_once(
    shop: Path, server: OpenAIServer
) -> None:
    """X03, X11: every memory is judged, the counts add up, and there is exactly one answering
    call."""
    server.score = table({"shop/prices.py::total": 95, "shop/prices.py::discount": 80})
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK)
        status = await pipeline.status()
    assert answer.exit_code == 0
    assert answer.answer == server.answer
    assert names(answer) == {"shop/prices.py::total", "shop/prices.py::discount"}
    assert answer.coverage.candidates == answer.coverage.judged == len(server.counts.judgments)
    assert status.memories == answer.coverage.candidates + 1, (
        "the exchange is a memory, and no candidate of its thread"
    )
    assert server.counts.answering_requests == 1
    judging = answer.spent(Stage.JUDGE)
    assert judging.calls == server.counts.judging_requests == judging.attempts
    assert judging.cost_usd == 0
    prompt = json.dumps(server.counts.bodies[-1])
    assert "def total" in prompt and "def add" not in prompt


async def test_what_was_chosen_is_delivered_before_it_is_saved(
    shop: Path, server: OpenAIServer
) -> None:
    """A hook's text does not wait for the receipt; the stored receipt is the delivered one."""
    delivered: list[tuple[Answer, str]] = []
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        connection = pipeline.store.connection

        def deliver(answer: Answer) -> None:
            delivered.append(
                (
                    answer,
                    *connection.execute(
                        "SELECT state FROM turn WHERE id = ?", (answer.turn_id,)
                    ).fetchone(),
                )
            )

        finished = await run_turn(
            pipeline.parts, TASK, TurnOptions(answer=False, deliver=deliver)
        )
        stored = connection.execute(
            "SELECT state FROM turn WHERE id = ?", (finished.turn_id,)
        ).fetchone()
    assert delivered == [(finished, "running")]
    assert stored == ("done",)


async def test_the_same_task_again_costs_no_judging_call(
    shop: Path, server: OpenAIServer
) -> None:
    """X28, X33: a repeated turn is answered from the cache, with the same scores, reasons and
    order."""
    server.score = table({"shop/prices.py::total": 95, "shop/prices.py::discount": 80})
    first = await ask(shop, settings_for(server))
    server.reset()
    repeated = await ask(shop, settings_for(server))
    assert server.counts.requests == 0
    assert repeated.coverage.cached == repeated.coverage.candidates == first.coverage.judged
    assert [(m.id, m.score, m.reason) for m in repeated.selected] == [
        (m.id, m.score, m.reason) for m in first.selected
    ]
    assert repeated.selected and all(memory.cached for memory in repeated.selected)


async def test_one_edited_function_is_all_that_is_judged_again(
    shop: Path, server: OpenAIServer
) -> None:
    """X28: an edit re-judges the memory it touches; a memory that only moved in the file is not
    paid again."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        await pipeline.ask(TASK, answer=False)
        server.reset()
        source = shop / "shop" / "prices.py"
        source.write_text(source.read_text().replace("sum(lines)", "sum(lines) + 0"))
        await pipeline.ask(TASK, answer=False)
    assert list(server.counts.judged_places) == ["shop/prices.py::total"]


async def test_a_narrowed_turn_says_so_and_judges_only_its_scope(
    shop: Path, server: OpenAIServer
) -> None:
    """A filter is named in the receipt, and the rest is no candidate."""
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(
            replace(TASK, scope=Scope(paths=("shop/",), kinds=("function",))), answer=False
        )
        with pytest.raises(UsageError, match="no kind `functon`"):
            await pipeline.ask(replace(TASK, scope=Scope(kinds=("functon",))), answer=False)
    assert answer.scope == Scope(paths=("shop/",), kinds=("function",))
    assert answer.coverage.candidates == 2
    assert set(server.counts.judged_places) == {
        "shop/prices.py::total",
        "shop/prices.py::discount",
    }


async def test_a_failed_answer_keeps_the_bundle(shop: Path, server: OpenAIServer) -> None:
    """Exit 7: if the answering call fails, judgments are kept and the bundle is returned."""
    server.score = table({"shop/prices.py::total": 95})
    server.misbehave(
        Fault.UNKNOWN_MODEL, times=99, when=lambda body: body["model"] == "strong-1"
    )
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK)
    assert answer.exit_code == 7
    assert answer.answer is None
    assert answer.bundle and "def total" in answer.bundle
    assert any("answering call failed" in warning for warning in answer.warnings)


async def test_a_wrong_key_ends_in_a_receipt_where_all_are_unjudged(
    shop: Path, server: OpenAIServer
) -> None:
    """Exit 3: every candidate has its cause, words rank instead, and no answering call is made."""
    server.api_key = "right"
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK)
    assert (answer.exit_code, answer.ranked_by) == (3, "lexical")
    assert answer.partial
    assert answer.coverage.unjudged == answer.coverage.candidates > 0
    assert answer.unjudged.by_cause == {"provider": answer.coverage.unjudged}
    assert "key" in answer.unjudged.sample[0].detail.lower()
    assert server.counts.answering_requests == 0


async def test_some_unjudged_is_exit_1_and_the_next_turn_pays_only_for_them(
    shop: Path, server: OpenAIServer
) -> None:
    """What the repair ladder could not repair is unjudged; asking again judges just that."""

    def about_readme(body: object) -> bool:
        return "Sells things" in json.dumps(body)

    server.misbehave(Fault.MALFORMED_CONTENT, times=999, when=about_readme)
    async with Pipeline.open(shop, settings_for(server, pack_size=2)) as pipeline:
        first = await pipeline.ask(TASK, answer=False)
        server.reset()
        second = await pipeline.ask(TASK, answer=False)
    assert first.exit_code == 1
    assert 0 < first.coverage.unjudged < first.coverage.candidates
    assert second.exit_code == 0
    assert second.coverage.judged == first.coverage.unjudged == len(server.counts.judgments)


@asynccontextmanager
async def priced(pipeline: Pipeline, usd_a_call: str) -> AsyncIterator[Pipeline]:
    """The same pipeline at a priced host."""

    @asynccontextmanager
    async def resources(parts: JudgingParts, turn_id: str) -> AsyncIterator[TurnResources]:
        async with open_resources(parts.store, parts.settings, turn_id=turn_id) as opened:
            opened.price_of = lambda *_: Decimal(usd_a_call)
            yield opened

    yield Pipeline(replace(pipeline.parts, resources_opener=resources))


async def test_a_turn_never_spends_more_than_its_cap(shop: Path, server: OpenAIServer) -> None:
    """Exit 4: dollars are reserved before each call; judgments are kept and not paid again."""
    settings = settings_for(server, max_usd="0.05", pack_size=1)
    async with Pipeline.open(shop, settings) as opened, priced(opened, "0.01") as pipeline:
        first = await pipeline.ask(TASK, answer=False)
        judged = len(server.counts.judgments)
        server.reset()
        second = await pipeline.ask(TASK, answer=False)
    assert first.exit_code == 4
    assert first.spent(Stage.JUDGE).cost_usd == Decimal("0.05")
    assert judged == first.coverage.judged == 5
    assert second.coverage.cached == 5
    assert not set(server.counts.judgments.values()) - {1}


async def test_cancelling_keeps_what_was_paid_for(shop: Path, server: OpenAIServer) -> None:
    """Exit 130: the first Ctrl-C ends in a receipt, and the next turn pays only for what was not in
    flight."""
    server.latency_s = 0.3
    async with Pipeline.open(
        shop, settings_for(server, pack_size=1, concurrency=2)
    ) as pipeline:
        work = asyncio.create_task(pipeline.ask(TASK))
        while server.counts.requests < 3:  # noqa: ASYNC110  the server counts in a thread of its own
            await asyncio.sleep(0.01)
        work.cancel()
        answer = await work
        paid = sum(server.counts.judgments.values())
        server.latency_s = 0.0
        repeated = await pipeline.ask(TASK, answer=False)
    assert answer.exit_code == 130
    assert answer.coverage.judged == paid >= 3
    assert answer.unjudged.by_cause["interrupted"] == answer.coverage.unjudged > 0
    assert server.counts.answering_requests == 0
    assert repeated.coverage.cached == paid
    assert max(server.counts.judgments.values()) == 1


async def test_the_lexical_judge_needs_no_model(shop: Path) -> None:
    """Without a key the lexical judge scores everything, the answer is null, and no judgment is
    stored."""
    async with Pipeline.open(shop) as pipeline:
        answer = await pipeline.ask(replace(TASK, task="add a thing to the cart"))
        nonsense = await pipeline.ask(replace(TASK, task="zebras under umbrellas"))
        status = await pipeline.status()
    assert answer.exit_code == 0
    assert answer.answer is None and answer.primary is None
    assert not answer.judge.by_model
    assert "shop/cart.py::Cart.add" in names(answer)
    assert answer.bundle and "def add" in answer.bundle
    assert nonsense.selected == ()
    assert status.judgments == 0


async def test_all_scores_has_a_line_for_every_candidate(
    shop: Path, server: OpenAIServer, tmp_path: Path
) -> None:
    """One line for each candidate, judged or not."""
    target = tmp_path / "scores.jsonl"
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False, all_scores=target)
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(lines) == answer.coverage.candidates
    names = "id path entity layer kind outcome raw_score score reason cause boosts words"
    assert set(lines[0]) == set(names.split())
    assert [line["score"] for line in lines] == sorted(
        (line["score"] for line in lines), reverse=True
    )


async def test_secrets_reach_neither_host_nor_store(shop: Path, server: OpenAIServer) -> None:
    """P01: a key planted in code, task or errors is found nowhere after redaction."""
    secret = "AKIA" + "Q3EXAMP1EKEY" + "WXYZ"
    (shop / "shop" / "keys.py").write_text(f'AWS_ID = "{secret}"\n')
    turn = replace(TASK, task=f"why is {secret} refused?", errors=f"denied: {secret}")
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        answer = await pipeline.ask(turn)
    assert secret not in json.dumps(server.counts.bodies)
    assert secret not in answer.task
    for file in (store_dir(shop)).iterdir():
        assert secret.encode() not in file.read_bytes()
