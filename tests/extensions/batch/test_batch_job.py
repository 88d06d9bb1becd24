"""A list judged by batch from its plan to its judgments, at both vendors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.batch.bureau import VENDORS, Bureau, bureau, judgments, questions, rows
from tests.pipeline.conftest import shop
from xscore.pipeline.build import Pipeline
from xscore.records import Turn

__all__ = ["shop"]


@pytest.fixture(params=VENDORS)
def office(request: pytest.FixtureRequest) -> Iterator[Bureau]:
    """A vendor."""
    with bureau(request.param) as running:
        yield running


async def test_a_list_comes_back_whole(shop: Path, office: Bureau) -> None:
    """Every candidate of every question is judged, each request ran once, and a turn then finds all in the cache."""
    job = await office.submit(shop, questions(4))
    standing = await office.finish(shop, job)
    assert (standing.judged, standing.asked, standing.unjudged) == (standing.candidates, standing.candidates, {})
    assert (standing.planned, standing.sent, standing.lost) == (0, 0, 0) and standing.answered
    assert set(office.book.ran.values()) == {1} and len(office.book.ran) == standing.answered
    assert len(judgments(shop)) == standing.candidates
    async with Pipeline.open(shop, office.settings) as pipeline:
        answer = await pipeline.ask(Turn(task=questions(4).all[2].task), answer=False)
    assert answer.coverage.cached == answer.coverage.candidates and not answer.coverage.judged
    assert answer.selected[0].reason
    assert rows(shop, "SELECT count(*), count(DISTINCT batch), sum(duration_s) FROM call WHERE turn_id = ?", job) == [
        (standing.answered, 1, 0.0)
    ]
