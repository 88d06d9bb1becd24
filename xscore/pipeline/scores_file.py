"""The file of `--all-scores`: a line for every candidate, checked before anything is spent.

Trade-off: it is written after the turn is saved; a kill in between leaves no file.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from xscore.pipeline.json_form import record_json
from xscore.pipeline.parts import PipelineParts
from xscore.pipeline.ranking import unjudged_pairs
from xscore.pipeline.receipt import find_reasons
from xscore.pipeline.turn_stages import TurnStages
from xscore.platform.errors import UsageError
from xscore.platform.files import is_there, write_atomically
from xscore.records.candidates import Candidate
from xscore.records.judgment import Origin, Outcome, Ranked
from xscore.records.receipt import Answer, ScoreLine


class ScoresFile(Struct, frozen=True):
    """A file that can be written."""

    path: Path

    @classmethod
    def checked(cls, path: Path, *, store_dir: Path) -> "ScoresFile":
        """Return the file of this path.

        Raises UsageError if it cannot be written; the store's folder is refused.
        """
        folder = path.parent
        if path.resolve().is_relative_to(store_dir.resolve()):
            raise UsageError(
                f"--all-scores: {path} is inside the store's own folder",
                hint="Name a file elsewhere.",
            )
        if not path.name or is_there(path, stat.S_ISDIR) or not is_there(folder, stat.S_ISDIR):
            raise UsageError(
                f"--all-scores: {path} is not in an existing folder",
                hint="Create the folder first.",
            )
        # A file is replaced by a new one in its folder; a device or a pipe is written to.
        is_replaced = not is_there(path) or is_there(path, stat.S_ISREG)
        written = path.resolve().parent if is_replaced else path
        if not os.access(written, os.W_OK):
            raise UsageError(
                f"--all-scores: {path} cannot be written",
                hint="Name a file in a folder of yours.",
            )
        return cls(path)

    def write(self, parts: PipelineParts, finished: Answer, stages: TurnStages) -> Answer:
        """Write the scores of a turn; if that fails, warn in the receipt, since the turn was paid
        for."""
        judged = stages.judged
        ranking = stages.ranking
        # Words that ranked in the judge's place are not scores of its own.
        ranked = [] if ranking.ranked_by else ranking.in_order()
        if ranked:
            reasons = find_reasons(parts, stages.prepared.key, judged, ranked)
        else:
            reasons = {}
        lines: list[str] = []
        for line in score_lines(judged.outcomes, ranked, reasons):
            lines.append(json.dumps(record_json(line), ensure_ascii=False) + "\n")
        try:
            write_atomically(self.path, "".join(lines).encode())
        except UsageError as error:
            warnings = (*finished.warnings, f"--all-scores: {error.message}")
            return replace(
                finished, warnings=warnings, exit_code=finished.exit_code or error.exit_code
            )
        return finished


def score_lines(
    outcomes: Sequence[Outcome], ranked: Sequence[Ranked], reasons: Mapping[str, str]
) -> Iterator[ScoreLine]:
    """Return a line for every candidate: the ranked in order, then the unjudged by path."""

    def line(candidate: Candidate, *rest: Any) -> ScoreLine:
        return ScoreLine(
            candidate.id,
            candidate.path,
            candidate.entity,
            str(candidate.layer),
            str(candidate.kind),
            *rest,
        )

    for candidate, judgment, origin, boosts, score, words in ranked:
        reason = judgment.reason or reasons.get(candidate.content_hash, "")
        yield line(candidate, str(origin), judgment.score, score, reason, "", boosts, words)
    unjudged = unjudged_pairs(outcomes)
    by_place = sorted(unjudged, key=lambda pair: (pair[0].path, pair[0].start_line))
    for candidate, absent in by_place:
        yield line(candidate, str(Origin.UNJUDGED), None, None, "", str(absent.cause))
