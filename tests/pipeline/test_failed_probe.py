"""A host that cannot be probed takes nothing away from what is known already."""

import asyncio
from pathlib import Path

import pytest

from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.lesser_server import LesserServer
from xscore.cache import capabilities
from xscore.pipeline.build import Pipeline
from xscore.records.receipt import Answer
from xscore.records.turn import Turn

TASK = Turn(task="The discount is taken twice; take it once.")
NEW = "def refund(amount: int) -> int:\n    return -amount\n"


async def ask(shop: Path, server: LesserServer) -> Answer:
    """Judge at this server as a process of its own would."""
    async with Pipeline.open(shop, settings_for(server, probe=True, attempts=1)) as pipeline:
        return await pipeline.ask(TASK, answer=False)


async def judged_and_forgotten(shop: Path, server: LesserServer) -> Answer:
    """Judge everything, add one memory, and let what is known of the host fade."""
    first = await ask(shop, server)
    (shop / "shop" / "refund.py").write_text(NEW)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        judge = pipeline.parts.judge.identity
        capabilities.delete_capability(
            pipeline.parts.store.connection, provider=judge.provider, host=judge.host, model=judge.model
        )
    return first


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.SERVER_ERROR, Fault.WRONG_KEY, Fault.MALFORMED_CONTENT])
async def test_a_nearly_cached_turn_outlives_a_failed_probe(shop: Path, fault: Fault) -> None:
    """What was judged before counts as cached, the new memory is unjudged with what the host said, exit 1."""
    with LesserServer() as server:
        first = await judged_and_forgotten(shop, server)
        server.misbehave(fault, times=99)
        second = await ask(shop, server)
        server.reset()
        third = await ask(shop, server)
    assert second.exit_code == 1
    assert second.coverage.cached >= first.coverage.candidates - 1
    assert second.unjudged.by_cause == {"provider": second.coverage.unjudged} and second.coverage.unjudged >= 1
    assert all(sample.detail for sample in second.unjudged.sample)
    assert any("the judge could not be asked" in warning for warning in second.warnings)
    assert third.coverage.judged == second.coverage.unjudged and third.exit_code == 0


@pytest.mark.parametrize("known", [False, True])
async def test_a_stop_during_the_probe_ends_with_a_receipt(shop: Path, known: bool) -> None:
    """Ctrl-C while the host is being found out: exit 130, and everything that is not known is unjudged for it."""
    with LesserServer() as server:
        if known:
            await judged_and_forgotten(shop, server)
        seen = server.counts.requests
        server.latency_s = 30.0
        asking = asyncio.create_task(ask(shop, server))
        while server.counts.requests == seen:  # noqa: ASYNC110  the server runs in a thread
            await asyncio.sleep(0.01)
        asking.cancel()
        answer = await asking
    assert answer.exit_code == 130
    assert answer.unjudged.by_cause == {"interrupted": answer.coverage.unjudged}
    assert (answer.coverage.cached > 0) is known
