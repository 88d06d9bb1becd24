"""The results of a job at a vendor: ranked as it was asked, and counted once."""

import json
from pathlib import Path

from msgspec.structs import replace

from tests.extensions.batch.bureau import Bureau, office, questions, rows
from tests.pipeline.conftest import shop
from tests.servers.faults import Fault
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.results import RankedList, write_job_results
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import QuestionList

__all__ = ["office", "shop"]


async def results(root: Path, office: Bureau, job: str, out: Path) -> RankedList:
    """Write its results."""
    async with Pipeline.open(root, office.settings, clock=office.clock) as pipeline:
        return await write_job_results(pipeline.parts, job_rows.read_job(pipeline.store.connection, job), out)


async def test_a_file_that_is_gone_blocks_nothing(shop: Path, office: Bureau, tmp_path: Path) -> None:
    """Asked in a file that was deleted since, a question is ranked all the same."""
    (shop / "note.txt").write_text("for a while\n")
    asked = QuestionList(tuple(replace(one, file=str(shop / "note.txt")) for one in questions(1).all), "digest")
    job = await office.submit(shop, asked)
    (shop / "note.txt").unlink()
    done = await office.finish(shop, job)
    found = await results(shop, office, job, tmp_path / "found.jsonl")
    assert done.judged == done.asked > 0 and found.coverage.judged == done.judged and found.rows


async def test_what_was_known_before_is_not_counted_as_judged(shop: Path, office: Bureau, tmp_path: Path) -> None:
    """A job that lost most of what it asked has judged the rest alone; the sum is that of the candidates."""
    office.judge = {"pack_size": 1}
    before = await office.finish(shop, await office.submit(shop, questions(1)))
    new = "".join(f"def later_{at}(amount: int) -> int:\n    return amount + {at}\n\n\n" for at in range(before.judged))
    (shop / "shop" / "later.py").write_text(new)
    office.server.misbehave(
        Fault.REFUSAL, times=1_000, when=lambda body: "later_" in json.dumps(body) and "later_0" not in json.dumps(body)
    )
    job = await office.submit(shop, questions(1))
    done = await office.finish(shop, job)
    found = (await results(shop, office, job, tmp_path / "found.jsonl")).coverage
    assert 0 < done.judged < done.asked
    assert (found.judged, found.cached) == (done.judged, before.judged)
    assert found.candidates == found.judged + found.cached + found.carried + found.unjudged
    assert len(rows(shop, "SELECT 1 FROM judgment")) == found.judged + found.cached
