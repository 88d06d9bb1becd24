"""Questions with answers: valid ones are read, wrong ones refused with their line."""

from pathlib import Path

import msgspec
import pytest

from xscore.extensions.evaluation.cases import EvalCase, read_cases
from xscore.extensions.evaluation.metrics import EntityRef
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import MAX_BYTES


def test_lines_become_cases(tmp_path: Path) -> None:
    """Blank lines are skipped, unknown fields ignored, spans optional."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(
        '{"id": "1", "query": "why?", "gold": [{"path": "a.py", "name": "f", "start": 2, "end":'
        ' 5}], "why": 1}\n\n{"id": "2", "query": "how?", "gold": [{"path": "b.py", "name": "g"}]}\n'
    )
    assert read_cases(file).cases == (
        EvalCase(id="1", task="why?", gold=(EntityRef("a.py", "f", 2, 5),)),
        EvalCase(id="2", task="how?", gold=(EntityRef("b.py", "g"),)),
    )


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        '{"id": "1", "query": "q"}',
        '{"id": "1", "query": "q", "task": "q", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "q", "gold": [], "tests": [{"path": ""}]}',
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
        read_cases(file)


def test_a_file_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    """A set of questions is small; a larger one is refused before it fills memory."""
    file = tmp_path / "questions.jsonl"
    with file.open("wb") as opened:
        opened.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="more than 50,000,000 bytes"):
        read_cases(file)


def test_an_id_stands_for_one_question(tmp_path: Path) -> None:
    """A duplicate id is named with the line of the first."""
    file = tmp_path / "qrels.jsonl"
    line = '{"id": "q", "query": "why?", "gold": [{"path": "a.py"}]}\n'
    file.write_text(f"\n{line}{line}")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:3: id `q`.*line 2"):
        read_cases(file)


def test_what_mine_writes_is_read(tmp_path: Path) -> None:
    """Every field of a case comes back, also an empty gold."""
    mined = EvalCase(
        id="c1",
        task="take it once",
        gold=(EntityRef("a.py", "f", 2, 5),),
        tests=(EntityRef("test_a.py"),),
        repository="owner+name",
        commit="c" * 40,
        parent="p" * 40,
        date="2026-11-01",
        language="python",
        kind="fix",
    )
    nothing = EvalCase(id="c2", task="an error of the host", gold=())
    file = tmp_path / "cases.jsonl"
    encoder = msgspec.json.Encoder()
    file.write_bytes(b"".join(encoder.encode(case) + b"\n" for case in (mined, nothing)))
    assert read_cases(file).cases == (mined, nothing)
