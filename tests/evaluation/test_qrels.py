"""Questions with answers: read as written, refused with their line when wrong."""

from pathlib import Path

import pytest

from xscore.errors import UsageError
from xscore.evaluation.metrics import Place
from xscore.evaluation.qrels import Case, read


def test_lines_become_cases(tmp_path: Path) -> None:
    """Blank lines are skipped, fields of others ignored, spans optional."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(
        '{"id": "1", "query": "why?", "gold": [{"path": "a.py", "name": "f", "start": 2, "end": 5}], "why": 1}\n\n'
        '{"id": "2", "query": "how?", "gold": [{"path": "b.py", "name": "g"}]}\n'
    )
    assert read(file) == (
        Case("1", "why?", (Place("a.py", "f", 2, 5),)),
        Case("2", "how?", (Place("b.py", "g"),)),
    )


@pytest.mark.parametrize(
    "line",
    ["no json", "[]", '{"id": "1", "query": "q", "gold": []}', '{"id": 1, "query": "q", "gold": [{"path": "a"}]}'],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """What cannot be read as a case is refused with file and line number."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:2"):
        read(file)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A file that is not there is the caller's mistake."""
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
