"""Stop a running turn as Ctrl-C does: its process is sent SIGTERM, once.

The process sends nothing more, keeps what was paid for and leaves a receipt (`cli.interrupt`).
Only a command that ends so is signalled: a server or a program of the user's that asks turns
would end with everything else that it does. A process id may have been given to another process
since; so the boot, the session and the program are compared first. Trade-off: a turn asked
through the MCP server, a hook or the Python interface is stopped there.
"""

import os
import signal
import subprocess
from pathlib import Path, PurePath

from xscore.platform.processes import identity_parts, is_process_at_work, process_place
from xscore.store.turn_history import RunningTurn

COMMANDS = frozenset({"ask", "context", "continue"})
PROGRAM = "xscore"
WORDS_BEFORE = 4
"""How many words of a command line may come before the name of the program: Python and its
options."""
PS_S = 5.0


def why_not_stoppable(running: RunningTurn) -> str:
    """Say why a turn cannot be stopped from here; empty if it can."""
    if running.command not in COMMANDS:
        return f"it was asked by {running.command or 'another program'}: stop it there"
    pid, session, _, place = identity_parts(running.process)
    if place != process_place():
        return "it runs on another machine, or in another container"
    if not is_process_at_work(running.process, age_s=0.0):
        return "its process has ended"
    if not _is_same_process(int(pid), session):
        return "its process cannot be identified"
    return ""


def interrupt(running: RunningTurn) -> None:
    """Send the signal. Call it only where `why_not_stoppable` says nothing. Raises OSError."""
    pid, _, _, _ = identity_parts(running.process)
    os.kill(int(pid), signal.SIGTERM)


def _is_same_process(pid: int, session: str) -> bool:
    try:
        if str(os.getsid(pid)) != session:
            return False
    except OSError:
        return False
    words = _command_line(pid)[:WORDS_BEFORE]
    return any(PurePath(word).name == PROGRAM for word in words)


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")
    except FileNotFoundError:  # macOS has no /proc
        command = ["/bin/ps", "-o", "command=", "-p", str(pid)]
    except OSError:
        return []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PS_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split()
