"""What a strong model once said of the memories of some commits, and what words say of them.

Not a benchmark itself. DIR/judgments.jsonl holds a line a case: its id, and the judged memories
with path, lines, name and a score of 0 to 100.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from commit_cases import CommitCase, ask_all, is_same_place, place_of, read_cases
from msgspec import Struct

from xscore.records.judgment import Ranked


class RecordedPool(Struct, frozen=True):
    """A case's pool as words ranked it, with what was recorded of each memory."""

    case: CommitCase
    ranked: tuple[Ranked, ...]
    recorded: tuple[float | None, ...]
    """0..1; None if the model was not shown it."""
    is_gold: tuple[bool, ...]


def read_recorded(bench: Path, clones: Path, cache: Path) -> Iterator[RecordedPool]:
    """Ask each recorded case of its own tree by words, and pair its memories with the record."""
    records: dict[str, Sequence[Mapping[str, Any]]] = {}
    for line in (bench / "judgments.jsonl").open(encoding="utf-8"):
        record = json.loads(line)
        records[record["id"]] = record["judged"]
    cases = [case for case in read_cases(bench, every=1) if case.id in records]
    for result in ask_all(cases, clones, cache):
        yield _paired(result.case, result.ranking.ranked, records[result.case.id])


def _paired(
    case: CommitCase, ranked: Sequence[Ranked], record: Sequence[Mapping[str, Any]]
) -> RecordedPool:
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for judged in record:
        by_path.setdefault(judged["path"], []).append(judged)
    recorded: list[float | None] = []
    is_gold: list[bool] = []
    for entry in ranked:
        place = place_of(entry.candidate)
        of_path = by_path.get(entry.candidate.path, ())
        scores = [judged["score"] / 100 for judged in of_path if is_same_place(judged, *place)]
        recorded.append(max(scores, default=None))
        is_gold.append(case.is_gold(*place))
    return RecordedPool(case, tuple(ranked), tuple(recorded), tuple(is_gold))
