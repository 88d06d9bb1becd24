"""A dead or silent host, or one that cannot be probed, costs little, and existing judgments stay
usable."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import settings_for
from tests.servers.faults import Fault
from tests.servers.limited_server import LimitedServer
from tests.waiting import slower_attempts
from xscore.cache import capabilities
from xscore.pipeline.build import Pipeline
from xscore.records.calls import Stage
from xscore.records.receipt import Answer
from xscore.records.turn import Turn
from xscore.settings import Settings

TASK = Turn(task="The discount is taken twice; take it once.")
NEW = "def refund(amount: int) -> int:\n    return -amount\n"


async def ask(shop: Path, server: LimitedServer) -> Answer:
    """Judge at this server as a new process does."""
    async with Pipeline.open(shop, settings_for(server, probe=True, attempts=1)) as pipeline:
        return await pipeline.ask(TASK, answer=False)


async def judged_and_forgotten(shop: Path, server: LimitedServer) -> Answer:
    """Judge everything, add one memory, and let the host's probe expire."""
    first = await ask(shop, server)
    (shop / "shop" / "refund.py").write_text(NEW)
    async with Pipeline.open(shop, settings_for(server)) as pipeline:
        judge = pipeline.parts.judge.identity
        capabilities.delete_capability(
            pipeline.parts.store.connection,
            provider=judge.provider,
            host=judge.host,
            model=judge.model,
        )
    return first


@pytest.mark.parametrize(
    "fault", [Fault.RESET, Fault.SERVER_ERROR, Fault.WRONG_KEY, Fault.MALFORMED_CONTENT]
)
async def test_a_nearly_cached_turn_outlives_a_failed_probe(shop: Path, fault: Fault) -> None:
    """Earlier judgments count as cached, the new memory is unjudged with the host's message, exit
    1."""
    with LimitedServer() as server:
        first = await judged_and_forgotten(shop, server)
        server.misbehave(fault, times=99)
        second = await ask(shop, server)
        server.reset()
        third = await ask(shop, server)
    assert second.exit_code == 1
    assert second.coverage.cached >= first.coverage.candidates - 1
    assert second.unjudged.by_cause == {"provider": second.coverage.unjudged}
    assert second.coverage.unjudged >= 1
    assert all(sample.detail for sample in second.unjudged.sample)
    assert any("the judge could not be asked" in warning for warning in second.warnings)
    assert third.coverage.judged == second.coverage.unjudged and third.exit_code == 0


@pytest.mark.parametrize("is_judged_before", [False, True])
async def test_a_stop_during_the_probe_ends_with_a_receipt(
    shop: Path, is_judged_before: bool
) -> None:
    """Ctrl-C during the probe: exit 130, and every unknown memory is unjudged for it."""
    with LimitedServer() as server:
        if is_judged_before:
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
    assert (answer.coverage.cached > 0) is is_judged_before


def at_closed_port(**judge: Any) -> Settings:
    """Settings with a closed port as host, without a probe, as for the vendor's own host."""
    with LimitedServer() as server:
        return settings_for(server, pack_size=1, concurrency=64, **judge)


async def test_a_dead_host_stops_after_a_handful_of_attempts(shop: Path) -> None:
    """Of forty packs with five attempts each only a few are made, the receipt counts them, and each
    memory has a cause.
    """
    for number in range(40):
        (shop / f"more_{number}.py").write_text(
            f"def more_{number}() -> int:\n    return {number}\n"
        )
    async with Pipeline.open(shop, at_closed_port(attempts=5)) as pipeline:
        answer = await pipeline.ask(TASK, answer=False)
    assert answer.coverage.unjudged == answer.coverage.candidates > 40
    assert answer.unjudged.by_cause == {"provider": answer.coverage.unjudged}
    assert 0 < answer.spent(Stage.JUDGE).attempts <= 12 and answer.spent(Stage.JUDGE).calls == 0
    assert "no connection could be made" in answer.unjudged.sample[0].detail


async def test_a_dead_host_is_named_where_the_deadline_came_first(shop: Path) -> None:
    """The turn ends in time; its warnings say that no call was answered, and the last error."""
    settings = at_closed_port(attempts=5)
    # The calls, with five attempts each, last longer than either deadline.
    for attempt in slower_attempts(1, 2):
        with attempt:
            deadline_s = 1.5 * attempt.slowness
            async with Pipeline.open(
                shop, replace(settings, budget=replace(settings.budget, deadline_s=deadline_s))
            ) as pipeline:
                await pipeline.index()
                answer = await pipeline.ask(TASK, answer=False)
            assert answer.unjudged.by_cause == {"deadline": answer.coverage.unjudged}
            attempt.needs(answer.spent(Stage.JUDGE).attempts, "no call was begun")
            assert any(
                "no judging call was answered" in warning and "no connection" in warning
                for warning in answer.warnings
            )


async def test_a_probe_leaves_time_to_judge(shop: Path) -> None:
    """A host silent during the probe is given up in time, and then judged with unprobed."""
    with LimitedServer() as server:
        server.misbehave(Fault.SILENCE, times=1)
        settings = settings_for(server, probe=True)
        async with Pipeline.open(shop, settings) as pipeline:
            await pipeline.index()
        async with Pipeline.open(
            shop, replace(settings, budget=replace(settings.budget, deadline_s=8.0))
        ) as pipeline:
            answer = await pipeline.ask(TASK, answer=False)
    assert answer.coverage.judged == answer.coverage.candidates > 0 and answer.exit_code == 0
    assert Stage.PROBE in answer.usage and answer.spent(Stage.PROBE).calls == 0
