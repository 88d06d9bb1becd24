"""Faults between a plan and its judgments, at both vendors: nothing is lost silently or paid
twice."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import store_file
from tests.extensions.batch.batch_vendor import (
    VENDORS,
    WIDE,
    BatchVendor,
    judgments,
    questions,
    run_vendor,
)
from tests.servers.batching import BatchFault, Step
from tests.servers.faults import Fault
from tests.servers.openai_batches import OpenAIBatchServer
from tests.waiting import rows
from xscore.costs import caps
from xscore.extensions.batch.job_advance import BUSY_ELSEWHERE
from xscore.extensions.batch.job_draft import draft_job, save_job
from xscore.extensions.batch.list_plan import ListOptions
from xscore.extensions.batch.records import JobStatus
from xscore.pipeline.build import Pipeline
from xscore.platform import database
from xscore.platform.hashing import row_checksum
from xscore.settings import PriceRule
from xscore.store.opening import connect_store

ONE_EACH = {"pack_size": 1}


@pytest.fixture(params=VENDORS)
def either_vendor(request: pytest.FixtureRequest) -> Iterator[BatchVendor]:
    """Each vendor, for tests in which they differ."""
    with run_vendor(request.param) as running:
        yield running


@pytest.fixture(params=["openai", pytest.param("anthropic", marks=pytest.mark.verify)])
def batch_vendor(request: pytest.FixtureRequest) -> Iterator[BatchVendor]:
    """A vendor."""
    with run_vendor(request.param) as running:
        yield running


def is_whole(standing: JobStatus) -> bool:
    """Whether every requested candidate is judged."""
    return standing.judged == standing.asked == standing.candidates and not standing.is_pending


EVERY = [
    (step, trouble)
    for step in (Step.UPLOAD, Step.CREATE, Step.LOOK, Step.RESULTS)
    for trouble in (
        BatchFault.BUSY,
        BatchFault.FAILED,
        BatchFault.CUT if step is Step.RESULTS else BatchFault.LOST,
    )
]
SOME = [
    (Step.CREATE, BatchFault.FAILED),
    (Step.LOOK, BatchFault.BUSY),
    (Step.RESULTS, BatchFault.CUT),
]


@pytest.mark.parametrize(
    ("step", "trouble"),
    [pytest.param(*case, marks=[] if case in SOME else pytest.mark.verify) for case in EVERY],
)
async def test_every_step_may_fail_in_every_way(
    shop: Path, either_vendor: BatchVendor, step: Step, trouble: BatchFault
) -> None:
    """Finished or not, the next pass continues, the job completes, and each request ran once."""
    job = await either_vendor.submit(shop, questions(2))
    either_vendor.book.trouble(step, trouble)
    standing = await either_vendor.finish(shop, job)
    assert is_whole(standing)
    assert sum(either_vendor.book.ran.values()) == standing.answered == 2
    assert either_vendor.book.created == 1


async def test_a_lost_create_is_found_before_another_is_made(
    shop: Path, either_vendor: BatchVendor
) -> None:
    """Within the minute of doubt no batch is created again, and the existing one is recognised."""
    either_vendor.book.trouble(Step.CREATE, BatchFault.LOST)
    job = await either_vendor.submit(shop, questions(2))
    first = await either_vendor.advance(shop, job)
    assert (first.sent, first.batches[0].state, either_vendor.book.created) == (2, "marked", 1)
    second = await either_vendor.advance(shop, job)
    assert either_vendor.book.created == 1
    assert second.batches[0].state == (
        "created" if either_vendor.name == "openai" else "marked"
    )
    assert is_whole(await either_vendor.finish(shop, job)) and either_vendor.book.created == 1


async def test_strangers_and_doubles_are_counted_and_left(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Unknown ids and duplicate results change nothing and are reported."""
    batch_vendor.book.strays = True
    job = await batch_vendor.submit(shop, questions(3))
    await batch_vendor.advance(shop, job)
    standing = await batch_vendor.advance(shop, job)
    while standing.is_pending:
        standing = await batch_vendor.advance(shop, job)
    assert is_whole(standing) and len(judgments(shop)) == standing.candidates
    assert len(standing.remarks) == 2 and rows(shop, "SELECT count(*) FROM call") == [(3,)]


