"""Questions with answers: read as written, refused with their line when wrong."""

import os
from pathlib import Path

import pytest

from xscore.extensions.evaluation.metrics import EntityRef
from xscore.extensions.evaluation.questions import QrelCase, read_qrels
from xscore.platform.errors import UsageError
from xscore.platform.json_lines import MAX_BYTES


def test_lines_become_cases(tmp_path: Path) -> None:
    """Blank lines are skipped, fields of others ignored, spans optional."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(
        '{"id": "1", "query": "why?", "gold": [{"path": "a.py", "name": "f", "start": 2, "end": 5}], "why": 1}\n\n'
        '{"id": "2", "query": "how?", "gold": [{"path": "b.py", "name": "g"}]}\n'
    )
    assert read_qrels(file).cases == (
        QrelCase("1", "why?", (EntityRef("a.py", "f", 2, 5),)),
        QrelCase("2", "how?", (EntityRef("b.py", "g"),)),
    )


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"id": "1", "query": "q", "gold": []}',
        '{"id": 1, "query": "q", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": " ", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "q", "gold": [{"path": ""}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": NaN, "end": 4}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": 1e999, "end": 4}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": 9, "end": 4}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": 9}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "start": -1, "end": 4}]}',
        '{"id": "1", "query": "\\ud800", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "as reviewed", "query": "as asked", "gold": [{"path": "a"}]}',
        '{"id": "1", "query": "q", "gold": [{"path": "a", "path": "b"}]}',
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """What cannot be read as a case is refused with file and line number."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:2"):
        read_qrels(file)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """A file that is not there is the caller's mistake."""
    with pytest.raises(UsageError, match="cannot be read"):
        read_qrels(tmp_path / "none.jsonl")


@pytest.mark.parametrize("of", [Path("/dev/zero"), Path("/dev/null")])
def test_a_device_is_refused_at_once(tmp_path: Path, of: Path) -> None:
    """A link to what never ends is neither read for ever nor waited for."""
    link = tmp_path / "questions.jsonl"
    link.symlink_to(of)
    for name in (of, link):
        with pytest.raises(UsageError, match="is no regular file"):
            read_qrels(name)


def test_a_pipe_and_a_folder_are_refused_at_once(tmp_path: Path) -> None:
    """Nobody writes to the pipe, and nobody waits for that."""
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="is no regular file"):
            read_qrels(name)


def test_a_file_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    """A set of questions is small; what is not is told so before it fills the memory."""
    file = tmp_path / "questions.jsonl"
    with file.open("wb") as opened:
        opened.truncate(MAX_BYTES + 1)
    with pytest.raises(UsageError, match="more than 50,000,000 bytes"):
        read_qrels(file)


def test_a_link_to_a_file_of_questions_is_followed(tmp_path: Path) -> None:
    """The caller named it; a link alone is no reason to refuse."""
    file, link = tmp_path / "questions.jsonl", tmp_path / "link.jsonl"
    file.write_text('{"id": "1", "query": "why?", "gold": [{"path": "a.py"}]}\n')
    link.symlink_to(file)
    assert read_qrels(link) == read_qrels(file)


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"])
def test_a_file_without_questions_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing can be measured with nothing."""
    file = tmp_path / "qrels.jsonl"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match="no question"):
        read_qrels(file)


def test_an_id_stands_for_one_question(tmp_path: Path) -> None:
    """The second of two equal ids is named with the line of the first."""
    file = tmp_path / "qrels.jsonl"
    line = '{"id": "q", "query": "why?", "gold": [{"path": "a.py"}]}\n'
    file.write_text(f"\n{line}{line}")
    with pytest.raises(UsageError, match=r"qrels\.jsonl:3: id `q` is that of line 2"):
        read_qrels(file)


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    """A file that is not UTF-8 is refused with the byte; a folder is as unreadable as a missing file."""
    file = tmp_path / "qrels.jsonl"
    file.write_bytes(b'{"id": "\xff"}')
    with pytest.raises(UsageError, match=r"not UTF-8: .* at byte 8"):
        read_qrels(file)
    with pytest.raises(UsageError, match="is no regular file"):
        read_qrels(tmp_path)


def test_a_line_end_of_unicode_is_none_of_json(tmp_path: Path) -> None:
    """A query may hold U+2028, files may begin with a byte order mark and end their lines as on Windows."""
    file = tmp_path / "qrels.jsonl"
    file.write_text('\ufeff{"id": "1", "query": "a\u2028b", "gold": [{"path": "a.py"}]}\r\n', "utf-8", newline="")
    assert read_qrels(file).cases[0].query == "a\u2028b"


def test_equal_questions_have_an_equal_digest(tmp_path: Path) -> None:
    """The digest is of the bytes, wherever the file is called what."""
    line = '{"id": "q", "query": "why?", "gold": [{"path": "a.py"}]}\n'
    for name, text in (("a", line), ("b", line), ("c", line + "\n")):
        (tmp_path / name).write_text(text)
    a, b, c = (read_qrels(tmp_path / name).digest for name in "abc")
    assert a == b != c
