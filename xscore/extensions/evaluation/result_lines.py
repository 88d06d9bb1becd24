"""One line of JSON for each case of a run, written as soon as it is judged.

A run that is killed goes on where its file ends: a case that has a line is not asked again. A file
belongs to one run: the same cases, judge and settings. Its lines are those that `eval compare`
reads. Trade-off: of each ranking only the first `RANKED_LINES` memories are kept, and the gold.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from xscore.cache.keys import judge_key
from xscore.extensions.evaluation import metrics
from xscore.extensions.evaluation.cases import CaseFile, EvalCase
from xscore.extensions.evaluation.metrics import CalibrationBin, entity_ref
from xscore.extensions.evaluation.quality import QuestionResult
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.turn_stages import Ranking
from xscore.platform.errors import UsageError
from xscore.platform.files import unwritable_file
from xscore.platform.hashing import digest
from xscore.platform.json_lines import decode_line, read_lines_file
from xscore.records.turn import Scope

RANKED_LINES = 200
_HINT = "Name a new file, or the one that this run wrote."


class RankedLine(Struct, frozen=True, kw_only=True):
    """A memory of a ranking."""

    id: str
    path: str
    name: str
    start: int
    end: int
    score: float
    """Final score, with boosts; `judge` is the score of the judge, `words` that of the lexical
    judge."""
    judge: float
    words: float | None
    is_kept: bool
    is_gold: bool


class CaseRecord(QuestionResult, frozen=True, kw_only=True):
    """A case as it is written: its result, and what it was made of."""

    run: str
    """Identifies cases, judge and settings."""
    commit: str
    parent: str
    date: str
    best_score: float
    """Highest score; 0 if nothing was judged."""
    bins: tuple[CalibrationBin, ...]
    unjudged_by_cause: dict[str, int]
    ranked: tuple[RankedLine, ...]
    """Ranked memories, the best first."""

    def result(self) -> QuestionResult:
        """Return what the evaluation shows of it."""
        names = QuestionResult.__struct_fields__
        return QuestionResult(**{name: getattr(self, name) for name in names})


def ranked_lines(
    ranking: Ranking, case: EvalCase, words: Mapping[str, float]
) -> tuple[RankedLine, ...]:
    """Return the first memories of a ranking, and all gold. words: scores by content hash."""
    in_order = ranking.in_order()
    are_gold = metrics.are_gold([entity_ref(entry.candidate) for entry in in_order], case.gold)
    kept_ids = {entry.candidate.id for entry in ranking.selection.kept}
    lines: list[RankedLine] = []
    for rank, (entry, is_gold) in enumerate(zip(in_order, are_gold, strict=True)):
        candidate = entry.candidate
        is_kept = candidate.id in kept_ids
        if rank >= RANKED_LINES and not (is_gold or is_kept):
            continue
        lines.append(
            RankedLine(
                id=candidate.id,
                path=candidate.path,
                name=candidate.entity,
                start=candidate.start_line,
                end=candidate.end_line,
                score=entry.score,
                judge=entry.judgment.score,
                words=words.get(candidate.content_hash),
                is_kept=is_kept,
                is_gold=is_gold,
            )
        )
    return tuple(lines)


def run_key(parts: PipelineParts, cases: CaseFile, scope: Scope) -> str:
    """Return what identifies a run: everything that changes its rankings."""
    settings = parts.settings
    judging = settings.judge.sees, settings.judge.tests, settings.judge.pack_size
    decisive = (scope, settings.selection, settings.boosts, settings.index, judging)
    fields = [repr(part) for part in decisive]
    if settings.judge.purposes:
        fields.append("purposes")
    return digest("evaluation run", cases.digest, judge_key(parts.judge.identity), *fields)


class ResultFile:
    """The file of one run."""

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self.run = run

    def read(self) -> Sequence[CaseRecord]:
        """Return the cases that are done. A line that was cut off in writing is removed.

        Raises UsageError for a file of another run, or one that cannot be read.
        """
        if not self.path.exists():
            return []
        data = read_lines_file(self.path)
        finished_lines = data[: data.rfind(b"\n") + 1]
        decoder = msgspec.json.Decoder(CaseRecord)
        records: list[CaseRecord] = []
        for number, line in enumerate(finished_lines.split(b"\n"), start=1):
            if line.strip():
                place = f"{self.path}:{number}"
                record = decode_line(line, place, decoder, hint=_HINT, checks_keys=False)
                if record.run != self.run:
                    raise UsageError(
                        f"{place} belongs to another run: other cases, another judge or other"
                        " settings",
                        hint=_HINT,
                    )
                records.append(record)
        if len(finished_lines) < len(data):
            os.truncate(self.path, len(finished_lines))
        return records

    def append(self, record: CaseRecord) -> None:
        """Write a case; it is on the disk when this returns. Raises UsageError."""
        line = msgspec.json.encode(record) + b"\n"
        try:
            with self.path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise unwritable_file(self.path, error.strerror) from error
