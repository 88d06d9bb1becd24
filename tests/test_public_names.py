"""The public names, and what importing them costs: modules, never times."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import xscore

NAMES = """
Answer Interrupted JudgeOptions JudgedItem JudgedItems ListReceipt OpenFolder Pipeline Scope
Settings Turn XscoreError
judge judge_async judge_stream open
"""


def test_the_public_names_are_these() -> None:
    """A name is added or removed deliberately: here, in the changelog, and by the deprecation
    policy."""
    assert sorted(xscore.__all__) == sorted(NAMES.split())
    assert all(getattr(xscore, name).__doc__ for name in xscore.__all__)
    assert set(xscore.__all__) <= set(dir(xscore))
    assert files("xscore").joinpath("py.typed").is_file()


def test_importing_loads_the_package_and_nothing_else() -> None:
    """`import xscore` loads one module: none of its own, no SDK, no event loop, not even
    `typing`."""
    code = (
        "import sys; before = set(sys.modules); import xscore; print(sorted(set(sys.modules) -"
        " before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['xscore']\n"


@pytest.mark.verify
@pytest.mark.timeout(600)
def test_a_type_checker_knows_every_type() -> None:
    """Every exported symbol has a type, so that all type checkers agree."""
    folder = Path(xscore.__file__).parents[1]
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--verifytypes",
        "xscore",
        "--ignoreexternal",
    ]
    # It asks the first `python` for packages.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    faults = [line for line in done.stdout.splitlines() if " error: " in line]
    assert (done.returncode, faults) == (0, []), done.stderr
    assert "Type completeness score: 100%" in done.stdout
