"""After erasing a memory, offline jobs hold none of its text, and no late score restores it."""

from pathlib import Path

from tests.extensions.batch.batch_vendor import BatchVendor, batch_vendor, judgments, questions
from tests.statements import say
from tests.waiting import rows
from xscore.extensions.batch import job_rows
from xscore.extensions.batch.results import write_job_results
from xscore.extensions.privacy import erasure
from xscore.extensions.privacy.erasure_proof import verify_erasure
from xscore.pipeline.build import Pipeline
from xscore.pipeline.question_list import Question, QuestionList

__all__ = ["batch_vendor"]

WORDS = "the heron password of the wholesaler is kept in the blue ledger"


async def remember(root: Path, batch_vendor: BatchVendor) -> str:
    """Remember something about the project; return its id."""
    async with Pipeline.open(root, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        return say(pipeline.store, WORDS).memory.id


async def erase(root: Path, batch_vendor: BatchVendor, identifier: str) -> erasure.Erasure:
    """Erase a memory and verify it."""
    async with Pipeline.open(root, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        wording = erasure.erased_lines(pipeline.store, [identifier])
        done = erasure.erase_memories(pipeline.store, [identifier], now=batch_vendor.now)
        assert wording and verify_erasure(pipeline.store, wording).holds
        return done


async def test_a_score_that_comes_back_for_an_erased_memory_is_entered_nowhere(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """The memory is erased while the batch runs: all others are judged, it has neither score nor
    reason."""
    identifier = await remember(shop, batch_vendor)
    job = await batch_vendor.submit(shop, questions(2))
    await batch_vendor.advance(shop, job)
    ((content,),) = rows(shop, "SELECT content_hash FROM memory WHERE id = ?", identifier)
    assert content in str(rows(shop, "SELECT pieces FROM job_ask"))
    await erase(shop, batch_vendor, identifier)
    assert content not in str(rows(shop, "SELECT pieces FROM job_ask"))
    standing = await batch_vendor.finish(shop, job)
    assert not standing.is_pending
    assert rows(shop, "SELECT count(*) FROM content WHERE hash IN (?, '')", content) == [(0,)]
    assert rows(shop, "SELECT count(*) FROM reason WHERE instr(text, 'heron')") == [(0,)]
    assert len(judgments(shop)) == standing.candidates - 2


async def test_an_erased_memory_that_waits_to_be_sent_is_not_sent(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Erased before the upload: the vendor never receives it, and the job still ends."""
    identifier = await remember(shop, batch_vendor)
    job = await batch_vendor.submit(shop, questions(2))
    await erase(shop, batch_vendor, identifier)
    standing = await batch_vendor.finish(shop, job)
    assert not standing.is_pending and len(judgments(shop)) == standing.candidates - 2
    assert "heron" not in str(getattr(batch_vendor.server, "files", ""))


async def test_a_question_that_says_it_is_blanked_and_never_asked(
    shop: Path, batch_vendor: BatchVendor
) -> None:
    """Its text and name are erased, its planned requests are lost, and the others are judged."""
    identifier = await remember(shop, batch_vendor)
    question_list = QuestionList(
        (*questions(1).all, Question(id="odd", task=f"Is this so?\n{WORDS}")), "digest"
    )
    job = await batch_vendor.submit(shop, question_list)
    done = await erase(shop, batch_vendor, identifier)
    assert done.questions == 1
    assert rows(shop, "SELECT name, context FROM job_question WHERE number = 1") == [("", "{}")]
    standing = await batch_vendor.finish(shop, job)
    assert not standing.is_pending and standing.lost
    assert rows(shop, "SELECT DISTINCT question FROM job_request WHERE state = 'answered'") == [
        (0,)
    ]
    assert "heron" not in str(getattr(batch_vendor.server, "files", ""))


async def test_results_are_written_after_an_erasure(
    shop: Path, batch_vendor: BatchVendor, tmp_path: Path
) -> None:
    """The erased question is left out, what its memory lost has a cause, and all others are
    ranked."""
    identifier = await remember(shop, batch_vendor)
    question_list = QuestionList(
        (*questions(1).all, Question(id="odd", task=f"Is this so?\n{WORDS}")), "digest"
    )
    job = await batch_vendor.submit(shop, question_list)
    await erase(shop, batch_vendor, identifier)
    standing = await batch_vendor.finish(shop, job)
    assert set(standing.unjudged) == {"interrupted", "unreadable"}
    async with Pipeline.open(shop, batch_vendor.settings, clock=batch_vendor.clock) as pipeline:
        ranked_list = await write_job_results(
            pipeline.parts,
            job_rows.read_job(pipeline.store.connection, job),
            tmp_path / "found.jsonl",
        )
    assert [line.id for line in ranked_list.lines] == ["q0"] and ranked_list.rows > 0
