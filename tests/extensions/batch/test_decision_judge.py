"""A list for a judge that is asked for decisions live: the Batch API has chat prompts alone, and another judge."""

from pathlib import Path

from tests.extensions.batch.bureau import Bureau, office, questions
from tests.pipeline.conftest import shop
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.results import settings_of_job, write_job_results
from xscore.pipeline.build import Pipeline

__all__ = ["office", "shop"]


async def test_it_is_judged_by_chat_prompts_and_not_paid_for_twice(shop: Path, office: Bureau, tmp_path: Path) -> None:
    """The job ends whole, its results are written, and the same list again finds its judgments."""
    office.judge = {"wire": "decisions"}
    job = await office.submit(shop, questions(2))
    done = await office.finish(shop, job)
    assert done.judged == done.asked == done.candidates > 0
    async with Pipeline.open(shop, office.settings, clock=office.clock) as pipeline:
        found = job_rows.read_job(pipeline.store.connection, job)
    async with Pipeline.open(shop, settings_of_job(found, office.settings), clock=office.clock) as pipeline:
        ranked = await write_job_results(pipeline.parts, found, tmp_path / "found.jsonl")
    assert ranked.coverage.judged == done.judged and ranked.rows
    again = await office.submit(shop, questions(2))
    assert (await office.advance(shop, again)).asked == 0
