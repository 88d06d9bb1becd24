"""Lists of questions, one JSON object a line: `{"id", "task", "file"?, "errors"?}`; `-` is standard input.

A line is taken as strictly as a flag: no other field, no id twice. It does not look at the repository: whether a file
is one of it is found when the questions are prepared. Trade-off: two lists that differ in blanks or the order of fields
alone are the same list (`digest`).
"""

import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from xscore.errors import UsageError
from xscore.hashing import digest
from xscore.json_lines import MAX_BYTES, TOO_LARGE, Lines, each_once
from xscore.records.offline import Question, Questions

SHAPE = 'A line is {"id": "…", "task": "…"}, and where they help "file" and "errors".'
STDIN = "-"


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    id: str = Field(min_length=1, max_length=200)
    task: str = Field(min_length=1)
    file: str = Field("", max_length=4_096)
    errors: str = ""

    @field_validator("id", "task")
    @classmethod
    def _not_blank(cls, given: str) -> str:
        if not given.strip():
            raise ValueError("it is blank")
        return given

    @field_validator("file")
    @classmethod
    def _names_a_file(cls, given: str) -> str:
        if "\0" in given:
            raise ValueError("it has a character that no file's name can have")
        return given

    @field_validator("id")
    @classmethod
    def _on_one_line(cls, given: str) -> str:
        if not given.isprintable():
            raise ValueError("it has characters that cannot be shown")
        return given


_LINES = Lines(_Line, SHAPE)


def read(path: Path) -> Questions:
    """Return the questions of a file, or of standard input for `-`. Raises UsageError that names the line."""
    if str(path) != STDIN:
        return parse(_LINES.read(path), str(path))
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"standard input {TOO_LARGE}", hint="Ask fewer questions at a time.")
    return parse(data, "standard input")


def is_list(path: Path) -> bool:
    """Whether a file that is there begins with a question: results must not take its place."""
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
        return bool(parse(first, str(path)).all)
    except (OSError, UsageError):
        return False


def parse(data: bytes, name: str) -> Questions:
    """Return the questions of these bytes. name: where they are from. Raises UsageError that names the line."""
    found = tuple(
        Question(id=line.id, task=line.task, file=line.file, errors=line.errors)
        for line in each_once(_LINES.of(data, name))
    )
    if not found:
        raise UsageError(f"{name} holds no question", hint=SHAPE)
    return Questions(found, digest(*(field for one in found for field in (one.id, one.task, one.file, one.errors))))
