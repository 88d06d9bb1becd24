"""Questions with known answers, one JSON object a line: `{"id", "query", "gold": [{"path", "name", "start", "end"}]}`.

The file comes from outside, so it is read as a regular file of bounded size, and each line is validated and named in
what is wrong with it; fields beyond these are ignored, but no key may stand twice. It does not say how the answers were
found. Trade-off: the whole file is read at once, since a set of questions is small.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from xscore.errors import UsageError
from xscore.evaluation.metrics import Place
from xscore.files import Refused, read_named
from xscore.hashing import file_digest
from xscore.unique_keys import refuse_repeated_keys

MAX_BYTES = 50_000_000
NAME_ONE = "Name a file of JSON lines."
NO_FILE = {"not_a_file": "is no regular file", "too_large": f"has more than {MAX_BYTES:,} bytes"}
SHAPE = 'A line is {"id": "…", "query": "…", "gold": [{"path": "…", "name": "…"}]}.'


@dataclass(frozen=True, slots=True)
class Case:
    """One question and the entities that answer it."""

    id: str
    query: str
    gold: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Questions:
    """A file of questions: at least one, each with an id of its own."""

    cases: tuple[Case, ...]
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


class _Line(BaseModel):
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


def read(path: Path) -> Questions:
    """Return the questions of a file. Raises UsageError that names the line."""
    try:
        data = read_named(path, max_bytes=MAX_BYTES, follow=True)
        text = data.decode("utf-8-sig")
    except Refused as error:
        raise UsageError(f"{path} {NO_FILE[str(error)]}", hint=NAME_ONE) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=NAME_ONE) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: {error.reason} at byte {error.start}", hint=SHAPE) from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    first_at: dict[str, int] = {}
    cases = []
    for number, line in lines:
        case = _case(line, f"{path}:{number}")
        if first_at.setdefault(case.id, number) != number:
            raise UsageError(
                f"{path}:{number}: id `{case.id}` is that of line {first_at[case.id]} as well",
                hint="Give each question an id of its own.",
            )
        cases.append(case)
    if not cases:
        raise UsageError(f"{path} holds no question", hint=SHAPE)
    return Questions(tuple(cases), file_digest(data))


def _case(line: str, where: str) -> Case:
    try:
        read = _Line.model_validate_json(line)
        refuse_repeated_keys(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "line"
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {field}: {said}", hint=SHAPE) from error
    except ValueError as error:
        raise UsageError(f"{where}: {error}", hint=SHAPE) from error
    return Case(read.id, read.query, tuple(Place(gold.path, gold.name, gold.start, gold.end) for gold in read.gold))
