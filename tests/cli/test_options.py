"""Command-line flags as records."""

from pathlib import Path

import pytest
from click import BadParameter

from ci.reference import all_commands
from xscore.cli.flags import Flags
from xscore.cli.options import period_s
from xscore.settings import setting_names

BARE: dict[str, object] = {
    "file": None,
    "errors": None,
    "recent": (),
    "glob": (),
    "type": (),
    "layer": (),
}


def flags(**values: object) -> Flags:
    """Return flags as click passes them."""
    return Flags({**BARE, **values})


def test_every_override_names_a_setting() -> None:
    """Every setting that an option overrides exists."""
    sets = {
        setting
        for _, command in all_commands()
        for parameter in command.params
        for setting in getattr(parameter, "sets", ())
    }
    assert len(sets) > 20 and sets <= set(setting_names())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("90m", 5_400),
        ("2min", 120),
        ("24h", 86_400),
        (" 7 d ", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_a_stretch_of_time(text: str, seconds: int) -> None:
    """Seconds, minutes, hours, days, weeks."""
    assert period_s(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "7", "0d", "-1d", "1y", "٣d", "1h30m"])
def test_no_stretch_of_time(text: str) -> None:
    """Empty, zero, a number without a unit and unknown units are refused with examples."""
    with pytest.raises(BadParameter, match="Write 30s, 90m, 24h, 7d or 2w"):
        period_s(text)


@pytest.mark.parametrize(
    ("argument", "file", "line"),
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
    argument: str | None, file: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`F:LINE` is split, unless a file has exactly that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b:7").touch()
    turn = flags(file=argument).turn("x")
    assert (turn.file, turn.line) == (file, line)
