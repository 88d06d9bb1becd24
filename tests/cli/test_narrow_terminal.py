"""On a narrow terminal prose is broken between words; a pipe gets whole lines."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES

ESTIMATE = ("estimate", "the discount is taken twice", "--judge", "openai:gpt-6-luna", "--pack-size", "1")
KEY = {"OPENAI_API_KEY": "sk-0123456789abcdef"}
Shown = Callable[..., str]


@pytest.fixture
def shown(own_home: Path) -> Shown:
    """Run `xscore …` on a terminal of so many columns; give back what it shows."""

    def run(*arguments: str, cwd: Path, columns: int) -> str:
        ours, theirs = pty.openpty()
        environ = {**os.environ, **KEY, "HOME": str(own_home), "TERM": "dumb", "COLUMNS": str(columns)}
        process = subprocess.Popen(
            [sys.executable, "-m", "xscore", *arguments], cwd=cwd, env=environ, stdin=theirs, stdout=theirs,
            stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 65_536):
                seen += piece
        except OSError:  # the program has left the terminal
            pass
        finally:
            os.close(ours)
        assert process.wait(timeout=30) == 0, seen
        return seen.decode().replace("\r\n", "\n")

    return run


def test_lines_of_an_estimate_fit_the_terminal_and_lose_nothing(make_repo: MakeRepo, shown: Shown, xscore: Run) -> None:
    """At 60 columns each line fits and the words are those of a pipe, where every line is whole."""
    shop = make_repo(FILES)
    piped = xscore(*ESTIMATE, cwd=shop, environ=KEY).stdout
    narrow = shown(*ESTIMATE, cwd=shop, columns=60)
    assert max(len(line) for line in narrow.splitlines()) <= 60 < max(len(line) for line in piped.splitlines())
    assert narrow.split() == piped.split()
