"""Abandoned batches, batches stopped halfway, truncated results and full queues."""

from pathlib import Path

import pytest

from tests.extensions.batch.bureau import WIDE, bureau, questions
from tests.servers.batching import Step, Trouble
from tests.waiting import rows
from xscore.costs import caps
from xscore.extensions.batch.list_plan import ListOptions, draft_job, save_job
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.hashing import row_checksum
from xscore.settings import PriceRule
from xscore.store.opening import connect_store


async def test_what_a_batch_may_cost_is_held_until_it_is_settled(shop: Path) -> None:
    """A batch left alone for a week still counts against the caps; a settled one does not."""
    with bureau("openai") as office:
        job = await office.submit(shop, questions(2))
        await office.advance(shop, job)
        office.now += 7 * 86_400
        connection = connect_store(shop / ".xscore" / "memory.db")
        held, gone = caps.reserved_amounts(connection, now=office.now)
        assert [one.turn_id for one in held] == [job] and not gone
        connection.execute("UPDATE batch SET state = 'failed'")
        assert not caps.reserved_amounts(connection, now=office.now)[0]
        connection.rollback()
        connection.close()


@pytest.mark.parametrize(("rule", "is_priced"), [("auto", True), ("vendor", True), ("free", False)])
async def test_the_users_word_on_a_gateways_price_holds_for_batches(
    shop: Path, rule: PriceRule, is_priced: bool
) -> None:
    """`provider.price` sets a gateway list's estimate, its reservation and its cost."""
    with bureau("openai", judge={"model": "openai:gpt-4.1-nano"}, price=rule) as office:
        async with Pipeline.open(shop, office.settings, clock=office.clock) as pipeline:
            await pipeline.index()
            draft = draft_job(pipeline.parts, questions(2), ListOptions(command="submit"), limits=WIDE)
            job = save_job(pipeline.parts, draft)
        await office.advance(shop, job)
        held = rows(shop, "SELECT amount FROM reservation WHERE turn_id = ?", job)
        done = await office.finish(shop, job)
    assert not done.is_pending
    live_usd = draft.plan.estimate.cost_usd
    assert [bool(draft.cost_usd), bool(live_usd), any(usd for (usd,) in held), bool(done.spent_usd)] == [is_priced] * 4


async def test_a_pass_that_has_begun_sends_nothing_of_a_job_that_is_stopped(shop: Path) -> None:
    """A cancel between two batches of a pass takes effect before the next is marked."""

    with bureau("openai", judge={"pack_size": 1}, batch={"max_requests": 10}) as office:
        job = await office.submit(shop, questions(2))
        there = await office.advance(shop, job, note=lambda _: office.stop(shop, job))
        assert len(there.batches) == office.book.created == 1
        done = await office.finish(shop, job)
        assert not done.is_pending and office.book.created == 1


@pytest.mark.verify
async def test_what_came_before_results_were_cut_is_entered(shop: Path) -> None:
    """Results of a truncated reply are kept although no chunk was full."""
    with bureau("openai") as office:
        job = await office.submit(shop, questions(4))
        office.book.trouble(Step.RESULTS, Trouble.CUT)
        seen = [await office.advance(shop, job) for _ in range(2)]
        assert seen[1].problem and seen[1].sent and seen[1].answered
        assert (await office.finish(shop, job)).judged and sum(office.book.ran.values()) == 4


async def test_a_job_of_an_earlier_prompt_is_still_collected(shop: Path) -> None:
    """What was sent is recorded, with the reason why the rest was not sent."""
    with bureau("openai", judge={"pack_size": 1}, batch={"max_requests": 10}) as office:
        job = await office.submit(shop, questions(2))

        def full(said: str) -> None:
            office.book.trouble(Step.CREATE, Trouble.BUSY)

        assert (await office.advance(shop, job, note=full)).planned
        connection = connect_store(shop / ".xscore" / "memory.db")
        ((plan,),) = connection.execute("SELECT plan FROM job").fetchall()
        with database.transaction(connection):
            connection.execute("UPDATE job SET judge = 'earlier', checksum = ?", (row_checksum(job, "earlier", plan),))
        connection.close()
        for _ in range(3):
            there = await office.advance(shop, job)
        assert there.answered and not there.sent and "earlier judging prompt" in there.held_back
