"""Questions with answers: valid ones are read, wrong ones refused with their line."""

from pathlib import Path

import pytest

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.run import QrelCase, read_qrels
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import MAX_BYTES


def test_lines_become_cases(tmp_path: Path) -> None:
    """Blank lines are skipped, unknown fields ignored, spans optional."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(
        '{"id": "1", "query": "why?", "gold": [{"path": "a.py", "name": "f", "start": 2, "end":'
        ' 5}], "why": 1}\n\n{"id": "2", "query": "how?", "gold": [{"path": "b.py", "name": "g"}]}\n'
    )
    assert read_qrels(file).cases == (
        QrelCase("1", "why?", (EntityRef("a.py", "f", 2, 5),)),
        QrelCase("2", "how?", (EntityRef("b.py", "g"),)),
    )


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        '{"id": "1", "query": "q", "gold": []}',
        '{"id": "1", "query": " ", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "q", "gold": [{"path": ""}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": NaN, "end": 4}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": 9, "end": 4}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": 9}]}',
        '{"id": "1", "query": "\\ud800", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "as reviewed", "query": "as asked", "gold": [{"path": "a"}]}',
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """An invalid case is refused with file and line number."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:2"):
        read_qrels(file)


def test_a_file_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    """A set of questions is small; a larger one is refused before it fills memory."""
    file = tmp_path / "questions.jsonl"
    with file.open("wb") as opened:
        opened.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="more than 50,000,000 bytes"):
        read_qrels(file)


def test_an_id_stands_for_one_question(tmp_path: Path) -> None:
    """A duplicate id is named with the line of the first."""
    file = tmp_path / "qrels.jsonl"
    line = '{"id": "q", "query": "why?", "gold": [{"path": "a.py"}]}\n'
    file.write_text(f"\n{line}{line}")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:3: id `q`.*line 2"):
        read_qrels(file)
