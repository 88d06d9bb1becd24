"""What a step tells the runner is read as intended, whatever it contains."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci import run_command
from ci.conclude import conclude
from ci.run_command import NotACommand, command_line
from ci.runner import annotate, environment, fenced, note, set_output
from tests.ci.fake_runner import ROOT, Annotation, annotations, outputs_of

LINES = st.text(
    st.characters(
        exclude_categories=["Cs"], exclude_characters="\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    )
)


@settings(max_examples=60)
@given(title=LINES, message=LINES)
def test_an_annotation_is_read_as_it_was_meant(title: str, message: str) -> None:
    """Title and message survive the round trip: commas, colons, percent signs, line ends, other
    commands."""
    import contextlib
    import io

    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        annotate("error", title, message)
    assert log.getvalue().count("\n") == 1
    assert list(annotations(log.getvalue())) == [Annotation("error", title, message)]


@pytest.mark.parametrize(
    "value", ["", "a", "two\nlines", "a<<b", "x=y\nend-0\nz=1", "::error::x"]
)
def test_an_output_is_read_as_it_was_meant(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value cannot smuggle in a second output, whatever its lines contain."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "out"))
    set_output("first", value)
    set_output("second", "2")
    assert dict(outputs_of((tmp_path / "out").read_text("utf-8"))) == {
        "first": value,
        "second": "2",
    }


def test_what_is_fenced_is_no_command(capfd: pytest.CaptureFixture[str]) -> None:
    """Inside the fence neither our text nor a child process's is a command; after it, commands
    work."""
    with fenced():
        print("::error title=planted::x\n::stop-commands::y\n::y::")
        subprocess.run(
            [sys.executable, "-c", "print('::error title=planted::z', end='')"], check=True
        )
    annotate("notice", "ours", "after")
    assert [annotation.title for annotation in annotations(capfd.readouterr().out)] == ["ours"]


def test_a_note_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A note cannot start a line with a command."""
    note("a\n::error::b")
    assert list(annotations(capsys.readouterr().out)) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("eval q.jsonl", ["eval", "q.jsonl"]),
        (
            "ask 'two words' --no-answer\n--quiet",
            ["ask", "two words", "--no-answer", "--quiet"],
        ),
        ('ask "$(touch made) `id`; id > x"', ["ask", "$(touch made) `id`; id > x"]),
        ("context -- --json", ["context", "--", "--json"]),
    ],
)
def test_a_command_is_words(command: str, words: list[str]) -> None:
    """Arguments are split as a shell splits them, without running anything; our flags come before
    the command's."""
    assert command_line(command, max_usd="", replay=False) == words
    assert command_line(command, max_usd="0.5", replay=True) == [
        words[0],
        "--replay",
        "--max-usd=0.5",
        *words[1:],
    ]


def test_a_check_is_asked_for_markdown() -> None:
    """Unless another form is named; without a key no model is named either."""
    plain = command_line("check --diff a..b", max_usd="", replay=False)
    assert plain == ["check", "--format=markdown", "--diff", "a..b"]
    sarif = command_line("check --format sarif", max_usd="", replay=False, lacks_key=True)
    assert sarif == ["check", "--judge=lexical", "--format", "sarif"]


@pytest.mark.parametrize(
    "command", ["ask hi --max-usd 9", "eval q --max-usd=9", "ask --max-usd 9 -- hi"]
)
def test_a_cap_is_given_once(command: str) -> None:
    """A cap among the arguments is refused if the input sets one, and accepted if it does not."""
    with pytest.raises(NotACommand, match="given twice"):
        command_line(command, max_usd="1", replay=False)
    assert command_line(command, max_usd="", replay=False) == command.split()
    assert command_line("ask -- --max-usd", max_usd="1", replay=False) == [
        "ask",
        "--max-usd=1",
        "--",
        "--max-usd",
    ]


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"COMMAND": "memory wipe --layer user"}, "must begin with"),
        ({"COMMAND": "ask 'open"}, "cannot be read"),
        ({"COMMAND": "ask -", "STDIN": "nosuch.txt"}, "names no file"),
        ({"COMMAND": "ask hi", "REPLAY": "sometimes"}, "is one of"),
        ({"COMMAND": "ask hi --max-usd 9", "MAX_USD": "1"}, "given twice"),
    ],
)
def test_inputs_that_say_nothing_are_refused(
    inputs: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A wrong input is an error with its name, exit code 2, before anything starts."""
    for name, value in inputs.items():
        monkeypatch.setenv(name, value)
    assert run_command.main() == 2
    [annotation] = annotations(capsys.readouterr().out)
    assert annotation.level == "error" and words in annotation.message


def test_a_key_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret withheld from a fork is an empty string; xscore sees neither a key nor our modules'
    path."""
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("PYTHONPATH", "/action")
    assert {"OPENAI_API_KEY", "PYTHONPATH"}.isdisjoint(environment())
    assert environment()["ANTHROPIC_API_KEY"] == "k"


@pytest.mark.parametrize(
    ("ran", "gate", "lacks_key", "ends"),
    [
        (0, 0, False, 0),
        (1, 0, False, 0),
        (0, 5, False, 5),
        (1, 5, False, 5),
        (0, 2, False, 2),
        (2, 0, False, 2),
        (3, 0, False, 3),
        (4, 5, False, 4),
        (7, 0, True, 7),
        (130, 0, False, 130),
        (0, 5, True, 5),
        (1, 5, True, 0),
        (3, 2, True, 0),
    ],
)
def test_how_it_ends(
    ran: int, gate: int, lacks_key: bool, ends: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's exit code counts first, then the gate's; a run without a key that could not
    judge passes."""
    assert conclude(ran, gate, lacks_key=lacks_key) == ends
    printed_annotations = list(annotations(capsys.readouterr().out))
    assert bool(printed_annotations) == ((ran, gate) != (0, 0))
    assert ("error" in [annotation.level for annotation in printed_annotations]) == (ends != 0)


def test_no_module_of_the_checkout_stands_in_for_ours(tmp_path: Path) -> None:
    """A `json.py` or a `ci` folder in the checkout is never imported."""
    (tmp_path / "json.py").write_text("open('made', 'w')")
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/__init__.py").write_text("open('made', 'w')")
    environ = {
        "PYTHONPATH": str(ROOT),
        "EXIT_CODE": "0",
        "GITHUB_OUTPUT": str(tmp_path / "out"),
    }
    words = [sys.executable, "-P", "-m", "ci.conclude"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "made").exists()
