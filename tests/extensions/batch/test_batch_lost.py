"""Batches for which a vendor returns too little or nothing: reported, charged, and can be ended."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from tests.extensions.batch.batch_vendor import SCORES, BatchVendor, questions, run_vendor
from tests.servers.batching import BatchFault, BatchTable, Step
from tests.servers.openai_batches import OpenAIBatchServer
from tests.servers.openai_server import OpenAIServer
from tests.servers.scoring import table
from tests.waiting import rows
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.job_context import BatchLedger
from xscore.extensions.batch.records import Batch, JobStatus, StoredBatchState
from xscore.pipeline.build import Pipeline
from xscore.prompts.judge import JudgeModel


class ChangesResults(OpenAIBatchServer):
    """A vendor that changes its results."""

    garble: Callable[[bytes], bytes] = staticmethod(lambda data: data)

    async def _content_of(self, request: web.Request) -> web.Response:
        response = await super()._content_of(request)
        if isinstance(response.body, bytes):
            response.body = self.garble(response.body)
        return response


class Plain(OpenAIServer):
    """A host for live calls only."""

    batches = BatchTable()


@pytest.fixture
def batch_vendor() -> Iterator[BatchVendor]:
    """A vendor whose server changes results."""
    with ChangesResults(score=table(SCORES)) as server:
        yield BatchVendor("openai", server)


def garble(batch_vendor: BatchVendor, how: Callable[[bytes], bytes]) -> None:
    """Change the results."""
    assert isinstance(batch_vendor.server, ChangesResults)
    batch_vendor.server.garble = how


async def passes(shop: Path, batch_vendor: BatchVendor, job: str, count: int) -> JobStatus:
    """Take a job N passes further."""
    for _ in range(count - 1):
        await batch_vendor.advance(shop, job)
    return await batch_vendor.advance(shop, job)


@pytest.mark.parametrize(
    "body",
    [pytest.param(b"", marks=pytest.mark.verify), b"<html>\n<body>welcome</body>\n</html>\n"],
)
async def test_results_that_cannot_be_read_are_not_bought_again(
    shop: Path, batch_vendor: BatchVendor, body: bytes
) -> None:
    """An empty or malformed success changes nothing, however often; once read, the batch was paid
    once."""
    job = await batch_vendor.submit(shop, questions(2))
    garble(batch_vendor, lambda data: body)
    standing = await passes(shop, batch_vendor, job, 3)
    assert standing.sent == 2
    assert standing.batches[0].state == "ended"
    assert batch_vendor.book.created == 1
    assert "cannot be read" in standing.problem and "--forget" in standing.problem
    garble(batch_vendor, lambda data: data)
    done = await batch_vendor.finish(shop, job)
    assert done.judged == done.asked and sum(batch_vendor.book.ran.values()) == 2


async def test_what_was_run_and_never_comes_is_charged_and_sent_again(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """The rest is recorded; a request missing twice is in the ledger and is sent again."""
    job = await batch_vendor.submit(shop, questions(3))
    garble(
        batch_vendor,
        lambda data: b"".join(
            line for line in data.splitlines(keepends=True) if b"_1-q1-" not in line
        ),
    )
    standing = await passes(shop, batch_vendor, job, 2)
    assert (standing.sent, standing.answered, standing.batches[0].state) == (1, 2, "ended")
    done = await batch_vendor.finish(shop, job)
    assert done.judged == done.asked and [batch.requests for batch in done.batches] == [3, 1]
    assert rows(shop, "SELECT count(*) FROM call WHERE outcome = 'ok'") == [(3,)]
    assert rows(shop, "SELECT count(*) FROM call WHERE outcome <> 'ok'") == [(1,)]


async def test_a_reply_that_is_none_is_asked_again_whole(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """A success whose body is a list is no refusal: it is not split, and it is charged."""

    def listed(data: bytes) -> bytes:
        lines = [json.loads(line) for line in data.splitlines()]
        for line in lines:
            if "_1-q0-" in line["custom_id"]:
                line["response"]["body"] = []
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    job = await batch_vendor.submit(shop, questions(2))
    garble(batch_vendor, listed)
    done = await batch_vendor.finish(shop, job)
    assert done.judged == done.asked and [batch.requests for batch in done.batches] == [2, 1]
    assert rows(shop, "SELECT count(*) FROM call WHERE outcome <> 'ok'") == [(1,)]


async def test_a_batch_that_vanished_can_be_given_up(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """A batch unknown to the vendor is ended by a cancel with --forget and charged at its
    reservation."""
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.advance(shop, job)
    batch_vendor.book.all.clear()
    standing = await batch_vendor.advance(shop, job)
    assert standing.is_pending and f"cancel {job} --forget" in standing.problem
    batch_vendor.stop(shop, job)
    done = await batch_vendor.advance(shop, job, forget=True)
    assert not done.is_pending
    assert done.unjudged == {"interrupted": done.asked}
    assert not done.set_aside_usd
    assert rows(shop, "SELECT count(*) FROM call WHERE outcome <> 'ok'") == [(2,)]


async def test_forgetting_leaves_what_the_vendor_is_still_at(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """A batch under way is not given up because the cancel failed."""
    batch_vendor.book.looks_until_done = 9
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.advance(shop, job)
    batch_vendor.stop(shop, job)
    batch_vendor.book.trouble(Step.CANCEL, BatchFault.FAILED, times=9)
    standing = await batch_vendor.advance(shop, job, forget=True)
    assert standing.sent == 2 and standing.batches[0].state == "created"


async def test_a_host_without_a_batch_api_keeps_nothing(shop: Path) -> None:
    """A batch that was never created releases its dollars, leaves nothing waiting, and ends without
    the host."""
    with Plain(score=table(SCORES)) as plain:
        batch_vendor = BatchVendor("openai", plain)  # type: ignore[arg-type]  # a server without a Batch API
        job = await batch_vendor.submit(shop, questions(2))
        standing = await batch_vendor.advance(shop, job)
        assert standing.planned == 2
        assert not standing.sent
        assert standing.is_unusable
        assert "no Batch API" in standing.problem
        requests_before = plain.counts.requests
        batch_vendor.stop(shop, job)
        done = await batch_vendor.advance(shop, job)
        assert not done.is_pending
        assert not done.set_aside_usd
        assert plain.counts.requests == requests_before


async def test_what_cannot_be_read_counts_against_the_cap(shop: Path) -> None:
    """Each request is charged its equal share of the reservation, and no more than that in all."""
    with run_vendor("openai") as batch_vendor:
        job = await batch_vendor.submit(shop, questions(1))
        async with Pipeline.open(
            shop, batch_vendor.settings, clock=batch_vendor.clock
        ) as pipeline:
            connection = pipeline.store.connection
            stored_job = job_rows.read_job(connection, job)
            recipe = replace(
                stored_job.recipe, model=JudgeModel(name="gpt-5-mini"), host="api.openai.com"
            )
            stored_job = replace(stored_job, recipe=recipe, max_usd=Decimal(1))
            ledger = BatchLedger.of(stored_job, batch_vendor.settings)
            batch = Batch(
                job=job,
                number=1,
                mark="xs_1_1",
                state=StoredBatchState.ENDED,
                marked_at=batch_vendor.now,
                requests=4,
                bytes=1,
                input_tokens=40,
            )
            with connection:
                assert ledger.reserve(
                    connection, batch.mark, Decimal("0.40"), now=batch_vendor.now
                )
                ledger.enter_unread(connection, batch, [(0, 0)])
                ledger.enter_unread(connection, batch, [(1, 0), (2, 0)])
        assert rows(shop, "SELECT amount FROM reservation") == [(10**11,)]
        assert rows(shop, "SELECT spent FROM spending WHERE span = ?", job) == [(3 * 10**11,)]


@pytest.mark.verify
async def test_results_of_a_stranger_first_do_not_hide_ours(shop: Path) -> None:
    """Our batch is recognised although its results begin with an unknown id."""
    with run_vendor("anthropic") as batch_vendor:
        batch_vendor.book.trouble(Step.CREATE, BatchFault.LOST)
        job = await batch_vendor.submit(shop, questions(2))
        await batch_vendor.advance(shop, job)
        batch = next(iter(batch_vendor.book.all.values()))
        while not batch.is_over:
            await batch_vendor.advance(shop, job)
            batch_vendor.now += 20.0
        batch.outcomes.insert(0, type(batch.outcomes[0])("nobody-sent-this", unrun="expired"))
        done = await batch_vendor.finish(shop, job)
        assert done.judged == done.asked and batch_vendor.book.created == 1


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_a_slow_upload_leaves_time_to_find_a_lost_batch(shop: Path, vendor: str) -> None:
    """A batch whose create was not answered after a long upload is not created again while it may
    still appear."""
    with run_vendor(vendor) as batch_vendor:
        book = batch_vendor.book
        strikes, slow = book.strikes, Step.UPLOAD if vendor == "openai" else Step.CREATE

        def listed_late(step: Step) -> BatchFault | None:
            if step is slow:
                batch_vendor.now += 100.0
            return strikes(step)

        book.strikes = listed_late  # type: ignore[method-assign]  # this book answers late
        book.trouble(Step.CREATE, BatchFault.LOST)
        job = await batch_vendor.submit(shop, questions(2))
        await batch_vendor.advance(shop, job)
        unlisted = dict(book.all)
        book.all.clear()
        standing = await batch_vendor.advance(shop, job)
        assert (standing.sent, standing.batches[0].state, book.created) == (2, "marked", 1)
        book.all.update(unlisted)
        done = await batch_vendor.finish(shop, job)
        assert done.judged == done.asked and book.created == 1
