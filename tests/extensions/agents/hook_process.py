"""Run `xscore hook` as an agent does: a process with one JSON object on its standard input."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xscore.pipeline.build import Pipeline

QUESTION = "where are the prices of a cart summed up?"
FILES = {
    "cart.py": 'def total(items):\n    """Sum the prices of a cart."""\n    return sum(items)\n',
    "parse.py": 'def parse(text):\n    """Split a header."""\n    return text.split(":")\n',
}


def message(root: Path, event: str = "UserPromptSubmit", **fields: Any) -> dict[str, Any]:
    """Return a message as Claude Code sends it."""
    fields_of_all = {
        "session_id": "5f0c1b7e-1",
        "transcript_path": None,
        "cwd": str(root),
        "hook_event_name": event,
    }
    return {
        **fields_of_all,
        **({"prompt": QUESTION} if event == "UserPromptSubmit" else {}),
        **fields,
    }


def run_hook(
    event: str,
    hook_message: Mapping[str, Any] | str | bytes,
    *options: str,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one hook to its end. before: called in the child before it starts."""
    data = json.dumps(hook_message) if isinstance(hook_message, Mapping) else hook_message
    return subprocess.run(
        [sys.executable, "-m", "xscore", "hook", event, *options],
        cwd=cwd or Path("/"),
        input=data.encode() if isinstance(data, str) else data,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        timeout=120,
        check=False,
        preexec_fn=before,
    )


def begin_hook(root: Path, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    """Start the prompt hook, which waits for its message."""
    command = [sys.executable, "-m", "xscore", "hook", "prompt"]
    return subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.DEVNULL
    )


def build_index(root: Path) -> None:
    """Index a repository in this process."""

    async def index() -> None:
        async with Pipeline.open(root) as pipeline:
            await pipeline.index()

    asyncio.run(index())


def xscore(root: Path, *arguments: str) -> str:
    """Run another command in the repository; return its output."""
    command = [sys.executable, "-m", "xscore", *arguments]
    return subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def added(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the context that a hook added; empty if none. Asserts that it ended well."""
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(b"\n") <= 1
    if not done.stdout.strip():
        return ""
    reply = json.loads(done.stdout)
    return str(reply.get("hookSpecificOutput", reply).get("additionalContext", ""))
