"""Questions with known answers, one JSON object a line: `{"id", "query", "gold": [{"path", "name", "start", "end"}]}`.

Fields beyond these are ignored. It does not say how the answers were found, and leaves to `json_lines` how a file of a
person is read. Trade-off: the whole file is read at once, since a set of questions is small.
"""

from pathlib import Path

from msgspec import Struct

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.platform.errors import UsageError
from xscore.platform.hashing import file_digest
from xscore.platform.json_lines import parse_lines, read_lines_file

QREL_EXAMPLE = 'A line is {"id": "…", "query": "…", "gold": [{"path": "…", "name": "…"}]}.'


class QrelCase(Struct, frozen=True):
    """One question and the entities that answer it."""

    id: str
    query: str
    gold: tuple[EntityRef, ...]

    def __post_init__(self) -> None:
        if not self.id.strip() or not self.query.strip():
            raise ValueError("id or query is blank")
        if not self.gold or not all(one.path for one in self.gold):
            raise ValueError("gold names no file")
        for one in self.gold:
            if not (one.start == one.end == 0 or 0 < one.start <= one.end):
                raise ValueError(f"start {one.start} and end {one.end} are no lines; both or neither, from 1")


class Qrels(Struct, frozen=True):
    """A file of questions: at least one, each with an id of its own."""

    cases: tuple[QrelCase, ...]
    digest: str


def read_qrels(path: Path) -> Qrels:
    """Return the questions of a file. Raises UsageError that names the line."""
    data = read_lines_file(path)
    cases = parse_lines(data, str(path), QrelCase, hint=QREL_EXAMPLE)
    if not cases:
        raise UsageError(f"{path} holds no question", hint=QREL_EXAMPLE)
    return Qrels(cases, file_digest(data))
