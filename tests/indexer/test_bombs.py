"""A file on which a grammar takes time or memory by the square loses its entities; no command fails
or waits for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.conftest import MakeRepo
from tests.indexer.bombs import BOMBS, LIMITED, MORE_BOMBS, SNIPPET, check_cost, file_cost

ALL = {
    path: text for path, text in {**BOMBS, **MORE_BOMBS}.items() if not path.endswith(".ipynb")
}
"""A notebook in a repository would need its JSON around the cells."""


@pytest.mark.parametrize("path", BOMBS)
def test_a_bomb_costs_a_second_and_its_entities(path: str) -> None:
    """The kernel bounds CPU time and memory, though the grammar holds the interpreter's lock; no
    line is lost."""
    assert check_cost(path, BOMBS[path]).note.endswith("; cut into windows of lines")


@pytest.mark.verify
@pytest.mark.parametrize("path", MORE_BOMBS)
def test_more_bombs(path: str) -> None:
    """The same for others of these kinds."""
    check_cost(path, MORE_BOMBS[path])


def test_what_takes_too_much_without_a_grammar_is_left_out() -> None:
    """A file that ends its process twice has no memories and a note."""
    cost = file_cost("notes.txt", "One line.", window_lines=0)  # which no setting allows
    assert cost.rows == 0
    assert cost.note == "too slow or large even without the grammar; left out"


def index(root: Path, *arguments: str) -> dict[str, Any]:
    """Index by the real command, which cannot take the machine's memory; return its report."""
    done = programs.run("index", "--json", *arguments, cwd=root, program=LIMITED)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_bomb_is_tried_once(make_repo: MakeRepo) -> None:
    """It is indexed with its note, other files keep their entities, and a later run does not try it
    again."""
    root = make_repo({"attributes.rs": BOMBS["attributes.rs"], "shop.py": SNIPPET})
    first = index(root)
    assert (first["files"]["indexed"], first["memories"]["by_kind"]["function"]) == (2, 1)
    assert [note.partition(":")[0] for note in first["notes"]] == ["attributes.rs"]
    second = index(root)
    assert second["files"]["indexed"] == 0
    assert second["files"]["unchanged"] == 2
    assert second["notes"] == []


@pytest.mark.verify
def test_a_clone_full_of_bombs_is_indexed_and_asked(make_repo: MakeRepo) -> None:
    """With 2 GB of address space both commands succeed, and every other file has its entities."""
    root = make_repo({**ALL, "shop.py": SNIPPET, "README.md": "# Shop\n"})
    ask = (
        "ask",
        "Where does `total` sum the lines?",
        "--judge",
        "lexical",
        "--no-answer",
        "-y",
    )
    done = programs.run(*ask, cwd=root, program=LIMITED)
    assert done.returncode == 0, done.stderr
    assert "shop.py" in done.stdout
    report = index(root)
    assert report["files"]["unchanged"] == len(ALL) + 2
    assert report["memories"]["by_kind"]["function"] == 1


NO_PROCESS = """
import sys
sys.executable = sys.argv.pop(1)
from xscore.__main__ import run
run()
"""


@pytest.mark.parametrize("executable", ["/nowhere/python", "/bin/false"])
def test_without_a_process_nothing_is_parsed_until_there_is_one(
    make_repo: MakeRepo, executable: str
) -> None:
    """Where none can be started, files are cut into windows with a note; the next run that can
    parses them."""
    root = make_repo({"shop.py": SNIPPET})
    done = programs.run("index", "--json", cwd=root, program=("-c", NO_PROCESS, executable))
    report = json.loads(done.stdout)
    assert report["memories"]["by_kind"] == {"text": 1}
    assert report["notes"] == [
        "shop.py: no process could be started to parse; cut into windows of lines"
    ]
    assert index(root)["memories"]["by_kind"] == {"function": 1}
