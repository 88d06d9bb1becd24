"""Free the memory that calls have used: an idle server executes its program again in the same process.

What a call loads (numpy, an HTTP client, grammars) cannot be unloaded and would stay in memory for days beside an
editor. The process id, the pipes and the result of the handshake are kept, so the client notices nothing; what it sends
meanwhile waits in its pipe. Trade-off: the next call loads everything again, which takes about 0.3 s of CPU.
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
"""Seconds without a call before the server renews itself."""
STATE_VARIABLE = "_XSCORE_MCP"
"""Environment variable that holds the state for the new program."""


class ServerState(Struct, frozen=True):
    """What a server needs to continue after a renewal."""

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
        raise UsageError(f"{STATE_VARIABLE} is only for the server itself", hint="Unset it.") from error
    return state


def has_children() -> bool:
    """Whether a child process still runs: the new program would not know of it and would leave a zombie."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def can_renew() -> bool:
    """Whether a new interpreter would import this same package; if not, the server must not renew itself."""
    about: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": safe_environment()}
    probe = [sys.executable, "-P", "-c", "import xscore; print(xscore.__file__)"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(probe, check=False, capture_output=True, timeout=5, text=True, **about)
        return bool(found.stdout.strip() == xscore.__file__)
    return False


def renew(state: ServerState) -> None:
    """Execute the program again with this state. Returns only if that fails."""
    command = [sys.executable, "-P", "-m", "xscore", "mcp"]
    environment = {**safe_environment(), STATE_VARIABLE: msgspec.json.encode(state).decode()}
    with suppress(OSError):
        for fd in (state.in_fd, state.out_fd):
            os.set_inheritable(fd, True)
        os.execve(sys.executable, command, environment)  # noqa: S606  our own interpreter, fixed arguments
