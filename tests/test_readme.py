"""The README is executed: its commands parse, its example runs, its links work."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES
from xscore.cli.main import xscore_command

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCES = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
BLOCKS = FENCES.findall(README)
SHOWING = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

STANDS_FOR = {'"$began"': "2026-11-01T08:00:00Z", "../other": ".."}
"""Placeholders in a page, with real values."""


def commands() -> list[str]:
    """Return every `xscore …` command in these pages' blocks, without redirections, pipes and
    comments."""
    commands_found = []
    for _, block in FENCES.findall("".join(page.read_text("utf-8") for page in SHOWING)):
        for line in block.splitlines():
            shown = line.removeprefix("$ ").split(" #")[0]
            match = re.search(r"(?:^|=\S+ |^echo .* \| )xscore (.*)", shown)
            if match and not shown.startswith(("from ", "import ")):
                commands_found.append(re.split(r"\s[|<]\s", match[1])[0].strip())
    return commands_found


def parse(line: str) -> None:
    """Find a line's command, through its groups, and parse its arguments. Raises click's errors."""
    name, *arguments = shlex.split(
        re.sub("|".join(map(re.escape, STANDS_FOR)), lambda it: STANDS_FOR[it[0]], line)
    )
    context = xscore_command.make_context("xscore", ["status"])
    command = xscore_command.get_command(context, name)
    while isinstance(command, click.Group):
        context = command.make_context(name, list(arguments), parent=context)
        name, *arguments = arguments
        command = command.get_command(context, name)
    if command is None:
        raise click.UsageError(f"no such command: {name}")
    command.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("line", dict.fromkeys(commands()))
def test_every_command_shown_parses(line: str) -> None:
    """Commands, including those in groups, and options in the README and the docs exist."""
    parse(line)


@pytest.mark.parametrize(
    "line",
    ["frobnicate", "memory nosuch", "memory list --nosuch", "decision add", "graph no x"],
)
def test_what_is_not_there_does_not_parse(line: str) -> None:
    """The test above can fail: for a command, one in a group, an option, a missing argument."""
    with pytest.raises(click.UsageError):
        parse(line)


def test_the_readme_shows_commands() -> None:
    """The tests above are not empty."""
    assert len(commands()) >= 30


def test_the_python_example_runs(make_repo: MakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example runs as written, in its own repository, without a key."""
    monkeypatch.chdir(make_repo(FILES))
    block = next(code for language, code in BLOCKS if language == "python")
    exec(block, {})


def test_links_lead_somewhere() -> None:
    """Every relative link in the docs names an existing file."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_table_of_costs_is_what_estimate_says(tmp_path: Path) -> None:
    """The first row is recomputed, except for seconds; the others keep its price per memory."""
    program = [sys.executable, str(ROOT / "benchmarks" / "cost_table.py"), "--sizes", "1000"]
    done = subprocess.run(
        program,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    table = [
        line.strip("| ").split(" | ")
        for line in README[README.index("| memories |") :].splitlines()
    ]
    heads, _, *computed = (
        line.strip("| ").split(" | ") for line in done.stdout.splitlines()[:3]
    )
    assert (table[0], table[2][:-1]) == (heads, computed[0][:-1])
    for cells in table[3:5]:
        times = int(cells[0].replace(",", "")) / 1_000
        for cell, small in zip(cells[1:-1], computed[0][1:-1], strict=True):
            usd, unit = (
                float(estimate.split(", ")[0].removeprefix("$")) for estimate in (cell, small)
            )
            assert usd == pytest.approx(times * unit, rel=0.05)


def test_the_readme_lists_every_manual() -> None:
    """Every page of the manual is linked from another."""
    assert [page.name for page in SHOWING[1:] if f"(docs/{page.name})" not in README] == []


def test_what_leaves_the_machine_names_all_that_prompts_hold() -> None:
    """The table of README.md, to which the page on privacy refers, misses none of it."""
    _, _, table = README.partition("| to | what | when |\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert "](../README.md#what-leaves-your-machine)" in (ROOT / "docs/privacy.md").read_text()
    for part in (
        "error text",
        "came near",
        "latest exchanges",
        "checkpoint",
        "doctor --probe",
        "uncommitted diff",
    ):
        assert any(part in row for row in rows)
