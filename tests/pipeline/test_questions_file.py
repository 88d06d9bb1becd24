"""Lists of questions: read strictly, wrong lines named, equal lists recognised."""

import io
import sys
from pathlib import Path

import pytest

from tests.store.generated_secrets import SecretGenerator
from xscore.pipeline.question_list import Question, read_question_file
from xscore.platform.errors import UsageError


def listed(tmp_path: Path, text: str | bytes) -> Path:
    """Write a list."""
    file = tmp_path / "queries.jsonl"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_lines_become_questions(tmp_path: Path) -> None:
    """Blank lines and a byte order mark are skipped; `query` means `task`; file and errors are
    kept."""
    file = listed(
        tmp_path,
        '\ufeff{"id": "a", "task": "why?"}\n\n'
        '{"id": "b", "query": "how?", "file": "src/a.py", "errors": "KeyError: 3\\n"}\r\n',
    )
    assert read_question_file(file).all == (
        Question(id="a", task="why?"),
        Question(id="b", task="how?", file="src/a.py", errors="KeyError: 3\n"),
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "1"}',
        '{"task": "t"}',
        '{"id": " ", "task": "t"}',
        '{"id": "1", "task": "\\n"}',
        '{"id": "1\\u001b[31m", "task": "t"}',
        '{"id": "1", "task": "t", "query": "q"}',
        '{"id": "1", "task": "t", "file": "a\\u0000.py"}',
        f'{{"id": "{"x" * 201}", "task": "t"}}',
        f'{{"id": "ghp_{SecretGenerator(1).text(36)}", "task": "t"}}',
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """An invalid question is refused with file, line and the expected form."""
    with pytest.raises(UsageError, match=r"queries\.jsonl:2: ") as refused:
        read_question_file(listed(tmp_path, f"\n{line}\n"))
    assert '"task"' in refused.value.hint


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads standard input, and errors in its lines say so."""
    stdin = io.TextIOWrapper(io.BytesIO(b'{"id": "a", "task": "t"}\n'))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert [question.id for question in read_question_file(Path("-")).all] == ["a"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"nonsense")))
    with pytest.raises(UsageError, match="standard input:1"):
        read_question_file(Path("-"))
