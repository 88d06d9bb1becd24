"""A pseudo-terminal of a given width."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path


def drained(terminal: int) -> str:
    """Read a pseudo-terminal until its other end is closed, and close it."""
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    return seen.decode().replace("\r\n", "\n")


def shown_on_terminal(
    program: Sequence[str],
    *,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    columns: int = 80,
    typed: str = "",
) -> tuple[str, int]:
    """Run Python with these arguments on a terminal; return its output and exit code.

    typed: what is typed ahead.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}
    }
    process = subprocess.Popen(
        [sys.executable, *program],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", **(environ or {})},
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    seen = drained(ours)
    return seen, process.wait(timeout=60)
