"""Questions with known answers, one JSON object a line: `{"id", "query", "gold": [{"path", "name", "start", "end"}]}`.

Fields beyond these are ignored. It does not say how the answers were found, and leaves to `json_lines` how a file of a
person is read. Trade-off: the whole file is read at once, since a set of questions is small.
"""

from pathlib import Path

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.platform.errors import UsageError
from xscore.platform.hashing import file_digest
from xscore.platform.json_lines import JsonLinesReader, with_unique_ids

QREL_EXAMPLE = 'A line is {"id": "…", "query": "…", "gold": [{"path": "…", "name": "…"}]}.'


class QrelCase(Struct, frozen=True):
    """One question and the entities that answer it."""

    id: str
    query: str
    gold: tuple[EntityRef, ...]


class Qrels(Struct, frozen=True):
    """A file of questions: at least one, each with an id of its own."""

    cases: tuple[QrelCase, ...]
    digest: str
    """Of the file's bytes: equal questions, equal digest."""


class _Gold(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    path: str = Field(min_length=1)
    name: str = ""
    start: int = Field(0, ge=0)
    end: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _lines_in_order(self) -> "_Gold":
        if bool(self.start) != bool(self.end) or self.start > self.end:
            raise ValueError(f"start {self.start} and end {self.end} are no lines; both or neither, from 1")
        return self


class _QrelLine(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    gold: list[_Gold] = Field(min_length=1)

    @field_validator("id", "query")
    @classmethod
    def _not_blank(cls, given: str) -> str:
        if not given.strip():
            raise ValueError("it is blank")
        return given


_LINES = JsonLinesReader(_QrelLine, QREL_EXAMPLE)


def read_qrels(path: Path) -> Qrels:
    """Return the questions of a file. Raises UsageError that names the line."""
    data = _LINES.read(path)
    cases = tuple(_case(line) for line in with_unique_ids(_LINES.of(data, str(path))))
    if not cases:
        raise UsageError(f"{path} holds no question", hint=QREL_EXAMPLE)
    return Qrels(cases, file_digest(data))


def _case(line: _QrelLine) -> QrelCase:
    return QrelCase(
        line.id, line.query, tuple(EntityRef(gold.path, gold.name, gold.start, gold.end) for gold in line.gold)
    )
