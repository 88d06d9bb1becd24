"""Give back the memory of past calls: an idle server starts its program again in the same process.

What a call loads (numpy, an HTTP client, grammars) cannot be unloaded and would stay for days beside an editor. The
process id, the pipes and what the handshake settled are kept, so the client notices nothing; what it sends meanwhile
waits in its pipe. Trade-off: the next call loads all of it again, which takes about 0.3 s of CPU.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

import xscore
from xscore.extensions.agents.background import safe_environment
from xscore.extensions.agents.mcp_protocol import Handshake
from xscore.platform.errors import UsageError

RENEW_AFTER_S = 30.0
"""Idle for this long after a call."""
STATE_VARIABLE = "_XSCORE_MCP"
"""Of the environment; holds the state for the new program."""


class ServerState(Struct, frozen=True):
    """What a server needs to go on where it was."""

    in_fd: int
    out_fd: int
    handshake: Handshake | None
    overrides: Mapping[str, Any]
    """Settings given as options."""
    everything: bool


def take_state() -> ServerState | None:
    """Return what `renew` wrote, once; None for a new server. Raises UsageError."""
    text = os.environ.pop(STATE_VARIABLE, None)
    if text is None:
        return None
    try:
        state = msgspec.json.decode(text, type=ServerState)
        for fd in (state.in_fd, state.out_fd):
            os.set_inheritable(fd, False)
    except (msgspec.DecodeError, OSError) as error:
        raise UsageError(f"{STATE_VARIABLE} is for the server itself", hint="Unset it.") from error
    return state


def has_children() -> bool:
    """Whether a process that was started here still runs: the new program would not know it and leave a zombie."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def can_renew() -> bool:
    """Whether this very package is found from any working folder; else the server stays as it is."""
    about: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": safe_environment()}
    probe = [sys.executable, "-P", "-c", "import xscore; print(xscore.__file__)"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(probe, check=False, capture_output=True, timeout=5, text=True, **about)
        return bool(found.stdout.strip() == xscore.__file__)
    return False


def renew(state: ServerState) -> None:
    """Start the program again with this state. Returns only if that fails."""
    command = [sys.executable, "-P", "-m", "xscore", "mcp"]
    environment = {**safe_environment(), STATE_VARIABLE: msgspec.json.encode(state).decode()}
    with suppress(OSError):
        for fd in (state.in_fd, state.out_fd):
            os.set_inheritable(fd, True)
        os.execve(sys.executable, command, environment)  # noqa: S606  our own interpreter, fixed arguments
