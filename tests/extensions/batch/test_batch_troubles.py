"""What can go wrong between a plan and its judgments, at both vendors: nothing is lost in silence or paid for twice."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.batch.bureau import VENDORS, Bureau, bureau, judgments, questions, rows
from tests.pipeline.conftest import shop
from tests.servers.batching import Step, Trouble
from tests.servers.faults import Fault
from xscore.extensions.batch.machine import BUSY_ELSEWHERE
from xscore.extensions.batch.records import JobStatus
from xscore.store.opening import connect_store

__all__ = ["shop"]

ONE_EACH = {"pack_size": 1}


@pytest.fixture(params=VENDORS)
def any_office(request: pytest.FixtureRequest) -> Iterator[Bureau]:
    """Each vendor, where they differ."""
    with bureau(request.param) as running:
        yield running


@pytest.fixture(params=["openai", pytest.param("anthropic", marks=pytest.mark.verify)])
def office(request: pytest.FixtureRequest) -> Iterator[Bureau]:
    """A vendor."""
    with bureau(request.param) as running:
        yield running


def is_whole(standing: JobStatus) -> bool:
    """Whether every candidate that was asked for is judged."""
    return standing.judged == standing.asked == standing.candidates and not standing.is_pending


async def ends_whole_though(shop: Path, office: Bureau, step: Step, trouble: Trouble) -> None:
    """Have a step fail once; the job ends whole all the same, and each request ran once."""
    job = await office.submit(shop, questions(2))
    office.book.trouble(step, trouble)
    standing = await office.finish(shop, job)
    assert is_whole(standing)
    assert sum(office.book.ran.values()) == standing.answered == 2
    assert office.book.created == 1


@pytest.mark.parametrize(
    ("step", "trouble"), [(Step.CREATE, Trouble.FAILED), (Step.LOOK, Trouble.BUSY), (Step.RESULTS, Trouble.CUT)]
)
async def test_a_step_that_fails_is_taken_again(shop: Path, any_office: Bureau, step: Step, trouble: Trouble) -> None:
    """Whatever step fails, the next pass goes on from there."""
    await ends_whole_though(shop, any_office, step, trouble)


@pytest.mark.verify
@pytest.mark.parametrize("trouble", [Trouble.LOST, Trouble.BUSY, Trouble.FAILED])
@pytest.mark.parametrize("step", [Step.UPLOAD, Step.CREATE, Step.LOOK, Step.RESULTS])
async def test_every_step_may_fail_in_every_way(shop: Path, office: Bureau, step: Step, trouble: Trouble) -> None:
    """With or without having been done."""
    cut = trouble is Trouble.LOST and step is Step.RESULTS
    await ends_whole_though(shop, office, step, Trouble.CUT if cut else trouble)


async def test_a_lost_create_is_found_before_another_is_made(shop: Path, any_office: Bureau) -> None:
    """Within the minute of doubt nothing is created anew, and the batch that is there is recognised."""
    any_office.book.trouble(Step.CREATE, Trouble.LOST)
    job = await any_office.submit(shop, questions(2))
    first = await any_office.advance(shop, job)
    assert (first.sent, first.batches[0].state, any_office.book.created) == (2, "marked", 1)
    again = await any_office.advance(shop, job)
    assert any_office.book.created == 1
    assert again.batches[0].state == ("created" if any_office.vendor == "openai" else "marked")
    assert is_whole(await any_office.finish(shop, job)) and any_office.book.created == 1


async def test_strangers_and_doubles_are_counted_and_left(shop: Path, office: Bureau) -> None:
    """Ids that nobody sent and results that come twice change nothing, and are said."""
    office.book.strays = True
    job = await office.submit(shop, questions(3))
    await office.advance(shop, job)
    standing = await office.advance(shop, job)
    while standing.is_pending:
        standing = await office.advance(shop, job)
    assert is_whole(standing) and len(judgments(shop)) == standing.candidates
    assert len(standing.remarks) == 2 and rows(shop, "SELECT count(*) FROM call") == [(3,)]


@pytest.mark.parametrize("fate", ["expired", "cancelled", "errored", "missing"])
async def test_what_was_not_answered_is_sent_again(shop: Path, any_office: Bureau, fate: str) -> None:
    """A part that expired, was cancelled, failed or is missing goes out with the next batch."""
    any_office.book.fate_of = lambda name: fate if "_1-q1-" in name else None
    job = await any_office.submit(shop, questions(3))
    standing = await any_office.finish(shop, job)
    assert is_whole(standing) and [batch.requests for batch in standing.batches] == [3, 1]
    assert rows(shop, "SELECT tries FROM job_request ORDER BY question") == [(1,), (2,), (1,)]


async def test_three_tries_and_a_request_is_lost_for_its_cause(shop: Path, office: Bureau) -> None:
    """A request that always expires is sent three times; its candidates are unjudged by the provider."""
    office.book.fate_of = lambda name: "expired" if "-q1-" in name else None
    job = await office.submit(shop, questions(2))
    standing = await office.finish(shop, job)
    assert len(standing.batches) == 3 and not standing.is_pending
    assert standing.unjudged == {"provider": standing.asked // 2} and standing.judged == standing.asked // 2
    (cause,) = rows(shop, "SELECT cause FROM job_request WHERE state = 'lost'")[0]
    assert cause.startswith("provider: it was not run in time")


async def test_the_ladder_is_climbed_over_batches(shop: Path, office: Bureau) -> None:
    """A question whose packs are never readable is asked in halves, then one by one, then unjudged; others stay."""
    office.server.misbehave(Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body))
    job = await office.submit(shop, questions(3))
    standing = await office.finish(shop, job)
    each = standing.asked // 3
    assert standing.unjudged == {"unreadable": each} and standing.judged == 2 * each
    assert [batch.requests for batch in standing.batches] == [3, 2, each]


async def test_prompts_asked_again_are_counted_when_they_are_sent(shop: Path, office: Bureau) -> None:
    """What is planned for the ladder and finds no room was not asked again; the pass that sends it says so."""
    office.server.misbehave(Fault.MALFORMED_CONTENT, times=1_000, when=lambda body: "review 1:" in json.dumps(body))
    job = await office.submit(shop, questions(3))
    standing = await office.advance(shop, job)
    office.batch = {"max_bytes": 1}
    while standing.sent:
        standing = await office.advance(shop, job)
    assert standing.planned == 2 and not any("asked again" in said for said in standing.remarks)
    office.batch = {}
    assert any("2 prompts asked again" in said for said in (await office.advance(shop, job)).remarks)


async def test_a_model_without_any_score_is_not_asked_for_ever(shop: Path, office: Bureau) -> None:
    """Where no reply of a job scores anything, the ladder is not climbed for each of them."""
    office.server.misbehave(Fault.MALFORMED_CONTENT, times=10_000)
    job = await office.submit(shop, questions(12))
    standing = await office.finish(shop, job)
    assert standing.unjudged == {"unreadable": standing.asked} and len(standing.batches) == 1


async def test_collecting_again_changes_nothing(shop: Path, office: Bureau) -> None:
    """A pass over a job that has ended neither writes nor asks."""
    job = await office.submit(shop, questions(2))
    await office.finish(shop, job)
    before = rows(shop, "SELECT * FROM job_request"), rows(shop, "SELECT * FROM call"), judgments(shop)
    asked = sum(office.book.asked.values())
    await office.advance(shop, job)
    assert before == (rows(shop, "SELECT * FROM job_request"), rows(shop, "SELECT * FROM call"), judgments(shop))
    assert sum(office.book.asked.values()) == asked


async def test_two_at_once_create_and_enter_nothing_twice(shop: Path, office: Bureau) -> None:
    """The second says that another is at it; together they do what one would."""
    job = await office.submit(shop, questions(4))
    for _ in range(4):
        both = await asyncio.gather(*(office.advance(shop, job) for _ in range(3)))
        assert any(one.problem == BUSY_ELSEWHERE for one in both)
    standing = await office.finish(shop, job)
    assert is_whole(standing) and office.book.created == 1 and sum(office.book.ran.values()) == 4


async def test_limits_split_a_list(shop: Path) -> None:
    """No batch holds more requests than it may, and all of them go out at once."""
    with bureau("openai", judge=ONE_EACH, batch={"max_requests": 10}) as office:
        job = await office.submit(shop, questions(2))
        standing = await office.advance(shop, job)
        assert [batch.requests for batch in standing.batches] == [10, 10, standing.asked - 20] and not standing.planned
        assert is_whole(await office.finish(shop, job))


async def test_the_vendors_limit_of_waiting_tokens_is_learned(shop: Path) -> None:
    """A batch that fails because too much would wait is sent again in smaller ones, and counts as no try."""
    with bureau("openai", judge=ONE_EACH) as office:
        office.book.enqueued_tokens = 12_000
        job = await office.submit(shop, questions(2))
        standing = await office.finish(shop, job)
        assert is_whole(standing) and standing.batches[0].state == "failed"
        assert rows(shop, "SELECT max(tries) FROM job_request") == [(1,)]


async def test_a_cancelled_job_keeps_what_was_run(shop: Path, office: Bureau) -> None:
    """Nothing more is sent, what was run is entered, and the rest is unjudged as interrupted."""
    from xscore.extensions.batch import batch_rows
    from xscore.platform import database

    office.book.looks_until_done = 9
    job = await office.submit(shop, questions(6))
    await office.advance(shop, job)
    await office.advance(shop, job)
    connection = connect_store(shop / ".xscore" / "memory.db")
    with database.transaction(connection):
        batch_rows.stop_job(connection, job, at=office.now)
    connection.close()
    standing = await office.finish(shop, job)
    assert standing.judged and set(standing.unjudged) == {"interrupted"} and office.book.created == 1
    assert standing.judged + standing.unjudged["interrupted"] == standing.asked
    assert rows(shop, "SELECT count(*) FROM reservation") == [(0,)]


async def test_a_batch_that_is_cancelled_before_it_was_heard_of(shop: Path, any_office: Bureau) -> None:
    """A job cancelled while its create is in doubt is found and cancelled, or known not to be there."""
    from xscore.extensions.batch import batch_rows
    from xscore.platform import database

    any_office.book.trouble(Step.CREATE, Trouble.LOST)
    job = await any_office.submit(shop, questions(2))
    await any_office.advance(shop, job)
    connection = connect_store(shop / ".xscore" / "memory.db")
    with database.transaction(connection):
        batch_rows.stop_job(connection, job, at=any_office.now)
    connection.close()
    standing = await any_office.finish(shop, job)
    assert not standing.is_pending and any_office.book.created == 1
    assert standing.judged + sum(standing.unjudged.values()) == standing.asked
