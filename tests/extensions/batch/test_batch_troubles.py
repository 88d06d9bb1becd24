"""Faults between a plan and its judgments, at both vendors: nothing is lost silently or paid
twice."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import store_file
from tests.extensions.batch.bureau import VENDORS, WIDE, Bureau, bureau, judgments, questions
from tests.servers.batching import Step, Trouble
from tests.servers.faults import Fault
from tests.servers.openai_batches import OpenAIBatchServer
from tests.waiting import rows
from xscore.costs import caps
from xscore.extensions.batch.list_plan import ListOptions, draft_job, save_job
from xscore.extensions.batch.machine import BUSY_ELSEWHERE
from xscore.extensions.batch.records import JobStatus
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.hashing import row_checksum
from xscore.settings import PriceRule
from xscore.store.opening import connect_store

ONE_EACH = {"pack_size": 1}


@pytest.fixture(params=VENDORS)
def any_office(request: pytest.FixtureRequest) -> Iterator[Bureau]:
    """Each vendor, for tests in which they differ."""
    with bureau(request.param) as running:
        yield running


@pytest.fixture(params=["openai", pytest.param("anthropic", marks=pytest.mark.verify)])
def office(request: pytest.FixtureRequest) -> Iterator[Bureau]:
    """A vendor."""
    with bureau(request.param) as running:
        yield running


def is_whole(standing: JobStatus) -> bool:
    """Whether every requested candidate is judged."""
    return standing.judged == standing.asked == standing.candidates and not standing.is_pending


EVERY = [
    (step, trouble)
    for step in (Step.UPLOAD, Step.CREATE, Step.LOOK, Step.RESULTS)
    for trouble in (
        Trouble.BUSY,
        Trouble.FAILED,
        Trouble.CUT if step is Step.RESULTS else Trouble.LOST,
    )
]
SOME = [(Step.CREATE, Trouble.FAILED), (Step.LOOK, Trouble.BUSY), (Step.RESULTS, Trouble.CUT)]


@pytest.mark.parametrize(
    ("step", "trouble"),
    [pytest.param(*one, marks=[] if one in SOME else pytest.mark.verify) for one in EVERY],
)
async def test_every_step_may_fail_in_every_way(
    shop: Path, any_office: Bureau, step: Step, trouble: Trouble
) -> None:
    """Finished or not, the next pass continues, the job completes, and each request ran once."""
    job = await any_office.submit(shop, questions(2))
    any_office.book.trouble(step, trouble)
    standing = await any_office.finish(shop, job)
    assert is_whole(standing)
    assert sum(any_office.book.ran.values()) == standing.answered == 2
    assert any_office.book.created == 1


async def test_a_lost_create_is_found_before_another_is_made(
    shop: Path, any_office: Bureau
) -> None:
    """Within the minute of doubt no batch is created again, and the existing one is recognised."""
    any_office.book.trouble(Step.CREATE, Trouble.LOST)
    job = await any_office.submit(shop, questions(2))
    first = await any_office.advance(shop, job)
    assert (first.sent, first.batches[0].state, any_office.book.created) == (2, "marked", 1)
    again = await any_office.advance(shop, job)
    assert any_office.book.created == 1
    assert again.batches[0].state == ("created" if any_office.vendor == "openai" else "marked")
    assert is_whole(await any_office.finish(shop, job)) and any_office.book.created == 1


async def test_strangers_and_doubles_are_counted_and_left(shop: Path, office: Bureau) -> None:
    """Unknown ids and duplicate results change nothing and are reported."""
    office.book.strays = True
    job = await office.submit(shop, questions(3))
    await office.advance(shop, job)
    standing = await office.advance(shop, job)
    while standing.is_pending:
        standing = await office.advance(shop, job)
    assert is_whole(standing) and len(judgments(shop)) == standing.candidates
    assert len(standing.remarks) == 2 and rows(shop, "SELECT count(*) FROM call") == [(3,)]


@pytest.mark.parametrize("fate", ["expired", "cancelled", "errored", "missing"])
async def test_what_was_not_answered_is_sent_again(
    shop: Path, any_office: Bureau, fate: str
) -> None:
    """A part that expired, was cancelled, failed or is missing is sent with the next batch."""
    any_office.book.fate_of = lambda name: fate if "_1-q1-" in name else None
    job = await any_office.submit(shop, questions(3))
    standing = await any_office.finish(shop, job)
    assert is_whole(standing) and [batch.requests for batch in standing.batches] == [3, 1]
    assert rows(shop, "SELECT tries FROM job_request ORDER BY question") == [(1,), (2,), (1,)]


async def test_three_tries_and_a_request_is_lost_for_its_cause(shop: Path, office: Bureau) -> None:
    """A request that always expires is sent three times; then its candidates are unjudged by the
    provider."""
    office.book.fate_of = lambda name: "expired" if "-q1-" in name else None
    job = await office.submit(shop, questions(2))
    standing = await office.finish(shop, job)
    assert len(standing.batches) == 3 and not standing.is_pending
    assert (
        standing.unjudged == {"provider": standing.asked // 2}
        and standing.judged == standing.asked // 2
    )
    (cause,) = rows(shop, "SELECT cause FROM job_request WHERE state = 'lost'")[0]
    assert cause.startswith("provider: it was not run in time")


async def test_the_ladder_is_climbed_over_batches(shop: Path, office: Bureau) -> None:
    """Packs without a readable reply are halved, then asked one by one, then unjudged; others are
    unaffected."""
    office.server.misbehave(
        Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body)
    )
    job = await office.submit(shop, questions(3))
    standing = await office.finish(shop, job)
    each = standing.asked // 3
    assert standing.unjudged == {"unreadable": each} and standing.judged == 2 * each
    assert [batch.requests for batch in standing.batches] == [3, 2, each]


async def test_prompts_asked_again_are_counted_when_they_are_sent(
    shop: Path, office: Bureau
) -> None:
    """A repair that does not fit counts as asked again only in the pass that sends it."""
    office.server.misbehave(
        Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body)
    )
    job = await office.submit(shop, questions(3))
    standing = await office.advance(shop, job)
    office.batch = {"max_bytes": 1}
    while standing.sent:
        standing = await office.advance(shop, job)
    assert standing.planned == 2 and not any("asked again" in said for said in standing.remarks)
    office.batch = {}
    assert any(
        "2 prompts asked again" in said for said in (await office.advance(shop, job)).remarks
    )


async def test_usage_beyond_what_a_request_can_hold_counts_as_none(shop: Path) -> None:
    """A reply that claims a million million tokens is charged by our estimate and marked so."""
    with bureau("openai") as office:
        office.server.misbehave(Fault.VAST_USAGE, times=1_000)
        standing = await office.finish(shop, await office.submit(shop, questions(1)))
        assert standing.judged == standing.asked > 0
        found = rows(shop, "SELECT input_tokens, estimated FROM call WHERE batch <> ''")
        assert found and all(0 < tokens < 100_000 and estimated for tokens, estimated in found)


@pytest.mark.parametrize("tokens", [10**9, -5, "12", None])
async def test_garbage_counts_of_output_are_estimated(shop: Path, tokens: object) -> None:
    """A reply that claims a thousand million tokens of output, or no number, is charged by the
    length of its text."""
    with bureau("openai") as office:
        assert isinstance(office.server, OpenAIBatchServer)
        office.server.output_tokens = lambda counted: tokens
        standing = await office.finish(shop, await office.submit(shop, questions(1)))
        assert standing.judged == standing.asked > 0
        found = rows(shop, "SELECT output_tokens, estimated FROM call WHERE batch <> ''")
        assert found and all(0 < output < 10_000 and estimated for output, estimated in found)


async def test_a_prompt_that_the_host_cut_is_refused_in_a_batch_too(shop: Path) -> None:
    """Scores of memories that the model did not see are not kept; the calls count as charged."""
    with bureau("openai", judge={"model": "openai:gpt-4.1-nano"}) as office:
        office.server.misbehave(Fault.CUT_PROMPT, times=10_000)
        standing = await office.finish(shop, await office.submit(shop, questions(1)))
        assert not standing.judged and not judgments(shop)
        assert rows(shop, "SELECT count(*) FROM call WHERE outcome = 'ok'") == [(0,)]
        assert rows(shop, "SELECT min(cost) > 0 FROM call") == [(1,)]
        assert rows(shop, "SELECT sum(cost) FROM call") == rows(
            shop, "SELECT spent FROM spending WHERE span LIKE 'b%'"
        )


async def test_a_model_without_any_score_is_not_asked_for_ever(shop: Path, office: Bureau) -> None:
    """If no reply of a job has any score, the repair ladder is not run for each."""
    office.server.misbehave(Fault.MALFORMED_CONTENT, times=10_000)
    job = await office.submit(shop, questions(12))
    standing = await office.finish(shop, job)
    assert standing.unjudged == {"unreadable": standing.asked} and len(standing.batches) == 1


async def test_collecting_again_changes_nothing(shop: Path, office: Bureau) -> None:
    """A pass over an ended job neither writes nor sends."""
    job = await office.submit(shop, questions(2))
    await office.finish(shop, job)
    before = (
        rows(shop, "SELECT * FROM job_request"),
        rows(shop, "SELECT * FROM call"),
        judgments(shop),
    )
    asked = sum(office.book.asked.values())
    await office.advance(shop, job)
    assert before == (
        rows(shop, "SELECT * FROM job_request"),
        rows(shop, "SELECT * FROM call"),
        judgments(shop),
    )
    assert sum(office.book.asked.values()) == asked


async def test_two_at_once_create_and_enter_nothing_twice(shop: Path, office: Bureau) -> None:
    """The second process reports that another is working; together they do the work of one."""
    job = await office.submit(shop, questions(4))
    for _ in range(4):
        both = await asyncio.gather(*(office.advance(shop, job) for _ in range(3)))
        assert any(one.problem == BUSY_ELSEWHERE for one in both)
    standing = await office.finish(shop, job)
    assert is_whole(standing) and office.book.created == 1 and sum(office.book.ran.values()) == 4


async def test_limits_split_a_list(shop: Path) -> None:
    """No batch exceeds the request limit, and all of them are sent at once."""
    with bureau("openai", judge=ONE_EACH, batch={"max_requests": 10}) as office:
        job = await office.submit(shop, questions(2))
        standing = await office.advance(shop, job)
        assert [batch.requests for batch in standing.batches] == [
            10,
            10,
            standing.asked - 20,
        ] and not standing.planned
        assert is_whole(await office.finish(shop, job))


async def test_the_vendors_limit_of_waiting_tokens_is_learned(shop: Path) -> None:
    """A batch that fails on the queue limit is resent in smaller ones, and does not count as an
    attempt."""
    with bureau("openai", judge=ONE_EACH) as office:
        office.book.enqueued_tokens = 12_000
        job = await office.submit(shop, questions(2))
        standing = await office.finish(shop, job)
        assert is_whole(standing) and standing.batches[0].state == "failed"
        assert rows(shop, "SELECT max(tries) FROM job_request") == [(1,)]


async def test_a_cancelled_job_keeps_what_was_run(shop: Path, office: Bureau) -> None:
    """Nothing more is sent, results are recorded, and the rest is unjudged as interrupted."""
    office.book.looks_until_done = 9
    job = await office.submit(shop, questions(6))
    await office.advance(shop, job)
    await office.advance(shop, job)
    office.stop(shop, job)
    standing = await office.finish(shop, job)
    assert (
        standing.judged and set(standing.unjudged) == {"interrupted"} and office.book.created == 1
    )
    assert standing.judged + standing.unjudged["interrupted"] == standing.asked
    assert rows(shop, "SELECT count(*) FROM reservation") == [(0,)]


async def test_a_batch_that_is_cancelled_before_it_was_heard_of(
    shop: Path, any_office: Bureau
) -> None:
    """A job cancelled while its create is in doubt is found and cancelled, or known to be
    missing."""
    any_office.book.trouble(Step.CREATE, Trouble.LOST)
    job = await any_office.submit(shop, questions(2))
    await any_office.advance(shop, job)
    any_office.stop(shop, job)
    standing = await any_office.finish(shop, job)
    assert not standing.is_pending and any_office.book.created == 1
    assert standing.judged + sum(standing.unjudged.values()) == standing.asked


async def test_what_a_batch_may_cost_is_held_until_it_is_settled(shop: Path) -> None:
    """A batch left alone for a week still counts against the caps; a settled one does not."""
    with bureau("openai") as office:
        job = await office.submit(shop, questions(2))
        await office.advance(shop, job)
        office.now += 7 * 86_400
        connection = connect_store(store_file(shop))
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
            draft = draft_job(
                pipeline.parts, questions(2), ListOptions(command="submit"), limits=WIDE
            )
            job = save_job(pipeline.parts, draft)
        await office.advance(shop, job)
        held = rows(shop, "SELECT amount FROM reservation WHERE turn_id = ?", job)
        done = await office.finish(shop, job)
    assert not done.is_pending
    live_usd = draft.plan.estimate.cost_usd
    assert [
        bool(draft.cost_usd),
        bool(live_usd),
        any(usd for (usd,) in held),
        bool(done.spent_usd),
    ] == [is_priced] * 4


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
        connection = connect_store(store_file(shop))
        ((plan,),) = connection.execute("SELECT plan FROM job").fetchall()
        with database.transaction(connection):
            connection.execute(
                "UPDATE job SET judge = 'earlier', checksum = ?",
                (row_checksum(job, "earlier", plan),),
            )
        connection.close()
        for _ in range(3):
            there = await office.advance(shop, job)
        assert there.answered and not there.sent and "earlier judging prompt" in there.held_back
