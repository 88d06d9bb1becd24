"""The page about the way of a turn names what a real turn passes, in the order in which it does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import xscore
from tests.servers import OpenAIServer
from tests.servers.decision_server import DecisionServer
from tests.servers.scoring import table

PACKAGE = Path(xscore.__file__).parent
PAGE = PACKAGE.parent / "docs" / "internals" / "the-way-of-a-turn.md"
ROW = re.compile(
    r"\| \d+ \| `(?P<file>\S+)` \| `(?P<function>\S+)` \| (?:`(?P<record>\w+)`)? ?\|"
)
FOLLOWED = """
import json, sys, threading

package, trace_file = sys.argv[1], sys.argv[2]
returned = {}  # in the order of the first call: file and function -> names of what came back

def follow(frame, event, value):
    code = frame.f_code
    if event in ("call", "return") and code.co_filename.startswith(package):
        kinds = returned.setdefault((code.co_filename[len(package) + 1:], code.co_qualname), set())
        if event == "return":
            kinds.add(type(value).__name__)

from xscore.cli import main

sys.argv = ["xscore", *sys.argv[3:]]
threading.setprofile(follow)
sys.setprofile(follow)
try:
    main.run_command_line()
finally:
    sys.setprofile(None)
    threading.setprofile(None)
    with open(trace_file, "w") as file:
        json.dump([[*place, sorted(kinds)] for place, kinds in returned.items()], file)
"""


class Stop(NamedTuple):
    """A row of the page, or a function that a turn passed."""

    file: str
    function: str


@pytest.fixture
def passed(shop: Path, tmp_path: Path) -> dict[Stop, list[str]]:
    """What a turn passed, in order, and the types of what came back from there."""
    trace = tmp_path / "trace.json"
    command = ["ask", "Why is the discount wrong?", "--judge", "systemone:jev-1.14.0", "-y"]
    with (
        DecisionServer(score=table({"::discount": 95}, default=4)) as judge,
        OpenAIServer() as answerer,
    ):
        environ = {
            "SYSTEMONE_BASE_URL": judge.url,
            "OPENAI_BASE_URL": answerer.url,
            "OPENAI_API_KEY": "loopback",
            "PYTHONPATH": str(PACKAGE.parent),
        }
        done = subprocess.run(
            [sys.executable, "-c", FOLLOWED, str(PACKAGE), str(trace), *command],
            cwd=shop,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    rows = json.loads(trace.read_text("utf-8"))
    return {Stop(file, function): kinds for file, function, kinds in rows}


def test_a_turn_passes_every_stop_of_its_page_in_that_order(
    passed: dict[Stop, list[str]],
) -> None:
    """Each named function is called, after the one above it, and returns the named record."""
    stops = {
        Stop(row["file"], row["function"]): row["record"]
        for row in ROW.finditer(PAGE.read_text("utf-8"))
    }
    assert len(stops) >= 20
    places = list(passed)
    assert [stop for stop in stops if stop not in passed] == []
    assert list(stops) == sorted(stops, key=places.index)
    wrong = {
        stop: passed[stop]
        for stop, record in stops.items()
        if record is not None and record not in passed[stop]
    }
    assert wrong == {}
