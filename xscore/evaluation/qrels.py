"""Questions with known answers, one JSON object a line: `{"id", "query", "gold": [{"path", "name", "start", "end"}]}`.

The file comes from outside, so each line is validated; fields beyond these are ignored. It does not say how the answers
were found. Trade-off: the whole file is read at once, since a set of questions is small.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xscore.errors import UsageError
from xscore.evaluation.metrics import Place


@dataclass(frozen=True, slots=True)
class Case:
    """One question and the entities that answer it."""

    id: str
    query: str
    gold: tuple[Place, ...]


class _Gold(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    path: str = Field(min_length=1)
    name: str = ""
    start: int = Field(0, ge=0)
    end: int = Field(0, ge=0)


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    id: str = Field(min_length=1)
    query: str = Field(min_length=1)
    gold: list[_Gold] = Field(min_length=1)


def read(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file. Raises UsageError that names the line."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="Name a file of JSON lines.") from error
    return tuple(_case(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip())


def _case(line: str, where: str) -> Case:
    try:
        read = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "line"
        raise UsageError(
            f"{where}: {field}: {first['msg']}", hint="A line is {id, query, gold:[{path, name}]}."
        ) from error
    return Case(read.id, read.query, tuple(Place(gold.path, gold.name, gold.start, gold.end) for gold in read.gold))
