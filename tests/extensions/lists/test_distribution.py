"""How a list's scores lie, in a notebook: above its rows, and above a frame that holds them."""

import re

import polars
import pytest

from xscore.extensions.lists.distribution import HEIGHT_PX, distribution_html
from xscore.extensions.lists.notebook_frames import FrameView

MARKUP = "<script>alert(1)</script>"


def counts(shown: str) -> list[int]:
    """The counts of all bars, in order."""
    return [int(count.replace(",", "")) for count in re.findall(r'title="([\d,]+) from', shown)]


def test_every_score_is_in_one_bar() -> None:
    """0 is in the first, 1 in the last, what is unjudged in none; the numbers are exact."""
    scores = [0.0, 0.049, 0.05, 0.5, 0.95, 1.0, None]
    shown = distribution_html({"all": scores}, cut=0.7)
    assert [count for count in counts(shown) if count] == [2, 1, 1, 2]
    assert sum(counts(shown)) == len(scores) - 1
    assert re.findall(r"<td>([^<]*)</td>", shown) == ["6", "2", "0.28", "1.00"]


def test_a_few_good_scores_are_seen_among_many_low_ones() -> None:
    """One of ten thousand is not drawn as nothing, and the most reach as high as there is
    room."""
    shown = distribution_html({"all": [0.01] * 10_000 + [0.99]}, cut=0.7)
    heights = [int(height) for height in re.findall(r"height: (\d+)px[^>]*#(?!6f)", shown)]
    assert max(heights) == HEIGHT_PX and heights[0] == HEIGHT_PX
    assert heights[-1] >= 2 and heights[1] == 0


def test_each_kind_has_its_row() -> None:
    """The largest comes first; names are text."""
    shown = distribution_html({"few": [0.9], MARKUP: [0.1, 0.2], "none": [None]}, cut=0.7)
    assert shown.index("&lt;script&gt;") < shown.index(">few<")
    assert MARKUP not in shown and ">none<" not in shown


def test_what_a_notebook_sanitizes_is_not_used() -> None:
    """JupyterLab takes pictures and frames out of a notebook that is not trusted, and leaves their
    text; these tags, styles and titles it leaves as they are."""
    shown = distribution_html({"all": [0.1, 0.9]}, cut=0.7)
    assert set(re.findall(r"<(\w+)", shown)) == {"table", "tr", "th", "td", "span"}
    assert set(re.findall(r" ([\w-]+)=", shown)) == {"style", "title"}


@pytest.mark.parametrize("scores", [[], [None, None], [0.5]])
def test_what_is_no_distribution_is_not_drawn(scores: list[float | None]) -> None:
    """An empty list, one that is unjudged, and a single score have no picture."""
    assert distribution_html({"all": scores}, cut=0.7) == ""


def test_a_frame_shows_its_scores_and_then_itself() -> None:
    """A frame that was joined does so too, by its kinds; a frame of somebody else is shown as
    it was."""
    scored = polars.DataFrame({"id": [1, 2, 3], "score": [0.9, None, 0.1]})
    scored = scored.with_columns(outcome=polars.lit("judged"), cause=polars.lit(""))
    view = FrameView(None, 0.7)
    shown = view(scored)
    assert shown is not None and shown.endswith(scored._repr_html_())
    assert sum(counts(shown)) == 2
    by_kind = view(scored.with_columns(kind=polars.Series(["bug", "bug", None])))
    assert by_kind is not None and ">bug<" in by_kind and ">(none)<" in by_kind
    without_outcomes = scored.drop("outcome")
    assert view(without_outcomes) == without_outcomes._repr_html_()


def test_what_a_user_wrote_into_the_scores_is_left_out() -> None:
    """Text, NaN and numbers beyond 0 to 1 are no scores; nothing fails."""
    for column in (["high", "low", "low"], [float("nan"), 7.0, -1.0]):
        frame = polars.DataFrame({"score": column, "outcome": column, "cause": column})
        assert FrameView(None, 0.7)(frame) == frame._repr_html_()
