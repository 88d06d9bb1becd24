"""A turn as a stream: its events and their times, and what leaving early or a cancellation leaves
behind."""

import asyncio
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

import xscore
from tests.conftest import store_file
from tests.observers import StageWaiter
from tests.pipeline.conftest import settings_for
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from xscore import Answer, Pipeline
from xscore.platform.errors import UsageError
from xscore.records.events import AnswerText, Kept, Progress, StageBegan, TurnEvent
from xscore.records.indexing import IndexReport

TASK = "The discount of total is taken twice; take it once."


def stored(shop: Path, query: str) -> Any:
    """Return the single value of a query."""
    with closing(sqlite3.connect(store_file(shop))) as connection:
        return connection.execute(query).fetchone()[0]


def settled(events: list[TurnEvent]) -> set[str]:
    """Return all ids that a stream reported as settled."""
    return {
        outcome.candidate.id
        for event in events
        if isinstance(event, Progress)
        for outcome in event.settled
    }


async def test_a_stream_tells_everything_and_ends_in_the_receipt(
    shop: Path, server: OpenAIServer
) -> None:
    """Index, each judgment once, the choice, the answer in pieces, the receipt; then again from the
    cache."""
    server.score = table({"shop/prices.py::discount": 90})
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        events = [event async for event in pipeline.stream(TASK)]
        repeated = [event async for event in pipeline.stream(TASK)]
    receipt = events[-1]
    assert isinstance(receipt, Answer) and receipt.answer == server.answer
    assert [event.name for event in events if isinstance(event, StageBegan)] == [
        "index",
        "pool",
        "judge",
        "select",
        "primary",
    ]
    assert [event.memories.total for event in events if isinstance(event, IndexReport)] == [
        receipt.coverage.candidates
    ]
    assert len(settled(events)) == receipt.coverage.judged == receipt.coverage.candidates
    (kept,) = (event for event in events if isinstance(event, Kept))
    assert [memory.candidate.id for memory in kept.ranked] == [
        memory.id for memory in receipt.selected
    ]
    assert (
        "".join(event.text for event in events if isinstance(event, AnswerText))
        == receipt.answer
    )
    assert not settled(repeated)
    assert isinstance(repeated[-1], Answer)
    assert repeated[-1].coverage.cached == receipt.coverage.candidates


async def test_a_slow_reader_misses_nothing(shop: Path, server: OpenAIServer) -> None:
    """The turn does not wait for its reader, and waiting events are merged: few events, every
    judgment."""
    chosen = settings_for(server, pack_size=1, concurrency=1)
    async with (
        Pipeline.open(shop, chosen, observer=(answering := StageWaiter("primary"))) as pipeline,
        aclosing(pipeline.stream(TASK, answer_anyway=True)) as stream,
    ):
        events = [await anext(stream)]
        await answering.heard.wait()
        events += [event async for event in stream]
    receipt = events[-1]
    assert isinstance(receipt, Answer)
    assert len(settled(events)) == receipt.coverage.judged == server.counts.judging_requests > 5
    assert len([event for event in events if isinstance(event, Progress)]) == 1


@pytest.mark.parametrize("waits", [True, False])
async def test_leaving_early_stops_the_turn_and_keeps_what_was_paid(
    shop: Path, server: OpenAIServer, *, waits: bool
) -> None:
    """Nothing more is sent, the turn has a receipt, and every paid judgment is in the store."""
    server.latency_s = 0.02
    chosen = settings_for(server, pack_size=1, concurrency=1)
    async with Pipeline.open(shop, chosen) as pipeline:
        stream = pipeline.stream(TASK)
        async for event in stream:
            if isinstance(event, Progress) and event.judged:
                break
        if waits:
            await stream.aclose()
    del stream
    sent = server.counts.judging_requests
    assert stored(shop, "SELECT state FROM turn") == "interrupted"
    assert stored(shop, "SELECT count(*) FROM judgment") == sent == len(server.counts.judgments)
    await asyncio.sleep(0.1)
    assert server.counts.judging_requests == sent
    async with Pipeline.open(shop, chosen) as pipeline:
        rest = await pipeline.resume(answer=False)
    assert rest.coverage.carried == sent and not rest.partial


async def test_a_cancelled_reader_still_gets_the_receipt(
    shop: Path, server: OpenAIServer
) -> None:
    """Like `ask`, a stream catches a cancellation and ends with what it has."""
    server.latency_s = 0.05

    judging = StageWaiter("judge")

    async def read() -> list[TurnEvent]:
        chosen = settings_for(server, pack_size=1, concurrency=1)
        async with Pipeline.open(shop, chosen, observer=judging) as pipeline:
            return [event async for event in pipeline.stream(TASK)]

    reading = asyncio.create_task(read())
    await judging.heard.wait()
    reading.cancel()
    receipt = (await reading)[-1]
    assert isinstance(receipt, Answer)
    assert receipt.exit_code == 130 and receipt.coverage.unjudged


async def test_one_pipeline_streams_one_turn(shop: Path, server: OpenAIServer) -> None:
    """A second concurrent stream is refused; an error of the turn is raised from the stream."""
    async with (
        Pipeline.open(shop, settings_for(server)) as pipeline,
        aclosing(pipeline.stream(TASK)) as first,
    ):
        await anext(first)
        with pytest.raises(UsageError, match="another turn"):
            await anext(pipeline.stream(TASK))
        await first.aclose()
        with pytest.raises(UsageError, match="empty"):
            [event async for event in pipeline.stream(" ")]


def test_a_script_streams_without_an_event_loop(shop: Path, server: OpenAIServer) -> None:
    """A `for` loop reads the same events; leaving it stops the turn; a call inside it is refused,
    not blocked."""
    with xscore.open(shop, settings_for(server, pack_size=1, concurrency=1)) as x:
        for event in x.stream(TASK):
            if isinstance(event, Progress) and event.judged:
                with pytest.raises(UsageError, match="stream is open"):
                    x.status()
                break
        assert x.status().turns == 1
        events = list(x.stream(TASK))
        assert isinstance(events[-1], Answer) and not events[-1].partial
        with pytest.raises(UsageError, match="empty"):
            list(x.stream(" "))
