"""The input and output of `xscore mcp`: read lines of bounded length, write whole messages, and
nothing else.

While it serves, file descriptor 1 is standard error and descriptor 0 is empty, so neither a stray
`print` nor a child process can disturb the protocol. Only the serving thread may use it, except for
`wake`. Trade-off: writing blocks, so while a client does not read its answers, its input is not
read either.

An idle server frees the memory that calls have used by executing its program again in the same
process: what a call loads (numpy, an HTTP client, grammars) cannot be unloaded and would stay for
days beside an editor. The process id, the pipes and the result of the handshake are kept, so the
client notices nothing; what it sends meanwhile waits in its pipe. Trade-off: the next call loads
everything again, which takes about 0.3 s of CPU.
"""

import fcntl
import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

import xscore
from xscore.extensions.agents.background import safe_environment
from xscore.extensions.agents.mcp_protocol import Envelope
from xscore.platform.errors import UsageError

MOST_LINE_BYTES = 4_000_000
"""A longer line is read to its end and refused."""
_READ_BYTES = 65_536
TOO_LONG = b""
"""Stands for a line that was too long; real lines are never empty."""


class StdioWire:
    """Lines in, messages out, until the client closes either end."""

    def __init__(self, in_fd: int, out_fd: int) -> None:
        self.is_open: bool = True
        """Whether the client may still send."""
        self._is_read = True
        """Whether the client may still read."""
        self.in_fd: int = in_fd
        self.out_fd: int = out_fd
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._is_skipping = False
        """Whether the rest of a line that is too long is being skipped."""
        self._woken, self._waker = os.pipe()
        for fd in (self._woken, self._waker):
            os.set_blocking(fd, False)

    @classmethod
    def claim_standard_streams(cls) -> "StdioWire":
        """Take standard input and output for the protocol; this process and its children get
        substitutes."""
        in_fd, out_fd = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return cls(in_fd, out_fd)

    @property
    def is_quiet(self) -> bool:
        """Whether all input read so far has been taken."""
        return not (self._lines or self._rest or self._is_skipping)

    def take_line(self) -> bytes | None:
        """Return the next line, `TOO_LONG` in place of one that was too long, or None."""
        return self._lines.popleft() if self._lines else None

    def wait(self, timeout_s: float | None, *, reading: bool) -> None:
        """Wait for input, for `wake`, or for the client to leave. timeout_s: None: no limit.
        reading: read input."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.register(self.in_fd, select.POLLIN if reading else 0)
        poll.register(self.out_fd, 0)
        for fd, event in poll.poll(None if timeout_s is None else max(0, round(timeout_s * 1000))):
            if fd == self._woken:
                with suppress(BlockingIOError):
                    os.read(self._woken, _READ_BYTES)
            elif fd == self.in_fd and reading:  # even after a hang-up: there may be input left
                self._read()
            elif event & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                self.is_open = False
                self._is_read = self._is_read and fd != self.out_fd

    def wake(self) -> None:
        """End a `wait`, from any thread."""
        with suppress(BlockingIOError):  # the pipe is full, so the other end wakes anyway
            os.write(self._waker, b"\0")

    def send(self, message: Mapping[str, object]) -> None:
        """Write one message; drop it if the client has closed its end."""
        data = memoryview(msgspec.json.encode(message) + b"\n")
        while self._is_read and data:
            try:
                data = data[os.write(self.out_fd, data) :]
            except BlockingIOError:  # the client made its pipe non-blocking
                self._wait_writable(None)
            except OSError:
                self.is_open = self._is_read = False

    def send_if_read(self, message: Mapping[str, object]) -> None:
        """Write a message only if the client is reading: progress is not worth waiting for."""
        if self._wait_writable(0):
            self.send(message)

    def _wait_writable(self, timeout_ms: int | None) -> bool:
        poll = select.poll()
        poll.register(self.out_fd, select.POLLOUT)
        return bool(poll.poll(timeout_ms))

    def _read(self) -> None:
        try:
            data = os.read(self.in_fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            self._end_line(bytes(self._rest))
            return
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._end_line(bytes(self._rest) + end)
            self._rest.clear()
        self._rest += rest
        if self._is_skipping or len(self._rest) > MOST_LINE_BYTES:
            self._is_skipping = True
            self._rest.clear()

    def _end_line(self, line: bytes) -> None:
        if self._is_skipping or len(line) > MOST_LINE_BYTES:
            self._is_skipping = False
            self._lines.append(TOO_LONG)
        elif line.strip():
            self._lines.append(line)


RENEW_AFTER_S = 30.0
"""Seconds without a call before the server renews itself."""
STATE_VARIABLE = "_XSCORE_MCP"
"""Environment variable that holds the state for the new program."""


class ServerState(Struct, frozen=True):
    """What a server needs to continue after a renewal."""

    in_fd: int
    out_fd: int
    handshake: Envelope | None
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
        raise UsageError(
            f"{STATE_VARIABLE} is only for the server itself", hint="Unset it."
        ) from error
    return state


def has_children() -> bool:
    """Whether a child process still runs: the new program would not know of it and would leave a
    zombie."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def can_renew() -> bool:
    """Whether a new interpreter would import this same package; if not, the server must not renew
    itself."""
    about: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": safe_environment()}
    probe = [sys.executable, "-P", "-c", "import xscore; print(xscore.__file__)"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(
            probe, check=False, capture_output=True, timeout=5, text=True, **about
        )
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
