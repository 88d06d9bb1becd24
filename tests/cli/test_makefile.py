"""The Makefile passes the question to xscore exactly as typed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
HOSTILE = [
    "why is a store refused?",
    "$(shell touch made-by-make)",
    "`touch made-by-shell` $(touch made-by-shell) $HOME $5 $$",
    'it\'s "quoted" \\ %s %d #comment; exit 3',
    "two\nlines",
]


@pytest.fixture(autouse=True)
def outermost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the variables of the make that may be running these tests."""
    for name in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and an installed environment, whose `xscore` echoes its standard
    input."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "ci" / "locks").mkdir(parents=True)
    for built_file in ("pyproject.toml", "ci/locks/run.txt"):
        (tmp_path / built_file).touch()
    (binaries / "python").touch()
    (tmp_path / ".venv" / ".installed").touch()
    (binaries / "xscore").write_text('#!/bin/sh\ncat\nprintf " [%s]" "$*"\n')
    (binaries / "xscore").chmod(0o755)
    return tmp_path


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("question", HOSTILE)
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_the_question_is_not_expanded(question: str, way: str, checkout: Path) -> None:
    """Neither make nor a shell interprets the question, whichever way it is given."""
    argument = [f"Q={question}"] if way == "argument" else []
    environment = {**os.environ, "Q": question}
    done = subprocess.run(
        ["make", "ask", *argument],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{question} [ask - --judge lexical --no-answer]"
    assert not [path for path in checkout.iterdir() if path.name.startswith("made-by")]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(("ends", "fails"), [(0, False), (1, False), (3, True)])
def test_finding_nothing_is_no_error_of_make(ends: int, fails: bool, checkout: Path) -> None:
    """Exit code 1 says that nothing was found; any other of xscore's is make's as well."""
    (checkout / ".venv" / "bin" / "xscore").write_text(f"#!/bin/sh\nexit {ends}\n")
    done = subprocess.run(
        ["make", "ask", "Q=x"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == fails and ("Error" in done.stderr) == fails
