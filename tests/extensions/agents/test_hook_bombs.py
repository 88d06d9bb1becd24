"""A hook in a repository with files that a grammar cannot cope with: it parses nothing itself and
ends in its time."""

import json
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, write_files
from tests.extensions.agents.hook_process import FILES, added, build_index, message, run_hook
from tests.indexer.bombs import BOMBS
from tests.waiting import slower_attempts

SCRIPT = {
    "default": 0.05,
    "rules": [{"entity": "total", "score": 0.9, "reason": "sums prices"}],
}
ADDRESS_SPACE = 2 << 30
DEADLINE_S = 3.0
WIDE_DEADLINE_S = 30.0
"""Time enough on any machine: that a short deadline is kept is a promise about wall time, for `make
verify`."""
LATE_S = 2.5
"""How long a busy machine may take to start Python, to render what is there and to end the
process."""
HANG_S = 40.0
"""No machine takes as long for that."""
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


def make_bombed(root: Path) -> Path:
    """Make an indexed repository into which somebody's branch has brought bombs."""
    root.mkdir()
    write_files(root, FILES)
    build_index(commit_all(root))
    write_files(root, BOMBS)
    return root


@pytest.fixture(autouse=True)
def judged_by_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process uses a scripted judge."""
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    monkeypatch.setenv("XSCORE_JUDGE_MODEL", f"scripted:{tmp_path / 'script.json'}")


def cpu_seconds_of_children() -> float:
    """Return how much CPU time the ended children of this process have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_measured(event: str, root: Path) -> float:
    """Run a hook, which may use no more CPU time than its deadline leaves; return how long it
    took in seconds."""
    name, fields = EVENTS[event]
    begun, used_before_s = time.monotonic(), cpu_seconds_of_children()
    done = run_hook(event, message(root, name, **fields), before=limit_memory)
    took_s, used_s = time.monotonic() - begun, cpu_seconds_of_children() - used_before_s
    added(done)
    assert used_s < DEADLINE_S + LATE_S
    assert took_s < DEADLINE_S + HANG_S
    return took_s


def test_a_prompt_gets_what_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the context of the files that were read before; no bomb ends it, or takes all of its
    memory."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(WIDE_DEADLINE_S))
    root = make_bombed(tmp_path / "repo")
    done = run_hook("prompt", message(root, EVENTS["prompt"][0]), before=limit_memory)
    assert "cart.py:1-3" in added(done)


@pytest.mark.verify
@pytest.mark.parametrize("event", EVENTS)
def test_no_event_waits_for_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    """Each ends within its deadline, again and again, whatever the background has done
    meanwhile."""
    monkeypatch.setenv("XSCORE_AGENTS_HOOK_DEADLINE_S", str(DEADLINE_S))
    # The deadline stays; only the time that a busy machine adds to it may be longer.
    for attempt in slower_attempts():
        with attempt:
            root = make_bombed(tmp_path / f"repo_{attempt.number}")
            longest_s = max(run_measured(event, root) for _ in range(3))
            attempt.needs(
                longest_s < DEADLINE_S + LATE_S * attempt.slowness,
                f"one took {longest_s:.1f} s",
            )
