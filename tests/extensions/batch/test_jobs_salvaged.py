"""A rebuild keeps offline jobs: batches in flight were paid for."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.conftest import store_file
from tests.extensions.batch.batch_vendor import BatchVendor, batch_vendor, judgments, questions
from tests.waiting import rows
from xscore.extensions.recovery.copied_tables import SalvageReport
from xscore.extensions.recovery.rebuild import rebuild_store
from xscore.pipeline.build import Pipeline
from xscore.platform.paths import find_root, user_data_dir

__all__ = ["batch_vendor"]


def rebuild(root: Path) -> SalvageReport:
    """Rebuild the store from its readable rows."""
    done = rebuild_store(find_root(root).store_dir, user_data_dir=user_data_dir(None))
    assert done.salvaged is not None
    return done.salvaged


def spoil(root: Path, sql: str) -> None:
    """Damage rows directly."""
    with closing(sqlite3.connect(store_file(root))) as plain:
        plain.execute(sql)
        plain.commit()


async def test_a_job_in_flight_is_collected_after_a_rebuild(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Rows of job, questions, prompts, requests and batches are kept, and the results equal an
    intact store's."""
    job = await batch_vendor.submit(shop, questions(3))
    await batch_vendor.advance(shop, job)
    ((aside,),) = rows(shop, "SELECT count(*) FROM reservation")
    rebuilt = rebuild(shop)
    assert rebuilt.kept["offline jobs"] == 1
    assert rebuilt.kept["batches"] == 1
    assert rebuilt.kept["questions of jobs"] == 3
    assert (rebuilt.rejected_rows, rebuilt.at_vendors) == (0, [])
    assert rows(shop, "SELECT count(*) FROM reservation") == [(aside,)]
    standing = await batch_vendor.finish(shop, job)
    assert standing.judged == standing.candidates == len(judgments(shop)) and standing.lost == 0
    assert set(batch_vendor.book.ran.values()) == {1}


async def test_a_prompt_that_cannot_be_believed_is_not_read_by(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Ids are derived from a prompt's name: if it changed, replies match nothing, and no score is
    wrong."""
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.advance(shop, job)
    spoil(shop, "UPDATE job_ask SET pack = 'p_0000' WHERE number = 0")
    rebuilt = rebuild(shop)
    assert rebuilt.rejected_rows >= 1 and rebuilt.kept["prompts of jobs"] == 0
    standing = await batch_vendor.finish(shop, job)
    assert not standing.is_pending and not judgments(shop)


async def test_a_request_whose_batch_is_lost_is_planned_again(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Otherwise it would wait for ever for an unknown batch."""
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.advance(shop, job)
    spoil(shop, "UPDATE batch SET state = 'created', requests = 'many'")
    rebuilt = rebuild(shop)
    assert rebuilt.kept["batches"] == 0
    assert rows(shop, "SELECT DISTINCT state, batch FROM job_request") == [("planned", 0)]
    async with Pipeline.open(shop, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        await pipeline.index()  # as the command does: code is not salvaged
    standing = await batch_vendor.finish(shop, job)
    assert standing.judged == standing.candidates
