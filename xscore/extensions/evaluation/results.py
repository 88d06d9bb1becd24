"""Results of evaluations as they are compared: read from files, or taken from a run.

A file is what `xscore eval run CASES --json` prints, one JSON object with `results`, or a JSON line
for each case in the same form. Other fields are ignored. Trade-off: a result that was written
without its language or repository is in no group of these.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from xscore.extensions.evaluation.comparison import CaseResult, Miss, ResultSet
from xscore.extensions.evaluation.quality import (
    JudgeQuality,
    MissedGold,
    figures_of,
    where_missed,
)
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import (
    decode_line,
    name_lines_file,
    read_lines_file,
    unique_lines,
    without_values,
)

RESULTS_HINT = (
    "Give two files that `xscore eval run CASES --json` wrote, or name variants such as `now` and"
    " `pack=8`."
)


class _Result(Struct):
    """One case, as `quality.QuestionResult` is written."""

    id: str
    query: str = ""
    task: str = ""
    repository: str = ""
    language: str = ""
    kind: str = ""
    kept: float | None = None
    judge: JudgeQuality | None = None
    missed: tuple[MissedGold, ...] = ()

    def __post_init__(self) -> None:
        if not self.id.strip():
            raise ValueError("id is blank")
        for name, figure in self.figures().items():
            if not (isfinite(figure) and figure >= 0):
                raise ValueError(f"{name} is not a finite number from 0 up")

    def figures(self) -> Mapping[str, float]:
        """Return the measures of `comparison.MEASURES` that the case has."""
        return figures_of(self.judge, self.kept)

    def case(self) -> CaseResult:
        """Return it as it is compared."""
        return CaseResult(
            id=self.id,
            figures=self.figures(),
            task=self.task or self.query,
            repository=self.repository,
            language=self.language,
            kind=self.kind,
            misses=tuple(
                Miss(path=gold.path, name=gold.name, why=where_missed(gold))
                for gold in self.missed
            ),
        )


class _ResultFile(Struct):
    results: tuple[_Result, ...]
    judge: str = ""


def read_results(path: Path) -> ResultSet:
    """Return the results of a file. Raises UsageError that names the line."""
    data = read_lines_file(path)
    name = name_lines_file(path)
    judge = ""
    try:
        body = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        # Several objects in a row are not JSON as a whole.
        body = {}
    if "results" in body:
        results, judge = _results_of_object(data, name)
    else:
        results = _results_of_lines(data, name)
    if not results:
        raise UsageError(f"{name} holds no result", hint=RESULTS_HINT)
    return ResultSet(name=name, cases=tuple(result.case() for result in results), judge=judge)


def _results_of_object(data: bytes, name: str) -> tuple[Sequence[_Result], str]:
    try:
        file = msgspec.json.decode(data, type=_ResultFile)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {without_values(error)}", hint=RESULTS_HINT) from error
    numbered = list(enumerate(file.results, start=1))
    return unique_lines(numbered, name), file.judge


def _results_of_lines(data: bytes, name: str) -> Sequence[_Result]:
    decoder = msgspec.json.Decoder(_Result)
    numbered: list[tuple[int, _Result]] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            place = f"{name}:{number}"
            numbered.append((number, decode_line(line, place, decoder, hint=RESULTS_HINT)))
    return unique_lines(numbered, name)
