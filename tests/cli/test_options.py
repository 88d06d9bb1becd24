"""Flags to records."""

import io
import sys
from pathlib import Path

import pytest
from click import BadParameter

from xscore.cli.options import OVERRIDES, SELECTION, Flags, PeriodType
from xscore.platform.errors import UsageError
from xscore.settings import load_settings, setting_names

BARE: dict[str, object] = {"file": None, "errors": None, "recent": (), "glob": (), "type": (), "layer": ()}


def flags(**given: object) -> Flags:
    """Flags as click would hand them over."""
    return Flags({**BARE, **given})


def test_every_override_names_a_setting() -> None:
    """Each flag that overrides names settings that exist."""
    assert {name for names in OVERRIDES.values() for name in names} <= set(setting_names())


def test_threshold_speaks_of_whichever_judge() -> None:
    """`--threshold` sets the threshold of the model and of the lexical judge."""
    loaded = load_settings(repo_root=None, user_file=None, environ={}, flags=flags(threshold=0.25).overrides)
    assert (loaded.settings.selection.threshold, loaded.settings.selection.lexical_threshold) == (0.25, 0.25)
    assert loaded.origins["selection.threshold"] == "flag"


def test_flags_not_given_change_nothing() -> None:
    """Without flags every setting keeps its default."""
    loaded = load_settings(
        repo_root=None, user_file=None, environ={}, flags=flags(**dict.fromkeys(SELECTION)).overrides
    )
    assert set(loaded.origins.values()) == {"default"}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("30s", 30), ("90m", 5_400), ("2min", 120), ("24h", 86_400), (" 7 d ", 604_800), ("2w", 1_209_600)],
)
def test_a_stretch_of_time(given: str, seconds: int) -> None:
    """Whole numbers of seconds, minutes, hours, days, weeks."""
    assert PeriodType().convert(given, None, None) == seconds


@pytest.mark.parametrize("given", ["", "7", "d", "0d", "-1d", "1.5h", "1y", "9999999s", "٣d", "1h30m"])
def test_no_stretch_of_time(given: str) -> None:
    """Nothing, no unit, zero, fractions and other units are refused with examples."""
    with pytest.raises(BadParameter, match="Write 30s, 90m, 24h, 7d or 2w"):
        PeriodType().convert(given, None, None)


def test_no_git() -> None:
    """`--no-git` turns git off."""
    assert flags(no_git=True).overrides["index.git"] is False


@pytest.mark.parametrize(
    ("given", "file", "line"),
    [
        ("a.py", "a.py", 0),
        ("a.py:12", "a.py", 12),
        ("a.py:x", "a.py:x", 0),
        ("b:7", "b:7", 0),
        ("a:" + "9" * 30, "a:" + "9" * 30, 0),
        (None, "", 0),
    ],
)
def test_file_and_line(
    given: str | None, file: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`F:LINE` is split, but a file that is really called so wins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b:7").touch()
    turn = flags(file=given).turn("x")
    assert (turn.file, turn.line) == (file, line)


def test_bytes_of_the_command_line_are_written_as_in_listings() -> None:
    """A glob with a byte that is not UTF-8 meets the paths as the store writes them; other text stays as typed."""
    assert flags(glob=("b\udcff/*.py", "ü%FF")).turn("x").scope.paths == ("b%FF/*.py", "ü%FF")


def test_task_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads the task from standard input, whatever its bytes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"why \xff\xfe?\n")))
    assert flags().turn("-").task == "why \ufffd\ufffd?\n"


def test_errors_from_a_file(tmp_path: Path) -> None:
    """`--errors FILE` reads the file; one that is not there is a usage error that names it."""
    (tmp_path / "trace.txt").write_text("ValueError: no\n")
    assert flags(errors=str(tmp_path / "trace.txt")).turn("x").errors == "ValueError: no\n"
    with pytest.raises(UsageError, match=r"gone\.txt cannot be read"):
        flags(errors=str(tmp_path / "gone.txt")).turn("x")


def test_two_readers_of_stdin() -> None:
    """The task and the errors cannot both come from standard input."""
    with pytest.raises(UsageError, match="both"):
        flags(errors="-").turn("-")


def test_scope_and_recent() -> None:
    """Narrowing and recent files reach the turn in order."""
    turn = flags(glob=("src/**",), type=("test",), layer=("graph",), recent=("b.py", "a.py")).turn("x")
    assert (turn.scope.paths, turn.scope.kinds, turn.scope.layers) == (("src/**",), ("test",), ("graph",))
    assert turn.recent == ("b.py", "a.py")


def test_task_with_stray_bytes() -> None:
    """A task whose argv bytes are not UTF-8 is taken with replacements."""
    assert flags().turn("caf\udce9").task == "caf\ufffd"
