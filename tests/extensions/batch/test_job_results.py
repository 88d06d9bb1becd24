"""The results of a vendor's job: ranked by the question as asked, and counted once."""

import json
from pathlib import Path

from msgspec.structs import replace

from tests.extensions.batch.batch_vendor import BatchVendor, batch_vendor, questions
from tests.servers.faults import Fault
from tests.waiting import rows
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.results import RankedList, settings_of_job, write_job_results
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import QuestionList

__all__ = ["batch_vendor"]


async def results(root: Path, batch_vendor: BatchVendor, job: str, out: Path) -> RankedList:
    """Write the results."""
    async with Pipeline.open(root, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        return await write_job_results(
            pipeline.parts, job_rows.read_job(pipeline.store.connection, job), out
        )


async def test_a_file_that_is_gone_blocks_nothing(
    shop: Path, batch_vendor: BatchVendor, tmp_path: Path
) -> None:
    """A question asked from a file deleted since is still ranked."""
    (shop / "note.txt").write_text("for a while\n")
    question_list = QuestionList(
        tuple(replace(question, file=str(shop / "note.txt")) for question in questions(1).all),
        "digest",
    )
    job = await batch_vendor.submit(shop, question_list)
    (shop / "note.txt").unlink()
    done = await batch_vendor.finish(shop, job)
    ranked_list = await results(shop, batch_vendor, job, tmp_path / "found.jsonl")
    assert done.judged == done.asked > 0
    assert ranked_list.coverage.judged == done.judged
    assert ranked_list.rows


async def test_what_was_known_before_is_not_counted_as_judged(
    shop: Path, batch_vendor: BatchVendor, tmp_path: Path
) -> None:
    """A job that lost most of its requests has judged the rest only; the counts add up to the
    candidates."""
    batch_vendor.judge = {"pack_size": 1}
    before = await batch_vendor.finish(shop, await batch_vendor.submit(shop, questions(1)))
    new = "".join(
        f"def later_{at}(amount: int) -> int:\n    return amount + {at}\n\n\n"
        for at in range(before.judged)
    )
    (shop / "shop" / "later.py").write_text(new)
    batch_vendor.server.misbehave(
        Fault.REFUSAL,
        times=1_000,
        when=lambda body: "later_" in json.dumps(body) and "later_0" not in json.dumps(body),
    )
    job = await batch_vendor.submit(shop, questions(1))
    done = await batch_vendor.finish(shop, job)
    coverage = (await results(shop, batch_vendor, job, tmp_path / "found.jsonl")).coverage
    assert 0 < done.judged < done.asked
    assert (coverage.judged, coverage.cached) == (done.judged, before.judged)
    assert (
        coverage.candidates
        == coverage.judged + coverage.cached + coverage.carried + coverage.unjudged
    )
    assert len(rows(shop, "SELECT 1 FROM judgment")) == coverage.judged + coverage.cached


async def test_a_judge_of_decisions_is_asked_by_chat_prompts(
    shop: Path, batch_vendor: BatchVendor, tmp_path: Path
) -> None:
    """The Batch API has no decisions: the job completes by chat, and the same list again costs
    nothing."""
    batch_vendor.judge = {"wire": "decisions"}
    job = await batch_vendor.submit(shop, questions(2))
    done = await batch_vendor.finish(shop, job)
    assert done.judged == done.asked == done.candidates > 0
    async with Pipeline.open(shop, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        stored_job = job_rows.read_job(pipeline.store.connection, job)
    async with Pipeline.open(
        shop, settings_of_job(stored_job, batch_vendor.settings), clock=batch_vendor.clock
    ) as pipeline:
        ranked = await write_job_results(pipeline.parts, stored_job, tmp_path / "found.jsonl")
    assert ranked.coverage.judged == done.judged and ranked.rows
    second_job = await batch_vendor.submit(shop, questions(2))
    assert (await batch_vendor.advance(shop, second_job)).asked == 0
