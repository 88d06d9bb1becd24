"""The recipes for a CI in the documents, run by a shell as they stand there, twice within the hour."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES

DOCS = Path(__file__).parents[2] / "docs"
QUESTION = '{"id": "1", "query": "where is a line added to the cart?", "gold": [{"path": "shop/cart.py"}]}\n'


def recipe(page: str) -> list[str]:
    """The lines of the block that notes when it began."""
    blocks = re.findall(r"```\n(began=.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    (block,) = blocks
    return str(block).splitlines()


@pytest.fixture
def shell(make_repo: MakeRepo, tmp_path: Path, own_home: Path) -> "Shell":
    """A shell in a repository with questions, with `xscore` on its path and no key."""
    program = tmp_path / "bin" / "xscore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m xscore "$@"\n')
    program.chmod(0o755)
    return Shell(make_repo({**FILES, ".github/questions.jsonl": QUESTION}), program.parent, own_home)


class Shell:
    """Runs lines, and says what came of them."""

    def __init__(self, root: Path, programs: Path, home: Path) -> None:
        self.root = root
        self.environ = {**os.environ, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, lines: list[str]) -> subprocess.CompletedProcess[str]:
        """Run the lines in the second after the one of the run before, as the recipe counts whole seconds."""
        time.sleep(1 - time.time() % 1)
        command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        return subprocess.run(
            command, cwd=self.root, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.mark.verify
def test_the_recipe_for_gates_passes_again_and_again(shell: Shell) -> None:
    """The same questions a second time within the hour are no other workload."""
    began, evaluated, update, check = recipe("costs.md")
    first = shell.run([began, evaluated, update])
    assert first.returncode == 0, first.stderr
    for _ in range(2):
        again = shell.run([began, evaluated, check])
        assert again.returncode == 0 and "gates: " in again.stderr, again.stderr


@pytest.mark.verify
def test_the_recipe_for_other_systems_passes_again_and_again(shell: Shell) -> None:
    """What the action does, in the lines that the manual shows."""
    began, out, evaluated, *reports = recipe("ci.md")
    update = recipe("costs.md")[2]
    assert shell.run([began, evaluated, update]).returncode == 0
    for _ in range(2):
        again = shell.run([began, out, evaluated, *reports, 'wc -c "$out/page.html" "$out/summary.md"'])
        assert again.returncode == 0 and "## xscore report" in again.stdout, again.stderr
