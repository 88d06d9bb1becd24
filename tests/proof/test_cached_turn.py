"""A fully cached turn is light: it imports nothing it does not need. `benchmarks/` measures its CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo
from tests.pipeline.conftest import FILES

HEAVY = {"openai", "anthropic", "polars", "numpy", "aiohttp", "tree_sitter", "genai_prices"}
UNUSED = ("xscore.shared.", "xscore.offline.", "xscore.prompts.questions", "xscore.extensions.batch.shared_prompts")
"""Modules needed only for a shared server, a batch or questions that share a prompt."""
ASK = """
import sys
from xscore.cli.main import run_command_line
try:
    run_command_line()
finally:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def asked(root: Path, home: Path, judge: str) -> tuple[dict[str, Any], set[str]]:
    """Ask in a new process; return the receipt and the modules loaded at its end."""
    flags = ("--judge", judge, "--no-answer", "--json", "--quiet")
    done = subprocess.run(
        [sys.executable, "-c", ASK, "ask", "where is the discount taken?", *flags],
        cwd=root,
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), set(done.stderr.split())


@pytest.fixture
def judge(tmp_path: Path) -> str:
    """A scripted judge that keeps one function."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"default": 0.05, "rules": [{"entity": "discount", "score": 0.9, "reason": "it"}]}))
    return f"scripted:{script}"


def test_a_cached_turn_loads_nothing_heavy(make_repo: MakeRepo, own_home: Path, judge: str) -> None:
    """X28: the same turn again, in a new process, loads no SDK, parser, price table or array library."""
    root = make_repo(FILES)
    cold, parsed = asked(root, own_home, judge)
    cached, loaded = asked(root, own_home, judge)
    coverage = cached["coverage"]
    assert cold["coverage"]["judged"] == coverage["cached"] == coverage["candidates"] > 0
    assert [memory["entity"] for memory in cached["selected"]] == ["discount"]
    assert "tree_sitter" in parsed, "the first turn had files to parse, so the list of modules is to be believed"
    assert loaded & HEAVY == set()
    assert [name for name in loaded if name.startswith(UNUSED)] == []
    assert "xscore.pipeline.turn" in loaded
