"""The help of each command."""

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Run

PAGES = ["", "ask"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page or "xscore")
def test_help(page: str, xscore: Run, snapshot: SnapshotAssertion) -> None:
    """A command's help changes only on purpose."""
    done = xscore(*page.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot
