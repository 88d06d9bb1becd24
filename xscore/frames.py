"""`df.xscore.judge("…")`: importing this module registers it for polars, and for pandas where that
is installed.

Everything is done by `xscore.judge`. Trade-off: no frame library looks for entry points, so one
import is needed.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Unpack

import polars

from xscore import JudgeOptions, judge


class FrameJudging:
    """The methods of a frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def judge(self, question: str, **options: Unpack[JudgeOptions]) -> Any:
        """Score every row against the question; see `xscore.judge`.

        Returns a frame of the same library.
        """
        return judge(question, self._frame, **options)


polars.api.register_dataframe_namespace("xscore")(FrameJudging)
if find_spec("pandas") is not None:
    import_module("pandas.api.extensions").register_dataframe_accessor("xscore")(FrameJudging)
