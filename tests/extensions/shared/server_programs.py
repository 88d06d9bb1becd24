"""What tests need to start a server: a free port, patience, and a skip if its program is
missing."""

import os
import socket
from contextlib import suppress
from itertools import chain

import pytest

PATIENCE_S = 60.0
_FIRST, _LAST = 10_000, 32_000
_begin = _FIRST + os.getpid() * 101 % (_LAST - _FIRST)
_ports = chain(range(_begin, _LAST), range(_FIRST, _begin))
"""Each is given once."""


def not_here(program: str, how: str) -> None:
    """Skip a test for a missing program; fail it in continuous integration."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"no {program} is here; what is shared must be tested on a real one: {how}")
    pytest.skip(f"no {program} is here: {how}")


def free_port() -> int:
    """Return a free port on loopback that nobody else takes, also while its server is down: not one
    that the system gives to outgoing connections, nor soon one of another process of tests."""
    for port in _ports:
        with socket.socket() as listener, suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")
