"""Lines that tell nothing of their own are read in one: no byte, number or place of theirs is lost by it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.session_writers import Import, Past
from xscore.extensions.sessions import session_lines
from xscore.extensions.sessions.session_format import SessionLine

HEAD = "# aider chat started at 2026-11-20 09:00:00\n\n"


def read(data: bytes, *, speaking: bytes = b"", offset: int = 0, number: int = 1) -> list[SessionLine]:
    """Read a file from a line on: line by line, or in runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.md"
        path.write_bytes(data)
        with session_lines.open_session_file(path) as file:
            if speaking:
                return list(session_lines.read_runs(path, file, speaking, offset=offset, number=number))
            return list(session_lines.read_lines(path, file, offset=offset, number=number))


def apart(runs: list[SessionLine]) -> list[tuple[int, bytes]]:
    """Number and data of each line."""
    return [(run.number + n, data) for run in runs for n, data in enumerate(run.data.split(b"\n"))]


@given(st.lists(st.sampled_from([b"", b"a", b"#### b", b"> c", b"```", b"\xc3\xa9\r", b" # d", b"\r"])), st.booleans())
def test_runs_are_the_lines(given_lines: list[bytes], ended: bool) -> None:
    """Taken apart, the runs are the lines; each that tells something stands alone, and reading goes on after any."""
    data = b"\n".join(given_lines) + b"\n" * ended
    one_by_one, runs = read(data), read(data, speaking=b"#>`")
    assert apart(runs) == [(line.number, line.data) for line in one_by_one]
    assert all(run.lines == 1 for run in runs if run.data[:1] in (b"#", b">", b"`"))
    assert sum(run.lines for run in runs) == len(one_by_one)
    for run in runs:
        if run.end > run.offset:
            rest = read(data, speaking=b"#>`", offset=run.end, number=run.number + run.lines)
            after = [(line.number, line.data) for line in one_by_one if line.number >= run.number + run.lines]
            assert apart(rest) == after


def test_very_long_lines_are_cut_within_runs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line longer than the limit is handed over as its beginning, and what stands around it is whole."""
    monkeypatch.setattr(session_lines, "MAX_LINE_BYTES", 2 << 20)
    data = b"one\ntwo\n" + b"x" * (3 << 20) + b"\nthree\nfour\n"
    found = read(data, speaking=b"#")
    assert apart(found) == [(n, line.data) for n, line in enumerate(read(data), 1)]
    assert [line.number for line in found if line.is_cut] == [3]


def test_an_answer_of_many_short_lines_is_kept_to_its_measure(root: Path, run: Import, past: Past) -> None:
    """Its end is that of the measure, not of a run; the next question is heard all the same (H15)."""
    answer = "".join(f"line {n}\n" for n in range(40_000))
    (root / ".aider.chat.history.md").write_text(f"{HEAD}#### one\n\n{answer}\n#### two\n\nShort.\n")
    run()
    first, second = past()
    assert first.text.rstrip().endswith("line 24282") and "line 0\n" in first.text
    assert second.text.endswith("Short.")


def test_the_line_without_a_head_is_named(root: Path, run: Import) -> None:
    """A refusal names the first line with words, also where blank lines were read in one with it."""
    (root / ".aider.chat.history.md").write_text("\n\n\n\nMy notes\nmore\n")
    assert run().refused[0].reason.startswith("line 5: expected `# aider chat")
