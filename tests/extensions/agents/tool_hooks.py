"""Run the hooks around a tool call as an agent does: the installed shell line, one JSON object on
its standard input."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xscore.extensions.agents.clients import CLIENTS, hook_entries

COMMAND = "python3 app.py --all"
ERROR = "Traceback (most recent call last):\nKeyError: 'price'"
PROGRAM = str(Path(sys.executable).with_name("xscore"))


def installed_line(hook: str, client: str = "claude-code") -> str:
    """Return the line that `xscore agent install` writes for a hook."""
    (entry,) = (entry for entry in hook_entries(CLIENTS[client], PROGRAM) if entry.hook == hook)
    (command,) = entry.value.get("hooks", [entry.value])
    return str(command["command"])


def call_message(root: Path, command: str = COMMAND, **fields: Any) -> dict[str, Any]:
    """Return a message about a shell command as Claude Code sends it."""
    return {
        "session_id": "s1",
        "cwd": str(root),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": "run it"},
        "tool_use_id": "toolu_1",
        **fields,
    }


def run_line(
    hook: str,
    message: Mapping[str, Any] | bytes,
    *,
    client: str = "claude-code",
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> bytes:
    """Run a hook's line to its end; return what it answers. It must exit with 0 and print nothing
    else."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    folder = cwd or (Path("/") if isinstance(message, bytes) else Path(message["cwd"]))
    done = subprocess.run(
        ["/bin/sh", "-c", installed_line(hook, client)],
        cwd=folder,
        input=data,
        env={**os.environ, "CI": "", **(environ or {})},
        capture_output=True,
        timeout=60,
        check=False,
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return done.stdout


def fail(root: Path, command: str = COMMAND, error: str = ERROR, **fields: Any) -> str:
    """Have a command fail; return what is said to the agent."""
    message = call_message(
        root,
        command,
        hook_event_name="PostToolUseFailure",
        error=f"Exit code 1\n{error}",
        is_interrupt=False,
        **fields,
    )
    return _added(run_line("tool-failed", message))


def succeed(root: Path, command: str = COMMAND, **fields: Any) -> None:
    """Have a command succeed."""
    message = call_message(
        root,
        command,
        hook_event_name="PostToolUse",
        tool_response={"stdout": "", "stderr": "", "interrupted": False},
        **fields,
    )
    assert run_line("post-tool", message) == b""


def denial(root: Path, command: str = COMMAND, *, session: str = "s1", **fields: Any) -> str:
    """Return why a command that is about to run is denied; empty if it may run."""
    answer = run_line("pre-tool", call_message(root, command, session_id=session, **fields))
    if not answer:
        return ""
    output = json.loads(answer)["hookSpecificOutput"]
    assert output["hookEventName"] == "PreToolUse"
    assert output["permissionDecision"] == "deny"
    return str(output["permissionDecisionReason"])


def _added(answer: bytes) -> str:
    if not answer:
        return ""
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"])
