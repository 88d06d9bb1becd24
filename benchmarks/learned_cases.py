"""The cases that the weights of the judge without a model were fitted to, by name and checksum.

`learned_cases.csv` has a line for each: its id, the repository, the commit whose tree was asked,
and a checksum of the task and of what changed. A commit's id is itself a checksum of its files and
history. So whoever has the cases and the clones can tell that they are the same, and the texts of
the messages need not be kept here. Not a benchmark itself: `train_lexical` compares and writes it.
"""

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from commit_cases import CommitCase

LISTED = Path(__file__).with_name("learned_cases.csv")
COLUMNS = ("id", "repository", "commit", "checksum")
CHECKSUM_DIGITS = 16


def checksum_of(case: CommitCase) -> str:
    """Return the checksum of what a case asks and of what it wants."""
    gold = sorted(
        [place[name] for name in ("path", "name", "start", "end")] for place in case.gold
    )
    content = json.dumps([case.task, gold], ensure_ascii=True).encode()
    return hashlib.sha256(content).hexdigest()[:CHECKSUM_DIGITS]


def rows_of(cases: Sequence[CommitCase]) -> list[tuple[str, str, str, str]]:
    """Return the lines of these cases, in their order, which the foreign tasks depend on."""
    return [(case.id, case.repository, case.commit, checksum_of(case)) for case in cases]


def differences(cases: Sequence[CommitCase]) -> list[str]:
    """Return in words how these cases are not those that the weights were fitted to."""
    with LISTED.open(newline="", encoding="utf-8") as file:
        _, *listed = map(tuple, csv.reader(file))
    rows = rows_of(cases)
    if rows == listed:
        return []
    lines: list[str] = []
    row_of_id = {row[0]: row for row in rows}
    for listed_row in listed:
        row = row_of_id.pop(listed_row[0], None)
        if row is None:
            lines.append(f"{listed_row[0]} is missing")
        elif row != listed_row:
            lines.append(f"{listed_row[0]} is another: {row[2:]}, not {listed_row[2:]}")
    lines += [f"{id_} is new" for id_ in row_of_id]
    return lines or ["they stand in another order"]


def write_list(cases: Sequence[CommitCase]) -> None:
    """Write the list of these cases."""
    with LISTED.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows_of(cases))
