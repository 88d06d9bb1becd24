"""A hook in a repository with files that a grammar cannot stand: it parses nothing itself and ends
in its time."""

import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeRepo, write_files
from tests.extensions.agents.hook_process import FILES, added, build_index, message, run_hook
from tests.indexer.bombs import BOMBS

SCRIPT = {"default": 0.05, "rules": [{"entity": "total", "score": 0.9, "reason": "sums prices"}]}
ADDRESS_SPACE = 2 << 30
DEADLINE_S = 3.0
WIDE_DEADLINE_S = 30.0
"""Time enough on any machine: that a short deadline is kept is a promise about wall time, for `make
verify`."""
LATE_S = 2.5
"""How long a busy machine may take to start Python, to render what is there and to end the
process."""
MOST_RUNS = 5
EVENTS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "prompt": ("UserPromptSubmit", {}),
    "session-start": ("SessionStart", {"source": "startup"}),
    "post-edit": (
        "PostToolUse",
        {"tool_name": "Write", "tool_input": {"file_path": "comments.py"}},
    ),
    "stop": ("Stop", {}),
}


def limit_memory() -> None:
    """Keep a hook, and what it starts, from taking the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


@pytest.fixture
def root(make_repo: MakeRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An indexed repository into which somebody's branch has brought bombs."""
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", f"scripted:{tmp_path / 'script.json'}")
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(DEADLINE_S))
    repository = make_repo(FILES)
    build_index(repository)
    write_files(repository, BOMBS)
    return repository


def run_in_time(event: str, root: Path) -> str:
    """Run a hook until it keeps its time, which a busy machine may not give to each; return what
    it adds."""
    name, fields = EVENTS[event]
    for _ in range(MOST_RUNS):
        begun = time.monotonic()
        done = run_hook(event, message(root, name, **fields), before=limit_memory)
        is_in_time = time.monotonic() - begun < DEADLINE_S + LATE_S
        assert done.returncode == 0
        if is_in_time:
            break
    assert is_in_time
    return added(done)


def test_a_prompt_gets_what_is_indexed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the context of the files that were read before; no bomb ends it, or takes all of its
    memory."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(WIDE_DEADLINE_S))
    done = run_hook("prompt", message(root, EVENTS["prompt"][0]), before=limit_memory)
    assert "cart.py:1-3" in added(done)


@pytest.mark.verify
@pytest.mark.parametrize("event", EVENTS)
def test_no_event_waits_for_a_bomb(root: Path, event: str) -> None:
    """Each ends within its deadline, again and again, whatever the background has done
    meanwhile."""
    for _ in range(3):
        run_in_time(event, root)
