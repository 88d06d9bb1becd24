"""The picture of a list's scores in a notebook."""

import re
from xml.etree import ElementTree

import pytest

from xscore.extensions.lists.distribution import BINS, HEIGHT_PX, distribution_svg


def test_every_score_is_in_one_bar() -> None:
    """0 is in the first, 1 in the last, and what is unjudged in none; the words add up."""
    scores = [0.0, 0.049, 0.05, 0.5, 0.95, 1.0, None]
    picture = distribution_svg(scores)
    counts = [int(count) for count in re.findall(r"<title>(\d+) from", picture)]
    assert counts == [2, 1, 1, 2] and sum(counts) == len(scores) - 1
    ElementTree.fromstring(picture)


def test_a_few_good_scores_are_seen_beside_many_low_ones() -> None:
    """One of ten thousand is not drawn as nothing, and the most stand as high as there is room."""
    picture = distribution_svg([0.01] * 10_000 + [0.99])
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"><title>', picture)]
    assert len(heights) == 2 and heights[0] == HEIGHT_PX and heights[1] >= 0.5
    assert "10,000 from 0 to 0.05; 1 from 0.95 to 1" in picture
    assert picture.count("<rect") <= BINS


@pytest.mark.parametrize("scores", [[], [None, None], [0.5]])
def test_what_is_no_distribution_is_not_drawn(scores: list[float | None]) -> None:
    """An empty list, one that is unjudged, and a single score have no picture."""
    assert distribution_svg(scores) == ""
