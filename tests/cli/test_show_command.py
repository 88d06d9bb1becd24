"""`xscore show` and `ask --open`: the page goes to a file, a pipe or the browser; a turn that has
none is named."""

import json
import re
import stat
from pathlib import Path

from tests.cli.basket import TASK
from tests.cli.conftest import Run


def browser_that_notes(folder: Path) -> dict[str, str]:
    """Return the environment in which the browser is a program that notes what it is to open."""
    program = folder / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {folder / "opened"}\n')
    program.chmod(0o755)
    return {"BROWSER": str(program)}


def test_the_page_goes_to_a_pipe_and_to_a_file(
    xscore: Run, process: Run, basket: Path, scripted: tuple[str, ...], tmp_path: Path
) -> None:
    """A pipe gets the page, the same bytes in any locale; -o writes them, and --json says where."""
    xscore("ask", TASK, *scripted, "-y", cwd=basket)
    piped = xscore("show", cwd=basket)
    assert piped.returncode == 0
    assert piped.stdout.startswith("<!doctype html>") and TASK in piped.stdout

    narrow = process("show", cwd=basket, environ={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})
    making_time = re.compile(r"Made [0-9: -]+ UTC")
    assert making_time.sub("", narrow.stdout) == making_time.sub("", piped.stdout)

    page = tmp_path / "turn.html"
    written = xscore("show", "latest", "-o", str(page), "--json", cwd=basket)
    body = json.loads(written.stdout)
    assert Path(body["file"]) == page
    assert body["turn_id"] in page.read_text("utf-8")


def test_what_cannot_be_a_page_is_refused(
    xscore: Run, basket: Path, judge: tuple[str, ...]
) -> None:
    """A file of another kind, an unknown turn, a store without one: each is said, and nothing is
    written."""
    empty = xscore("show", cwd=basket)
    assert (empty.returncode, empty.stdout) == (1, "")
    xscore("ask", TASK, *judge, "--no-answer", "-q", cwd=basket)
    assert xscore("show", "-o", "turn.txt", cwd=basket).returncode == 2
    assert xscore("show", "t_none", cwd=basket).returncode == 1
    assert not (basket / "turn.txt").exists()


def test_a_turn_opens_in_the_browser(
    xscore: Run, basket: Path, judge: tuple[str, ...], tmp_path: Path
) -> None:
    """`ask --open` prints the turn as always and opens its page, which only the user may read."""
    environ = browser_that_notes(tmp_path)
    answered = xscore(
        "ask", TASK, *judge, "--no-answer", "--open", "--json", cwd=basket, environ=environ
    )
    assert json.loads(answered.stdout)["selected"]
    page = Path((tmp_path / "opened").read_text().strip().removeprefix("file://"))
    assert TASK in page.read_text("utf-8")
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert xscore("ask", "--batch", "list.jsonl", "--open", cwd=basket).returncode == 2
