"""`df.xscore.judge("…")`: importing this module registers it for polars, and for pandas where that
is installed.

Everything is done by `xscore.judge`. polars is the extra `frames`; where only pandas is installed,
its frames get the method. Trade-off: no frame library looks for entry points, so one import is
needed.
"""

from importlib import import_module
from typing import Any, Unpack

from xscore import JudgeOptions, judge
from xscore.platform.extras import has_package, require_extra


class FrameJudging:
    """The methods of a frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def judge(self, question: str, **options: Unpack[JudgeOptions]) -> Any:
        """Score every row against the question; see `xscore.judge`.

        Returns a frame of the same library.
        """
        return judge(question, self._frame, **options)


if has_package("pandas"):
    import_module("pandas.api.extensions").register_dataframe_accessor("xscore")(FrameJudging)
else:
    require_extra("frames", "polars", purpose="xscore.frames")
if has_package("polars"):
    import_module("polars.api").register_dataframe_namespace("xscore")(FrameJudging)
