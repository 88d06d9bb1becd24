"""`xscore.judge` over frames: a frame of the same library comes back, whatever its columns and ids
are."""

import warnings
from typing import Any

import polars
import pytest

import xscore
from tests.extensions.lists.conftest import QUESTION
from tests.servers.decision_server import DecisionServer
from xscore.platform.errors import UsageError


def test_a_polars_frame_gives_a_polars_frame(host: DecisionServer) -> None:
    """Rows match the frame's; a null is unjudged, with its cause."""
    frame = polars.DataFrame({"id": ["a", "b", "c"], "body": ["lost", None, "found"]})
    judged = xscore.judge(QUESTION, frame, column="body")
    assert judged.columns == ["id", "score", "outcome", "cause", "reason", "dollars"]
    assert judged["id"].to_list() == ["a", "b", "c"]
    assert judged["score"].to_list() == [
        0.9,
        None,
        0.04,
    ]
    assert judged["cause"].to_list() == ["", "unreadable", ""]
    assert judged["reason"][1] == "there is no text"
    assert xscore.judge(QUESTION, frame["body"]).receipt.coverage.cached == 2
    with pytest.raises(UsageError, match="no column `text`") as error:
        xscore.judge(QUESTION, frame)
    assert "id, body" in error.value.hint and host.questions == 2


def test_a_frame_that_no_model_judged_says_so() -> None:
    """A frame has no receipt: without a key its caller is warned; rows with a receipt are not, nor
    who chose words."""
    frame = polars.DataFrame({"text": ["lost payment", "small font"]})
    with pytest.warns(UserWarning, match="no key") as warned:
        xscore.judge(QUESTION, frame, store=None)
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xscore.judge(QUESTION, frame, judge="lexical", store=None)
        assert not xscore.judge(QUESTION, frame["text"], store=None).receipt.by_model


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_frames_of_other_libraries_come_back_as_they_were(
    host: DecisionServer, library: str
) -> None:
    """NaN and NA are no text; a table is returned in the input's library."""
    module = pytest.importorskip(
        library, reason="the library is not installed; xscore does not need it"
    )
    cells = {"id": [1, 2, 3], "text": ["lost", None, "found"]}
    frame = module.DataFrame(cells) if library == "pandas" else module.table(cells)
    judged = xscore.judge(QUESTION, frame)
    assert type(judged) is type(frame)
    scores = judged["score"].tolist() if library == "pandas" else judged["score"].to_pylist()
    assert (scores[0], scores[2]) == (0.9, 0.04) and (
        scores[1] is None or scores[1] != scores[1]
    )


def test_columns_of_pandas_need_no_name_and_no_name_twice(host: DecisionServer) -> None:
    """A number names its column as text; an ambiguous column name is refused."""
    pandas = pytest.importorskip(
        "pandas", reason="the library is not installed; xscore does not need it"
    )
    assert xscore.judge(QUESTION, pandas.DataFrame({0: ["lost"]}), column="0")[
        "score"
    ].tolist() == [0.9]
    twice = pandas.DataFrame([["lost", "found"]], columns=["text", "text"])
    with pytest.raises(UsageError, match="2 columns `text`"):
        xscore.judge(QUESTION, twice)


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ([1, "a", None], ["1", "a", None]),
        ([1, 2.5, ("x", 1)], ["1", "2.5", "('x', 1)"]),
        ([2, None, 1], [2, None, 1]),
    ],
)
def test_ids_of_several_types_become_text_in_a_frame(
    host: DecisionServer, ids: list[Any], shown: list[Any]
) -> None:
    """Mixed ids become text whichever comes first; ids of one type keep it."""
    judged = xscore.judge(QUESTION, [{"id": item_id, "text": "lost"} for item_id in ids])
    assert [row.id for row in judged] == ids and judged.to_polars()["id"].to_list() == shown
    pytest.importorskip(
        "pyarrow", reason="the library is not installed; xscore does not need it"
    )
    assert judged.to_arrow()["id"].to_pylist() == shown