@pytest.mark.parametrize("fate", ["expired", "cancelled", "errored", "missing"])
async def test_what_was_not_answered_is_sent_again(
    shop: Path, either_vendor: BatchVendor, fate: str
) -> None:
    """A part that expired, was cancelled, failed or is missing is sent with the next batch."""
    either_vendor.book.fate_of = lambda name: fate if "_1-q1-" in name else None
    job = await either_vendor.submit(shop, questions(3))
    standing = await either_vendor.finish(shop, job)
    assert is_whole(standing) and [batch.requests for batch in standing.batches] == [3, 1]
    assert rows(shop, "SELECT tries FROM job_request ORDER BY question") == [(1,), (2,), (1,)]


async def test_three_tries_and_a_request_is_lost_for_its_cause(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """A request that always expires is sent three times; then its candidates are unjudged by the
    provider."""
    batch_vendor.book.fate_of = lambda name: "expired" if "-q1-" in name else None
    job = await batch_vendor.submit(shop, questions(2))
    standing = await batch_vendor.finish(shop, job)
    assert len(standing.batches) == 3 and not standing.is_pending
    assert standing.unjudged == {"provider": standing.asked // 2}
    assert standing.judged == standing.asked // 2
    (cause,) = rows(shop, "SELECT cause FROM job_request WHERE state = 'lost'")[0]
    assert cause.startswith("provider: it was not run in time")


async def test_the_ladder_is_climbed_over_batches(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Packs without a readable reply are halved, then asked one by one, then unjudged; others are
    unaffected."""
    batch_vendor.server.misbehave(
        Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body)
    )
    job = await batch_vendor.submit(shop, questions(3))
    standing = await batch_vendor.finish(shop, job)
    third = standing.asked // 3
    assert standing.unjudged == {"unreadable": third} and standing.judged == 2 * third
    assert [batch.requests for batch in standing.batches] == [3, 2, third]


async def test_prompts_asked_again_are_counted_when_they_are_sent(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """A repair that does not fit counts as asked again only in the pass that sends it."""
    batch_vendor.server.misbehave(
        Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body)
    )
    job = await batch_vendor.submit(shop, questions(3))
    standing = await batch_vendor.advance(shop, job)
    batch_vendor.batch = {"max_bytes": 1}
    while standing.sent:
        standing = await batch_vendor.advance(shop, job)
    assert standing.planned == 2 and not any(
        "asked again" in remark for remark in standing.remarks
    )
    batch_vendor.batch = {}
    assert any(
        "2 prompts asked again" in remark
        for remark in (await batch_vendor.advance(shop, job)).remarks
    )


async def test_usage_beyond_what_a_request_can_hold_counts_as_none(shop: Path) -> None:
    """A reply that claims a million million tokens is charged by our estimate and marked so."""
    with run_vendor("openai") as batch_vendor:
        batch_vendor.server.misbehave(Fault.VAST_USAGE, times=1_000)
        standing = await batch_vendor.finish(
            shop, await batch_vendor.submit(shop, questions(1))
        )
        assert standing.judged == standing.asked > 0
        calls = rows(shop, "SELECT input_tokens, estimated FROM call WHERE batch <> ''")
        assert calls and all(0 < tokens < 100_000 and estimated for tokens, estimated in calls)


@pytest.mark.parametrize("tokens", [10**9, -5, "12", None])
async def test_garbage_counts_of_output_are_estimated(shop: Path, tokens: object) -> None:
    """A reply that claims a thousand million tokens of output, or no number, is charged by the
    length of its text."""
    with run_vendor("openai") as batch_vendor:
        assert isinstance(batch_vendor.server, OpenAIBatchServer)
        batch_vendor.server.output_tokens = lambda counted: tokens
        standing = await batch_vendor.finish(
            shop, await batch_vendor.submit(shop, questions(1))
        )
        assert standing.judged == standing.asked > 0
        calls = rows(shop, "SELECT output_tokens, estimated FROM call WHERE batch <> ''")
        assert calls and all(0 < output < 10_000 and estimated for output, estimated in calls)


async def test_a_prompt_that_the_host_cut_is_refused_in_a_batch_too(shop: Path) -> None:
    """Scores of memories that the model did not see are not kept; the calls count as charged."""
    with run_vendor("openai", judge={"model": "openai:gpt-4.1-nano"}) as batch_vendor:
        batch_vendor.server.misbehave(Fault.CUT_PROMPT, times=10_000)
        standing = await batch_vendor.finish(
            shop, await batch_vendor.submit(shop, questions(1))
        )
        assert not standing.judged and not judgments(shop)
        assert rows(shop, "SELECT count(*) FROM call WHERE outcome = 'ok'") == [(0,)]
        assert rows(shop, "SELECT min(cost) > 0 FROM call") == [(1,)]
        assert rows(shop, "SELECT sum(cost) FROM call") == rows(
            shop, "SELECT spent FROM spending WHERE span LIKE 'b%'"
        )


async def test_a_model_without_any_score_is_not_asked_for_ever(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """If no reply of a job has any score, the repair ladder is not run for each."""
    batch_vendor.server.misbehave(Fault.MALFORMED_CONTENT, times=10_000)
    job = await batch_vendor.submit(shop, questions(12))
    standing = await batch_vendor.finish(shop, job)
    assert standing.unjudged == {"unreadable": standing.asked} and len(standing.batches) == 1


async def test_collecting_again_changes_nothing(shop: Path, batch_vendor: BatchVendor) -> None:
    """A pass over an ended job neither writes nor sends."""
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.finish(shop, job)
    before = (
        rows(shop, "SELECT * FROM job_request"),
        rows(shop, "SELECT * FROM call"),
        judgments(shop),
    )
    asked_before = sum(batch_vendor.book.asked.values())
    await batch_vendor.advance(shop, job)
    assert before == (
        rows(shop, "SELECT * FROM job_request"),
        rows(shop, "SELECT * FROM call"),
        judgments(shop),
    )
    assert sum(batch_vendor.book.asked.values()) == asked_before


async def test_two_at_once_create_and_enter_nothing_twice(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """The second process reports that another is working; together they do the work of one."""
    job = await batch_vendor.submit(shop, questions(4))
    creates, may_create = threading.Event(), threading.Event()
    clock = batch_vendor.book.clock

    def wait_for_the_second() -> float:
        creates.set()
        assert may_create.wait(60)
        return clock()

    batch_vendor.book.clock = wait_for_the_second
    first = asyncio.ensure_future(batch_vendor.advance(shop, job))
    assert await asyncio.to_thread(creates.wait, 60)
    second = await batch_vendor.advance(shop, job)
    assert second.problem == BUSY_ELSEWHERE
    may_create.set()
    assert not (await first).problem
    for _ in range(3):
        await asyncio.gather(*(batch_vendor.advance(shop, job) for _ in range(3)))
    standing = await batch_vendor.finish(shop, job)
    assert is_whole(standing)
    assert batch_vendor.book.created == 1
    assert sum(batch_vendor.book.ran.values()) == 4


async def test_limits_split_a_list(shop: Path) -> None:
    """No batch exceeds the request limit, and all of them are sent at once."""
    with run_vendor("openai", judge=ONE_EACH, batch={"max_requests": 10}) as batch_vendor:
        job = await batch_vendor.submit(shop, questions(2))
        standing = await batch_vendor.advance(shop, job)
        assert [batch.requests for batch in standing.batches] == [
            10,
            10,
            standing.asked - 20,
        ]
        assert not standing.planned
        assert is_whole(await batch_vendor.finish(shop, job))


async def test_the_vendors_limit_of_waiting_tokens_is_learned(shop: Path) -> None:
    """A batch that fails on the queue limit is resent in smaller ones, and does not count as an
    attempt."""
    with run_vendor("openai", judge=ONE_EACH) as batch_vendor:
        batch_vendor.book.enqueued_tokens = 12_000
        job = await batch_vendor.submit(shop, questions(2))
        standing = await batch_vendor.finish(shop, job)
        assert is_whole(standing) and standing.batches[0].state == "failed"
        assert rows(shop, "SELECT max(tries) FROM job_request") == [(1,)]


async def test_a_cancelled_job_keeps_what_was_run(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Nothing more is sent, results are recorded, and the rest is unjudged as interrupted."""
    batch_vendor.book.looks_until_done = 9
    job = await batch_vendor.submit(shop, questions(6))
    await batch_vendor.advance(shop, job)
    await batch_vendor.advance(shop, job)
    batch_vendor.stop(shop, job)
    standing = await batch_vendor.finish(shop, job)
    assert standing.judged
    assert set(standing.unjudged) == {"interrupted"}
    assert batch_vendor.book.created == 1
    assert standing.judged + standing.unjudged["interrupted"] == standing.asked
    assert rows(shop, "SELECT count(*) FROM reservation") == [(0,)]


async def test_a_batch_that_is_cancelled_before_it_was_heard_of(
    shop: Path, either_vendor: BatchVendor
) -> None:
    """A job cancelled while its create is in doubt is found and cancelled, or known to be
    missing."""
    either_vendor.book.trouble(Step.CREATE, BatchFault.LOST)
    job = await either_vendor.submit(shop, questions(2))
    await either_vendor.advance(shop, job)
    either_vendor.stop(shop, job)
    standing = await either_vendor.finish(shop, job)
    assert not standing.is_pending and either_vendor.book.created == 1
    assert standing.judged + sum(standing.unjudged.values()) == standing.asked


async def test_what_a_batch_may_cost_is_held_until_it_is_settled(shop: Path) -> None:
    """A batch left alone for a week still counts against the caps; a settled one does not."""
    with run_vendor("openai") as batch_vendor:
        job = await batch_vendor.submit(shop, questions(2))
        await batch_vendor.advance(shop, job)
        batch_vendor.now += 7 * 86_400
        connection = connect_store(store_file(shop))
        held, gone = caps.reserved_amounts(connection, now=batch_vendor.now)
        assert [reservation.turn_id for reservation in held] == [job] and not gone
        connection.execute("UPDATE batch SET state = 'failed'")
        assert not caps.reserved_amounts(connection, now=batch_vendor.now)[0]
        connection.rollback()
        connection.close()


@pytest.mark.parametrize(
    ("rule", "is_priced"), [("auto", True), ("vendor", True), ("free", False)]
)
async def test_the_users_word_on_a_gateways_price_holds_for_batches(
    shop: Path, rule: PriceRule, is_priced: bool
) -> None:
    """`provider.price` sets a gateway list's estimate, its reservation and its cost."""
    with run_vendor(
        "openai", judge={"model": "openai:gpt-4.1-nano"}, price=rule
    ) as batch_vendor:
        async with Pipeline.open(
            shop, batch_vendor.settings, clock=batch_vendor.clock
        ) as pipeline:
            await pipeline.index()
            draft = draft_job(
                pipeline.parts, questions(2), ListOptions(command="submit"), limits=WIDE
            )
            job = save_job(pipeline.parts, draft)
        await batch_vendor.advance(shop, job)
        held = rows(shop, "SELECT amount FROM reservation WHERE turn_id = ?", job)
        done = await batch_vendor.finish(shop, job)
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

    with run_vendor(
        "openai", judge={"pack_size": 1}, batch={"max_requests": 10}
    ) as batch_vendor:
        job = await batch_vendor.submit(shop, questions(2))
        standing = await batch_vendor.advance(
            shop, job, note=lambda _: batch_vendor.stop(shop, job)
        )
        assert len(standing.batches) == batch_vendor.book.created == 1
        done = await batch_vendor.finish(shop, job)
        assert not done.is_pending and batch_vendor.book.created == 1


@pytest.mark.verify
async def test_what_came_before_results_were_cut_is_entered(shop: Path) -> None:
    """Results of a truncated reply are kept although no chunk was full."""
    with run_vendor("openai") as batch_vendor:
        job = await batch_vendor.submit(shop, questions(4))
        batch_vendor.book.trouble(Step.RESULTS, BatchFault.CUT)
        seen = [await batch_vendor.advance(shop, job) for _ in range(2)]
        assert seen[1].problem and seen[1].sent and seen[1].answered
        assert (await batch_vendor.finish(shop, job)).judged and sum(
            batch_vendor.book.ran.values()
        ) == 4


async def test_a_job_of_an_earlier_prompt_is_still_collected(shop: Path) -> None:
    """What was sent is recorded, with the reason why the rest was not sent."""
    with run_vendor(
        "openai", judge={"pack_size": 1}, batch={"max_requests": 10}
    ) as batch_vendor:
        job = await batch_vendor.submit(shop, questions(2))

        def full(_: str) -> None:
            batch_vendor.book.trouble(Step.CREATE, BatchFault.BUSY)

        assert (await batch_vendor.advance(shop, job, note=full)).planned
        connection = connect_store(store_file(shop))
        ((plan,),) = connection.execute("SELECT plan FROM job").fetchall()
        with database.transaction(connection):
            connection.execute(
                "UPDATE job SET judge = 'earlier', checksum = ?",
                (row_checksum(job, "earlier", plan),),
            )
        connection.close()
        for _ in range(3):
            standing = await batch_vendor.advance(shop, job)
        assert standing.answered
        assert not standing.sent
        assert "earlier judging prompt" in standing.held_back
